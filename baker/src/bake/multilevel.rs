//! Residuals → a correction on all scales at once: what conjugate gradients are preconditioned with beside the diagonal.
//!
//! Where pixels hold the texels, the diagonal does: rows are means over a few texels, so what is smooth converges first. Where
//! no pixel does, links alone carry colours, one texel an iteration, and a hole of a hundred texels is not filled when the
//! iterations end. So the texels that are held by their links more than by rows are corrected on levels of 2, 4 and 8 texels as
//! well (multilevel diagonal scaling: Bramble, Pasciak and Xu, "Parallel multilevel preconditioners", 1990; Zhang, "Multilevel
//! Schwarz methods", 1992):
//!
//! ```text
//!   z_i  =  r_i / D_i  +  s_i (P₁ y₁)_i        y_l  =  R_l r / (8 M_l + γ_l T_l)  +  P_l+1 y_l+1
//!   s    share of a texel: 4 λ / D, which is ties / (ties + rows) of its diagonal; 1 at most
//!   P    prolongation: of the first level the cell that a texel lies in, else bilinear; R its transpose, with s
//!   M    R of each texel's mass: s times its diagonal's part of rows, and what ties of unlike shares hold
//!   T    R of its links times both their shares: half of it at the first level, then a quarter of the level before
//! ```
//!
//! With it 14 iterations in place of 34 come to 51.8 dB in place of 51.6 on the helmet's set, 50.9 in place of 50.7 with
//! occluders (their worst view 40.0 for 37.6), 61.5 for 61.2 on the hemisphere's, and to the same where all is seen. Levels for
//! all texels alike cost 0.15 dB on the statue's set; mass that counts s² and twice, 0.3 on small views, whose texels then follow
//! what no pixel tells; boxes on all levels, which the host and a GPU would sum at once, gained half as much; six levels no more
//! than three.
//!
//! Native twin of multilevel.wgsl.

use rayon::prelude::*;

use super::normal::Sums;
use crate::progress::ticking;

/// Levels, of cells of 2, 4 and 8 texels squared.
pub(super) const LEVELS: u32 = 3;
/// What mass counts in a cell's divisor, and from the second level on its stiffness: the diagonals of a cell's bilinear hat.
const MASS: f32 = 8.0;
const STIFFNESS: f32 = 0.5;
/// Texels and cells that one thread takes at once.
const BLOCK: usize = 1 << 10;

/// Cells of all levels over so many texels across and down.
#[must_use]
pub(super) fn cells(texels: [usize; 2]) -> usize {
    let mut size = texels;
    let level = |_| {
        size = size.map(|edge| edge.div_ceil(2));
        size[0] * size[1]
    };
    (0..LEVELS).map(level).sum()
}

/// What holds a texel, by channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// How much the levels take part in it.
    pub(super) share: [f32; 3],
    pub(super) mass: [f32; 3],
    pub(super) stiffness: [f32; 3],
}

/// How much the levels take part in a texel of this λ and diagonal. (Rounded to 8 bits, it made other bytes of sums that
/// differ in their last.)
pub(super) fn share(lambda: f32, diagonal: f32) -> f32 {
    if diagonal > 0.0 {
        (4.0 * lambda / diagonal).min(1.0)
    } else {
        0.0
    }
}

#[derive(Debug)]
struct Level {
    /// Cells across and down.
    size: [usize; 2],
    values: Sums,
    inverses: Sums,
}

/// The levels of a matrix.
#[derive(Debug, Default)]
pub(super) struct Multilevel {
    across: usize,
    shares: Sums,
    levels: Vec<Level>,
}

impl Multilevel {
    /// `hold` is of each texel, of which there are `across` in a row.
    pub(super) fn new(across: usize, texels: usize, hold: impl Fn(usize) -> Hold + Sync) -> Self {
        let four = |[r, g, b]: [f32; 3]| [r, g, b, 0.0];
        let (shares, held): (Sums, Vec<(Numbers, Numbers)>) = ticking((0..texels).into_par_iter())
            .with_min_len(BLOCK)
            .map(|texel| {
                let hold = hold(texel);
                (four(hold.share), (four(hold.mass), four(hold.stiffness)))
            })
            .unzip();
        let (mut mass, mut stiffness): (Sums, Sums) = held.into_par_iter().unzip();
        let mut size = [across, texels / across.max(1)];
        let mut levels: Vec<Level> = Vec::new();
        for level in 0..LEVELS {
            let coarser = size.map(|edge| edge.div_ceil(2));
            let restricted = |fine: &Sums| match level {
                0 => boxes(size, |texel| fine[texel]),
                _ => restrict(size, fine),
            };
            let (part, factor) = if level == 0 {
                (0.5, 1.0)
            } else {
                (0.25, STIFFNESS)
            };
            mass = restricted(&mass);
            stiffness = restricted(&stiffness);
            ticking(stiffness.par_iter_mut()).for_each(|sum| *sum = sum.map(|x| part * x));
            let inverse = |(mass, stiffness): (&Numbers, &Numbers)| -> Numbers {
                std::array::from_fn(|c| {
                    let sum = MASS * mass[c] + factor * stiffness[c];
                    if sum > 0.0 { 1.0 / sum } else { 0.0 }
                })
            };
            levels.push(Level {
                size: coarser,
                values: vec![[0.0; 4]; coarser[0] * coarser[1]],
                inverses: ticking(mass.par_iter())
                    .zip(&stiffness)
                    .map(inverse)
                    .collect(),
            });
            size = coarser;
        }
        Self {
            across,
            shares,
            levels,
        }
    }

