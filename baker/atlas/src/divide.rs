//! Cuts charts that are too large for a page into parts that fit.
//!
//! A chart is cut across the middle of its longer side, between triangles, as often as needed. Parts keep their
//! coordinates, so nothing is stretched; the cost is the seam. A tiny part on one side of a cut goes to the other.

use crate::pack::turns_of;
use crate::piece::{Chart, Piece, turned};

/// Share of the atlas that charts may come to cover. It grows with the size of pages relative to charts.
const UTILISATION: f64 = 0.7;
/// A part with less than this share of its chart's area is tiny (a crumb).
const CRUMB: f64 = 0.02;

/// Divides what is longer than a page, in an atlas with `side` pages along an edge, at the scale it is expected to
/// have.
pub(super) fn divide(pieces: Vec<Piece>, side: u32) -> Vec<Piece> {
    let area: f64 = pieces.iter().map(|piece| piece.chart.area()).sum();
    let longest = (area / UTILISATION).sqrt() / f64::from(side);
    let mut open = pieces;
    let mut done = Vec::new();
    while let Some(piece) = open.pop() {
        match halves(&piece, longest) {
            Some(parts) => open.extend(parts),
            None => done.push(piece),
        }
    }
    done
}

/// The parts of a piece longer than `longest`; none if it is not, or cannot be cut.
fn halves(piece: &Piece, longest: f64) -> Option<Vec<Piece>> {
    let chart = &piece.chart;
    let turn = *turns_of(chart).first()?;
    let [width, height] = chart.extent(turn);
    if width.max(height) <= longest {
        return None;
    }
    let axis = usize::from(height > width);
    let along = |uv: [f64; 2]| turned(uv, turn, 1.0)[axis];
    let (low, high) = chart
        .uvs
        .iter()
        .map(|&uv| along(uv))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        });
    let middle = f64::midpoint(low, high);
    let beyond = |corners: &[u32; 3]| {
        let sum: f64 = corners.iter().map(|&c| along(chart.uvs[c as usize])).sum();
        sum / 3.0 > middle
    };
    let mut sides: Vec<bool> = chart.triangles.iter().map(beyond).collect();
    let crumb = CRUMB * chart.area();
    for part in parts(chart, &sides) {
        let area: f64 = part.iter().map(|&t| chart.area_of(t)).sum();
        if area < crumb {
            part.iter()
                .for_each(|&t| sides[t as usize] = !sides[t as usize]);
        }
    }
    let parts = parts(chart, &sides);
    let mut owner = vec![0; piece.faces.len()];
    for (number, part) in parts.iter().enumerate() {
        part.iter().for_each(|&row| owner[row as usize] = number);
    }
    let of = |number| piece.part(|row| owner[row] == number);
    (parts.len() > 1).then(|| (0..parts.len()).map(of).collect())
}

/// The triangles of each part: those of one side that are connected by vertices.
fn parts(chart: &Chart, sides: &[bool]) -> Vec<Vec<u32>> {
    // Each vertex has a node for either side.
    let mut parents: Vec<u32> = (0..2 * chart.uvs.len() as u32).collect();
    let root = |mut vertex: u32, parents: &mut Vec<u32>| {
        while parents[vertex as usize] != vertex {
            let above = parents[parents[vertex as usize] as usize];
            parents[vertex as usize] = above;
            vertex = above;
        }
        vertex
    };
    let sided = |vertex: u32, side: bool| 2 * vertex + u32::from(side);
    for (&[a, b, c], &side) in chart.triangles.iter().zip(sides) {
        for other in [b, c] {
            let one = root(sided(a, side), &mut parents);
            let other = root(sided(other, side), &mut parents);
            parents[one.max(other) as usize] = one.min(other);
        }
    }
    let mut numbers = vec![usize::MAX; parents.len()];
    let mut parts: Vec<Vec<u32>> = Vec::new();
    for (triangle, (&[a, ..], &side)) in (0..).zip(chart.triangles.iter().zip(sides)) {
        let number = &mut numbers[root(sided(a, side), &mut parents) as usize];
        if *number == usize::MAX {
            *number = parts.len();
            parts.push(Vec::new());
        }
        parts[*number].push(triangle);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rotated strip of `columns` × 4 squares of edge 1.
    fn strip(columns: u32) -> Piece {
        let place = |k: u32| {
            let [x, y] = [k % (columns + 1), k / (columns + 1)].map(f64::from);
            [0.8 * x - 0.6 * y, 0.6 * x + 0.8 * y]
        };
        let cell = |k: u32| {
            let at = k / columns * (columns + 1) + k % columns;
            let above = at + columns + 1;
            [[at, at + 1, above + 1], [at, above + 1, above]]
        };
        let points: Vec<u32> = (0..5 * (columns + 1)).map(|k| 1000 + k).collect();
        Piece {
            chart: Chart {
                uvs: (0..points.len() as u32).map(place).collect(),
                triangles: (0..4 * columns).flat_map(cell).collect(),
            },
            faces: (0..8 * columns).map(|k| 7 * k).collect(),
            points,
        }
    }

    #[test]
    fn long_charts_are_cut_and_nothing_is_lost() {
        let pieces = vec![strip(40), strip(2)];
        let whole: f64 = pieces.iter().map(|piece| piece.chart.area()).sum();
        let mut faces: Vec<u32> = pieces
            .iter()
            .flat_map(|piece| piece.faces.clone())
            .collect();
        let parts = divide(pieces.clone(), 2);
        // A page has an edge of about (168 / 0.7)^½ / 2 = 7.7: the long strip in eight parts, the short one unchanged.
        assert_eq!(parts.len(), 9);
        assert!(parts.contains(&pieces[1]));
        for part in &parts {
            let [width, height] = part.chart.extent([0.8, -0.6]);
            assert!(width <= 7.0 && height < 4.001, "{width} {height}");
            for (corners, face) in part.chart.triangles.iter().zip(&part.faces) {
                let of = |piece: &&Piece| piece.faces.contains(face);
                let old = if part.faces.len() == 16 {
                    &pieces[1]
                } else {
                    pieces.iter().find(of).unwrap()
                };
                let at = old.faces.iter().position(|known| known == face).unwrap();
                let points =
                    |piece: &Piece, corners: &[u32; 3]| corners.map(|c| piece.points[c as usize]);
                assert_eq!(points(part, corners), points(old, &old.chart.triangles[at]));
            }
        }
        let left: f64 = parts.iter().map(|part| part.chart.area()).sum();
        assert!((left - whole).abs() < 1e-9);
        let mut found: Vec<u32> = parts.iter().flat_map(|part| part.faces.clone()).collect();
        faces.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, faces);
    }

    #[test]
    fn one_triangle_stays_however_large() {
        let piece = strip(1).part(|row| row == 0);
        assert_eq!(divide(vec![piece.clone()], 4), [piece]);
    }
}
