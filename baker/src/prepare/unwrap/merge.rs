//! Charts → fewer charts with shorter borders: each is laid beside a neighbour on the surface, where it fits there without much
//! stretch, and borders move to where views see least ([`reroute`]); then once more, since a border that has moved may let
//! through what did not fit.
//!
//! Whoever cuts by normals makes a chart of each rim and bevel, most of them a few texels small; every border of a chart costs
//! gutter, and its mips blend charts that have nothing to do with each other. The smallest chart is tried first, at the
//! neighbours with which it shares the longest borders: turned so that it meets the border ([`relax::align`]), relaxed with
//! the border held ([`relax::relax`]), and kept there if nothing is turned over, little is stretched ([`relax::Limits`])
//! and the outlines neither cross nor come nearer to each other than charts may ([`outline`]).
//!
//! The work is bounded by a count, never by time: the same charts give the same charts on any machine.

mod border;
mod outline;
mod relax;
mod reroute;

use std::collections::HashSet;

use self::border::{Border, Pair};
use self::outline::Outline;
use self::reroute::Price;
use super::Piece;
use super::planar::neighbours;
use crate::prepare::clean::CleanMesh;
use crate::progress::unit;

/// Times that charts are merged, and their borders moved.
const PASSES: usize = 2;
/// Rounds over all charts at most: in each, those that have grown may take what was too large for them.
const ROUNDS: usize = 6;
/// Neighbours at which a chart is tried in a round.
const TRIED: usize = 3;
/// Work in all, whatever the mesh: products of a relaxation, and pairs of edges that are compared.
const WORK: u64 = 1_500_000_000;
/// A chart with more of the surface than this stays what it is: what is made of larger ones packs worse, and the fit lives
/// on density. 0.01 and 0.1 cost 0.4 dB on spot, 0.003 nothing.
const LARGEST: f64 = 0.003;
/// A chart with less of the surface than this may be stretched as far as [`relax::LOOSE`] says: what it would lose as a chart of
/// its own is more. Of flighthelmet's 783 charts 423 were left, of 83 diagonals of seams 56, and 0.1 dB was gained.
const SMALL: f64 = 1e-3;
/// A border holds at least this share of the smaller chart's outline, or what is made is long and loose.
const LEAST_SHARE: f64 = 0.15;
/// So few charts have little border, and density is worth more: spot's 38 became 29, a fiftieth of its texels were lost, and
/// 0.1 dB.
const FEW: usize = 64;

/// Merges charts of `mesh`, and moves their borders; `cell` is the edge of a cell of the atlas in its units, about, and
/// `exposure` as in [`Price::new`].
pub(super) fn merge(
    mesh: &CleanMesh,
    pieces: Vec<Piece>,
    cell: f64,
    exposure: &[f64],
) -> Vec<Piece> {
    let rounds = if pieces.len() > FEW { ROUNDS } else { 0 };
    let mut merger = Merger::new(mesh, pieces, cell);
    let price = Price::new(mesh, exposure);
    for _ in 0..PASSES {
        for _ in 0..rounds {
            if merger.round() == 0 || merger.work >= WORK {
                break;
            }
        }
        if merger.reroute(&price) == 0 {
            break;
        }
        merger.refused.clear();
    }
    merger.pieces.retain(|piece| !piece.faces.is_empty());
    merger.pieces
}

/// A chart and its number of triangles, a neighbour, and a border by its first vertices and how many it has.
type Try = (u32, usize, u32, Pair, usize);

/// Of which piece a face is, and which of its triangles.
type Place = (u32, u32);

struct Merger<'a> {
    mesh: &'a CleanMesh,
    /// Across each side of each face.
    neighbours: Vec<[u32; 3]>,
    /// Those that were merged into others are empty.
    pieces: Vec<Piece>,
    outlines: Vec<Outline>,
    areas: Vec<f64>,
    /// Of all charts, as they came.
    whole: f64,
    /// Of each face.
    places: Vec<Place>,
    cell: f64,
    work: u64,
    /// Where a chart did not fit: it will not unless it, or the border, is another.
    refused: HashSet<Try>,
}

