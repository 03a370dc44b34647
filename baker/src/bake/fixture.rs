//! Small meshes, cameras, textures and views for the tests of this folder. Pictures are made by the reference renderer,
//! which shares no code with what is tested.

use std::collections::VecDeque;
use std::time::Instant;

use proto::job::Blend;
use proto::message::Failure;
use proto::table::{Camera, LayerSet, LayerTexture, LayeredView, Mesh, Surface, Texture, View};

use crate::image::render::render;

use crate::bake::finish::gutter::gutter;
use crate::bake::intake::view_source::{Unwrapped, ViewSource};
use crate::bake::model::atlas::{Atlas, barycentrics};
use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::raster::NOTHING;
use crate::bake::model::scene::Scene;
use crate::bake::model::vec3::{cross, times};
use crate::bake::solve::backend::{RowMemory, Ties};

/// View source: some views come before the mesh.
pub(super) struct Given<F> {
    mesh: Option<Unwrapped>,
    early: VecDeque<View>,
    all_early: bool,
    next: F,
}

impl<F: FnMut() -> Result<Option<View>, Failure>> Given<F> {
    /// A mesh and the edge of its texture, then the views that `next` yields.
    pub(super) fn new(mesh: &Mesh, texture_size: u32, next: F) -> Self {
        let mesh = Unwrapped {
            mesh: mesh.clone(),
            texture_size,
            came: Instant::now(),
        };
        Self {
            mesh: Some(mesh),
            early: VecDeque::new(),
            all_early: false,
            next,
        }
    }

    /// The same, with these views before the mesh; `all` if no others follow.
    pub(super) fn with_early(self, early: Vec<View>, all: bool) -> Self {
        Self {
            early: early.into(),
            all_early: all,
            ..self
        }
    }
}

impl<F: FnMut() -> Result<Option<View>, Failure>> ViewSource for Given<F> {
    fn early(&mut self) -> Result<Option<(View, LayerSet)>, Failure> {
        let view = self.early.pop_front();
        Ok(view.map(|view| (view, LayerSet::default())))
    }

    fn all_came(&self) -> bool {
        self.all_early
    }

    fn mesh(&mut self) -> Result<Unwrapped, Failure> {
        Ok(self.mesh.take().expect("it is asked for once"))
    }

