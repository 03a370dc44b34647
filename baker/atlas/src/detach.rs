//! Cuts parts that no view sees off partly seen charts. [`super::budget`] makes them smaller.
//!
//! The cut lies some triangles away from the nearest seen one, where nobody looks. It is made where it saves more
//! texels than its gutter costs.

use rayon::prelude::*;

use super::budget::{EDGE, SMALLEST};
use super::planar::neighbours;
use crate::piece::Piece;

/// Triangles between the seen ones and the cut: small ones may fall between pixels.
const RINGS: u32 = 2;
/// Cells along a cut that its gutter takes, and as many again to make it worthwhile.
const GUTTER: f64 = 12.0;
/// A part counts as unseen if less than this share of it is seen.
const SEEN: f64 = 0.02;

/// Divides the charts of a surface of this `area`. `resolved` holds the pixel density of each triangle, 0 where unseen,
/// and `cell` is the approximate edge of an atlas cell in the charts' units. Nothing changes where no view is known.
pub(super) fn detach(pieces: Vec<Piece>, resolved: &[f64], (area, cell): (f64, f64)) -> Vec<Piece> {
    if resolved.iter().all(|&pixels| pixels <= 0.0) {
        return pieces;
    }
    let divided = |piece: Piece| {
        let parts = unseen_parts(&piece, resolved, SMALLEST * area, cell);
        if parts.is_empty() {
            return (piece, Vec::new());
        }
        let mut owner = vec![0; piece.faces.len()];
        for (number, part) in (1..).zip(&parts) {
            part.iter().for_each(|&row| owner[row as usize] = number);
        }
        let part = |number| piece.part(|row| owner[row] == number);
        (part(0), (1..=parts.len()).map(part).collect())
    };
    let all: Vec<(Piece, Vec<Piece>)> = pieces.into_par_iter().map(divided).collect();
    let (mut kept, unseen): (Vec<Piece>, Vec<Vec<Piece>>) = all.into_iter().unzip();
    kept.extend(unseen.into_iter().flatten());
    kept
}

/// The parts of a chart to cut off, each as a sorted list of its triangles.
fn unseen_parts(piece: &Piece, resolved: &[f64], smallest: f64, cell: f64) -> Vec<Vec<u32>> {
    let count = piece.faces.len();
    let beside = neighbours(&piece.chart.triangles);
    let around = |row: u32| {
        beside[row as usize]
            .into_iter()
            .filter(|&row| row != u32::MAX)
    };
    let is_seen = |row: u32| {
        let pixels = resolved.get(piece.faces[row as usize] as usize);
        pixels.is_some_and(|&pixels| pixels > 0.0)
    };
    let seen_area = |row: u32| {
        if is_seen(row) {
            piece.chart.area_of(row)
        } else {
            0.0
        }
    };
    // Distance to the nearest seen triangle in triangles, capped at one more than needed.
    let mut away = vec![RINGS + 1; count];
    let mut queue: Vec<u32> = Vec::new();
    for row in (0..count as u32).filter(|&row| is_seen(row)) {
        away[row as usize] = 0;
        queue.push(row);
    }
    if queue.is_empty() {
        return Vec::new();
    }
    let mut at = 0;
    while at < queue.len() {
        let row = queue[at];
        at += 1;
        for other in around(row) {
            if away[other as usize] > away[row as usize] + 1 {
                away[other as usize] = away[row as usize] + 1;
                queue.push(other);
            }
        }
    }
    let mut left: Vec<bool> = away.iter().map(|&rings| rings <= RINGS).collect();
    let mut stays = vec![true; count];
    let mut parts = Vec::new();
    for first in 0..count as u32 {
        let part = grow(first, &mut left, around);
        if part.is_empty() {
            continue;
        }
        let Some(part) = with_islands(part, &stays, around, seen_area) else {
            continue;
        };
        let area: f64 = part.iter().map(|&row| piece.chart.area_of(row)).sum();
        let cut = cut_length(piece, &part, &beside);
        let saved = area * (1.0 - EDGE * EDGE);
        let seen: f64 = part.iter().map(|&row| seen_area(row)).sum();
        if area < smallest || seen >= SEEN * area || saved < GUTTER * cell * cut {
            continue;
        }
        for &row in &part {
            stays[row as usize] = false;
            left[row as usize] = true;
        }
        parts.push(part);
    }
    parts
}

/// Extends a part by everything of the chart that it would disconnect from the rest; the rest is the component of which
/// most is seen. None where nothing would be left.
fn with_islands<I: Iterator<Item = u32>>(
    mut part: Vec<u32>,
    stays: &[bool],
    around: impl Fn(u32) -> I + Copy,
    seen_area: impl Fn(u32) -> f64,
) -> Option<Vec<u32>> {
    let mut met: Vec<bool> = stays.iter().map(|&stays| !stays).collect();
    part.iter().for_each(|&row| met[row as usize] = true);
    let mut pieces: Vec<(f64, Vec<u32>)> = Vec::new();
    for first in 0..stays.len() as u32 {
        let piece = grow(first, &mut met, around);
        if !piece.is_empty() {
            pieces.push((piece.iter().map(|&row| seen_area(row)).sum(), piece));
        }
    }
    let most = (0..pieces.len()).max_by(|&k, &l| pieces[k].0.total_cmp(&pieces[l].0))?;
    pieces.swap_remove(most);
    pieces.into_iter().for_each(|(_, piece)| part.extend(piece));
    part.sort_unstable();
    Some(part)
}

