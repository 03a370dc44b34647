//! The rasteriser against rays through every sample, and against properties of all pictures.

use crate::bake::fixture::{IDENTITY, Random, camera};
use crate::bake::model::raster::*;
use crate::bake::model::scene::in_camera;
use crate::bake::model::vec3::{dot, sub};

/// All bands of a picture, one below the other.
fn whole(projected: &Projected, [width, height]: [u32; 2], band: u32, s: u32) -> RasterSamples {
    let mut all = RasterSamples {
        row_length: (width * s) as usize,
        triangles: Vec::new(),
        inverse_depths: Vec::new(),
    };
    for (index, triangles) in projected.bands(height, band).iter().enumerate() {
        let first = index as u32 * band;
        let end = (first + band).min(height);
        let part = raster(projected, triangles, width, first, end, s);
        assert_eq!(part.row_length, all.row_length);
        all.triangles.extend(part.triangles);
        all.inverse_depths.extend(part.inverse_depths);
    }
    all
}

/// Separate triangles, drawn in bands of so many pixel rows at s×s samples a pixel.
fn in_bands(
    positions: &[[f32; 3]],
    camera: &Camera,
    size: [u32; 2],
    [band, s]: [u32; 2],
) -> RasterSamples {
    let triangles: Vec<[u32; 3]> = (0..positions.len() as u32 / 3)
        .map(|k| [3 * k, 3 * k + 1, 3 * k + 2])
        .collect();
    let projected = Projected::new(positions, &triangles, camera, size[0], size[1]);
    whole(&projected, size, band, s)
}

fn seen(positions: &[[f32; 3]], camera: &Camera, size: [u32; 2], s: u32) -> RasterSamples {
    in_bands(positions, camera, size, [7, s])
}

/// Nearest triangle and its depth along the ray through `(x, y)`, by Möller and Trumbore ("Fast, minimum storage
/// ray-triangle intersection", 1997); none where rounding decides.
fn shoot(positions: &[[f32; 3]], camera: &Camera, x: f64, y: f64) -> Option<(u32, f64)> {
    let ray = [
        (x - camera.centre[0]) / camera.focal[0],
        (y - camera.centre[1]) / camera.focal[1],
        1.0,
    ];
    let (mut nearest, mut second) = ((NOTHING, f64::INFINITY), f64::INFINITY);
    for (triangle, corners) in positions.chunks(3).enumerate() {
        let [a, b, c] = [0, 1, 2].map(|k| in_camera(camera, corners[k]));
        let (to_b, to_c) = (sub(b, a), sub(c, a));
        let p = cross(ray, to_c);
        let determinant = dot(to_b, p);
        let from_a = sub([0.0; 3], a);
        let u = dot(from_a, p) / determinant;
        let q = cross(from_a, to_b);
        let v = dot(ray, q) / determinant;
        let depth = dot(to_c, q) / determinant;
        let inside = u.min(v).min(1.0 - u - v).min(depth);
        if inside.abs() < 1e-9 {
            return None;
        }
        if inside > 0.0 {
            if depth < nearest.1 {
                second = nearest.1;
                nearest = (triangle as u32, depth);
            } else {
                second = second.min(depth);
            }
        }
    }
    (nearest.0 == NOTHING || second - nearest.1 > 1e-9).then_some(nearest)
}

/// Samples whose ray, `shift` pixels to the right, hits another triangle, or the same one at another depth.
fn mismatches(
    positions: &[[f32; 3]],
    camera: &Camera,
    size: [u32; 2],
    s: u32,
    shift: f64,
) -> (usize, usize) {
    let samples = seen(positions, camera, size, s);
    assert_eq!(
        samples.triangles.len(),
        (size[0] * size[1] * s * s) as usize
    );
    let (mut compared, mut wrong) = (0, 0);
    for (index, (&triangle, &inverse)) in samples
        .triangles
        .iter()
        .zip(&samples.inverse_depths)
        .enumerate()
    {
        let at = |k: usize| (k as f64 + 0.5) / f64::from(s);
        let x = at(index % samples.row_length) + shift;
        let Some((wanted, depth)) = shoot(positions, camera, x, at(index / samples.row_length))
        else {
            continue;
        };
        compared += usize::from(wanted != NOTHING);
        let same_depth = if wanted == NOTHING {
            inverse == 0.0
        } else {
            (inverse * depth - 1.0).abs() < 1e-6
        };
        wrong += usize::from(triangle != wanted || !same_depth);
    }
    (compared, wrong)
}

