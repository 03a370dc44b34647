//! Which holes are filled, and how.

use proto::job::Repair;
use proto::message::StepFate;

use super::{HOLES, cube, disagreeing, mended, turned, volume, without};
use crate::prepare::unwrap::tests::icosphere;

#[test]
fn a_cube_without_a_face_is_closed_and_too_large_a_hole_is_not() {
    let mut open = cube();
    open.triangles.truncate(10);
    let (left, steps) = mended(&open, &HOLES);
    assert_eq!(
        (left.triangles.len(), steps[0].fate),
        (10, StepFate::Unchanged)
    );
    assert_eq!(
        steps[0].note,
        "1 borders stay open that are larger than allowed"
    );
    let wish = Repair {
        fill_holes: Some(1.1),
        ..HOLES
    };
    let (left, steps) = mended(&open, &wish);
    assert_eq!((left.triangles.len(), disagreeing(&left)), (12, 0));
    assert!((volume(&left) - 1.0).abs() < 1e-6);
    assert_eq!((steps[0].before.borders, steps[0].after.borders), (1, 0));
    assert_eq!(
        (steps[0].before.border_edges, steps[0].after.border_edges),
        (4, 0)
    );
}

#[test]
fn holes_are_bounded_by_edges_and_by_area() {
    let ball = icosphere(5);
    let cap = without(&ball, |[_, _, z]| z > 0.98);
    let (_, steps) = mended(&cap, &HOLES);
    let rim = steps[0].before.border_edges;
    assert_eq!((steps[0].changed, steps[0].after.borders), (1, 0));
    let wish = Repair {
        hole_edges: rim as u32 - 1,
        ..HOLES
    };
    assert_eq!(mended(&cap, &wish).0, cap);
    let wish = Repair {
        hole_edges: rim as u32,
        ..HOLES
    };
    assert_eq!(mended(&cap, &wish).1[0].changed, 1);
    // The first hole has π(1 - 0.98²)/4 = 0.031 of the longest side squared, a little less for its corners; this one
    // 0.077.
    let wish = Repair {
        fill_holes: Some(0.04),
        ..HOLES
    };
    assert_eq!(
        mended(&without(&ball, |[_, _, z]| z > 0.95), &wish).1[0].changed,
        0
    );
}

#[test]
fn many_holes_of_a_curved_surface_are_filled_without_folds() {
    let ball = icosphere(5);
    let holes = without(&ball, |[x, y, z]| {
        let at = |x: f32| (7.0 * x).sin().abs() < 0.35;
        at(x) && at(y) && at(z)
    });
    let (left, steps) = mended(&holes, &HOLES);
    assert!(steps[0].changed > 10, "{steps:?}");
    assert_eq!(
        (steps[0].after.borders, steps[0].after.nonmanifold_edges),
        (0, 0)
    );
    assert_eq!(disagreeing(&left), 0);
    assert!((volume(&left) / volume(&ball) - 1.0).abs() < 0.02);
}

#[test]
fn holes_that_share_a_point_are_filled_each() {
    // A grid on a cylinder without two cells that touch in a corner.
    let mut open = turned(
        &[[0.0, 0.0], [1.0, 0.1], [1.0, 0.6], [1.0, 1.1], [0.0, 1.2]],
        12,
    );
    let cell = |side: f32, z: f32| {
        let angle = std::f32::consts::TAU * (side + 0.5) / 12.0;
        [angle.cos(), angle.sin(), z]
    };
    for [x, y, z] in [cell(0.0, 0.35), cell(1.0, 0.85)] {
        open = without(&open, |at| {
            (at[0] - x).abs() < 0.15 && (at[1] - y).abs() < 0.15 && (at[2] - z).abs() < 0.2
        });
    }
    let wish = Repair {
        fill_holes: Some(0.3),
        ..HOLES
    };
    let (left, steps) = mended(&open, &wish);
    assert_eq!(
        (steps[0].before.border_edges, steps[0].before.borders),
        (8, 2)
    );
    assert_eq!((steps[0].changed, disagreeing(&left)), (2, 0), "{steps:?}");
}