impl<'a> Merger<'a> {
    fn new(mesh: &'a CleanMesh, pieces: Vec<Piece>, cell: f64) -> Self {
        let mut places = vec![(u32::MAX, 0); mesh.triangles.len()];
        for (number, piece) in (0..).zip(&pieces) {
            for (row, &face) in (0..).zip(&piece.faces) {
                places[face as usize] = (number, row);
            }
        }
        Self {
            mesh,
            neighbours: neighbours(&mesh.triangles),
            outlines: pieces
                .iter()
                .map(|piece| Outline::of(&piece.chart))
                .collect(),
            areas: pieces.iter().map(|piece| piece.chart.area()).collect(),
            whole: pieces.iter().map(|piece| piece.chart.area()).sum(),
            pieces,
            places,
            cell,
            work: 0,
            refused: HashSet::new(),
        }
    }

    /// Tries every chart once, the smallest first. How many were merged.
    fn round(&mut self) -> usize {
        let mut order: Vec<u32> = (0..self.pieces.len() as u32)
            .filter(|&k| !self.pieces[k as usize].faces.is_empty())
            .collect();
        order.sort_by(|&a, &b| self.areas[a as usize].total_cmp(&self.areas[b as usize]));
        let mut merged = 0;
        for own in order {
            if self.areas[own as usize] > LARGEST * self.whole || self.work >= WORK {
                break;
            }
            merged += usize::from(self.place(own));
            unit();
        }
        merged
    }

    /// Merges a chart into a neighbour that is as large at least, if it fits at one.
    fn place(&mut self, own: u32) -> bool {
        let borders = border::borders(own, &self.pieces, &self.places, &self.neighbours);
        let round = self.outlines[own as usize].length();
        let area = self.areas[own as usize];
        let worth = |border: &&Border| {
            self.areas[border.other as usize] >= area && border.length >= LEAST_SHARE * round
        };
        let tried: Vec<&Border> = borders.iter().filter(worth).take(TRIED).collect();
        for border in tried {
            let number = self.pieces[own as usize].faces.len();
            let first = border.pairs[0];
            let this = (own, number, border.other, first, border.pairs.len());
            if !self.refused.insert(this) {
                continue;
            }
            if let Some(uvs) = self.fit(own, border) {
                self.join(own, border, &uvs);
                return true;
            }
        }
        false
    }

    /// The chart's coordinates beside its neighbour's, if it fits there.
    fn fit(&mut self, own: u32, border: &Border) -> Option<Vec<[f64; 2]>> {
        let other = &self.pieces[border.other as usize].chart;
        let piece = &self.pieces[own as usize];
        let mut held = vec![None; piece.points.len()];
        for &Pair { own, other: there } in &border.pairs {
            held[own as usize] = Some(other.uvs[there as usize]);
        }
        let rest = relax::rest(self.mesh, piece);
        let mut uvs = relax::align(&piece.chart.uvs, &held);
        self.work += relax::relax(&rest, &piece.chart.triangles, &held, &mut uvs);
        let limits = if self.areas[own as usize] < SMALL * self.whole {
            relax::LOOSE
        } else {
            relax::TIGHT
        };
        if !relax::is_within(limits, &rest, &piece.chart.triangles, &uvs) {
            return None;
        }
        let [outer, inner] = [border.other, own].map(|k| &self.outlines[k as usize]);
        self.work += outer.edges.len() as u64 * inner.edges.len() as u64;
        outline::is_free((outer, &other.uvs), (inner, &uvs), border, self.cell).then_some(uvs)
    }

    fn join(&mut self, own: u32, border: &Border, uvs: &[[f64; 2]]) {
        let part = std::mem::take(&mut self.pieces[own as usize]);
        let outline = std::mem::take(&mut self.outlines[own as usize]);
        let piece = &mut self.pieces[border.other as usize];
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
            self.places[face as usize] = (border.other, piece.faces.len() as u32);
            piece.faces.push(face);
            let corners = corners.map(|corner| numbers[corner as usize]);
            piece.chart.triangles.push(corners);
        }
        self.outlines[border.other as usize].take(outline, &numbers, border, &piece.chart);
        self.areas[border.other as usize] += std::mem::take(&mut self.areas[own as usize]);
    }
}

#[cfg(test)]
pub(super) mod tests;