    fn next(&mut self, _: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure> {
        let layers = Vec::new();
        Ok((self.next)()?.map(|view| (LayeredView { view, layers }, LayerSet::default())))
    }

    fn again(&mut self) -> Result<(), Failure> {
        unreachable!("no view has a layer, and all fit")
    }

    fn put(&mut self, _: &LayerTexture) -> Result<(), Failure> {
        unreachable!("no view has a layer")
    }
}

/// The surface that views of an unsimplified mesh show.
pub(super) fn surface(mesh: &Mesh) -> Surface {
    Surface {
        positions: mesh.positions.clone(),
        triangles: mesh.triangles.clone(),
        simplified: None,
    }
}

/// Splitmix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly in `low..high`.
    pub(super) fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A camera at the origin that looks along z, with one unit to a pixel at a depth of 1.
pub(super) const IDENTITY: Camera = Camera {
    rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    translation: [0.0; 3],
    focal: [1.0; 2],
    centre: [0.0; 2],
};

/// A camera at `eye` that looks at the origin, +y up; the origin is `off` pixels from the picture's centre.
pub(super) fn camera(
    eye: [f64; 3],
    focal: f64,
    [width, height]: [u32; 2],
    off: [f64; 2],
) -> Camera {
    let unit = |v: [f64; 3]| {
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.map(|x| x / length)
    };
    let forward = unit(eye.map(|x| -x));
    let right = unit(cross(forward, [0.0, 1.0, 0.0]));
    let down = cross(forward, right);
    let rotation = [right, down, forward];
    Camera {
        rotation,
        translation: times(&rotation, eye).map(|x| -x),
        focal: [focal, focal],
        centre: [
            f64::from(width) / 2.0 + off[0],
            f64::from(height) / 2.0 + off[1],
        ],
    }
}

/// A mesh whose vertices at one place are one surface vertex.
pub(super) fn mesh(positions: Vec<[f32; 3]>, uvs: Vec<[f32; 2]>, triangles: Vec<[u32; 3]>) -> Mesh {
    let first = |at: &[f32; 3]| positions.iter().position(|other| other == at);
    Mesh {
        normals: vec![[0.0, 0.0, 1.0]; positions.len()],
        surface_vertices: positions
            .iter()
            .map(|at| first(at).expect("it is in there") as u32)
            .collect(),
        positions,
        uvs,
        triangles,
        charts: 1,
    }
}

/// A cube of edge 1 about the origin; each face is a chart of its own in a grid of 3×2 cells.
pub(super) fn cube() -> Mesh {
    let (mut positions, mut uvs, mut triangles) = (Vec::new(), Vec::new(), Vec::new());
    for face in 0..6 {
        let (axis, side) = (face % 3, (face / 3) as f32 - 0.5);
        for corner in 0..4 {
            let (a, b) = ((corner % 2) as f32, (corner / 2) as f32);
            let mut at = [side; 3];
            at[(axis + 1) % 3] = a - 0.5;
            at[(axis + 2) % 3] = b - 0.5;
            positions.push(at);
            uvs.push([
                (axis as f32 + 0.1 + 0.8 * a) / 3.0,
                ((face / 3) as f32 + 0.1 + 0.8 * b) / 2.0,
            ]);
        }
        let k = 4 * face as u32;
        triangles.extend([[k, k + 1, k + 3], [k, k + 3, k + 2]]);
    }
    mesh(positions, uvs, triangles)
}

/// A sphere of radius 1 about the origin, poles at ±y; its single chart's left edge meets the right one.
pub(super) fn sphere(across: u32, down: u32) -> Mesh {
    let (mut positions, mut uvs, mut triangles) = (Vec::new(), Vec::new(), Vec::new());
    for j in 0..=down {
        for i in 0..=across {
            let around = f64::from(i % across) / f64::from(across) * std::f64::consts::TAU;
            let from_pole = f64::from(j) / f64::from(down) * std::f64::consts::PI;
            // Exactly one place at each pole.
            let ring = if j == 0 || j == down {
                0.0
            } else {
                from_pole.sin()
            };
            positions.push(
                [ring * around.cos(), from_pole.cos(), ring * around.sin()].map(|x| x as f32),
            );
            uvs.push([
                0.05 + 0.9 * i as f32 / across as f32,
                0.05 + 0.9 * j as f32 / down as f32,
            ]);
            if i < across && j < down {
                let k = j * (across + 1) + i;
                let below = k + across + 1;
                triangles.extend([[k, below, below + 1], [k, below + 1, k + 1]]);
            }
        }
    }
    mesh(positions, uvs, triangles)
}

/// A texture whose chart texels have a colour, sRGB 0-1, by their place on the surface.
pub(super) fn paint(mesh: &Mesh, size: u32, colour: impl Fn([f32; 3]) -> [f32; 3]) -> Texture {
    let scene = Scene::new(mesh, size);
    let atlas = Atlas::new(&scene);
    let texels: Vec<[f32; 4]> = (0..scene.texels())
        .map(|texel| {
            let triangle = atlas.triangles[texel];
            if triangle == NOTHING {
                return [0.0; 4];
            }
            let mut at = [0.0; 3];
            let weights = barycentrics(&scene, triangle, texel);
            for (corner, weight) in mesh.triangles[triangle as usize].into_iter().zip(weights) {
                for axis in 0..3 {
                    at[axis] += weight * mesh.positions[corner as usize][axis];
                }
            }
            let [r, g, b] = colour(at);
            [r, g, b, 1.0]
        })
        .collect();
    // The gutter counts as unobserved, so that it is filled and not black.
    let seen: Vec<f32> = texels.iter().map(|texel| texel[3]).collect();
    gutter(texels, &seen, &atlas, size, Blend::Srgb)
}

/// Waves along all axes, different for each channel, between 0.2 and 0.8.
pub(super) fn waves(at: [f32; 3]) -> [f32; 3] {
    let wave = |a: f32, b: f32| 0.5 + 0.15 * ((7.0 * a + 0.3).sin() + (9.0 * b - 0.4).cos());
    [wave(at[0], at[1]), wave(at[1], at[2]), wave(at[2], at[0])]
}

/// No two texels alike, no symmetry, nothing smooth.
pub(super) fn noise(size: u32, seed: u64) -> Texture {
    let mut random = Random(seed);
    Texture {
        size,
        texels: (0..size * size)
            .map(|_| {
                let [r, g, b, ..] = random.next().to_le_bytes();
                [r, g, b, 255]
            })
            .collect(),
        provenance: Vec::new(),
        maps: None,
    }
}

/// What a camera sees of a textured mesh, averaged in linear light.
pub(super) fn view(
    index: u32,
    mesh: &Mesh,
    texture: &Texture,
    camera: Camera,
    size: [u32; 2],
) -> View {
    let picture = render(mesh, texture.into(), &camera, size, 6, Blend::Linear);
    blank_view(index, camera, size, picture.to_rgba8())
}

/// A view of these pixels.
pub(super) fn blank_view(
    index: u32,
    camera: Camera,
    [width, height]: [u32; 2],
    pixels: Vec<[u8; 4]>,
) -> View {
    View {
        index,
        width,
        height,
        has_alpha: true,
        camera,
        pixels,
        ..View::default()
    }
}

/// The `k`th of `count` places all around, at this distance from the origin (a Fibonacci sphere).
pub(super) fn around(k: u32, count: u32, distance: f64) -> [f64; 3] {
    let y = 1.0 - (2.0 * f64::from(k) + 1.0) / f64::from(count);
    let turn = f64::from(k) * 2.399_963_229_728_653;
    let ring = (1.0 - y * y).sqrt();
    [ring * turn.cos(), y, ring * turn.sin()].map(|x| x * distance)
}

/// Memory for so many rows, whatever their entries.
pub(super) fn memory(rows: f64) -> RowMemory {
    RowMemory {
        all: rows as u64,
        row: 1.0,
        entry: 0.0,
        word: 0.0,
    }
}

/// Links between all neighbours of a square of texels.
pub(super) fn all_links(edge: usize) -> Vec<u8> {
    let link = |there: bool, link: u8| if there { link } else { 0 };
    let of = |texel: usize| {
        link(texel % edge + 1 < edge, LINK_RIGHT) | link(texel / edge + 1 < edge, LINK_DOWN)
    };
    (0..edge * edge).map(of).collect()
}

/// Links and seam constraints of an atlas.
pub(super) fn ties(atlas: &Atlas) -> Ties {
    Ties {
        links: atlas.links.clone(),
        seams: atlas.seams.clone(),
    }
}
