//! Snapped triangles against the exact rasteriser, and against properties of all pictures.

use crate::bake::fixture::{IDENTITY, Random, around, camera, sphere};
use crate::bake::model::raster::snapped::*;
use crate::bake::model::raster::{NOTHING, Projected, nearest, raster};

/// Triangle and 1 / depth of each sample, by `raster`.
fn exact(
    (positions, triangles): (&[[f32; 3]], &[[u32; 3]]),
    camera: &Camera,
    [width, height]: [u32; 2],
) -> (Vec<u32>, Vec<f64>) {
    let projected = Projected::new(positions, triangles, camera, width, height);
    let all: Vec<u32> = (0..triangles.len() as u32).collect();
    let samples = raster(&projected, &all, width, 0, height, 1);
    (samples.triangles, samples.inverse_depths)
}

/// Number of hits of each sample.
struct HitCounts {
    width: usize,
    hits: Vec<u32>,
    /// Small triangles, and others.
    drawn: [u32; 2],
}

impl SampleSink for HitCounts {
    fn hides(&self, _: &Rect, _: f32) -> bool {
        false
    }

    fn enter_small(&mut self, _: u32, small: &Small) {
        self.drawn[0] += 1;
        for (row, columns, _) in small.rows() {
            for column in columns {
                self.hits[row * self.width + column] += 1;
            }
        }
    }

    fn enter(&mut self, _: u32, footing: &Footing) {
        self.drawn[1] += 1;
        let height = self.hits.len() / self.width;
        for span in footing.spans(1, [0, height as i32]) {
            for column in span.columns.clone() {
                let hit = span.inverse_depth(footing, column).is_some();
                self.hits[span.row * self.width + column] += u32::from(hit);
            }
        }
    }
}

/// A square of 64 units in the plane z = 1, cut into triangles of all sizes: one quarter is a square of half the edge
/// that is cut in the same way, and so on. Corners are off the grid.
fn nested() -> (Vec<[f32; 3]>, Vec<[u32; 3]>) {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    let mut random = Random(5);
    let mut number = |x: f64, y: f64| {
        positions.push([x as f32, y as f32, 1.0]);
        positions.len() as u32 - 1
    };
    let off = random.within(0.0, 1.0);
    let mut corners = [
        number(off, off),
        number(64.0 + off, off),
        number(off, 64.0 + off),
    ];
    let mut edge = 64.0;
    while edge > 0.4 {
        // The triangle at the first corner is halved along both of its edges.
        let half = edge / 2.0 * random.within(0.9, 1.1);
        let (right, below) = (number(off + half, off), number(off, off + half));
        triangles.push([right, corners[1], corners[2]]);
        triangles.push([right, corners[2], below]);
        corners = [corners[0], right, below];
        edge = half;
    }
    triangles.push(corners);
    (positions, triangles)
}

#[test]
fn triangles_of_all_sizes_leave_no_sample_between_them() {
    let (positions, triangles) = nested();
    for shift in 0..40 {
        // Edges through the middles of samples, among others.
        let camera = Camera {
            centre: [
                f64::from(shift) / 8.0 - 2.0,
                f64::from(shift % 7) * 0.31 - 1.0,
            ],
            ..IDENTITY
        };
        let size = [70, 70];
        let mut counts = HitCounts {
            width: 70,
            hits: vec![0; 4900],
            drawn: [0; 2],
        };
        Snapped::new(&positions, &camera, size, 1).draw(&triangles, &mut counts);
        assert!(counts.drawn.iter().all(|&some| some >= 3), "{shift}");
        let corner = |k: usize| SnappedCorner::new(project(&camera, positions[k]), 1).at;
        let [first, right, below] = [0, 1, 2].map(corner);
        for (at, &hits) in (0..).zip(&counts.hits) {
            let [x, y] = [at % 70, at / 70].map(|k: i32| k * STEPS);
            // Inside all of them together: right of the left edge, below the upper edge, and on this side of the
            // diagonal.
            let inside = |[ax, ay]: [i32; 2], [bx, by]: [i32; 2]| {
                let product = |p: i32, q: i32| i64::from(p) * i64::from(q);
                product(bx - ax, y - ay) - product(by - ay, x - ax)
            };
            let within = [(first, right), (right, below), (below, first)]
                .map(|(from, to)| inside(from, to))
                .into_iter()
                .min()
                .unwrap_or(0);
            if within > 0 {
                assert!(hits >= 1, "{shift}: a hole at {at}");
            } else if within < 0 {
                assert_eq!(hits, 0, "{shift}: {at}");
            }
        }
        // Few samples lie on edges, and so in two triangles.
        let twice = counts.hits.iter().filter(|&&hits| hits > 1).count();
        assert!(twice < 120, "{twice}");
    }
}

