//! Charts cut on purpose, merged again.

use super::outline::Outline;
use super::*;
use crate::piece::Chart;
use crate::tests::icosphere;

/// `columns` × `rows` squares of edge 1 on the surface given by `place`.
pub(crate) fn squares(
    columns: u32,
    rows: u32,
    place: impl Fn(f32, f32) -> [f32; 3],
) -> Mesh<'static> {
    let corner = |k: u32| place((k % (columns + 1)) as f32, (k / (columns + 1)) as f32);
    let cell = |k: u32| {
        let at = k / columns * (columns + 1) + k % columns;
        let below = at + columns + 1;
        [[at, at + 1, below + 1], [at, below + 1, below]]
    };
    let positions: Vec<[f32; 3]> = (0..(columns + 1) * (rows + 1)).map(corner).collect();
    let triangles: Vec<[u32; 3]> = (0..columns * rows).flat_map(cell).collect();
    Mesh {
        positions: positions.leak(),
        triangles: triangles.leak(),
    }
}

/// Each pair of triangles as its own chart: flat as the first triangle, and rotated differently.
fn apart(mesh: &Mesh<'_>) -> Vec<Piece> {
    let both = |two: usize| {
        let faces = [2 * two as u32, 2 * two as u32 + 1];
        let [a, b] = faces.map(|face| crate::planar::single(mesh, face));
        let mut piece = a;
        let fourth = *b.points.iter().find(|p| !piece.points.contains(p)).unwrap();
        // The first triangle has corners 0, 1, 2 of a square; the last is in the remaining corner.
        let [p, q, r] = [0, 1, 2].map(|k| piece.chart.uvs[k]);
        piece
            .chart
            .uvs
            .push([p[0] + r[0] - q[0], p[1] + r[1] - q[1]]);
        piece.points.push(fourth);
        let number = |point: u32| piece.points.iter().position(|&p| p == point).unwrap() as u32;
        piece
            .chart
            .triangles
            .push(mesh.triangles[faces[1] as usize].map(number));
        piece.faces.push(faces[1]);
        let (sine, cosine) = (two as f64).sin_cos();
        for uv in &mut piece.chart.uvs {
            *uv = [
                cosine * uv[0] - sine * uv[1] + 9.0,
                sine * uv[0] + cosine * uv[1],
            ];
        }
        piece
    };
    (0..mesh.triangles.len() / 2).map(both).collect()
}

/// Every face once, its corners at its points; nothing flipped; outlines equal to new ones.
pub(super) fn check(mesh: &Mesh<'_>, merger: &Merger<'_>) {
    let mut seen = vec![0; mesh.triangles.len()];
    for Laid { piece, outline, .. } in &merger.charts {
        for (&face, corners) in piece.faces.iter().zip(&piece.chart.triangles) {
            seen[face as usize] += 1;
            let points = corners.map(|corner| piece.points[corner as usize]);
            assert_eq!(points, mesh.triangles[face as usize]);
        }
        let sorted = |outline: &Outline| {
            let mut edges = outline.edges.clone();
            edges.sort_unstable();
            edges
        };
        let anew = Outline::of(&piece.chart);
        assert_eq!(sorted(outline), sorted(&anew));
        assert!((outline.length() - anew.length()).abs() < 1e-9 * anew.length().max(1.0));
    }
    assert!(seen.iter().all(|&times| times == 1));
}

/// Merges a chart into a neighbour, if it fits at one, whatever its size.
fn place(merger: &mut Merger<'_>, own: u32) {
    let waiting = Waiting { own, fitted: None };
    let tried = merger.attempt(&waiting);
    merger.settle(&mut vec![waiting], vec![tried]);
}

/// The pieces that were not merged into others.
fn left<'a>(merger: &'a Merger<'_>) -> Vec<&'a Piece> {
    let pieces = merger.charts.iter().map(|laid| &laid.piece);
    pieces.filter(|piece| !piece.faces.is_empty()).collect()
}

#[test]
fn a_plane_cut_into_squares_becomes_few_charts_and_stays_flat() {
    let mesh = squares(40, 40, |x, y| [x, y, 0.0]);
    let mut merger = Merger::new(&mesh, apart(&mesh), 1e-3);
    let before = merger.charts.len();
    while merger.round() > 0 {}
    check(&mesh, &merger);
    let left = left(&merger);
    // No chart smaller than LARGEST remains beside another.
    assert!(left.len() <= 340 && before == 1600, "{}", left.len());
    for piece in left {
        for (&face, corners) in piece.faces.iter().zip(&piece.chart.triangles) {
            let flat = |k: usize| piece.chart.uvs[corners[k] as usize];
            let solid = |k: usize| mesh.positions[mesh.triangles[face as usize][k] as usize];
            for (k, l) in [(0, 1), (1, 2), (2, 0)] {
                let [[a, b], [c, d]] = [flat(k), flat(l)];
                let [p, q] = [solid(k), solid(l)];
                let length = f64::from((p[0] - q[0]).hypot(p[1] - q[1]));
                assert!(
                    (f64::hypot(a - c, b - d) - length).abs() < 1e-3,
                    "isometric"
                );
            }
        }
    }
}

