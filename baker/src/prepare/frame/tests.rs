//! A body without symmetry, seen by a ring of cameras: each convention is told from the others, and what is sound is left
//! alone.

use serde_json::json;

use super::search::{onto, times};
use super::silhouette::spread;
use super::*;
use crate::prepare::transforms::{Curved, Distortion, lens_of};

/// Boxes (middle, half edges) that no turn and no mirror maps onto themselves.
const BOXES: [[[f32; 3]; 2]; 4] = [
    [[0.0, 0.0, 0.0], [0.5, 0.25, 0.2]],
    [[0.5, 0.35, 0.1], [0.12, 0.3, 0.1]],
    [[-0.35, -0.1, 0.4], [0.1, 0.1, 0.35]],
    [[0.1, 0.3, -0.3], [0.15, 0.08, 0.25]],
];

fn body() -> Vec<[f64; 3]> {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    for [middle, half] in BOXES {
        let first = positions.len() as u32;
        for corner in 0..8 {
            positions.push(std::array::from_fn(|k| {
                let sign = if corner >> k & 1 == 1 { 1.0 } else { -1.0 };
                middle[k] + sign * half[k]
            }));
        }
        for [a, b, c, d] in [
            [0, 1, 3, 2],
            [4, 5, 7, 6],
            [0, 1, 5, 4],
            [2, 3, 7, 6],
            [0, 2, 6, 4],
            [1, 3, 7, 5],
        ] {
            triangles.push([a, b, d].map(|v| first + v));
            triangles.push([b, c, d].map(|v| first + v));
        }
    }
    spread(&positions, &triangles, POINTS)
}

/// A camera that looks at the origin from a distance of 3, 40 cells to a length of 1 there.
fn pose(azimuth: f64, height: f64) -> Pose {
    let (sa, ca, sh, ch) = (azimuth.sin(), azimuth.cos(), height.sin(), height.cos());
    Pose {
        rotation: [
            [ca, 0.0, -sa],
            [sa * sh, -ch, ca * sh],
            [-sa * ch, -sh, -ca * ch],
        ],
        translation: [0.0, 0.0, 3.0],
    }
}

fn poses() -> Vec<Pose> {
    let angle = |k: f64| (0.7 * k + 0.05 * k * k, 0.9 * (1.7 * k).sin());
    (0..8)
        .map(|k| angle(f64::from(k)))
        .map(|(a, h)| pose(a, h))
        .collect()
}

/// What the cameras see of the points.
fn seen(points: &[[f64; 3]]) -> Vec<(usize, Silhouette)> {
    let blank = Silhouette {
        cells: vec![false; 64 * 64],
        size: [64, 64],
        focal: [90.0; 2],
        centre: [32.0; 2],
        lens: None,
    };
    let view = |pose: &Pose| {
        let (mut silhouette, mut cells) = (blank.clone(), Vec::new());
        silhouette.draw(pose, points, &mut cells);
        silhouette.cells = cells;
        silhouette
    };
    poses().iter().map(view).enumerate().collect()
}

fn judged(poses: &[Pose], points: Vec<[f64; 3]>, views: Vec<(usize, Silhouette)>) -> Verdict {
    let input = Input {
        poses,
        views,
        points,
        opengl: true,
        own: false,
        known: Vec::new(),
    };
    judge(&input, &|| ())
}

/// The words said of another frame, once its cameras are known to see the moved mesh as the true ones see the body.
fn taken(given: &[Pose], mesh: Vec<[f64; 3]>) -> String {
    let views = seen(&body());
    let Verdict::Other(candidate, words) = judged(given, mesh.clone(), views.clone()) else {
        panic!("another frame is not found");
    };
    let moved: Vec<Pose> = given.iter().map(|pose| candidate.pose(pose)).collect();
    assert!(
        moved
            .iter()
            .all(|pose| (determinant(&pose.rotation) - 1.0).abs() < 1e-9)
    );
    let verdict = judged(&moved, mesh, views);
    assert_eq!(verdict, Verdict::Fits { off: Vec::new() }, "{words}");
    words
}

fn laid(turn: &Matrix, scale: f64, offset: [f64; 3]) -> Vec<[f64; 3]> {
    let place = |x: [f64; 3]| {
        let x = onto(turn, x);
        [0, 1, 2].map(|k| scale * x[k] + offset[k])
    };
    body().into_iter().map(place).collect()
}

