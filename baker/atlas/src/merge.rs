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
//! Charts are tried side by side, a fixed number at once, and those that fit are laid one after the other. Where a chart
//! that came first may be in the way, it is tried again with the next ones. So the result does not depend on the number
//! of threads. The work is bounded by a count, never by time.

mod border;
mod envelope;
mod ground;
mod outline;
mod places;
mod price;
mod relax;
mod reroute;

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use self::border::{Border, Pair};
use self::ground::{Ground, Laid};
use self::outline::Bounds;
use self::price::Price;
use crate::input::Mesh;
use crate::piece::Piece;
use crate::work::{Listener, step, unit};

/// Times that charts are merged and borders moved.
const PASSES: usize = 2;
/// Largest number of rounds over all charts. In each, charts that have grown may take what was too large for them.
const ROUNDS: usize = 6;
/// Neighbours at which a chart is tried per round.
const TRIED: usize = 3;
/// Charts that are tried at once.
const BATCH: usize = 256;
/// Total work for any mesh: sums of a relaxation, pairs of edges compared, and steps of the search for a border. A unit
/// takes one or two nanoseconds of one core, so merging ends after three to six seconds there, and after half a second on
/// sixteen. With half of it, a mesh of TRELLIS cut to 982,432 triangles keeps 1,391 charts.
const WORK: u64 = 3_000_000_000;
/// Work of looking at a chart's borders, whether or not it fits anywhere: what tens of thousands of crumbs of a noisy
/// surface cost.
const ATTEMPT: u64 = 10_000;
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
    (cell, exposure): (f64, &[f64]),
    listener: &dyn Listener,
) -> Vec<Piece> {
    let rounds = if pieces.len() > FEW { ROUNDS } else { 0 };
    let ground = || Merger::new(mesh, pieces, cell);
    let mut merger = step(listener, "ground", ground);
    let price = || Price::new(mesh, &merger.ground.neighbours, exposure);
    let price = step(listener, "price", price);
    for _ in 0..PASSES {
        step(listener, "merge", || {
            for _ in 0..rounds {
                if merger.round() == 0 || merger.work >= WORK {
                    break;
                }
            }
        });
        if step(listener, "reroute", || merger.reroute(&price)) == 0 {
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

/// A chart that waits to be tried, and where it fitted when another chart came first.
#[derive(Clone, Debug)]
struct Waiting {
    own: u32,
    fitted: Option<(Try, Vec<[f64; 2]>)>,
}

/// What became of a chart that was tried.
#[derive(Default)]
struct Tried {
    /// Where it does not fit.
    refused: Vec<Try>,
    /// Where it does: its coordinates there.
    fits: Option<(Try, Border, Vec<[f64; 2]>)>,
    work: u64,
}

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
            .filter(|&own| self.is_tried(own))
            .collect();
        order.sort_by(|&a, &b| area(a).total_cmp(&area(b)));
        let mut order = order.into_iter().map(|own| Waiting { own, fitted: None });
        let (mut merged, mut batch) = (0, Vec::new());
        loop {
            batch.extend(order.by_ref().take(BATCH - batch.len()));
            if batch.is_empty() || self.work >= WORK {
                return merged;
            }
            let tried: Vec<Tried> = (batch.par_iter().with_max_len(1))
                .map(|waiting| match self.is_tried(waiting.own) {
                    true => self.attempt(waiting),
                    false => Tried::default(),
                })
                .collect();
            merged += self.settle(&mut batch, tried);
        }
    }

    /// Whether a chart is there, and small enough to be merged into another.
    fn is_tried(&self, own: u32) -> bool {
        let laid = &self.charts[own as usize];
        !laid.piece.faces.is_empty() && laid.area <= LARGEST * self.ground.whole
    }

    /// Looks for a neighbour at least as large at which a chart fits.
    fn attempt(&self, waiting: &Waiting) -> Tried {
        let own = waiting.own;
        let mut tried = Tried {
            work: ATTEMPT,
            ..Tried::default()
        };
        let laid = &self.charts[own as usize];
        let (round, area, faces) = (laid.outline.length(), laid.area, laid.piece.faces.len());
        let worth = |border: &Border| {
            self.charts[border.other as usize].area >= area && border.length >= LEAST_SHARE * round
        };
        let borders = self.ground.borders(own, &self.charts);
        for border in borders.into_iter().filter(worth).take(TRIED) {
            let (pair, count) = (border.pairs[0], border.pairs.len());
            let this = (own, faces, border.other, pair, count);
            if self.refused.contains(&this) {
                continue;
            }
            let other = &self.charts[border.other as usize];
            let (uvs, work) = match &waiting.fitted {
                Some((known, uvs)) if *known == this => {
                    self.ground.still_fits(uvs, (laid, other), &border)
                }
                _ => self.ground.fit(laid, other, &border),
            };
            tried.work += work;
            unit();
            if let Some(uvs) = uvs {
                tried.fits = Some((this, border, uvs));
                break;
            }
            tried.refused.push(this);
        }
        tried
    }

    /// Merges the charts that fit, in order, and returns their number. A chart waits on in `batch` if another one that
    /// came first was laid to it, or so near to its place that it may not fit beside that one, or took its place away.
    fn settle(&mut self, batch: &mut Vec<Waiting>, tried: Vec<Tried>) -> usize {
        // The place of each chart that was laid, by the chart that it is part of now.
        let mut laid: HashMap<u32, Vec<Bounds>> = HashMap::new();
        let gap = self.ground.gap();
        let mut merged = 0;
        for (waiting, tried) in std::mem::take(batch).into_iter().zip(tried) {
            let own = waiting.own;
            self.work += tried.work;
            self.refused.extend(tried.refused);
            let Some((this, border, uvs)) = tried.fits else {
                continue;
            };
            let bounds = outline::bounds(&uvs);
            let there = laid.get(&border.other).map_or(&[][..], Vec::as_slice);
            let is_near = |other: &Bounds| outline::are_near(&bounds, other, gap);
            let has_grown = laid.contains_key(&own);
            let is_gone = self.charts[border.other as usize].piece.faces.is_empty();
            if has_grown || is_gone || there.iter().any(is_near) {
                let fitted = (!has_grown).then_some((this, uvs));
                batch.push(Waiting { own, fitted });
                continue;
            }
            self.refused.insert(this);
            let part = std::mem::take(&mut self.charts[own as usize]);
            let into = &mut self.charts[border.other as usize];
            self.ground.join(part, &uvs, &border, into);
            laid.entry(border.other).or_default().push(bounds);
            merged += 1;
        }
        merged
    }
}

#[cfg(test)]
pub(super) mod tests;