/// The connected component of a triangle among those not yet `met`; marks them.
fn grow<I: Iterator<Item = u32>>(
    first: u32,
    met: &mut [bool],
    around: impl Fn(u32) -> I,
) -> Vec<u32> {
    if std::mem::replace(&mut met[first as usize], true) {
        return Vec::new();
    }
    let mut part = vec![first];
    let mut at = 0;
    while at < part.len() {
        for other in around(part[at]) {
            if !std::mem::replace(&mut met[other as usize], true) {
                part.push(other);
            }
        }
        at += 1;
    }
    part.sort_unstable();
    part
}

/// Length of the border between a part of a chart and the rest, in the chart's units.
fn cut_length(piece: &Piece, part: &[u32], beside: &[[u32; 3]]) -> f64 {
    let mut length = 0.0;
    for &row in part {
        let corners = piece.chart.triangles[row as usize];
        for (side, &other) in beside[row as usize].iter().enumerate() {
            if other != u32::MAX && part.binary_search(&other).is_err() {
                let [a, b] = [corners[side], corners[(side + 1) % 3]]
                    .map(|corner| piece.chart.uvs[corner as usize]);
                length += (a[0] - b[0]).hypot(a[1] - b[1]);
            }
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::super::merge::tests::squares;
    use super::super::planar::cut;
    use super::*;

    /// A plane of 20 × 20 squares as one chart whose columns below `seen` are seen.
    fn plane(seen: f32, cell: f64) -> Vec<Piece> {
        let mesh = squares(20, 20, |x, y| [x, y, 0.0]);
        let resolved: Vec<f64> = (mesh.triangles.iter())
            .map(|corners| {
                let left = corners.map(|corner| mesh.positions[corner as usize][0]);
                f64::from(u8::from(left.iter().all(|&x| x <= seen)))
            })
            .collect();
        let pieces = cut(&mesh);
        assert_eq!(pieces.len(), 1);
        let parts = detach(pieces, &resolved, (400.0, cell));
        let mut faces: Vec<u32> = parts.iter().flat_map(|piece| piece.faces.clone()).collect();
        faces.sort_unstable();
        assert_eq!(faces, (0..800).collect::<Vec<u32>>(), "each once");
        parts
    }

    #[test]
    fn what_no_view_sees_is_cut_off_behind_what_they_see() {
        let parts = plane(8.0, 0.05);
        let areas: Vec<f64> = parts.iter().map(|piece| piece.chart.area()).collect();
        assert_eq!(areas.len(), 2);
        assert!((areas[0] + areas[1] - 400.0).abs() < 1e-6);
        // Two triangles make a square: one column between.
        assert!((areas[1] - 220.0).abs() < 1e-6, "{areas:?}");
    }

    #[test]
    fn what_saves_less_than_its_gutter_stays() {
        assert_eq!(plane(8.0, 1.5).len(), 1, "large cells");
        assert_eq!(plane(18.0, 0.2).len(), 1, "a column");
        assert_eq!(plane(20.0, 0.05).len(), 1, "all is seen");
        assert_eq!(plane(-1.0, 0.05).len(), 1, "nothing is");
    }

    #[test]
    fn what_is_hardly_seen_goes_with_what_is_not() {
        let mesh = squares(20, 20, |x, y| [x, y, 0.0]);
        // Left of 4, and one triangle at (14, 14).
        let resolved: Vec<f64> = (mesh.triangles.iter())
            .map(|corners| {
                let all = corners.map(|corner| mesh.positions[corner as usize]);
                let left = all.iter().all(|at| at[0] <= 4.0);
                let alone = all[0] == [14.0, 14.0, 0.0] && all[1][1] == 14.0;
                f64::from(u8::from(left || alone))
            })
            .collect();
        assert_eq!(resolved.iter().sum::<f64>(), 161.0);
        let areas: Vec<f64> = (detach(cut(&mesh), &resolved, (400.0, 0.05)).iter())
            .map(|piece| piece.chart.area())
            .collect();
        assert_eq!(areas.len(), 2, "{areas:?}");
        assert!((areas[0] - 100.0).abs() < 1e-6, "{areas:?}");
    }

    #[test]
    fn no_chart_falls_apart() {
        let mesh = squares(20, 4, |x, y| [x, y, 0.0]);
        // Both ends are seen, the middle is not.
        let resolved: Vec<f64> = (mesh.triangles.iter())
            .map(|corners| {
                let x = mesh.positions[corners[0] as usize][0];
                f64::from(u8::from(!(3.0..17.0).contains(&x)))
            })
            .collect();
        assert_eq!(detach(cut(&mesh), &resolved, (80.0, 0.01)).len(), 1);
    }
}