    /// z of the residuals r.
    pub(super) fn precondition(&mut self, r: &Sums, diagonal: &Sums) -> Sums {
        let mut size = [self.across, r.len() / self.across.max(1)];
        for level in 0..self.levels.len() {
            let values = match level.checked_sub(1) {
                None => boxes(size, |texel| {
                    std::array::from_fn(|c| self.shares[texel][c] * r[texel][c])
                }),
                Some(before) => restrict(size, &self.levels[before].values),
            };
            self.levels[level].values = values;
            size = self.levels[level].size;
        }
        for level in (0..self.levels.len()).rev() {
            let (own, coarser) = self.levels.split_at_mut(level + 1);
            let (own, coarser) = (&mut own[level], coarser.first());
            let across = own.size[0];
            ticking(own.values.par_iter_mut())
                .zip(&own.inverses)
                .enumerate()
                .with_min_len(BLOCK)
                .for_each(|(cell, (value, inverse))| {
                    let above = coarser.map_or([0.0; 4], |coarser| {
                        coarser.prolonged([cell % across, cell / across])
                    });
                    *value = std::array::from_fn(|c| {
                        if inverse[c] > 0.0 {
                            inverse[c] * value[c] + above[c]
                        } else {
                            0.0
                        }
                    });
                });
        }
        let across = self.across;
        let cell = |texel: usize| match self.levels.first() {
            Some(first) => first.values[texel / across / 2 * first.size[0] + texel % across / 2],
            None => [0.0; 4],
        };
        ticking(r.par_iter())
            .zip(diagonal)
            .zip(&self.shares)
            .enumerate()
            .with_min_len(BLOCK)
            .map(|(texel, ((r, d), share))| {
                let above = cell(texel);
                std::array::from_fn(|c| {
                    if d[c] > 0.0 {
                        r[c] / d[c] + share[c] * above[c]
                    } else {
                        0.0
                    }
                })
            })
            .collect()
    }
}

/// By channel.
type Numbers = [f32; 4];

/// Texels → sums over the cells of the first level.
fn boxes([width, height]: [usize; 2], of: impl Fn(usize) -> Numbers + Sync) -> Sums {
    let (across, down) = (width.div_ceil(2), height.div_ceil(2));
    ticking((0..across * down).into_par_iter())
        .with_min_len(BLOCK)
        .map(|cell| {
            let [left, top] = [cell % across * 2, cell / across * 2];
            let mut sum = [0.0; 4];
            for y in top..(top + 2).min(height) {
                for x in left..(left + 2).min(width) {
                    add(&mut sum, 1.0, of(y * width + x));
                }
            }
            sum
        })
        .collect()
}

/// Of the two cells that a place has a share of along an axis, the one that it does not lie in; at the border, where there is
/// none, its own.
fn beside(place: usize, cells: usize) -> usize {
    if place.is_multiple_of(2) {
        (place / 2).saturating_sub(1)
    } else {
        (place / 2 + 1).min(cells - 1)
    }
}

/// A place's share of a cell along an axis.
fn share_along(place: usize, cell: usize, cells: usize) -> f32 {
    let own = if place / 2 == cell { 0.75 } else { 0.0 };
    own + if beside(place, cells) == cell {
        0.25
    } else {
        0.0
    }
}

/// Numbers of one level → sums over the cells of the next.
fn restrict([width, height]: [usize; 2], fine: &Sums) -> Sums {
    let (across, down) = (width.div_ceil(2), height.div_ceil(2));
    let near = |cell: usize, edge: usize| (2 * cell).saturating_sub(1)..(2 * cell + 3).min(edge);
    ticking((0..across * down).into_par_iter())
        .with_min_len(BLOCK)
        .map(|cell| {
            let [column, row] = [cell % across, cell / across];
            let mut sum = [0.0; 4];
            for y in near(row, height) {
                let share = share_along(y, row, down);
                for x in near(column, width) {
                    let share = share * share_along(x, column, across);
                    add(&mut sum, share, fine[y * width + x]);
                }
            }
            sum
        })
        .collect()
}

impl Level {
    /// What its cells say at a place of the finer level: [`restrict`]'s transpose.
    fn prolonged(&self, [x, y]: [usize; 2]) -> Numbers {
        let [across, down] = self.size;
        let (columns, rows) = ([x / 2, beside(x, across)], [y / 2, beside(y, down)]);
        let mut sum = [0.0; 4];
        for (row, share) in rows.into_iter().zip([0.75, 0.25]) {
            for (column, along) in columns.into_iter().zip([0.75, 0.25]) {
                add(&mut sum, share * along, self.values[row * across + column]);
            }
        }
        sum
    }
}

fn add(sum: &mut Numbers, share: f32, value: Numbers) {
    for channel in 0..3 {
        sum[channel] += share * value[channel];
    }
}

#[cfg(test)]
mod tests;