#[test]
fn every_sample_sees_what_its_ray_meets_first() {
    let mut random = Random(1);
    let (mut compared, mut wrong_beside) = (0, 0);
    for (size, s) in [([23, 17], 3), ([1, 1], 1), ([1, 9], 2), ([40, 3], 1)] {
        for round in 0..6 {
            // From the third round on the camera is among the triangles, and many reach behind it.
            let eye = if round < 3 {
                [0.3, 0.5, -3.0]
            } else {
                [0.1, -0.2, 0.3]
            };
            let camera = camera(eye, 20.0, size, [1.3, -0.7]);
            let positions: Vec<[f32; 3]> = (0..3 * 30)
                .map(|_| std::array::from_fn(|_| random.within(-1.0, 1.0) as f32))
                .collect();
            let (count, wrong) = mismatches(&positions, &camera, size, s, 0.0);
            assert_eq!(wrong, 0, "of {count}, size {size:?}, round {round}");
            compared += count;
            wrong_beside += mismatches(&positions, &camera, size, s, 0.25).1;
        }
    }
    assert!(compared > 5000, "only {compared}");
    assert!(
        wrong_beside > 500,
        "rays a quarter of a pixel beside the samples agree but for {wrong_beside}"
    );
}

/// A fan around the middle of a 33×33 picture whose spokes run through many sample centres; neighbours are at very
/// different depths, so that their determinants differ.
fn fan() -> (Vec<[f32; 3]>, Vec<[u32; 3]>) {
    let mut rim: Vec<[f32; 2]> = (0..=8)
        .flat_map(|k| {
            let along = 10.0 * k as f32 - 40.0;
            [
                [along, -40.0],
                [40.0, along],
                [-along, 40.0],
                [-40.0, -along],
            ]
        })
        .collect();
    rim.sort_by(|a, b| a[1].atan2(a[0]).total_cmp(&b[1].atan2(b[0])));
    rim.dedup();
    // All numbers are multiples of small powers of two, so samples lie exactly on edges.
    let mut positions = vec![[16.5 * 1.75, 16.5 * 1.75, 1.75]];
    positions.extend(rim.iter().enumerate().map(|(k, at)| {
        let z = 0.25 + (k * 7 % 11) as f32 * 0.375;
        [(16.5 + at[0]) * z, (16.5 + at[1]) * z, z]
    }));
    let spokes = rim.len() as u32;
    let triangles = (0..spokes)
        .map(|k| [0, 1 + k, 1 + (k + 1) % spokes])
        .collect();
    (positions, triangles)
}

#[test]
fn shared_edges_let_no_sample_through() {
    let (positions, triangles) = fan();
    let projected = Projected::new(&positions, &triangles, &IDENTITY, 33, 33);
    for s in [1, 2, 3, 5] {
        let samples = whole(&projected, [33, 33], 16, s);
        let holes = samples
            .triangles
            .iter()
            .filter(|&&triangle| triangle == NOTHING)
            .count();
        assert_eq!(holes, 0, "{s}×{s} samples");
    }
    // Divided by their determinants, as in the inverse matrix, the same edges leave holes.
    let mut divided = projected;
    for footing in &mut divided.footings {
        for value in footing.edges.iter_mut().flatten() {
            *value *= footing.scale;
        }
        footing.scale = 1.0;
    }
    let holes = |s| {
        whole(&divided, [33, 33], 16, s)
            .triangles
            .contains(&NOTHING)
    };
    assert!(holes(1) || holes(2));
}

#[test]
fn a_plane_in_pieces_covers_every_sample_exactly_once() {
    // A turned and slanted plane of 9×9 quads with jittered corners that fills the picture; no sample lies on an edge.
    let mut random = Random(7);
    let mut positions = Vec::new();
    for j in 0..10 {
        for i in 0..10 {
            let mut at = |k: i32| {
                let jitter = if (1..9).contains(&k) {
                    random.within(-0.3, 0.3)
                } else {
                    0.0
                };
                (f64::from(k) + jitter - 4.5) as f32
            };
            let (x, y) = (at(i), at(j));
            positions.push([x, y, 0.2 * x - 0.1 * y]);
        }
    }
    let triangles: Vec<[u32; 3]> = (0..81u32)
        .flat_map(|quad| {
            let k = quad / 9 * 10 + quad % 9;
            [[k, k + 1, k + 11], [k, k + 11, k + 10]]
        })
        .collect();
    let size = [31, 29];
    let camera = camera([0.4, 0.9, -3.0], 30.0, size, [0.0, 0.0]);
    let count = |triangles: &[[u32; 3]]| {
        let mut counts = vec![0; 31 * 29 * 4];
        for triangle in triangles {
            let alone = Projected::new(&positions, &[*triangle], &camera, size[0], size[1]);
            for (count, hit) in counts.iter_mut().zip(whole(&alone, size, 8, 2).triangles) {
                *count += usize::from(hit != NOTHING);
            }
        }
        counts
    };
    assert!(count(&triangles).iter().all(|&count| count == 1));
    assert!(
        count(&triangles[..81]).contains(&0),
        "a missing half is seen"
    );
}

#[test]
fn top_left_is_first_in_rows_and_columns() {
    let corner = [[0.0, 0.0, 1.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]];
    let samples = seen(&corner, &IDENTITY, [9, 7], 1);
    let hit: Vec<usize> = (0..63)
        .filter(|&index| samples.triangles[index] == 0)
        .collect();
    // Centres (½, ½), (1½, ½) and (½, 1½) have x/3 + y/2 ≤ 1; so has (1½, 1½)? 0.5 + 0.75: no.
    assert_eq!(hit, [0, 1, 9]);
}

