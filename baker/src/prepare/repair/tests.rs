//! Repair steps on constructed meshes: what goes, what stays, what is reported.

mod holes;
mod unseen;

use std::collections::HashMap;

use proto::job::Repair;
use proto::message::{MeshStep, StepFate};

use super::*;
use crate::prepare::clean;
use crate::prepare::load::{NoUvs, RawMesh};
use crate::prepare::unwrap::tests::icosphere;
use crate::worker::progress::Silent;

const ALL: Repair = Repair {
    weld: Some(Repair::WELD),
    orient: true,
    remove_unseen: true,
    fill_holes: Some(Repair::HOLE_SIZE),
    hole_edges: Repair::HOLE_EDGES,
    up: proto::job::Up::Y,
};
const UNSEEN: Repair = Repair {
    weld: None,
    orient: false,
    fill_holes: None,
    ..ALL
};
const HOLES: Repair = Repair {
    remove_unseen: false,
    fill_holes: Some(Repair::HOLE_SIZE),
    ..UNSEEN
};
const ORIENT: Repair = Repair {
    remove_unseen: false,
    orient: true,
    ..UNSEEN
};

fn mesh(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> CleanMesh {
    clean::clean(&RawMesh {
        positions: positions.to_vec(),
        uvs: Err(NoUvs::Absent),
        triangles: triangles.to_vec(),
    })
    .unwrap()
}

fn mended(mesh: &CleanMesh, wish: &Repair) -> (CleanMesh, Vec<MeshStep>) {
    repair(mesh.clone(), wish, &[], &Silent)
}

/// Joins several surfaces.
fn together(parts: &[CleanMesh]) -> CleanMesh {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    for part in parts {
        let first = positions.len() as u32;
        positions.extend(&part.positions);
        triangles.extend(part.triangles.iter().map(|t| t.map(|point| point + first)));
    }
    mesh(&positions, &triangles)
}

fn scaled(of: &CleanMesh, scale: f32) -> CleanMesh {
    let positions: Vec<[f32; 3]> = of.positions.iter().map(|p| p.map(|x| x * scale)).collect();
    mesh(&positions, &of.triangles)
}

fn without(of: &CleanMesh, gone: impl Fn([f32; 3]) -> bool) -> CleanMesh {
    let middle = |t: &[u32; 3]| -> [f32; 3] {
        std::array::from_fn(|axis| {
            t.iter()
                .map(|&p| of.positions[p as usize][axis])
                .sum::<f32>()
                / 3.0
        })
    };
    let kept: Vec<[u32; 3]> = of
        .triangles
        .iter()
        .copied()
        .filter(|t| !gone(middle(t)))
        .collect();
    mesh(&of.positions, &kept)
}

/// A surface of revolution around z: radius and height of each ring, `sides` corners each. A radius of 0 is one point.
fn turned(profile: &[[f32; 2]], sides: u32) -> CleanMesh {
    let mut positions = Vec::new();
    for [radius, height] in profile {
        for side in 0..sides {
            let angle = std::f32::consts::TAU * side as f32 / sides as f32;
            // Cleaning merges the points of a radius of 0.
            positions.push([
                radius * angle.cos() + 0.0,
                radius * angle.sin() + 0.0,
                *height,
            ]);
        }
    }
    let mut triangles = Vec::new();
    for ring in 0..profile.len() as u32 - 1 {
        for side in 0..sides {
            let next = (side + 1) % sides;
            let [a, b] = [side, next].map(|side| ring * sides + side);
            let [c, d] = [side, next].map(|side| (ring + 1) * sides + side);
            triangles.extend([[a, b, c], [b, d, c]]);
        }
    }
    mesh(&positions, &triangles)
}

/// Points along a line, both ends included.
fn line(from: [f32; 2], to: [f32; 2], pieces: u32) -> Vec<[f32; 2]> {
    (0..=pieces)
        .map(|k| {
            let share = k as f32 / pieces as f32;
            [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]))
        })
        .collect()
}

/// Number of edges that are not traversed once in each direction.
fn disagreeing(of: &CleanMesh) -> usize {
    let mut count: HashMap<[u32; 2], i32> = HashMap::new();
    for [a, b, c] in &of.triangles {
        for [from, to] in [[a, b], [b, c], [c, a]] {
            *count.entry([*from.min(to), *from.max(to)]).or_default() +=
                if from < to { 1 } else { -1 };
        }
    }
    count.values().filter(|sum| **sum != 0).count()
}

