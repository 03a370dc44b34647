//! The texture's map against plain loops, and seams against what they join.

use super::*;
use crate::bake::fixture::{Random, cube, mesh, sphere};

fn scene_of(texel_coords: Vec<[f32; 2]>, triangles: Vec<[u32; 3]>, size: u32) -> Scene {
    Scene {
        positions: vec![[0.0; 3]; texel_coords.len()],
        surface_vertices: (0..texel_coords.len() as u32).collect(),
        texel_coords,
        triangles,
        size,
        ..Scene::default()
    }
}

/// The last triangle on whose inner side, at all three edges, each texel's centre lies.
fn cover_by_sides(scene: &Scene, shift: f64) -> Vec<u32> {
    let size = scene.size as usize;
    (0..size * size)
        .map(|texel| {
            let p = [
                (texel % size) as f64 + 0.5 + shift,
                (texel / size) as f64 + 0.5,
            ];
            let within = |corners: &[u32; 3]| {
                let side = |k: usize| {
                    let [a, b] = [corners[k], corners[(k + 1) % 3]]
                        .map(|corner| scene.texel_coords[corner as usize].map(f64::from));
                    (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
                };
                let sides = [side(0), side(1), side(2)];
                sides.iter().all(|&s| s > 0.0) || sides.iter().all(|&s| s < 0.0)
            };
            scene
                .triangles
                .iter()
                .rposition(within)
                .map_or(NOTHING, |triangle| triangle as u32)
        })
        .collect()
}

#[test]
fn a_texel_belongs_to_the_last_triangle_over_its_centre() {
    let mut random = Random(1);
    for size in [1, 2, 7, 32] {
        // Some corners outside of the texture, some triangles thinner than a texel.
        let reach = f64::from(size);
        let coords: Vec<[f32; 2]> = (0..60)
            .map(|_| std::array::from_fn(|_| random.within(-0.2 * reach, 1.2 * reach) as f32))
            .collect();
        let triangles = (0..20)
            .map(|k| [3 * k, 3 * k + 1, 3 * k + 2])
            .chain([[0, 0, 1], [4, 4, 4]])
            .collect();
        let scene = scene_of(coords, triangles, size);
        let atlas = Atlas::new(&scene);
        assert_eq!(atlas.triangles, cover_by_sides(&scene, 0.0), "size {size}");
        let covered = atlas.triangles.iter().filter(|&&t| t != NOTHING).count();
        assert_eq!(atlas.covered, covered as u64);
        if size == 32 {
            assert_ne!(atlas.triangles, cover_by_sides(&scene, 0.5));
        }
    }
}

#[test]
fn barycentrics_give_back_the_centre() {
    let scene = Scene::new(&cube(), 40);
    let atlas = Atlas::new(&scene);
    for (texel, &triangle) in atlas.triangles.iter().enumerate() {
        if triangle == NOTHING {
            continue;
        }
        let weights = barycentrics(&scene, triangle, texel);
        for (axis, centre) in [texel % 40, texel / 40].into_iter().enumerate() {
            let at: f32 = scene.triangles[triangle as usize]
                .iter()
                .zip(weights)
                .map(|(&corner, weight)| weight * scene.texel_coords[corner as usize][axis])
                .sum();
            assert!((at - (centre as f32 + 0.5)).abs() < 1e-4);
        }
    }
    let flat = scene_of(vec![[1.0, 1.0]; 3], vec![[0, 1, 2]], 4);
    assert_eq!(barycentrics(&flat, 0, 5), [1.0 / 3.0; 3]);
}

/// Chart of a cube's triangle.
fn face(triangle: u32) -> u32 {
    triangle / 2
}

#[test]
fn links_hold_charts_and_their_rings_together_and_never_join_two() {
    // As it is, and with charts so close that their texels touch.
    for closer in [false, true] {
        let mut mesh = cube();
        if closer {
            for (k, uv) in mesh.uvs.iter_mut().enumerate() {
                let (across, down) = ((k / 4 % 3) as f32, (k / 12) as f32);
                *uv = [
                    (across + (k % 2) as f32) / 3.0,
                    (down + (k / 2 % 2) as f32) / 2.0,
                ];
            }
        }
        let size = 36;
        let atlas = Atlas::new(&Scene::new(&mesh, size as u32));
        let (mut touching, mut rings) = (0, 0);
        for texel in 0..size * size {
            let pairs = [
                (LINK_RIGHT, texel % size + 1 < size, texel + 1),
                (LINK_DOWN, texel / size + 1 < size, texel + size),
            ];
            for (link, exists, other) in pairs {
                let linked = atlas.links[texel] & link != 0;
                if !exists {
                    assert!(!linked, "past the edge at {texel}");
                    continue;
                }
                let both = [atlas.triangles[texel], atlas.triangles[other]];
                let wanted = match both.map(|t| (t != NOTHING).then(|| face(t))) {
                    [Some(one), Some(other)] => {
                        touching += usize::from(one != other);
                        one == other
                    }
                    [None, None] => false,
                    _ => {
                        rings += 1;
                        true
                    }
                };
                assert_eq!(linked, wanted, "{texel} and {other}");
            }
        }
        if closer {
            assert_eq!(touching, 2 * 36 + 36, "two columns and one row of borders");
        } else {
            assert!(touching == 0 && rings > 200, "{rings}");
        }
    }
}

/// Largest `|B x|` over the seams where each texel has the value, at its place, of a function that is linear in space.
fn seam_error(mesh: &proto::table::Mesh, size: u32, of: impl Fn([f64; 2]) -> f32) -> f32 {
    let atlas = Atlas::new(&Scene::new(mesh, size));
    let texels: Vec<f32> = (0..size * size)
        .map(|texel| of([texel % size, texel / size].map(|k| f64::from(k) + 0.5)))
        .collect();
    let seams = &atlas.seams;
    assert_eq!(seams.starts.len(), seams.len() + 1);
    let mut worst = 0.0f32;
    for row in 0..seams.len() {
        let entries = seams.row(row);
        let side = |sign: f32| -> f32 { entries.iter().map(|e| (sign * e.weight).max(0.0)).sum() };
        // Less than 1 where a texel is on both sides, as at the sphere's poles.
        assert!((side(1.0) - side(-1.0)).abs() < 1e-5 && side(1.0) < 1.0 + 1e-5);
        let sum: f32 = entries
            .iter()
            .map(|entry| entry.weight * texels[entry.texel as usize])
            .sum();
        worst = worst.max(sum.abs());
    }
    worst
}

/// `x + 2y + 3z` on the cube's surface, continued linearly around each face.
fn linear_on_cube(mesh: &proto::table::Mesh, size: u32, at: [f64; 2]) -> f32 {
    let cell = at.map(|x| x / f64::from(size));
    let face = (cell[0] * 3.0) as usize + 3 * (cell[1] * 2.0) as usize;
    let corner = |k: usize| mesh.positions[4 * face + k].map(f64::from);
    let uv = |k: usize| mesh.uvs[4 * face + k].map(f64::from);
    let along: [f64; 2] =
        std::array::from_fn(|axis| (cell[axis] - uv(0)[axis]) / (uv(3)[axis] - uv(0)[axis]));
    let value = |p: [f64; 3]| p[0] + 2.0 * p[1] + 3.0 * p[2];
    let (start, a, b) = (value(corner(0)), value(corner(1)), value(corner(2)));
    (start + along[0] * (a - start) + along[1] * (b - start)) as f32
}

#[test]
fn both_sides_of_a_cubes_seams_are_one_place() {
    let mesh = cube();
    for size in [30, 64, 97] {
        let error = seam_error(&mesh, size, |at| linear_on_cube(&mesh, size, at));
        // Bilinear lookups of a linear function are exact, but the cell's border cuts the ring where it is thin.
        assert!(error < 2e-5, "{error} at {size}");
        let rows = Atlas::new(&Scene::new(&mesh, size)).seams.len();
        // Twelve edges, each with a row for each texel of its longer side: up to 0.8/2 of the texture.
        assert!(
            (12 * size as usize / 4..12 * size as usize / 2).contains(&rows),
            "{rows}"
        );
    }
    // With one chart's picture turned over the two sides differ.
    let mut turned = cube();
    turned.uvs.swap(0, 1);
    turned.uvs.swap(2, 3);
    let error = seam_error(&turned, 64, |at| linear_on_cube(&mesh, 64, at));
    assert!(error > 0.1, "{error}");
}

#[test]
fn a_charts_seam_with_itself_is_tied() {
    // Height is linear in v, so both ends of the strip have it.
    let height = |at: [f64; 2]| at[1] as f32;
    let ball = sphere(12, 8);
    assert!(seam_error(&ball, 64, height) < 1e-4);
    assert!(Atlas::new(&Scene::new(&ball, 64)).seams.len() >= 56);
    let slanted = |at: [f64; 2]| (at[0] + at[1]) as f32;
    assert!(seam_error(&ball, 64, slanted) > 10.0);
}

#[test]
fn edges_within_a_chart_and_open_borders_have_no_seam() {
    let square = mesh(
        vec![[0.0; 3], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
        vec![[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    assert!(Atlas::new(&Scene::new(&square, 16)).seams.is_empty());
}