#[test]
fn whole_numbers_say_what_the_edges_of_the_same_corners_say() {
    let mut random = Random(9);
    let (mut hit, mut drawn) = (0, 0);
    for round in 0..3000 {
        // Some corners lie on the grid's lines through samples, where the edge belongs to both sides.
        let step = if round % 3 == 0 { 0.5 } else { 0.001 };
        let positions: [[f32; 3]; 3] = std::array::from_fn(|_| {
            let at = [0.0, 0.0].map(|_: f64| (random.within(-2.0, 13.0) / step).round() * step);
            let z = random.within(0.8, 1.3);
            [at[0] * z, at[1] * z, z].map(|x| x as f32)
        });
        let mut small = HitCounts {
            width: 11,
            hits: vec![0; 99],
            drawn: [0; 2],
        };
        let snapped = Snapped::new(&positions, &IDENTITY, [11, 9], 1);
        snapped.draw(&[[0, 1, 2]], &mut small);
        assert_eq!(small.drawn[1], 0);
        drawn += small.drawn[0];
        let mut large = HitCounts {
            width: 11,
            hits: vec![0; 99],
            drawn: [0; 2],
        };
        let corners = [0, 1, 2].map(|k: usize| snapped.corners[k].homogeneous(1));
        large.enter(0, &footing(corners, 11.0, 9.0));
        // At edges, rounding decides in the footing and not here.
        let on_edge = |at: usize| {
            let [a, b, c] = [0, 1, 2].map(|k: usize| snapped.corners[k].at);
            let twice = |a: [i32; 2], b: [i32; 2]| {
                (b[0] - a[0]) * ((at / 11) as i32 * STEPS - a[1])
                    - (b[1] - a[1]) * ((at % 11) as i32 * STEPS - a[0])
            };
            [twice(a, b), twice(b, c), twice(c, a)].contains(&0)
        };
        for at in (0..99).filter(|&at| !on_edge(at)) {
            assert_eq!(small.hits[at], large.hits[at], "{round}: {at}");
            hit += small.hits[at];
        }
    }
    assert!(drawn > 2000 && hit > 20_000, "{drawn} {hit}");
}

#[test]
fn a_picture_is_that_of_the_corners_as_they_are() {
    // Fewer samples than triangles, as many, and far more; the camera within the picture's reach, and looking past it.
    for (across, down, distance, off) in [
        (200, 100, 3.0, 0.0),
        (60, 40, 2.0, 10.0),
        (8, 6, 3.0, 0.0),
        (40, 30, 1.15, 0.0),
    ] {
        let mesh = sphere(across, down);
        let size = [61, 47];
        for k in 0..4 {
            let camera = camera(around(k, 4, distance), 60.0, size, [off, -off]);
            let (triangles, depths) = exact((&mesh.positions, &mesh.triangles), &camera, size);
            let found = nearest(&mesh.positions, &mesh.triangles, &camera, size);
            let hits = depths.iter().filter(|&&depth| depth > 0.0).count();
            assert!(hits > 400, "{hits}");
            let (mut other, mut missing) = (0, 0);
            for at in 0..triangles.len() {
                let depth = f64::from(found.inverse_depths[at]);
                assert_eq!(found.triangles[at] == NOTHING, depth == 0.0);
                other += usize::from(found.triangles[at] != triangles[at]);
                if (depth == 0.0) != (depths[at] == 0.0) {
                    missing += 1;
                } else if depth > 0.0 {
                    let off = (depth / depths[at] - 1.0).abs();
                    assert!(off < 2e-3, "{across} {k}: {depth} {}", depths[at]);
                }
            }
            assert!(missing <= 1 && other <= hits / 10, "{missing} {other}");
        }
    }
}

#[test]
fn a_triangle_that_goes_behind_the_camera_is_drawn_as_far_as_it_lies_before_it() {
    // From far ahead to behind: it fills the lower half of the picture.
    let positions = [[-50.0, 0.0, 40.0], [50.0, 0.0, 40.0], [0.0, 3.0, -10.0]];
    let camera = Camera {
        focal: [20.0; 2],
        centre: [15.5, 10.5],
        ..IDENTITY
    };
    let size = [31, 21];
    let wanted = exact((&positions, &[[0, 1, 2]]), &camera, size);
    let found = nearest(&positions, &[[0, 1, 2]], &camera, size);
    assert_eq!(found.triangles, wanted.0);
    assert!(found.triangles.contains(&0) && found.triangles.contains(&NOTHING));
}

#[test]
fn what_lies_behind_others_or_between_samples_is_nothing() {
    let (near, far) = (2.0_f32, 4.0_f32);
    let square = |z: f32, size: f32| {
        [[0.2, 0.2], [size, 0.2], [0.2, size]].map(|[x, y]: [f32; 2]| [x * z, y * z, z])
    };
    let mut positions = square(near, 9.0).to_vec();
    positions.extend(square(far, 9.0));
    // Between four sample centres, in front of everything.
    positions.extend([[0.6, 0.6], [1.4, 0.6], [0.6, 1.4]].map(|[x, y]| [x, y, 1.0]));
    let triangles = [[0, 1, 2], [3, 4, 5], [6, 7, 8]];
    let found = nearest(&positions, &triangles, &IDENTITY, [9, 9]);
    assert!(
        found
            .triangles
            .iter()
            .all(|&hit| hit == 0 || hit == NOTHING)
    );
    assert_eq!(found.triangles[10], 0);
    assert!((found.inverse_depths[10] - 0.5).abs() < 1e-6);
    // In either order.
    let turned = [[3, 4, 5], [0, 1, 2]];
    let found = nearest(&positions, &turned, &IDENTITY, [9, 9]);
    assert!(
        found
            .triangles
            .iter()
            .all(|&hit| hit == 1 || hit == NOTHING)
    );
}
