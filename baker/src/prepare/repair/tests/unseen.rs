//! Unseen parts (shells, cavities, tunnels), and parts that stay.

use proto::job::Repair;
use proto::message::{StepFate, StepKind};
use proto::table::Camera;

use super::{UNSEEN, cube, disagreeing, line, mended, scaled, together, turned, volume, without};
use crate::prepare::clean::CleanMesh;
use crate::prepare::repair::topology::Topology;
use crate::prepare::repair::{Eye, patches, repair, sight};
use crate::prepare::unwrap::tests::icosphere;
use crate::worker::progress::Silent;

#[test]
fn a_sphere_within_a_sphere_goes() {
    let outer = icosphere(4);
    let both = together(&[outer.clone(), scaled(&outer, 0.8), scaled(&outer, 0.5)]);
    let (left, steps) = mended(&both, &UNSEEN);
    assert_eq!(left.triangles.len(), outer.triangles.len());
    assert_eq!(
        (left.positions.len(), left.radius),
        (outer.positions.len(), outer.radius)
    );
    let step = &steps[0];
    assert_eq!(
        (step.step, step.fate),
        (StepKind::RemoveUnseen, StepFate::Done)
    );
    assert_eq!(step.changed, 2 * outer.triangles.len() as u64);
    assert_eq!((step.before.parts, step.after.parts), (3, 1));
    // Alone, each is seen entirely.
    for alone in [outer, cube()] {
        let (left, steps) = mended(&alone, &UNSEEN);
        assert_eq!((left, steps[0].fate), (alone, StepFate::Unchanged));
    }
}

/// A ball with a cavity, opened at the top by a hole of this radius.
fn flask(hole: f32) -> CleanMesh {
    let arc = |radius: f32, from: f32, to: f32| -> Vec<[f32; 2]> {
        line([from, 0.0], [to, 0.0], 60)
            .iter()
            .map(|[angle, _]| [radius * angle.sin(), radius * angle.cos()])
            .collect()
    };
    let pi = std::f32::consts::PI;
    let [outer, inner] = [1.0, 0.8].map(|radius: f32| (hole / radius).asin());
    let mut profile = arc(1.0, pi, outer);
    profile.last_mut().unwrap()[0] = hole;
    profile[0][0] = 0.0;
    let mut within = arc(0.8, inner, pi);
    within.last_mut().unwrap()[0] = 0.0;
    profile.extend(line(profile[60], within[0], 8)[1..8].iter());
    profile.extend(within);
    turned(&profile, 96)
}

#[test]
fn a_cavity_is_cut_off_where_its_opening_is_narrow_and_closed() {
    let flask = flask(0.06);
    let inside = |of: &CleanMesh| {
        // Without the ring where the neck begins, since the cut is there.
        let deep = |p: &&[f32; 3]| p[2] < 0.79 && p.iter().map(|x| x * x).sum::<f32>() < 0.66;
        of.positions.iter().filter(deep).count()
    };
    let (left, steps) = mended(
        &flask,
        &Repair {
            fill_holes: Some(0.04),
            ..UNSEEN
        },
    );
    let [removed, filled] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!(
        (removed.fate, filled.fate, filled.changed),
        (StepFate::Done, StepFate::Done, 1)
    );
    assert_eq!((removed.after.borders, filled.after.borders), (1, 0));
    assert!(inside(&flask) > 1000 && inside(&left) == 0);
    assert_eq!(disagreeing(&left), 0);
    assert!((volume(&left) / volume(&icosphere(4)) - 1.0).abs() < 0.03);

    // The same with a limit that forbids so large an opening.
    let (left, steps) = mended(
        &flask,
        &Repair {
            fill_holes: Some(1e-4),
            ..UNSEEN
        },
    );
    assert!(inside(&left) > 1000);
    assert!(steps[0].note.contains("1 pieces stay"), "{}", steps[0].note);
}

#[test]
fn views_of_half_the_edge_find_unseen_what_those_of_trellis_find() {
    let flask = flask(0.1);
    let topology = Topology::new(&flask.triangles, flask.positions.len());
    let radius = 1.5 * 2.0 * flask.radius / sight::EDGE as f64;
    let (of, count) = patches::patches(&flask, &topology, radius);
    let groups = sight::Groups {
        positions: &flask.positions,
        triangles: &flask.triangles,
        of: &of,
        count,
    };
    let [ours, theirs] = [sight::EDGE, 1024].map(|edge| sight::with_edge(groups, edge, 150));
    let (mut both, mut one, mut off) = (0, 0, 0.0f64);
    for (a, b) in ours.seen_in.iter().zip(&theirs.seen_in) {
        both += usize::from(*a == 0 && *b == 0);
        one += usize::from((*a == 0) != (*b == 0));
        off = off.max((f64::from(*a) - f64::from(*b)).abs() / f64::from(ours.views));
    }
    assert!(
        both > 1000 && one * 20 < both && off < 0.1,
        "unseen in both {both}, in one alone {one}; shares differ by {off}"
    );
}

#[test]
fn a_cup_with_two_walls_stays() {
    let mut profile = line([0.0, 0.0], [0.4, 0.0], 10);
    profile.extend(&line([0.4, 0.0], [0.5, 1.0], 30)[1..]);
    profile.extend(&line([0.5, 1.0], [0.47, 1.0], 2)[1..]);
    profile.extend(&line([0.47, 1.0], [0.37, 0.03], 30)[1..]);
    profile.extend(&line([0.37, 0.03], [0.0, 0.03], 10)[1..]);
    let cup = turned(&profile, 64);
    let (left, steps) = mended(&cup, &UNSEEN);
    assert_eq!(steps[0].fate, StepFate::Unchanged, "{steps:?}");
    assert_eq!(left, cup);
}

