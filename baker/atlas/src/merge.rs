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
mod ground;
mod outline;
mod places;
mod price;
mod relax;
mod reroute;

use std::collections::HashSet;

use rayon::prelude::*;

use self::border::{Border, Pair};
use self::ground::{Ground, Laid};
use self::price::Price;
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
    let price = Price::new(mesh, &merger.ground.neighbours, exposure);
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
    let pieces = merger.charts.into_iter().map(|laid| laid.piece);
    pieces.filter(|piece| !piece.faces.is_empty()).collect()
}

/// A chart and its number of triangles, a neighbour, and a border by its first pair of vertices and its number of
/// pairs.
type Try = (u32, usize, u32, Pair, usize);

struct Merger<'a> {
    ground: Ground<'a>,
    charts: Vec<Laid>,
    work: u64,
    /// Where a chart did not fit. It will not, unless it or the border changes.
    refused: HashSet<Try>,
}

impl<'a> Merger<'a> {
    fn new(mesh: &'a Mesh<'a>, pieces: Vec<Piece>, cell: f64) -> Self {
        let charts: Vec<Laid> = pieces.into_par_iter().map(Laid::new).collect();
        Self {
            ground: Ground::new(mesh, &charts, cell),
            charts,
            work: 0,
            refused: HashSet::new(),
        }
    }

    /// Tries every chart once, smallest first. Returns the number merged.
    fn round(&mut self) -> usize {
        let area = |own: u32| self.charts[own as usize].area;
        let mut order: Vec<u32> = (0..self.charts.len() as u32)
            .filter(|&k| !self.charts[k as usize].piece.faces.is_empty())
            .collect();
        order.sort_by(|&a, &b| area(a).total_cmp(&area(b)));
        let mut merged = 0;
        for own in order {
            let area = self.charts[own as usize].area;
            if area > LARGEST * self.ground.whole || self.work >= WORK {
                break;
            }
            merged += usize::from(self.place(own));
            unit();
        }
        merged
    }

    /// Merges a chart into a neighbour at least as large, if it fits at one.
    fn place(&mut self, own: u32) -> bool {
        let borders = self.ground.borders(own, &self.charts);
        let laid = &self.charts[own as usize];
        let (round, area, faces) = (laid.outline.length(), laid.area, laid.piece.faces.len());
        let worth = |border: &&Border| {
            self.charts[border.other as usize].area >= area && border.length >= LEAST_SHARE * round
        };
        let tried: Vec<&Border> = borders.iter().filter(worth).take(TRIED).collect();
        for border in tried {
            let this = (
                own,
                faces,
                border.other,
                border.pairs[0],
                border.pairs.len(),
            );
            if !self.refused.insert(this) {
                continue;
            }
            let [part, other] = [own, border.other].map(|chart| &self.charts[chart as usize]);
            let (uvs, work) = self.ground.fit(part, other, border);
            self.work += work;
            if let Some(uvs) = uvs {
                let part = std::mem::take(&mut self.charts[own as usize]);
                let into = &mut self.charts[border.other as usize];
                self.ground.join(part, &uvs, border, into);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
pub(super) mod tests;