#[test]
fn of_equally_near_surfaces_the_first_wins_and_nearer_ones_always() {
    let near = [[-9.0, -9.0, 1.0], [9.0, -9.0, 1.0], [0.0, 30.0, 1.0]];
    let far = near.map(|[x, y, z]| [2.0 * x, 2.0 * y, 2.0 * z]);
    let of = |list: &[[[f32; 3]; 3]]| seen(&list.concat(), &IDENTITY, [3, 3], 2).triangles;
    assert!(of(&[near, near]).iter().all(|&triangle| triangle == 0));
    assert!(of(&[near, far]).iter().all(|&triangle| triangle == 0));
    assert!(of(&[far, near]).iter().all(|&triangle| triangle == 1));
}

#[test]
fn what_has_no_area_or_is_out_of_sight_is_not_drawn() {
    let unseen = [
        // A point, a line, edge-on, behind, left of, above, right of and below the picture, and not a number.
        [[1.0, 1.0, 1.0]; 3],
        [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [2.0, 2.0, 1.0]],
        [[0.0, 0.0, 1.0], [2.0, 2.0, 1.0], [6.0, 6.0, 3.0]],
        [[-9.0, -9.0, -1.0], [9.0, -9.0, -1.0], [0.0, 30.0, -1.0]],
        [[-9.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, 9.0, 1.0]],
        [[0.0, -9.0, 1.0], [9.0, -1.0, 1.0], [0.0, -1.0, 1.0]],
        [[9.0, 0.0, 1.0], [90.0, 0.0, 1.0], [9.0, 9.0, 1.0]],
        [[0.0, 9.0, 1.0], [9.0, 9.0, 1.0], [0.0, 90.0, 1.0]],
        [[0.0, f32::NAN, 1.0], [9.0, 0.0, 1.0], [0.0, 9.0, 1.0]],
    ];
    for triangle in unseen {
        let samples = seen(&triangle, &IDENTITY, [5, 4], 2);
        assert!(
            samples.triangles.iter().all(|&hit| hit == NOTHING),
            "{triangle:?}"
        );
        assert!(samples.inverse_depths.iter().all(|&inverse| inverse == 0.0));
    }
}

#[test]
fn bands_of_any_height_make_one_picture() {
    let mut random = Random(3);
    let positions: Vec<[f32; 3]> = (0..60)
        .map(|_| std::array::from_fn(|_| random.within(-1.0, 1.0) as f32))
        .collect();
    let size = [19, 21];
    let camera = camera([0.0, 0.3, -2.5], 18.0, size, [0.0, 0.0]);
    let one = in_bands(&positions, &camera, size, [21, 2]);
    for band in [1, 4, 20, 64] {
        let other = in_bands(&positions, &camera, size, [band, 2]);
        assert_eq!(one.triangles, other.triangles);
        assert_eq!(one.inverse_depths, other.inverse_depths);
    }
}

#[test]
fn no_edge_accepts_a_sample_that_its_row_leaves_out() {
    let mut random = Random(4);
    let (mut left_out, mut at_the_bound) = (0, 0);
    for case in 0..20_000 {
        // Slopes from level to steep; zeros within the row, at its ends, on samples, and far away.
        let slope = random.within(-1.0, 1.0) * 10f64.powi(-(case % 20));
        let slope = if case % 37 == 0 { 0.0 } else { slope };
        let s = 1 + case as u32 % 4;
        let columns = 1 + case % 80;
        let step = 1.0 / f64::from(s);
        let zero = match case % 3 {
            0 => random.within(-9.0, 309.0).floor() + 0.5,
            1 => random.within(-9.0, 309.0),
            _ => random.within(-1e9, 1e9),
        };
        let start = -slope * zero * step;
        let start = if case % 41 == 0 { 0.0 } else { start };
        let footing = Footing {
            edges: [[slope, 0.0, start]; 3],
            scale: 1.0,
            rows: [0, 1],
            columns: [0, columns],
        };
        let spans: Vec<SampleSpan> = footing.spans(s, [0, 1]).collect();
        assert!(spans.iter().map(|span| span.row).eq(0..s as usize));
        let Range { start: left, end } = spans[0].columns;
        for column in (0..columns as usize * s as usize).filter(|at| !(left..end).contains(at)) {
            let value = slope * ((column as f64 + 0.5) * step) + start;
            assert!(value < 0.0, "{slope} {start} {column} of {left}..{end}");
            assert_eq!(spans[0].inverse_depth(&footing, column), None);
            left_out += 1;
            at_the_bound += usize::from(column + 1 == left || column == end);
        }
    }
    assert!(
        left_out > 500_000 && at_the_bound > 1_000,
        "{left_out} {at_the_bound}"
    );
}
