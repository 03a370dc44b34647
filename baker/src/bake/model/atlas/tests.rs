//! The layout against plain loops, and seams against what they join.

use crate::bake::fixture::{Random, cube, mesh, sphere};
use crate::bake::model::atlas::*;
use proto::table::Mesh;

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

/// For each texel, the last triangle on whose inner side of all three edges its centre lies.
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
        // Some corners outside of the texture, some triangles decimator than a texel.
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

/// A cube whose charts leave this many texels between them in a texture of 36².
fn cube_with_gap(gap: f32) -> Mesh {
    let mut mesh = cube();
    for (k, uv) in mesh.uvs.iter_mut().enumerate() {
        let (across, down) = ((k / 4 % 3) as f32, (k / 12) as f32);
        *uv = [
            (12.0 * across + (12.0 - gap) * (k % 2) as f32) / 36.0,
            (18.0 * down + (18.0 - gap) * (k / 2 % 2) as f32) / 36.0,
        ];
    }
    mesh
}

/// Pairs of neighbouring texels, and whether the atlas links them.
fn pairs(atlas: &Atlas, size: usize) -> Vec<(usize, usize, bool)> {
    let mut pairs = Vec::new();
    for texel in 0..size * size {
        let (right, down) = (texel % size + 1 < size, texel / size + 1 < size);
        for (link, exists, other) in [
            (LINK_RIGHT, right, texel + 1),
            (LINK_DOWN, down, texel + size),
        ] {
            let linked = atlas.links[texel] & link != 0;
            assert!(exists || !linked, "past the edge at {texel}");
            if exists {
                pairs.push((texel, other, linked));
            }
        }
    }
    pairs
}

#[test]
fn links_hold_each_chart_with_its_ring_and_join_no_two() {
    let size = 36;
    for gap in [0.0, 1.0, 2.0, 5.0] {
        let atlas = Atlas::new(&Scene::new(&cube_with_gap(gap), size as u32));
        let chart = |texel: usize| match atlas.triangles[texel] {
            NOTHING => None,
            triangle => Some(face(triangle)),
        };
        let pairs = pairs(&atlas, size);
        // Every texel takes the chart of the texels it is linked with, until nothing changes.
        let mut reached: Vec<Option<u32>> = (0..size * size).map(chart).collect();
        loop {
            let before = reached.clone();
            for &(one, other, linked) in &pairs {
                if linked {
                    let both = reached[one].or(reached[other]);
                    for end in [one, other] {
                        let joined = reached[end].is_some_and(|of| Some(of) != both);
                        assert!(!joined, "{one} and {other} join two charts, gap {gap}");
                        reached[end] = both;
                    }
                }
            }
            if before == reached {
                break;
            }
        }
        let mut touching = 0;
        for (one, other, linked) in pairs {
            if let (Some(a), Some(b)) = (chart(one), chart(other)) {
                touching += usize::from(a != b);
                assert_eq!(linked, a == b, "{one} and {other}, gap {gap}");
            }
        }
        // Two columns and one row of borders, where the charts touch.
        assert_eq!(touching, if gap == 0.0 { 3 * 36 } else { 0 });
        // All gutter texels beside a chart, also diagonally, belong to one; none farther away does.
        for texel in 0..size * size {
            let (x, y) = (texel % size, texel / size);
            let near = (y.saturating_sub(1)..(y + 2).min(size)).any(|y| {
                (x.saturating_sub(1)..(x + 2).min(size)).any(|x| chart(y * size + x).is_some())
            });
            assert_eq!(reached[texel].is_some(), near, "{texel}, gap {gap}");
        }
    }
}

/// Largest `|B x|` over the seams, where each texel has the value of the function at its place.
fn seam_error(mesh: &Mesh, size: u32, of: impl Fn([f64; 2]) -> f32) -> f32 {
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
fn linear_on_cube(mesh: &Mesh, size: u32, at: [f64; 2]) -> f32 {
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
        // Bilinear lookups of a linear function are exact, except where the cell's border cuts the ring in thin places.
        assert!(error < 2e-5, "{error} at {size}");
        let rows = Atlas::new(&Scene::new(&mesh, size)).seams.len();
        // Twelve edges, each with a row for each texel of its longer side: up to 0.8/2 of the texture.
        assert!(
            (12 * size as usize / 4..12 * size as usize / 2).contains(&rows),
            "{rows}"
        );
    }
    // If one chart is mirrored, the two sides differ.
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
