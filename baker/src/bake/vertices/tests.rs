//! Vertex colours against surfaces of known colour.

use std::cell::Cell;

use proto::message::Code;

use super::*;
use crate::bake::fixture::{around, camera, cube, mesh, paint, sphere, surface, view, waves};
use crate::bake::model::colour::encode;
use crate::worker::progress::Silent;

fn bake_all(mesh: &Mesh, views: &[View]) -> Result<Coloured, Failure> {
    let next = Cell::new(0);
    bake(
        mesh,
        surface(mesh),
        Blend::Linear,
        Refine::Off,
        &Silent,
        || Ok(views.get(next.replace(next.get() + 1)).cloned()),
    )
}

/// What `count` cameras all around see of a mesh painted by `colour`.
fn views(mesh: &Mesh, colour: impl Fn([f32; 3]) -> [f32; 3], count: u32, edge: u32) -> Vec<View> {
    let texture = paint(mesh, 512, colour);
    (0..count)
        .map(|k| {
            let eye = around(k, count, 3.0);
            let camera = camera(eye, 1.2 * f64::from(edge), [edge; 2], [0.3, -0.4]);
            view(k, mesh, &texture, camera, [edge; 2])
        })
        .collect()
}

/// Root mean square and largest error over all channels of all vertices, in sRGB 0-1.
fn errors(mesh: &Mesh, colours: &Colours, colour: impl Fn([f32; 3]) -> [f32; 3]) -> (f32, f32) {
    assert_eq!(colours.colours.len(), mesh.positions.len());
    let all: Vec<f32> = mesh
        .positions
        .iter()
        .zip(&colours.colours)
        .flat_map(|(&at, found)| {
            assert_eq!(found[3], 255);
            let wanted = colour(at);
            std::array::from_fn::<f32, 3, _>(|k| (f32::from(found[k]) / 255.0 - wanted[k]).abs())
        })
        .collect();
    let squares: f32 = all.iter().map(|x| x * x).sum();
    let largest = all.iter().copied().fold(0.0, f32::max);
    ((squares / all.len() as f32).sqrt(), largest)
}

#[test]
fn a_coloured_sphere_comes_back() {
    let mesh = sphere(80, 60);
    let views = views(&mesh, waves, 12, 160);
    let Coloured {
        colours, summary, ..
    } = bake_all(&mesh, &views).expect("colours");
    let (mean, largest) = errors(&mesh, &colours, waves);
    // A vertex stands for a patch of 0.08, of waves of length 0.7 and height 0.15. A mirrored view, or a colour that is
    // encoded before it is averaged and then again, is off by 0.1.
    assert!(mean < 0.006 && largest < 0.05, "{mean} {largest}");
    // 59 rings of 80 points, and the poles.
    assert_eq!(
        (summary.chart_texels, summary.filled_texels),
        (59 * 80 + 2, 0)
    );
    assert_eq!(summary.observed_texels, summary.chart_texels);
    assert_eq!(summary.views.len(), 12);
    assert_eq!(
        summary.covered_pixels,
        summary
            .views
            .iter()
            .map(|view| u64::from(view.pixels))
            .sum::<u64>()
    );
    // The ball's picture is a disc of radius 1.2 · 160 / √8.
    assert!(
        summary
            .views
            .iter()
            .all(|view| (13_000..15_000).contains(&view.pixels))
    );
}

#[test]
fn triangles_smaller_than_pixels_are_looked_up() {
    let mesh = sphere(300, 200);
    let views = views(&mesh, waves, 16, 48);
    let Coloured {
        colours, summary, ..
    } = bake_all(&mesh, &views).expect("colours");
    let triangles_a_pixel = mesh.triangles.len() as f64 * 16.0 / summary.covered_pixels as f64;
    assert!(triangles_a_pixel > 50.0, "{triangles_a_pixel}");
    assert!(
        summary.filled_texels * 50 < summary.chart_texels,
        "{}",
        summary.filled_texels
    );
    // A pixel is 0.05 wide in the middle of a picture.
    let (mean, largest) = errors(&mesh, &colours, waves);
    assert!(mean < 0.03 && largest < 0.25, "{mean} {largest}");
}

/// A floor of 24×24 cells of edge 0.1 at height 0 with a lid of edge 0.6 above its middle.
fn floor_and_lid(height: f32) -> Mesh {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    let at = |k: u32| k as f32 / 10.0 - 1.2;
    for j in 0..=24 {
        for i in 0..=24 {
            positions.push([at(i), 0.0, at(j)]);
            if i < 24 && j < 24 {
                let k = j * 25 + i;
                triangles.extend([[k, k + 25, k + 26], [k, k + 26, k + 1]]);
            }
        }
    }
    let uv = |p: &[f32; 3]| [0.05 + (p[0] + 1.2) / 6.0, 0.05 + (p[2] + 1.2) / 6.0];
    let mut uvs: Vec<[f32; 2]> = positions.iter().map(uv).collect();
    let k = positions.len() as u32;
    for (x, z) in [(-0.3, -0.3), (-0.3, 0.3), (0.3, 0.3), (0.3, -0.3)] {
        positions.push([x, height, z]);
        uvs.push([0.7 + x / 6.0, 0.7 + z / 6.0]);
    }
    triangles.extend([[k, k + 1, k + 2], [k, k + 2, k + 3]]);
    mesh(positions, uvs, triangles)
}