#[test]
fn a_mesh_in_another_frame_is_found() {
    let upright = [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]];
    let about = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]];
    for (turn, scale, offset, words) in [
        (
            upright,
            1.0,
            [0.0; 3],
            "the mesh's z axis is their y axis (up)",
        ),
        (about, 1.0, [0.0; 3], "turned by right angles"),
        (IDENTITY, 1000.0, [0.0; 3], "its unit is 0.001 times theirs"),
        (IDENTITY, 1.0, [5.0, -2.0, 1.0], "offset of -5.0"),
        (upright, 100.0, [0.0; 3], "centimetres for metres"),
    ] {
        let said = taken(&poses(), laid(&turn, scale, offset));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_principal_point_counted_from_the_other_side_is_found() {
    for (off, mirrored, words) in [
        ([0.0, 7.0], [false, true], "cy is counted from the bottom"),
        ([-8.0, 0.0], [true, false], "cx is counted from the right"),
        (
            [6.0, 7.0],
            [true, true],
            "cx and cy are counted from the bottom right",
        ),
    ] {
        let points = body();
        let mut views = seen(&points);
        for (index, view) in &mut views {
            let centre = [0, 1].map(|axis| 32.0 + off[axis]);
            let mut cells = Vec::new();
            view.draw_about((centre, None), &poses()[*index], &points, &mut cells);
            view.cells = cells;
            view.centre = [0, 1].map(|axis| 32.0 - off[axis]);
        }
        let Verdict::Other(candidate, said) = judged(&poses(), points, views) else {
            panic!("{off:?}: the other side is not found");
        };
        let wanted = Candidate {
            mirrored,
            ..Candidate::GIVEN
        };
        assert_eq!(candidate, wanted);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn pictures_without_the_lens_of_their_cameras_are_refused() {
    let lenses = [
        Distortion::Curved(Curved::fisheye(&[0.02, -0.01])),
        lens_of(&json!({"k1": -0.15})).expect("distorted"),
    ];
    for lens in lenses {
        let bent = (lens, lens.limit());
        // Pictures that were undistorted before are undistorted again; those with the lens show what a pinhole does.
        let views = |again: bool| {
            let mut views = seen(&body());
            for (index, view) in &mut views {
                let mut cells = Vec::new();
                let twice = again.then_some(&bent);
                view.draw_about((view.centre, twice), &poses()[*index], &body(), &mut cells);
                view.cells = cells;
                view.lens = Some(bent);
            }
            views
        };
        for count in [1, 8] {
            let found = |again| {
                let views = views(again)[..count].to_vec();
                straight(&Input {
                    poses: &poses(),
                    views,
                    points: body(),
                    opengl: true,
                    own: false,
                    known: Vec::new(),
                })
            };
            assert_eq!(found(false), None, "{lens:?}");
            let Some(Verdict::Refused(text, hint)) = found(true) else {
                panic!("{lens:?} of {count} views is not found");
            };
            assert!(
                text.contains("a pinhole's") && hint.contains("undistorted"),
                "{text}"
            );
        }
    }
}

#[test]
fn cameras_in_another_convention_are_found() {
    // By the rules of the file: camera to world with OpenGL axes, read as world to camera.
    let read = |pose: &Pose, ways: [bool; 2], roll: u8| {
        let [inverted, flipped] = ways;
        let other = Reading {
            inverted,
            opengl: inverted,
            flipped,
            roll,
        };
        other.pose(pose)
    };
    for (ways, roll, words) in [
        ([true, true], 0, "world-to-camera"),
        ([false, true], 0, "OpenCV axes"),
        ([false, false], 1, "viewing axis"),
    ] {
        let given: Vec<Pose> = poses().iter().map(|pose| read(pose, ways, roll)).collect();
        let said = taken(&given, body());
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused_and_named() {
    let refused = |verdict: Verdict, word: &str| match verdict {
        Verdict::Refused(text, _) => assert!(text.contains(word), "{text}"),
        other => panic!("{other:?} is not {word}"),
    };
    let mirror = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let views = seen(&body());
    let mirrored = laid(&mirror, 1.0, [0.0; 3]);
    refused(judged(&poses(), mirrored, views.clone()), "mirrored");
    let mut next = poses();
    next.rotate_left(1);
    refused(
        judged(&next, body(), views.clone()),
        "order of the pictures",
    );
    // A rod along a diagonal that the cameras do not look at.
    let rod = (0..2000).map(|k| [f64::from(k) / 500.0 - 1.0, f64::from(k) / 400.0 - 3.0, 0.4]);
    let verdict = judged(&poses(), rod.collect(), views);
    refused(verdict, "does not lie where the cameras look");
}

#[test]
fn sound_sets_are_left_alone() {
    let (points, views) = (body(), seen(&body()));
    let fits = |off: &[usize]| Verdict::Fits { off: off.to_vec() };
    assert_eq!(judged(&poses(), points.clone(), views.clone()), fits(&[]));
    // Half of the cameras are bad.
    let mut half = poses();
    for k in [1, 3, 4, 6] {
        half[k].rotation = times(&half[k].rotation, &half[2].rotation);
    }
    assert_eq!(
        judged(&half, points.clone(), views.clone()),
        fits(&[1, 3, 4, 6])
    );
    // Something opaque stands beside the object, or a mask leaves a part of it.
    for opaque in [true, false] {
        let mut changed = views.clone();
        for (_, silhouette) in &mut changed {
            for (at, cell) in silhouette.cells.iter_mut().enumerate() {
                if (at % 64 > 33) == opaque
                    && (2..62).contains(&(at / 64))
                    && (2..62).contains(&(at % 64))
                {
                    *cell = opaque;
                }
            }
        }
        let verdict = judged(&poses(), points.clone(), changed);
        let alone = matches!(verdict, Verdict::Fits { .. } | Verdict::Unknown);
        assert!(alone, "{opaque}: {verdict:?}");
    }
    // Too few views to tell.
    let few = views[..2].to_vec();
    let moved = laid(&IDENTITY, 3.0, [0.0; 3]);
    assert_eq!(judged(&poses(), moved, few), Verdict::Unknown);
}

#[test]
fn silhouettes_are_alpha_or_what_is_no_background() {
    let of = |pixel: &dyn Fn(u32, u32) -> [u8; 4], has_alpha| {
        let pixels: Vec<[u8; 4]> = (0..100 * 50).map(|at| pixel(at % 100, at / 100)).collect();
        Silhouette::new(
            [100, 50],
            &pixels,
            has_alpha,
            [[100.0; 2], [50.0, 25.0]],
            None,
        )
    };
    let inside = |x: u32, y: u32| (30..70).contains(&x) && (10..40).contains(&y);
    let alpha =
        of(&|x, y| [9, 9, 9, if inside(x, y) { 255 } else { 0 }], true).expect("a silhouette");
    assert_eq!((alpha.size, alpha.focal), ([64, 32], [64.0; 2]));
    let white = |x: u32, y: u32| match inside(x, y) {
        true => [90, 40, 20, 255],
        false => [255, 255, 250 + (x % 3) as u8, 255],
    };
    assert_eq!(of(&white, false).expect("a silhouette").cells, alpha.cells);
    // A scene, an undistorted picture's border, nothing, and an object that fills the picture.
    assert!(of(&|x, y| [(x * 2) as u8, (y * 5) as u8, 9, 255], false).is_none());
    assert!(
        of(
            &|x, y| if inside(x, y) { [9, 9, 9, 255] } else { [0; 4] },
            false
        )
        .is_none()
    );
    assert!(of(&|_, _| [0; 4], true).is_none());
    assert!(of(&|x, _| [9, 9, 9, if x > 40 { 255 } else { 0 }], true).is_none());
}

#[test]
fn files_beside_the_views_tell_a_place() {
    let text = br#"{"transform": [[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3]], "scale": 0.5}"#;
    let [(words, place)] = places(None, Some(text)).try_into().expect("one");
    assert!(words.contains(DATAPARSER));
    // A point of the views' world, there and back.
    let there = [0.5 * (9.0 + 1.0), 0.5 * (7.0 + 2.0), 0.5 * (8.0 + 3.0)];
    let turned = onto(&place.turn, there);
    let back = [0, 1, 2].map(|k| place.scale * turned[k] + place.offset[k]);
    for (found, wanted) in back.iter().zip([7.0, 8.0, 9.0]) {
        assert!((found - wanted).abs() < 1e-12, "{back:?}");
    }
    for broken in [
        &b"{}"[..],
        b"[",
        br#"{"transform": [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]}"#,
    ] {
        assert!(places(None, Some(broken)).is_empty());
    }
}
