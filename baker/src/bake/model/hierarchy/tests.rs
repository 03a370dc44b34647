//! Hits and nearest points against a search of all triangles.

use super::*;

/// A number in 0..1 for each count, by the golden ratio and its powers.
fn noise(k: usize) -> f32 {
    ((k as f64 * 0.618_033_988_749_895).fract() * 977.0).fract() as f32
}

/// Small triangles anywhere in the unit cube, some of them degenerate.
fn soup(count: usize) -> (Vec<Point>, Vec<[u32; 3]>) {
    let point = |k: usize| [0, 1, 2].map(|axis| noise(3 * k + axis));
    let corner = |k: usize| {
        let around = point(k / 3);
        let off = point(k + 7_000_000);
        std::array::from_fn(|axis| around[axis] + 0.1 * (off[axis] - 0.5))
    };
    let mut positions: Vec<Point> = (0..3 * count).map(corner).collect();
    for k in (0..count).step_by(17) {
        positions[3 * k + 1] = positions[3 * k];
    }
    let triangles = (0..count as u32).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]);
    (positions, triangles.collect())
}

#[test]
fn a_line_meets_what_a_search_of_all_triangles_finds() {
    let mut hits = 0;
    for count in [0, 1, 3, 4, 5, 8, 9, 100, 1000] {
        let (positions, triangles) = soup(count);
        let tree = Hierarchy::new(&positions, &triangles);
        for k in 0..300 {
            let [x, y, z] = [0, 1, 2].map(|axis| noise(90_000 + 3 * k + axis) - 0.5);
            // Some run along an axis, whose inverse is infinite.
            let along = match k % 5 {
                0 => [1.0, 0.0, 0.0],
                1 => [0.0, -1.0, 0.0],
                _ => unit_vector([x, y, z]).expect("a direction"),
            };
            let line = Line {
                from: [0, 1, 2].map(|axis| noise(3 * k + axis)),
                along,
                reach: [[-0.3, 0.3], [0.001, 2.0], [-2.0, 0.1]][k % 3],
                facing: [Facing::Any, Facing::Along][k % 2],
            };
            let all = triangles.iter().filter_map(|corners| {
                let corners = corners.map(|corner| positions[corner as usize]);
                let (t, _) = meet(&corners, &line)?;
                (t >= line.reach[0] && t <= line.reach[1]).then_some(t.abs())
            });
            let wanted = all.min_by(f32::total_cmp);
            let found = tree.meets(&line);
            assert_eq!(found.map(|hit| hit.at.abs()), wanted, "{count} {line:?}");
            if let Some(hit) = found {
                hits += 1;
                let corners = triangles[hit.triangle as usize].map(|k| positions[k as usize]);
                let place = blend(&corners, hit.weights);
                for axis in 0..3 {
                    let on_line = line.from[axis] + hit.at * line.along[axis];
                    assert!((place[axis] - on_line).abs() < 1e-3, "{place:?} {on_line}");
                }
                let normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]));
                assert!(line.facing == Facing::Any || dot(normal, line.along) > 0.0);
            }
        }
    }
    assert!(hits > 300, "{hits}");
}

#[test]
fn the_nearest_point_is_that_of_a_search_over_all_triangles_and_places() {
    for count in [1, 4, 7, 300] {
        let (positions, triangles) = soup(count);
        let tree = Hierarchy::new(&positions, &triangles);
        for k in 0..60 {
            let point = [0, 1, 2].map(|axis| 1.4 * noise(40_000 + 3 * k + axis) - 0.2);
            let found = tree.nearest(point, 10.0).expect("a surface");
            let corners = |triangle: u32| {
                triangles[triangle as usize].map(|corner| positions[corner as usize])
            };
            let place = blend(&corners(found.triangle), found.weights);
            assert!((square(sub(place, point)).sqrt() - found.distance).abs() < 1e-6);
            // No place of a grid on any triangle is nearer, and one is nearly as near.
            let mut least = f32::INFINITY;
            for triangle in 0..count as u32 {
                for cell in 0..400_u16 {
                    let (u, v) = (f32::from(cell % 20) / 19.0, f32::from(cell / 20) / 19.0);
                    if u + v <= 1.0 {
                        let place = blend(&corners(triangle), [1.0 - u - v, u, v]);
                        least = least.min(square(sub(place, point)).sqrt());
                    }
                }
            }
            assert!(found.distance <= least + 1e-6, "{} {least}", found.distance);
            assert!(least - found.distance < 0.01, "{} {least}", found.distance);
            assert_eq!(tree.nearest(point, 0.99 * found.distance), None);
        }
    }
}

#[test]
fn nothing_slips_between_two_triangles() {
    // A fan about the origin, seen along the common edges.
    let rim = |k: u32| {
        let (sin, cos) = (k as f32).sin_cos();
        [cos, sin, 0.1 * noise(k as usize)]
    };
    let mut positions = vec![[0.0; 3]];
    positions.extend((0..7).map(rim));
    let triangles: Vec<[u32; 3]> = (0..6).map(|k| [0, k + 1, k + 2]).collect();
    let tree = Hierarchy::new(&positions, &triangles);
    for k in 1..6 {
        for step in 1..100 {
            let [x, y, _] = rim(k).map(|x| x * step as f32 / 100.0);
            let line = Line {
                from: [x, y, 1.0],
                along: [0.0, 0.0, -1.0],
                reach: [0.0, 2.0],
                facing: Facing::Any,
            };
            assert!(tree.meets(&line).is_some(), "{k} {step}");
        }
    }
}