#[test]
fn what_is_hidden_does_not_take_the_colour_of_what_hides_it() {
    let green_under_magenta = |at: [f32; 3]| {
        if at[1] > 0.01 {
            [0.9, 0.1, 0.9]
        } else {
            [0.1, 0.3 + 0.2 * at[0], 0.2]
        }
    };
    let mesh = floor_and_lid(0.3);
    let texture = paint(&mesh, 512, green_under_magenta);
    // All from above: some of the floor under the lid is seen from the side, its middle by none.
    let views: Vec<View> = (0..6)
        .map(|k| {
            let turn = f64::from(k);
            let eye = [turn.cos(), 3.0, turn.sin()];
            let camera = camera(eye, 180.0, [200; 2], [0.0; 2]);
            view(k, &mesh, &texture, camera, [200; 2])
        })
        .collect();
    let Coloured {
        colours, summary, ..
    } = bake_all(&mesh, &views).expect("colours");
    assert!(
        (5..60).contains(&summary.filled_texels),
        "{}",
        summary.filled_texels
    );
    let (mean, largest) = errors(&mesh, &colours, green_under_magenta);
    assert!(mean < 0.006 && largest < 0.05, "{mean} {largest}");
}

#[test]
fn what_nobody_sees_takes_its_neighbours_colours() {
    let red_by_height = |at: [f32; 3]| [0.5 + 0.3 * at[1], 0.4, 0.1];
    let mesh = sphere(48, 36);
    // From the front only.
    let front: Vec<View> = views(&mesh, red_by_height, 24, 120)
        .into_iter()
        .filter(|view| view.camera.rotation[2][0] < -0.5)
        .collect();
    assert!(front.len() > 3);
    let Coloured {
        colours, summary, ..
    } = bake_all(&mesh, &front).expect("colours");
    assert!(
        summary.filled_texels * 5 > summary.chart_texels,
        "{summary:?}"
    );
    for (found, at) in colours.colours.iter().zip(&mesh.positions) {
        let red = f32::from(found[0]) / 255.0;
        assert!((0.19..=0.81).contains(&red), "{found:?}");
        assert!(
            found[1].abs_diff(102) <= 2 && found[2].abs_diff(26) <= 2,
            "{found:?}"
        );
        if at[1].abs() > 0.7 {
            assert_eq!(red > 0.5, at[1] > 0.0, "{found:?} at {at:?}");
        }
    }
}

#[test]
fn vertices_of_one_point_have_one_colour() {
    let mesh = cube();
    let views = views(&mesh, waves, 8, 64);
    let Coloured {
        colours, summary, ..
    } = bake_all(&mesh, &views).expect("colours");
    assert_eq!((mesh.positions.len(), summary.chart_texels), (24, 8));
    for (vertex, &point) in mesh.surface_vertices.iter().enumerate() {
        assert_eq!(colours.colours[vertex], colours.colours[point as usize]);
    }
    let distinct: std::collections::BTreeSet<_> = colours.colours.iter().collect();
    assert_eq!(distinct.len(), 8);
}

#[test]
fn light_is_averaged_and_not_its_encoding() {
    // Every pixel is black or white, half of each: half of the light.
    let mesh = sphere(12, 8);
    let mut views = views(&mesh, |_| [0.5; 3], 10, 200);
    for view in &mut views {
        for (k, pixel) in view.pixels.iter_mut().enumerate() {
            let value = if (k % 200 + k / 200).is_multiple_of(2) {
                255
            } else {
                0
            };
            *pixel = [value, value, value, 255];
        }
    }
    let Coloured { colours, .. } = bake_all(&mesh, &views).expect("colours");
    let wanted = encode(0.5) * 255.0;
    for colour in &colours.colours {
        assert!(
            (f32::from(colour[0]) - wanted).abs() < 6.0,
            "{colour:?} for {wanted}"
        );
    }
}

#[test]
fn views_that_see_nothing_are_said_to() {
    let mesh = sphere(12, 8);
    let mut views = views(&mesh, waves, 2, 32);
    for view in &mut views {
        for pixel in &mut view.pixels {
            pixel[3] = 0;
        }
    }
    let failure = bake_all(&mesh, &views).expect_err("nothing is seen");
    assert_eq!(failure.code, Code::InvalidAsset);
    assert!(bake_all(&mesh, &[]).is_err());
}

#[test]
fn a_vertex_of_no_triangle_changes_nothing() {
    let mesh = sphere(24, 16);
    let views = views(&mesh, waves, 6, 64);
    let alone = bake_all(&mesh, &views).expect("colours");
    let mut more = mesh;
    // An unused vertex in front of the first camera, with a surface number of its own.
    more.positions.push([0.0, 1.5, 0.0]);
    more.normals.push([0.0, 0.0, 1.0]);
    more.uvs.push([0.0; 2]);
    more.surface_vertices.push(more.positions.len() as u32 - 1);
    let with = bake_all(&more, &views).expect("colours");
    let (kept, extra) = with.colours.colours.split_at(alone.colours.colours.len());
    assert_eq!((kept, extra.len()), (&alone.colours.colours[..], 1));
    assert_eq!(with.summary.chart_texels, alone.summary.chart_texels);
}