#[test]
fn a_wide_tunnel_stays_and_a_long_narrow_one_is_closed() {
    let tube = |radius: f32| {
        let mut profile = line([radius, 2.0], [radius, -2.0], 160);
        profile.extend(&line([radius, -2.0], [1.0, -2.0], 10)[1..]);
        profile.extend(&line([1.0, -2.0], [1.0, 2.0], 40)[1..]);
        profile.extend(&line([1.0, 2.0], [radius, 2.0], 10)[1..]);
        turned(&profile, 48)
    };
    let wish = Repair {
        fill_holes: Some(0.04),
        ..UNSEEN
    };
    let wide = tube(0.7);
    let (left, steps) = mended(&wide, &wish);
    assert_eq!((left, steps[0].fate), (wide, StepFate::Unchanged));
    let (left, steps) = mended(&tube(0.02), &wish);
    assert_eq!(
        (steps[0].after.borders, steps[1].changed),
        (2, 2),
        "{steps:?}"
    );
    assert_eq!((steps[1].after.borders, disagreeing(&left)), (0, 0));
}

#[test]
fn what_the_jobs_own_views_show_stays() {
    // A ball in a closed room, and a camera in the room.
    let room = turned(&[[0.0, -1.0], [1.0, -1.0], [1.0, 1.0], [0.0, 1.0]], 64);
    let ball = scaled(&icosphere(3), 0.3);
    let both = together(&[room.clone(), ball]);
    let eye = Eye {
        camera: Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0, 0.0, 0.8],
            focal: [64.0; 2],
            centre: [64.0; 2],
        },
        size: [128, 128],
    };
    let (left, steps) = repair(both.clone(), &UNSEEN, &[eye], &Silent);
    assert_eq!(left, both);
    assert!(
        steps[0].note.contains("shown by the job's views"),
        "{}",
        steps[0].note
    );
    let (left, _) = repair(both, &UNSEEN, &[], &Silent);
    assert_eq!(left.triangles.len(), room.triangles.len());
}

#[test]
fn of_a_piece_that_goes_what_the_jobs_own_views_show_stays() {
    let flask = flask(0.06);
    // Looks down the neck to the bottom of the cavity.
    let eye = Eye {
        camera: Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            translation: [0.0, 0.0, 3.0],
            focal: [512.0; 2],
            centre: [256.0; 2],
        },
        size: [512; 2],
    };
    // How far from the axis the rest of the cavity's bottom reaches, and how much is left of its sides.
    let within = |of: &CleanMesh| {
        let inner = |p: &&[f32; 3]| p.iter().map(|x| x * x).sum::<f32>() < 0.66;
        let from_axis = |p: &[f32; 3]| p[0].hypot(p[1]);
        let bottom = of.positions.iter().filter(inner).filter(|p| p[2] < -0.6);
        let sides = of.positions.iter().filter(inner);
        (
            bottom.map(from_axis).fold(0.0, f32::max),
            sides.filter(|p| p[2].abs() < 0.6).count(),
        )
    };
    assert!(within(&flask).0 > 0.5 && within(&flask).1 > 1000);
    let (left, steps) = repair(flask.clone(), &UNSEEN, &[eye], &Silent);
    let (bottom, sides) = within(&left);
    // A neck of 0.06 at distance 2 from the eye casts a spot of 0.114 at 3.8; patches extend it.
    assert!((0.114..0.2).contains(&bottom), "{bottom}");
    assert_eq!(sides, 0);
    assert!(
        steps[0].note.contains("patches of others stay"),
        "{}",
        steps[0].note
    );
    // From the side nothing of that is seen.
    let beside = Eye {
        camera: Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
            ..eye.camera
        },
        ..eye
    };
    let (left, _) = repair(flask, &UNSEEN, &[beside], &Silent);
    assert_eq!(within(&left), (0.0, 0));
}

#[test]
fn what_shows_through_a_hole_stays_only_if_the_hole_does() {
    let ball = icosphere(4);
    let shell = without(&ball, |[x, y, z]| z > 0.0 && x.hypot(y) < 0.1);
    let both = together(&[shell.clone(), scaled(&ball, 0.7)]);
    // Looks straight into the hole.
    let eye = Eye {
        camera: Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            translation: [0.0, 0.0, 3.0],
            focal: [512.0; 2],
            centre: [256.0; 2],
        },
        size: [512; 2],
    };
    let (left, steps) = repair(both.clone(), &UNSEEN, &[eye], &Silent);
    let within = left.triangles.len() - shell.triangles.len();
    assert!((10..500).contains(&within), "{within}: {steps:?}");
    let filled = Repair {
        fill_holes: Some(Repair::HOLE_SIZE),
        ..UNSEEN
    };
    let (left, steps) = repair(both, &filled, &[eye], &Silent);
    assert_eq!(
        (steps[0].after.parts, steps[1].changed),
        (1, 1),
        "{steps:?}"
    );
    assert_eq!((steps[1].after.borders, disagreeing(&left)), (0, 0));
    assert!((volume(&left) / volume(&ball) - 1.0).abs() < 0.01);
}
