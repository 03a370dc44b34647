//! Span drawing against every sample tested one by one.

use super::*;

const SIZE: [usize; 2] = [24, 20];
const SAMPLES: usize = 3;

/// Triangles of all sizes around a camera that looks along z, some of them across its plane or behind it. Every fifth
/// has two corners of the one before, every seventh is a sliver, every eleventh has level edges.
fn soup(count: u32) -> (Vec<[f64; 3]>, Vec<[u32; 3]>) {
    let mut state = 7_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut positions: Vec<[f32; 3]> = Vec::new();
    let mut triangles = Vec::new();
    for number in 0..count {
        let first = positions.len() as u32;
        let middle = [8.0 * random(), 8.0 * random(), 6.0 * random() + 2.0];
        let extent = [0.1, 1.0, 6.0][number as usize % 3];
        for _ in 0..3 {
            positions.push(middle.map(|x| x + extent * random()));
        }
        let [a, b] = [positions[first as usize], positions[first as usize + 1]];
        let last = &mut positions[first as usize + 2];
        if number % 7 == 0 {
            *last = [0, 1, 2].map(|axis| 0.3 * a[axis] + 0.7 * b[axis] + 1e-6 * random());
        }
        if number % 11 == 0 {
            let (y, z) = (a[1], a[2]);
            positions[first as usize + 1] = [b[0], y, z];
        }
        let mut triangle = [first, first + 1, first + 2];
        if number % 5 == 4 {
            [triangle[0], triangle[1]] = [first - 2, first - 3];
        }
        triangles.push(triangle);
    }
    // A camera with focal lengths of 13 and 11 pixels, centred on (12.5, 9).
    let project = |[x, y, z]: [f64; 3]| [13.0 * x + 12.5 * z, 11.0 * y + 9.0 * z, z];
    let corners = positions.into_iter().map(|p| project(p.map(f64::from)));
    (corners.collect(), triangles)
}

fn middle(of: usize) -> f64 {
    (of as f64 + 0.5) / SAMPLES as f64
}

#[test]
fn a_span_is_what_all_three_edges_accept() {
    let (corners, triangles) = soup(600);
    let scene = Scene::new(corners, &triangles, SIZE, SAMPLES);
    let columns = 0..SIZE[0] * SAMPLES;
    let (mut hit, mut bounded) = (0, 0);
    for triangle in 0..600 {
        let Some(edges) = Edges::new(scene.triangle(triangle)) else {
            continue;
        };
        let crossings = edges.crossings(1.0 / SAMPLES as f64);
        for row in 0..SIZE[1] * SAMPLES {
            let line = edges.along(middle(row));
            let span = line.span(crossings, columns.clone(), 1.0 / SAMPLES as f64);
            for column in columns.clone() {
                let accepted = line.values(middle(column)).iter().all(|&e| e >= 0.0);
                assert_eq!(
                    span.contains(&column),
                    accepted,
                    "triangle {triangle}, row {row}, column {column} of {span:?}"
                );
            }
            hit += span.len();
            bounded += usize::from(span.start > 0 && span.end < columns.end && !span.is_empty());
        }
    }
    assert!(hit > 30_000 && bounded > 2_000, "{hit} {bounded}");
}

#[test]
fn the_nearest_of_all_wins_and_its_barycentrics_lead_back_to_the_ray() {
    let (corners, triangles) = soup(600);
    let scene = Scene::new(corners, &triangles, SIZE, SAMPLES);
    let mut hits = Hits::default();
    // Drawn in parts, from lists that hold more than needed.
    let mut seen = Vec::new();
    for first in (0..SIZE[1]).step_by(10) {
        let triangles = scene.touching(first, 10);
        for part in (first..first + 10).step_by(5) {
            scene.draw(&triangles, part, 5, &mut hits);
            seen.extend_from_slice(&hits.triangles);
        }
    }
    let stride = SIZE[0] * SAMPLES;
    assert_eq!(seen.len(), stride * SIZE[1] * SAMPLES);
    let (mut compared, mut nothing) = (0, 0);
    for (sample, &seen) in seen.iter().enumerate() {
        let (x, y) = (middle(sample % stride), middle(sample / stride));
        // 1/depth of the triangle's plane on this ray, where it is hit.
        let nearness = |triangle: u32| {
            let p = scene.triangle(triangle);
            let edges = Edges::new(p)?;
            let e = edges.along(y).values(x);
            let sum = e[0] + e[1] + e[2];
            let depth: f64 = (0..3).map(|k| e[k] / sum * p[k][2]).sum();
            (sum > 0.0 && e.iter().all(|&e| e >= 0.0)).then_some(1.0 / depth)
        };
        let all = (0..600).filter_map(nearness);
        let nearest = all.fold(0.0, f64::max);
        if seen == NOTHING {
            assert_eq!(nearest, 0.0, "sample {sample}");
            nothing += 1;
            continue;
        }
        let own = nearness(seen).expect("what is seen is hit");
        // A sliver's depth is only as accurate as its area.
        assert!(own >= nearest * (1.0 - 1e-6), "{own} of {nearest}");
        let [[second], [third]] = scene.edges(seen).along(y).second_third([x]);
        let weights = [1.0 - second - third, second, third].map(f64::from);
        let p = scene.triangle(seen);
        let point = [0, 1, 2].map(|axis| (0..3).map(|k| weights[k] * p[k][axis]).sum::<f64>());
        let largest = p.as_flattened().iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let off = (point[0] - x * point[2]).hypot(point[1] - y * point[2]);
        assert!(off < 1e-6 * largest, "{off} of {largest}");
        compared += 1;
    }
    assert!(compared > 2_000 && nothing > 0, "{compared} {nothing}");
}

#[test]
fn of_equal_depths_the_first_wins() {
    let (corners, triangles) = soup(60);
    let twice = [&triangles[..]; 2].concat();
    let scene = Scene::new(corners, &twice, SIZE, SAMPLES);
    let mut hits = Hits::default();
    scene.draw(&scene.touching(0, SIZE[1]), 0, SIZE[1], &mut hits);
    let seen = || hits.triangles.iter().filter(|&&seen| seen != NOTHING);
    assert!(seen().count() > 100 && seen().all(|&seen| seen < 60));
}