#[test]
fn a_roll_is_laid_out_and_meets_itself_nowhere() {
    // One and a half turns around a cylinder of radius 2, as 40 × 2 squares: a strip when flat.
    let roll = |x: f32, y: f32| {
        let angle = x / 2.0;
        [2.0 * angle.cos(), 2.0 * angle.sin() + 0.01 * angle, y]
    };
    let mesh = squares(19, 2, roll);
    let mut merger = Merger::new(&mesh, apart(&mesh), 1e-3);
    // Whatever its size.
    for own in 0..merger.charts.len() as u32 {
        place(&mut merger, own);
    }
    check(&mesh, &merger);
    let left = left(&merger).len();
    assert!(left < 12, "{left}");
}

#[test]
fn a_sphere_is_not_pressed_flat() {
    let mesh = icosphere(3);
    let pieces: Vec<Piece> = (0..mesh.triangles.len() as u32)
        .map(|face| crate::planar::single(&mesh, face))
        .collect();
    let mut merger = Merger::new(&mesh, pieces, 1e-3);
    for own in 0..merger.charts.len() as u32 {
        place(&mut merger, own);
    }
    check(&mesh, &merger);
    let left = left(&merger);
    assert!(left.len() > 1 && left.len() < 400, "{}", left.len());
    for piece in left {
        let rest = relax::rest(&mesh, piece);
        let [low, high] = bounds(&rest, &piece.chart);
        assert!(low > 0.5 && high < 2.0, "{low} to {high}");
    }
}

#[test]
fn a_chart_whose_place_was_taken_waits_and_fits_later() {
    // Two rows of squares: both charts of the second row lie beside the first row, and beside each other.
    let mesh = squares(2, 2, |x, y| [x, y, 0.0]);
    let mut merger = Merger::new(&mesh, apart(&mesh), 1e-3);
    let mut batch: Vec<Waiting> = (0..4).map(|own| Waiting { own, fitted: None }).collect();
    let tried = batch
        .iter()
        .map(|waiting| merger.attempt(waiting))
        .collect();
    let merged = merger.settle(&mut batch, tried);
    assert!(
        (1..3).contains(&merged) && !batch.is_empty(),
        "{merged} merged, {} wait",
        batch.len()
    );
    check(&mesh, &merger);
    while !batch.is_empty() {
        let tried = batch
            .iter()
            .map(|waiting| merger.attempt(waiting))
            .collect();
        merger.settle(&mut batch, tried);
        check(&mesh, &merger);
    }
    assert_eq!(left(&merger).len(), 1);
}

#[test]
fn a_fan_that_goes_round_more_than_once_is_told() {
    let fan = |turns: f64| {
        let rim = (0..10).map(|k| (std::f64::consts::TAU * turns * f64::from(k) / 9.0).sin_cos());
        let uvs: Vec<[f64; 2]> = [[0.0; 2]]
            .into_iter()
            .chain(rim.map(|(y, x)| [x, y]))
            .collect();
        let triangles: Vec<[u32; 3]> = (1..10).map(|k| [0, k, k + 1]).collect();
        relax::winds_once(&triangles, &uvs)
    };
    assert!(fan(0.98) && !fan(1.02));
}

/// Smallest and largest ratio of areas in the chart and on the surface.
fn bounds(rest: &[relax::Rest], chart: &Chart) -> [f64; 2] {
    let ratios = rest.iter().zip(&chart.triangles).map(|(rest, corners)| {
        let [a, b, c] = corners.map(|corner| chart.uvs[corner as usize]);
        let flat = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        flat / (rest[1][0] * rest[2][1])
    });
    ratios.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| {
        [low.min(x), high.max(x)]
    })
}

#[test]
fn a_corner_that_its_neighbour_reaches_into_is_not_filled() {
    // The outer chart surrounds the corner (0, 0) from (1, 0) to (0, -1), all but a quarter, and has a spike in it.
    let uvs = |spike: [f64; 2]| {
        vec![
            [0.0, 0.0],
            [1.0, 0.0],
            [1.0, 1.0],
            [-1.0, 1.0],
            [-1.0, -1.0],
            [0.0, -1.0],
            spike,
        ]
    };
    let outer = |spike| Chart {
        uvs: uvs(spike),
        triangles: vec![[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5], [1, 6, 2]],
    };
    // The inner chart is the missing quarter, as a triangle on both edges of the corner.
    let inner = Chart {
        uvs: vec![[0.0, 0.0], [0.0, -1.0], [1.0, 0.0]],
        triangles: vec![[0, 1, 2]],
    };
    let pair = |own, other| Pair { own, other };
    let border = Border {
        other: 0,
        edges: vec![[pair(0, 0), pair(1, 5)], [pair(2, 1), pair(0, 0)]],
        pairs: vec![pair(0, 0), pair(1, 5), pair(2, 1)],
        length: 2.0,
    };
    let fits = |spike| {
        let outer = outer(spike);
        let (outside, inside) = (Outline::of(&outer), Outline::of(&inner));
        outline::is_free((&outside, &outer.uvs), (&inside, &inner.uvs), &border, 2e-4)
    };
    assert!(fits([1.5, 0.0]));
    // The spike would then be flipped, but only its place matters.
    assert!(!fits([0.4, -0.2]));
}

