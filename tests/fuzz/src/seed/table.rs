//! The smallest valid table of each kind.

use proto::table::maps::Maps;
use proto::table::{
    Camera, Colours, Manner, Mesh, Refined, RefinedView, Simplified, SplatScene, Surface, Texture,
    View,
};

use super::Seed;

const CORNERS: [[f32; 3]; 3] = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, -1.0]];

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let mesh = Mesh {
        positions: CORNERS.to_vec(),
        normals: vec![[0.0, 0.0, 1.0]; 3],
        uvs: vec![[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]],
        surface_vertices: vec![0, 1, 2],
        triangles: vec![[0, 1, 2]],
        charts: 1,
    };
    let surface = Surface {
        positions: CORNERS.to_vec(),
        triangles: vec![[0, 1, 2], [2, 1, 0]],
        simplified: Some(Simplified {
            positions: CORNERS.to_vec(),
            triangles: vec![[0, 1, 2]],
        }),
    };
    let view = View {
        index: 3,
        width: 2,
        height: 3,
        crop: [5, 7],
        has_alpha: true,
        holdout: true,
        camera: Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            translation: [0.5, -0.5, 3.0],
            focal: [300.0, 310.0],
            centre: [128.0, -3.0],
        },
        pixels: vec![[1, 2, 3, 255]; 6],
    };
    let texture = Texture {
        size: 256,
        texels: vec![[9, 8, 7, 255]; 256 * 256],
        provenance: vec![3; 256 * 256],
        maps: None,
    };
    let mapped = Texture {
        maps: Some(Maps {
            coverage: vec![99; 256 * 256],
            residual: vec![7; 256 * 256],
        }),
        ..texture.clone()
    };
    let colours = Colours {
        colours: vec![[7, 8, 9, 255]; 3],
    };
    let of_view = |index| RefinedView {
        index,
        gain: [1.25, 1.0, 0.75],
        camera: view.camera,
    };
    let refined = Refined {
        views: vec![of_view(0), of_view(2)],
    };
    let undrawn = View {
        pixels: Vec::new(),
        ..view.clone()
    };
    let splats = SplatScene {
        positions: CORNERS.to_vec(),
        scales: vec![[0.1, 0.2, 0.0]; 3],
        rotations: vec![
            [1.0, 0.0, 0.0, 0.0],
            [0.6, 0.8, 0.0, 0.0],
            [0.0, 0.0, 0.0, -1.0],
        ],
        opacities: vec![0.0, 0.5, 1.0],
        constants: CORNERS.to_vec(),
        harmonics: vec![[0.25; 3]; 9],
        degree: 1,
        manner: Manner {
            variance: 0.3,
            keeps_sum: true,
            linear: false,
        },
        size: [64, 48],
        cameras: vec![view.camera; 2],
    };
    let mut add = |name: &str, write: &dyn Fn(&mut Vec<u8>) -> Result<(), _>| {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("memory takes all");
        seeds.push(("table", format!("made-{name}"), bytes));
    };
    add("mesh", &|out| mesh.write(out));
    add("surface", &|out| surface.write(out));
    add("view", &|out| view.write(out));
    add("texture", &|out| texture.write(out));
    add("texture-with-maps", &|out| mapped.write(out));
    add("colours", &|out| colours.write(out));
    add("refined", &|out| refined.write(out));
    add("undrawn", &|out| undrawn.write(out));
    add("splats", &|out| splats.write(out));
}
