//! The surface beneath the charts: what is laid where, and whether a chart fits beside another.

use rayon::prelude::*;

use super::border::{self, Border, Pair};
use super::outline::{self, Outline};
use super::places::Places;
use super::relax;
use crate::input::Mesh;
use crate::pack::LEAST_GAP;
use crate::piece::Piece;
use crate::planar::neighbours;

/// A chart with less than this share of the surface may be stretched as far as [`relax::LOOSE`] allows, since it would
/// lose more as a chart of its own. flighthelmet's 783 charts became 423, its seams 56 instead of 83 diagonals long,
/// and it gained 0.1 dB.
const SMALL: f64 = 1e-3;

/// A chart with what is known of it. One that was merged into another is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Laid {
    pub(super) piece: Piece,
    pub(super) outline: Outline,
    pub(super) area: f64,
}

impl Laid {
    pub(super) fn new(piece: Piece) -> Self {
        Self {
            outline: Outline::of(&piece.chart),
            area: piece.chart.area(),
            piece,
        }
    }
}

pub(super) struct Ground<'a> {
    pub(super) mesh: &'a Mesh<'a>,
    /// The face across each side of each face.
    pub(super) neighbours: Vec<[u32; 3]>,
    /// The centre of each face.
    pub(super) middles: Vec<[f64; 3]>,
    pub(super) places: Places,
    /// Area of all charts at the start.
    pub(super) whole: f64,
    cell: f64,
}

impl<'a> Ground<'a> {
    pub(super) fn new(mesh: &'a Mesh<'a>, charts: &[Laid], cell: f64) -> Self {
        let places = Places::new(mesh.triangles.len());
        (charts.par_iter().enumerate())
            .for_each(|(number, laid)| places.enter(number as u32, &laid.piece));
        let middle = |corners: &[u32; 3]| {
            let at = corners.map(|corner| mesh.positions[corner as usize].map(f64::from));
            [0, 1, 2].map(|axis| (at[0][axis] + at[1][axis] + at[2][axis]) / 3.0)
        };
        Self {
            mesh,
            neighbours: neighbours(mesh.triangles),
            middles: mesh.triangles.par_iter().map(middle).collect(),
            places,
            whole: charts.iter().map(|laid| laid.area).sum(),
            cell,
        }
    }

    /// The neighbours of a face of a chart that are its neighbours there too, with the sides that they share.
    pub(super) fn beside<'p>(
        &'p self,
        (number, piece): (u32, &'p Piece),
        face: u32,
    ) -> impl Iterator<Item = (usize, u32)> + 'p {
        let triangles = &piece.chart.triangles;
        let corners = self.places.of(face).map(|(_, row)| triangles[row as usize]);
        let across = self.neighbours[face as usize];
        let is_beside = move |&(side, across): &(usize, u32)| {
            let (Some(corners), Some((chart, row))) = (corners, self.places.of(across)) else {
                return false;
            };
            chart == number
                && [side, (side + 1) % 3]
                    .iter()
                    .all(|&end| triangles[row as usize].contains(&corners[end]))
        };
        (0..3)
            .map(move |side| (side, across[side]))
            .filter(is_beside)
    }

    /// The borders of a chart with others, longest first.
    pub(super) fn borders(&self, own: u32, charts: &[Laid]) -> Vec<Border> {
        let other = |number: u32| {
            let laid = charts.get(number as usize).filter(|_| number != own)?;
            Some(&laid.piece)
        };
        let piece = &charts[own as usize].piece;
        border::found(piece, (&self.neighbours, &self.places), other)
    }

    /// The borders of a part of a chart with one other chart, longest first.
    pub(super) fn borders_with(&self, part: &Piece, (number, piece): (u32, &Piece)) -> Vec<Border> {
        let other = |other: u32| (other == number).then_some(piece);
        border::found(part, (&self.neighbours, &self.places), other)
    }

    /// A chart's coordinates at the border of another, if it fits there, and the work of finding out.
    pub(super) fn fit(
        &self,
        own: &Laid,
        other: &Laid,
        border: &Border,
    ) -> (Option<Vec<[f64; 2]>>, u64) {
        let (piece, there) = (&own.piece, &other.piece.chart);
        let mut held = vec![None; piece.points.len()];
        for &Pair { own, other } in &border.pairs {
            held[own as usize] = Some(there.uvs[other as usize]);
        }
        let rest = relax::rest(self.mesh, piece);
        let triangles = &piece.chart.triangles;
        let mut uvs = relax::align(&piece.chart.uvs, &held);
        let work = relax::relax(&rest, triangles, &held, &mut uvs);
        let limits = if own.area < SMALL * self.whole {
            relax::LOOSE
        } else {
            relax::TIGHT
        };
        let is_valid =
            relax::is_within(limits, &rest, triangles, &uvs) && relax::winds_once(triangles, &uvs);
        if !is_valid {
            return (None, work);
        }
        let (fits, more) = self.still_fits(&uvs, (own, other), border);
        (fits, work + more)
    }

    /// The coordinates of a chart at the border of another, if it keeps its distance there, and the work of finding out.
    pub(super) fn still_fits(
        &self,
        uvs: &[[f64; 2]],
        (own, other): (&Laid, &Laid),
        border: &Border,
    ) -> (Option<Vec<[f64; 2]>>, u64) {
        let (outer, inner) = (&other.outline, &own.outline);
        let work = outer.edges.len() as u64 * inner.edges.len() as u64;
        let outer = (outer, &other.piece.chart.uvs[..]);
        let is_free = outline::is_free(outer, (inner, uvs), border, self.gap());
        (is_free.then(|| uvs.to_vec()), work)
    }

    /// Distance that charts keep, in units of the mesh.
    pub(super) fn gap(&self) -> f64 {
        LEAST_GAP as f64 * self.cell
    }

    /// Makes a chart part of another, at these coordinates.
    pub(super) fn join(&self, part: Laid, uvs: &[[f64; 2]], border: &Border, into: &mut Laid) {
        let Laid {
            piece: part,
            outline,
            area,
        } = part;
        let piece = &mut into.piece;
        let mut numbers = vec![u32::MAX; part.points.len()];
        for pair in &border.pairs {
            numbers[pair.own as usize] = pair.other;
        }
        for (vertex, number) in numbers.iter_mut().enumerate() {
            if *number == u32::MAX {
                *number = piece.points.len() as u32;
                piece.points.push(part.points[vertex]);
                piece.chart.uvs.push(uvs[vertex]);
            }
        }
        for (&face, corners) in part.faces.iter().zip(&part.chart.triangles) {
            self.places
                .set(face, (border.other, piece.faces.len() as u32));
            piece.faces.push(face);
            let corners = corners.map(|corner| numbers[corner as usize]);
            piece.chart.triangles.push(corners);
        }
        into.outline.take(outline, &numbers, border, &piece.chart);
        into.area += area;
    }
}