/// Two triangles on one edge, from (0, 0) to (1, 0): the outer one above, the inner one with its tip at `tip`.
fn beside(tip: [f64; 2], more: &[[f64; 2]]) -> bool {
    let mut outer = Chart {
        uvs: vec![[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]],
        triangles: vec![[0, 1, 2]],
    };
    if let [a, b, c] = more {
        outer.uvs.extend([a, b, c]);
        outer.triangles.push([3, 4, 5]);
    }
    let inner = Chart {
        uvs: vec![[1.0, 0.0], [0.0, 0.0], tip],
        triangles: vec![[0, 1, 2]],
    };
    let pair = |own, other| Pair { own, other };
    let border = Border {
        other: 0,
        edges: vec![[pair(0, 1), pair(1, 0)]],
        pairs: vec![pair(0, 1), pair(1, 0)],
        length: 1.0,
    };
    let outlines = (Outline::of(&outer), Outline::of(&inner));
    outline::is_free(
        (&outlines.0, &outer.uvs),
        (&outlines.1, &inner.uvs),
        &border,
        0.02,
    )
}

#[test]
fn outlines_neither_cross_nor_come_near() {
    assert!(beside([0.5, -1.0], &[]));
    let at = |x: f64, y: f64| [[x, y], [x + 0.5, y - 0.5], [x + 0.5, y]];
    assert!(beside([0.5, -1.0], &at(0.9, -0.9)), "far enough");
    assert!(
        !beside([0.5, -1.0], &at(0.515, -0.9999)),
        "a cell from the tip"
    );
    assert!(!beside([0.5, -1.0], &at(0.4, -0.9)), "across");
    assert!(!beside([1.45, 0.02], &at(1.2, 0.2)), "across, beside");
    assert!(
        !beside([-0.5, -0.001], &[[-1.0, -1.0], [-0.4, 0.0], [-0.9, 0.0]]),
        "across a tip"
    );
    // Along the outer chart's own side, from the shared vertex.
    assert!(
        !beside([1.5, -0.99], &[[1.0, 0.0], [1.5, -1.0], [1.6, -0.9]]),
        "a slit"
    );
}

#[test]
fn a_chart_is_turned_to_its_border_and_relaxed_into_it() {
    let mesh = squares(6, 1, |x, y| [x, y, 0.0]);
    // One chart of everything, which planar's projection leaves unchanged.
    let [piece] = &crate::planar::cut(&mesh)[..] else {
        panic!("one chart");
    };
    let rest = relax::rest(&mesh, piece);
    let triangles = &piece.chart.triangles;
    assert!(relax::is_within(
        relax::TIGHT,
        &rest,
        triangles,
        &piece.chart.uvs
    ));
    // One end is fixed where a rotation by 1 takes it: the rest follows.
    let turned = |[x, y]: [f64; 2]| {
        let (sine, cosine) = 1f64.sin_cos();
        [cosine * x - sine * y + 5.0, sine * x + cosine * y - 3.0]
    };
    let is_end = |point: u32| mesh.positions[point as usize][0] == 0.0;
    let held: Vec<Option<[f64; 2]>> = (piece.points.iter().zip(&piece.chart.uvs))
        .map(|(&point, &uv)| is_end(point).then(|| turned(uv)))
        .collect();
    let mut uvs = relax::align(&piece.chart.uvs, &held);
    relax::relax(&rest, triangles, &held, &mut uvs);
    for (&uv, &from) in uvs.iter().zip(&piece.chart.uvs) {
        let to = turned(from);
        assert!((uv[0] - to[0]).hypot(uv[1] - to[1]) < 1e-6, "{uv:?} {to:?}");
    }
    // Its end is squeezed: it gives way only near there, and by more than allowed.
    let held: Vec<Option<[f64; 2]>> = (piece.points.iter().zip(&uvs))
        .map(|(&point, &uv)| is_end(point).then(|| [uv[0] * 0.3, uv[1] * 0.3]))
        .collect();
    let mut squeezed = relax::align(&uvs, &held);
    relax::relax(&rest, triangles, &held, &mut squeezed);
    assert!(!relax::is_within(relax::TIGHT, &rest, triangles, &squeezed));
    // Mirrored, hence flipped.
    let mirrored: Vec<[f64; 2]> = uvs.iter().map(|&[x, y]| [-x, y]).collect();
    assert!(!relax::is_within(relax::LOOSE, &rest, triangles, &mirrored));
}
