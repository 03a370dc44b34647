//! Deliberately bad borders, moved.

use super::super::relax;
use super::super::tests::{check, squares};
use super::*;
use crate::input::Mesh;
use crate::piece::Chart;
use crate::planar::{self, neighbours};
use crate::tests::icosphere;

/// Whether two neighbours on the surface are neighbours in their chart too.
fn together(merger: &Merger<'_>, face: u32, side: usize) -> bool {
    let (number, _) = merger.ground.places.of(face).unwrap();
    let own = (number, &merger.charts[number as usize].piece);
    let mut beside = merger.ground.beside(own, face);
    beside.any(|(shared, _)| shared == side)
}

/// Length of all borders, and the seen length, by the visibility `seen` of a triangle.
fn borders(merger: &Merger<'_>, seen: impl Fn(u32) -> f64) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for face in 0..merger.ground.mesh.triangles.len() as u32 {
        for side in 0..3 {
            let across = merger.ground.neighbours[face as usize][side];
            if across == u32::MAX || across < face || together(merger, face, side) {
                continue;
            }
            let corners = merger.ground.mesh.triangles[face as usize];
            let [a, b] = [corners[side], corners[(side + 1) % 3]]
                .map(|corner| merger.ground.mesh.positions[corner as usize].map(f64::from));
            let length = sub(a, b).iter().map(|x| x * x).sum::<f64>().sqrt();
            sums[0] += length;
            sums[1] += length * (seen(face) + seen(across)) / 2.0;
        }
    }
    sums
}

/// One chart for each value of `of` at a triangle's centre, laid out as `flat` lays the surface.
fn charts(
    mesh: &Mesh<'_>,
    of: impl Fn([f32; 3]) -> usize,
    flat: impl Fn([f32; 3]) -> [f64; 2],
) -> Vec<Piece> {
    let middle = |corners: &[u32; 3]| {
        let at = corners.map(|corner| mesh.positions[corner as usize]);
        [0, 1, 2].map(|axis| (at[0][axis] + at[1][axis] + at[2][axis]) / 3.0)
    };
    let whole = Piece {
        chart: Chart {
            uvs: mesh.positions.iter().map(|&at| flat(at)).collect(),
            triangles: mesh.triangles.to_vec(),
        },
        faces: (0..mesh.triangles.len() as u32).collect(),
        points: (0..mesh.positions.len() as u32).collect(),
    };
    let of_face: Vec<usize> = mesh.triangles.iter().map(|t| of(middle(t))).collect();
    let count = of_face.iter().max().map_or(0, |most| most + 1);
    (0..count)
        .map(|chart| whole.part(|face| of_face[face] == chart))
        .collect()
}

fn rerouted<'a>(mesh: &'a Mesh<'a>, pieces: Vec<Piece>, exposure: &[f64]) -> Merger<'a> {
    let mut merger = Merger::new(mesh, pieces, 1e-3);
    let price = Price::new(mesh, &merger.ground.neighbours, exposure);
    assert!(merger.reroute(&price) > 0, "something moves");
    check(mesh, &merger);
    for (number, laid) in (0..).zip(&merger.charts) {
        let mut faces = laid.piece.faces.clone();
        faces.sort_unstable();
        let parts = parts(&merger.ground, (number, &laid.piece), &faces);
        assert!(parts.len() <= 1, "in one piece");
    }
    merger
}

const FLAT: fn([f32; 3]) -> [f64; 2] = |at| [f64::from(at[0]), f64::from(at[1])];

#[test]
fn a_ragged_border_becomes_short() {
    let mesh = squares(20, 20, |x, y| [x, y, 0.0]);
    // Teeth of four squares and back.
    let teeth =
        |at: [f32; 3]| usize::from(at[0] > 8.0 + 4.0 * f32::from(u8::from(at[1] % 4.0 > 2.0)));
    let pieces = charts(&mesh, teeth, FLAT);
    let before = borders(&Merger::new(&mesh, pieces.clone(), 1e-3), |_| 0.0)[0];
    assert!((before - 56.0).abs() < 1e-6, "{before}");
    let merger = rerouted(&mesh, pieces, &[]);
    let after = borders(&merger, |_| 0.0)[0];
    assert!((after - 20.0).abs() < 1e-6, "straight across: {after}");
}

#[test]
fn a_border_goes_where_nobody_looks() {
    let mesh = squares(20, 20, |x, y| [x, y, 0.0]);
    // No view shows the belt beside the border.
    let is_seen = |face: u32| {
        let x = mesh.positions[mesh.triangles[face as usize][0] as usize][0];
        f64::from(u8::from(!(7.0..9.0).contains(&x)))
    };
    let exposure: Vec<f64> = (0..mesh.triangles.len() as u32).map(is_seen).collect();
    let halves = || charts(&mesh, |at| usize::from(at[0] > 10.0), FLAT);
    let before = borders(&Merger::new(&mesh, halves(), 1e-3), is_seen);
    let after = borders(&rerouted(&mesh, halves(), &exposure), is_seen);
    assert_eq!(before, [20.0, 20.0]);
    assert_eq!(after, [20.0, 0.0], "as long, and seen nowhere");
}