fn volume(of: &CleanMesh) -> f64 {
    let six = |t: &[u32; 3]| {
        let [a, b, c] = t.map(|point| of.positions[point as usize].map(f64::from));
        a[0] * (b[1] * c[2] - b[2] * c[1])
            + a[1] * (b[2] * c[0] - b[0] * c[2])
            + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    of.triangles.iter().map(six).sum::<f64>() / 6.0
}

fn cube() -> CleanMesh {
    let positions: Vec<[f32; 3]> = (0..8u8)
        .map(|k| [k & 1, k >> 1 & 1, k >> 2].map(f32::from))
        .collect();
    let quads = [
        [0, 2, 3, 1],
        [4, 5, 7, 6],
        [0, 1, 5, 4],
        [2, 6, 7, 3],
        [0, 4, 6, 2],
        [1, 3, 7, 5],
    ];
    let triangles: Vec<[u32; 3]> = quads
        .iter()
        .flat_map(|[a, b, c, d]| [[*a, *b, *c], [*a, *c, *d]])
        .collect();
    mesh(&positions, &triangles)
}

#[test]
fn sheets_and_single_triangles_stay() {
    let sheet = turned(&[[0.0, 0.0], [1.0, 0.1]], 24);
    for alone in [
        sheet,
        mesh(&[[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], &[[0, 1, 2]]),
    ] {
        let (left, steps) = mended(&alone, &ALL);
        assert_eq!(left, alone);
        assert_eq!(steps.len(), 4);
        assert!(
            steps.iter().all(|step| step.fate == StepFate::Unchanged),
            "{steps:?}"
        );
        let larger = Repair {
            fill_holes: Some(9.0),
            ..ALL
        };
        let note = mended(&alone, &larger).1[3].note.clone();
        assert_eq!(note, "1 borders stay open that are rims of sheets");
    }
}

#[test]
fn turned_triangles_are_turned_back_and_what_is_inside_out_is_turned() {
    let ball = icosphere(3);
    let mut mixed = ball.clone();
    (0..mixed.triangles.len())
        .filter(|t| t % 3 == 0)
        .for_each(|t| mixed.triangles[t].swap(0, 1));
    let (left, steps) = mended(&mixed, &ORIENT);
    assert_eq!(
        (disagreeing(&left), steps[0].changed),
        (0, ball.triangles.len().div_ceil(3) as u64)
    );
    assert!(volume(&left) > 4.0);
    let mut inside_out = ball.clone();
    inside_out.triangles.iter_mut().for_each(|t| t.swap(0, 1));
    let (left, steps) = mended(&inside_out, &ORIENT);
    assert_eq!(steps[0].changed, ball.triangles.len() as u64);
    assert!(volume(&left) > 4.0);
    assert_eq!(mended(&ball, &ORIENT).1[0].fate, StepFate::Unchanged);
    // A bowl: its outside is seen from more directions.
    let bowl = turned(
        &line([0.0, 0.0], [1.2, 0.0], 12)
            .iter()
            .map(|[a, _]| [a.sin(), 1.0 - a.cos()])
            .collect::<Vec<_>>(),
        32,
    );
    let mut back = bowl.clone();
    back.triangles.iter_mut().for_each(|t| t.swap(0, 1));
    let fates = [&bowl, &back].map(|of| mended(of, &ORIENT).1[0].fate);
    assert!(
        fates.contains(&StepFate::Done) && fates.contains(&StepFate::Unchanged),
        "{fates:?}"
    );
}

#[test]
fn a_moebius_strip_has_no_front_and_that_is_said() {
    let mut positions = Vec::new();
    for step in 0..24 {
        let angle = std::f32::consts::TAU * step as f32 / 24.0;
        for side in [-0.3f32, 0.3] {
            let out = 1.0 + side * (angle / 2.0).cos();
            positions.push([
                out * angle.cos(),
                out * angle.sin(),
                side * (angle / 2.0).sin(),
            ]);
        }
    }
    let mut triangles = Vec::new();
    for step in 0..24u32 {
        let [a, b] = [2 * step, 2 * step + 1];
        let [c, d] = if step == 23 { [1, 0] } else { [a + 2, b + 2] };
        triangles.extend([[a, b, c], [b, d, c]]);
    }
    let strip = mesh(&positions, &triangles);
    let (left, steps) = mended(&strip, &ORIENT);
    assert_eq!(left, strip);
    assert_eq!(
        steps[0].note,
        "1 of 1 parts have one side only, like a Moebius strip, and stay as they came"
    );
    let (left, steps) = mended(&strip, &ALL);
    assert_eq!((left, steps.len()), (strip, 4));
}

#[test]
fn borders_that_are_off_by_rounding_are_welded() {
    let ball = icosphere(3);
    let half = |upper: bool| without(&ball, |[_, _, z]| (z > 0.0) != upper);
    let mut upper = half(true);
    upper.positions.iter_mut().for_each(|p| p[0] += 1e-6);
    let cracked = together(&[upper, half(false)]);
    let wish = Repair {
        weld: Some(Repair::WELD),
        ..HOLES
    };
    let (left, steps) = mended(
        &cracked,
        &Repair {
            fill_holes: None,
            ..wish
        },
    );
    assert_eq!(
        (left.positions.len(), left.triangles.len()),
        (ball.positions.len(), ball.triangles.len())
    );
    assert_eq!((steps[0].before.parts, steps[0].before.borders), (2, 2));
    assert_eq!((steps[0].after.parts, steps[0].after.borders), (1, 0));
    // Points that are not on a border may be arbitrarily close.
    let fine = scaled(&icosphere(2), 1e-6);
    let near = together(&[ball.clone(), fine]);
    assert_eq!(
        mended(
            &near,
            &Repair {
                fill_holes: None,
                ..wish
            }
        )
        .0,
        near
    );
}

#[test]
fn coordinates_stay_with_their_corners() {
    let outer = icosphere(2);
    let mut both = together(&[scaled(&outer, 0.5), outer]);
    let uvs = |t: &[u32; 3], of: &CleanMesh| {
        t.map(|p| [of.positions[p as usize][0], of.positions[p as usize][1]])
    };
    both.corner_uvs = Some(both.triangles.iter().map(|t| uvs(t, &both)).collect());
    both.triangles[400].swap(1, 2);
    both.corner_uvs.as_mut().unwrap()[400].swap(1, 2);
    let wish = Repair {
        orient: true,
        weld: Some(Repair::WELD),
        ..UNSEEN
    };
    let (left, steps) = mended(&both, &wish);
    assert_eq!(
        (steps[1].changed, left.triangles.len()),
        (1, both.triangles.len() / 2)
    );
    let wanted: Vec<_> = left.triangles.iter().map(|t| uvs(t, &left)).collect();
    assert_eq!(left.corner_uvs, Some(wanted));
    assert_eq!(mended(&both, &HOLES).1[0].fate, StepFate::Refused);
}

#[test]
fn what_is_no_surface_is_left_as_it_is_or_mended_and_never_crashes() {
    let mut state = 1u64;
    let mut noise = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    // Random loose triangles; pages of a book; a needle; points shared by many triangles at random.
    let soup: Vec<[f32; 3]> = (0..90).map(|_| [noise(), noise(), noise()]).collect();
    let loose: Vec<[u32; 3]> = (0..30).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]).collect();
    let tangled: Vec<[u32; 3]> = (0..60)
        .map(|_| [0; 3].map(|_: u32| (noise() * 40.0) as u32))
        .collect();
    let book: Vec<[u32; 3]> = (2..40).map(|k| [0, 1, k]).collect();
    let needle = [[0.0; 3], [1e6, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let meshes = [
        mesh(&soup, &loose),
        mesh(&soup, &tangled),
        mesh(&soup, &book),
        mesh(&needle, &[[0, 1, 2], [0, 1, 3]]),
        CleanMesh::default(),
    ];
    for of in &meshes {
        let wish = Repair {
            fill_holes: Some(50.0),
            hole_edges: 512,
            weld: Some(0.01),
            ..ALL
        };
        let (left, steps) = mended(of, &wish);
        assert_eq!(steps.len(), 4);
        assert!(
            of.triangles.is_empty() || !left.triangles.is_empty(),
            "{steps:?}"
        );
        assert!(
            left.triangles
                .as_flattened()
                .iter()
                .all(|&p| (p as usize) < left.positions.len())
        );
        let again = mended(of, &wish).0;
        assert_eq!(again, left);
    }
}
