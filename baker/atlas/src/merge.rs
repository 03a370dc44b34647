//! Merges charts into fewer ones with shorter borders. Each chart is laid beside a neighbour on the surface, where it
//! fits without much stretch. Then borders move to where views see least ([`reroute`]). Both run twice, since a moved
//! border may admit what did not fit.
//!
//! Cutting by normals makes a chart of each rim and bevel, most of them a few texels small. Every border costs gutter,
//! and mips blend unrelated charts across it. The smallest chart is tried first, at the neighbours with which it shares
//! the longest borders. It is rotated to meet the border ([`relax::align`]) and relaxed with the border fixed
//! ([`relax::relax`]). It stays there if no triangle is flipped, little is stretched ([`relax::Limits`]), and the
//! outlines neither cross nor come closer than charts may ([`outline`]).
//!
//! The work is bounded by a count, never by time, so the result is the same on any machine.

mod border;
mod envelope;
mod outline;
mod relax;
mod reroute;

use std::collections::HashSet;

use self::border::{Border, Pair, Place};
use self::outline::Outline;
use self::reroute::Price;
use super::planar::neighbours;
use crate::input::Mesh;
use crate::piece::Piece;
use crate::work::unit;

/// Times that charts are merged and borders moved.
const PASSES: usize = 2;
/// Largest number of rounds over all charts. In each, charts that have grown may take what was too large for them.
const ROUNDS: usize = 6;
/// Neighbours at which a chart is tried per round.
const TRIED: usize = 3;
/// Total work for any mesh: sums of a relaxation, pairs of edges compared, and steps of the search for a border. A unit
/// takes one or two nanoseconds, so merging ends after two or three seconds.
const WORK: u64 = 1_500_000_000;
/// A chart with more than this share of the surface is not merged into another: merging larger ones packs worse, and
/// the fit lives on density. 0.01 and 0.1 cost 0.4 dB on spot, 0.003 nothing.
const LARGEST: f64 = 0.003;
/// A chart with less than this share of the surface may be stretched as far as [`relax::LOOSE`] allows, since it would
/// lose more as a chart of its own. flighthelmet's 783 charts became 423, its seams 56 instead of 83 diagonals long,
/// and it gained 0.1 dB.
const SMALL: f64 = 1e-3;
/// A shared border must have at least this share of the smaller chart's outline, or the result is long and loosely
/// attached.
const LEAST_SHARE: f64 = 0.15;
/// With so few charts there is little border, and density is worth more: merging spot's 38 charts to 29 lost a fiftieth
/// of its texels and 0.1 dB.
const FEW: usize = 64;

/// Merges charts of `mesh` and moves their borders. `cell` is the approximate edge of an atlas cell in the mesh's
/// units; `exposure` is as in [`Price::new`].
pub(super) fn merge(
    mesh: &Mesh<'_>,
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

/// A chart and its number of triangles, a neighbour, and a border by its first pair of vertices and its number of
/// pairs.
type Try = (u32, usize, u32, Pair, usize);

struct Merger<'a> {
    mesh: &'a Mesh<'a>,
    /// The face across each side of each face.
    neighbours: Vec<[u32; 3]>,
    /// Pieces merged into others are empty.
    pieces: Vec<Piece>,
    outlines: Vec<Outline>,
    areas: Vec<f64>,
    /// Area of all charts at the start.
    whole: f64,
    /// By face.
    places: Vec<Place>,
    cell: f64,
    work: u64,
    /// Where a chart did not fit. It will not, unless it or the border changes.
    refused: HashSet<Try>,
}

impl<'a> Merger<'a> {
    fn new(mesh: &'a Mesh<'a>, pieces: Vec<Piece>, cell: f64) -> Self {
        let mut places = vec![(u32::MAX, 0); mesh.triangles.len()];
        for (number, piece) in (0..).zip(&pieces) {
            for (row, &face) in (0..).zip(&piece.faces) {
                places[face as usize] = (number, row);
            }
        }
        Self {
            mesh,
            neighbours: neighbours(mesh.triangles),
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

    /// Tries every chart once, smallest first. Returns the number merged.
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

    /// Merges a chart into a neighbour at least as large, if it fits at one.
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

    /// The chart's coordinates beside its neighbour, if it fits there.
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