#[test]
fn a_border_goes_to_a_crease() {
    // Folded by a right angle at x = 11; both sides unrolled.
    let fold = |x: f32, y: f32| {
        if x < 11.0 {
            [x, y, 0.0]
        } else {
            [11.0, y, x - 11.0]
        }
    };
    let mesh = squares(20, 20, fold);
    let unrolled = |at: [f32; 3]| [f64::from(at[0] + at[2]), f64::from(at[1])];
    let pieces = charts(&mesh, |at| usize::from(at[0] > 9.0), unrolled);
    let merger = rerouted(&mesh, pieces, &[]);
    for Laid { piece, .. } in &merger.charts {
        let x = |point: &u32| mesh.positions[*point as usize];
        let flat = piece.points.iter().all(|point| x(point)[2] == 0.0);
        let upright = piece.points.iter().all(|point| x(point)[0] == 11.0);
        assert!(flat != upright, "cut along the crease");
    }
}

#[test]
fn what_does_not_lie_flat_stays_and_no_border_becomes_dearer() {
    let mesh = icosphere(4);
    let exposure: Vec<f64> = (0..mesh.triangles.len() as u64)
        .map(|face| (face.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64)
        .collect();
    let pieces = planar::cut(&mesh);
    let price = Price::new(&mesh, &neighbours(mesh.triangles), &exposure);
    let all = |merger: &Merger<'_>| {
        let mut sum = 0;
        for face in 0..mesh.triangles.len() as u32 {
            for side in 0..3 {
                if !together(merger, face, side) {
                    sum += price.of(face, side);
                }
            }
        }
        sum
    };
    let before = all(&Merger::new(&mesh, pieces.clone(), 1e-3));
    let merger = rerouted(&mesh, pieces, &exposure);
    let after = all(&merger);
    assert!(after < before * 9 / 10, "{before} to {after}");
    // The projections are as stretched as before; what moved is within limits.
    for Laid { piece, .. } in &merger.charts {
        let rest = relax::rest(&mesh, piece);
        for (rest, corners) in rest.iter().zip(&piece.chart.triangles) {
            let [a, b, c] = corners.map(|corner| piece.chart.uvs[corner as usize]);
            let there = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
            assert!(there * rest[1][0] * rest[2][1] > 0.0, "turned over");
        }
    }
}

#[test]
fn a_chart_is_not_broken_in_two() {
    let mesh = squares(9, 3, |x, y| [x, y, 0.0]);
    let pieces = charts(&mesh, |_| 0, FLAT);
    let merger = Merger::new(&mesh, pieces, 1e-3);
    let price = Price::new(&mesh, &merger.ground.neighbours, &[]);
    let mut shift = Shift {
        ground: &merger.ground,
        price: &price,
        numbers: [0, 1],
        charts: [merger.charts[0].clone(), Laid::default()],
        work: 0,
    };
    let mut marks = vec![0; mesh.triangles.len()];
    let column = |from: f32, to: f32| -> Vec<u32> {
        let within = |&face: &u32| {
            let corners = mesh.triangles[face as usize];
            let x = corners.map(|corner| mesh.positions[corner as usize][0]);
            x.iter().all(|x| (from..=to).contains(x))
        };
        (0..mesh.triangles.len() as u32).filter(within).collect()
    };
    assert!(
        shift.holds_without(0, &column(0.0, 3.0), &mut marks),
        "an end"
    );
    assert!(
        !shift.holds_without(0, &column(3.0, 6.0), &mut marks),
        "the middle"
    );
    assert!(
        !shift.holds_without(0, &column(0.0, 9.0), &mut marks),
        "all of it"
    );
    assert!(marks.iter().all(|&mark| mark == 0), "cleared");
}

#[test]
fn borders_that_move_side_by_side_end_where_they_do_one_by_one() {
    let mesh = icosphere(5);
    let exposure: Vec<f64> = (0..mesh.triangles.len() as u64)
        .map(|face| (face.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64)
        .collect();
    // Many small charts, each of one cell of a grid, projected along the axis that its cell lies farthest out on.
    let cell = |at: [f32; 3]| at.map(|x| ((x + 1.0) * 2.5) as usize);
    let number = |at: [f32; 3]| cell(at).into_iter().fold(0, |sum, x| 5 * sum + x);
    let pieces: Vec<Piece> = charts(&mesh, number, FLAT)
        .into_iter()
        .filter(|piece| !piece.faces.is_empty())
        .map(|mut piece| {
            let middle = cell(mesh.positions[piece.points[0] as usize]);
            let axis = (0..3).max_by_key(|&axis| middle[axis].abs_diff(2)).unwrap();
            let flat = |&point: &u32| {
                let at = mesh.positions[point as usize].map(f64::from);
                [at[(axis + 1) % 3], at[(axis + 2) % 3]]
            };
            piece.chart.uvs = piece.points.iter().map(flat).collect();
            piece
        })
        .collect();
    let price = Price::new(&mesh, &neighbours(mesh.triangles), &exposure);
    let mut together = Merger::new(&mesh, pieces.clone(), 1e-3);
    let moved = together.reroute(&price);
    assert!(moved > 20, "{moved}");
    let mut single = Merger::new(&mesh, pieces, 1e-3);
    let idle = Idle {
        faces: mesh.triangles.len(),
        marks: Mutex::default(),
    };
    let mut count = 0;
    for _ in 0..ROUNDS {
        for pair in single.by_price(&price) {
            count += single.shift_all(&[pair], &price, &idle);
        }
    }
    assert_eq!(count, moved);
    for (a, b) in together.charts.iter().zip(&single.charts) {
        assert_eq!(a.piece, b.piece);
    }
    assert_eq!(together.work, single.work);
}
