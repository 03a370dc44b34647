//! The expected results of the shaders: plain loops in double precision over the same rows. Independent of the native
//! backend, which uses single precision and an order of its own.

use std::collections::BTreeMap;

use proto::job::Blend;

use super::solve::{SIZE, WIDTHS};
use crate::bake::model::colour::{observed, slope_squared, to_display};
use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::rows::Rows;
use crate::bake::solve::backend::{BLOCK, Belief, CONSENSUS_POWER, Strength, Ties};

pub(super) struct System<'a> {
    views: &'a [Rows],
    ties: &'a Ties,
    size: usize,
    blend: Blend,
    /// Weight of each row of each view.
    trust: Vec<Vec<f64>>,
    /// λ of each texel, and the factor that turns it into a seam's weight.
    lambda: Texels,
    seam_ratio: f64,
    diagonal: Texels,
    /// Weight of the coarse corrections in each texel.
    share: Texels,
    levels: Vec<Level>,
}

/// A level of cells as an explicit matrix.
struct Level {
    /// For each texel the cells that it contributes to, with weights.
    cells: Vec<Vec<(usize, f64)>>,
    inverse: Texels,
}

impl Level {
    /// Sums over the cells of the weighted texels.
    fn restrict(&self, of: impl Fn(usize) -> [f64; 3]) -> Texels {
        let count = self.cells.iter().flatten().map(|(cell, _)| cell + 1).max();
        let mut sums = vec![[0.0; 3]; count.unwrap_or(0)];
        for (texel, cells) in self.cells.iter().enumerate() {
            for &(cell, share) in cells {
                add(&mut sums[cell], |c| share * of(texel)[c]);
            }
        }
        sums
    }
}

/// Weights of each texel along one axis in the cells of a level. On the first level a texel belongs to the cell it lies
/// in. On the others, three quarters go to that cell and one quarter to the nearer neighbour.
fn along(size: usize, level: u32) -> (usize, Vec<Vec<(usize, f64)>>) {
    let mut count = size.div_ceil(2);
    let mut cells: Vec<Vec<(usize, f64)>> = (0..size).map(|at| vec![(at / 2, 1.0)]).collect();
    for _ in 1..level {
        let coarser = count.div_ceil(2);
        for cells in &mut cells {
            let of = |&(cell, share): &(usize, f64)| {
                let other = cell as i64 / 2 + if cell % 2 == 1 { 1 } else { -1 };
                let other = other.clamp(0, coarser as i64 - 1) as usize;
                [(cell / 2, 0.75 * share), (other, 0.25 * share)]
            };
            *cells = cells.iter().flat_map(of).collect();
        }
        count = coarser;
    }
    (count, cells)
}

pub(super) type Texels = Vec<[f64; 3]>;

fn add(to: &mut [f64; 3], by: impl Fn(usize) -> f64) {
    for c in 0..3 {
        to[c] += by(c);
    }
}

pub(super) fn predict(rows: &Rows, row: usize, x: &[[f64; 3]]) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for entry in rows.row(row) {
        add(&mut sum, |c| {
            f64::from(entry.weight) * x[entry.texel as usize][c]
        });
    }
    sum
}

/// Mean colour and weight of each texel.
pub(super) fn average(views: &[Rows], blend: Blend, count: usize) -> Vec<[f64; 4]> {
    let mut sums = vec![[0.0; 4]; count];
    for rows in views {
        for row in 0..rows.len() {
            for entry in rows.row(row) {
                let sum = &mut sums[entry.texel as usize];
                for c in 0..3 {
                    let y = observed(blend)[rows.colours[row][c] as usize].value;
                    sum[c] += f64::from(entry.weight) * f64::from(y);
                }
                sum[3] += f64::from(entry.weight);
            }
        }
    }
    for sum in &mut sums {
        if sum[3] > 0.0 {
            for c in 0..3 {
                sum[c] /= sum[3];
            }
        }
    }
    sums
}

/// Root mean square residual of a row in sRGB.
pub(super) fn residual(rows: &Rows, row: usize, x: &[[f64; 3]], blend: Blend) -> f64 {
    let predicted = predict(rows, row, x);
    let squares: f64 = (0..3)
        .map(|c| {
            let shown = f64::from(to_display(predicted[c] as f32, blend));
            (shown - f64::from(rows.colours[row][c]) / 255.0).powi(2)
        })
        .sum();
    (squares / 3.0).sqrt()
}

/// For each texel the mean absolute difference in sRGB of the rows that touch it, and their weight.
pub(super) fn deviations(
    views: &[Rows],
    x: &[[f64; 3]],
    blend: Blend,
    count: usize,
) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); count];
    for rows in views {
        for row in 0..rows.len() {
            let predicted = predict(rows, row, x);
            let [r, g, b, _] = rows.colours[row].map(|byte| f64::from(byte) / 255.0);
            let shown = predicted.map(|value| f64::from(to_display(value as f32, blend)));
            let off = ((shown[0] - r).abs() + (shown[1] - g).abs() + (shown[2] - b).abs()) / 3.0;
            for entry in rows.row(row) {
                let weight = f64::from(entry.weight) * worth(rows.colours[row][3]);
                let (sum, whole) = &mut sums[entry.texel as usize];
                *sum += weight * off;
                *whole += weight;
            }
        }
    }
    let mean = |(sum, whole)| (if whole > 0.0 { sum / whole } else { -1.0 }, whole);
    sums.into_iter().map(mean).collect()
}

/// Weight of a pixel by its alpha.
fn worth(alpha: u8) -> f64 {
    ((f64::from(alpha) - 127.0) / 128.0).powf(1.5)
}

/// Weights of a view's rows: Geman-McClure, times the neighbourhood weight of the 3×3 blocks around, the alpha weight,
/// and the view's share.
fn trust(rows: &Rows, width: u32, x: &[[f64; 3]], blend: Blend, of: Belief) -> Vec<f64> {
    let Belief { scale, share } = of;
    let block = |row: usize| {
        [
            rows.pixels[row] % width / BLOCK,
            rows.pixels[row] / width / BLOCK,
        ]
        .map(i64::from)
    };
    let own: Vec<f64> = (0..rows.len())
        .map(|row| {
            if scale <= 0.0 {
                return 0.0;
            }
            (1.0 + (residual(rows, row, x, blend) / f64::from(scale)).powi(2)).powi(-2)
        })
        .collect();
    let mut blocks: BTreeMap<[i64; 2], (f64, f64)> = BTreeMap::new();
    for row in 0..rows.len() {
        let sum = blocks.entry(block(row)).or_default();
        *sum = (sum.0 + own[row], sum.1 + 1.0);
    }
    (0..rows.len())
        .map(|row| {
            let [column, line] = block(row);
            let around = (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| [column + dx, line + dy]));
            let (sum, count) = around
                .filter_map(|at| blocks.get(&at))
                .fold((0.0, 0.0), |sum, block| (sum.0 + block.0, sum.1 + block.1));
            let weight = own[row] * worth(rows.colours[row][3]);
            weight * f64::powi(sum / count, CONSENSUS_POWER) * f64::from(share)
        })
        .collect()
}

impl<'a> System<'a> {
    /// Weighs the rows of [`super::solve::views`] by their residuals at `x`.
    pub(super) fn new(
        views: &'a [Rows],
        ties: &'a Ties,
        blend: Blend,
        x: &[[f64; 3]],
        believed: &[Belief],
        strength: Strength,
    ) -> Self {
        let size = SIZE as usize;
        let trust = (0..views.len())
            .map(|v| trust(&views[v], WIDTHS[v], x, blend, believed[v]))
            .collect();
        let nothing = vec![[0.0; 3]; size * size];
        let mut system = Self {
            views,
            ties,
            size,
            blend,
            trust,
            lambda: nothing.clone(),
            seam_ratio: 0.0,
            diagonal: nothing.clone(),
            share: nothing.clone(),
            levels: Vec::new(),
        };
        let mut diagonal = nothing;
        let mut whole = vec![0.0; size * size];
        system.rows(|texel, weight, w, trust, _, _| {
            add(&mut diagonal[texel], |c| weight * weight * w[c]);
            whole[texel] += weight * weight * trust;
        });
        let observed = whole.iter().filter(|d| **d > 0.0).count();
        let mean = if observed > 0 {
            whole.iter().sum::<f64>() / observed as f64
        } else {
            1.0
        };
        let smoothness = f64::from(strength.smoothness) * mean;
        system.lambda = x
            .iter()
            .map(|x| x.map(|x| smoothness * f64::from(slope_squared(x as f32, blend))))
            .collect();
        system.seam_ratio = f64::from(strength.seam) / f64::from(strength.smoothness);
        for texel in 0..size * size {
            for other in system.neighbours(texel) {
                add(&mut diagonal[texel], |c| {
                    0.5 * (system.lambda[texel][c] + system.lambda[other][c])
                });
            }
        }
        for row in 0..ties.seams.len() {
            let weight = system.seam_weight(row);
            for entry in ties.seams.row(row) {
                for c in 0..3 {
                    diagonal[entry.texel as usize][c] +=
                        weight[c] * f64::from(entry.weight).powi(2);
                }
            }
        }
        system.diagonal = diagonal;
        system.add_levels();
        system
    }

    fn add_levels(&mut self) {
        let (size, count) = (self.size, self.size * self.size);
        let link = |one: usize, other: usize, c: usize| {
            0.5 * (self.lambda[one][c] + self.lambda[other][c])
        };
        let ties: Texels = (0..count)
            .map(|texel| {
                let of = |c| {
                    self.neighbours(texel)
                        .iter()
                        .map(|&other| link(texel, other, c))
                        .sum()
                };
                std::array::from_fn(of)
            })
            .collect();
        let share = |texel: usize, c: usize| match self.diagonal[texel][c] {
            whole if whole > 0.0 => (4.0 * self.lambda[texel][c] / whole).min(1.0),
            _ => 0.0,
        };
        let share: Texels = (0..count)
            .map(|texel| std::array::from_fn(|c| share(texel, c)))
            .collect();
        let (mut mass, mut stiffness) = (vec![[0.0; 3]; count], vec![[0.0; 3]; count]);
        for texel in 0..count {
            for c in 0..3 {
                let own = share[texel][c];
                mass[texel][c] = own * (self.diagonal[texel][c] - ties[texel][c]);
                for other in self.neighbours(texel) {
                    let there = share[other][c];
                    mass[texel][c] += 0.5 * link(texel, other, c) * (own - there).powi(2);
                    stiffness[texel][c] += link(texel, other, c) * own * there;
                }
            }
        }
        self.share = share;
        // Half of a box's links are within it, and a hat of twice the size bends a quarter as much.
        for (level, part) in [(1, 0.5), (2, 0.5 * 0.25 * 0.5), (3, 0.5 * 0.0625 * 0.5)] {
            let (across, shares) = along(size, level);
            let cells = |texel: usize| -> Vec<(usize, f64)> {
                let mut cells = Vec::new();
                for (row, down) in &shares[texel / size] {
                    for (column, along) in &shares[texel % size] {
                        cells.push((row * across + column, down * along));
                    }
                }
                cells
            };
            let mut level = Level {
                cells: (0..count).map(cells).collect(),
                inverse: Vec::new(),
            };
            let (mass, stiffness) = (
                level.restrict(|texel| mass[texel]),
                level.restrict(|texel| stiffness[texel]),
            );
            let inverse = |(mass, stiffness): (&[f64; 3], &[f64; 3])| {
                std::array::from_fn(|c| match 8.0 * mass[c] + part * stiffness[c] {
                    sum if sum > 0.0 => 1.0 / sum,
                    _ => 0.0,
                })
            };
            level.inverse = mass.iter().zip(&stiffness).map(inverse).collect();
            self.levels.push(level);
        }
    }

    /// z: the residuals divided by the diagonal, plus the correction of each level.
    fn precondition(&self, r: &Texels) -> Texels {
        let count = r.len();
        let divided = |texel: usize| {
            let d = self.diagonal[texel];
            std::array::from_fn(|c| if d[c] > 0.0 { r[texel][c] / d[c] } else { 0.0 })
        };
        let mut z: Texels = (0..count).map(divided).collect();
        for level in &self.levels {
            let of = |texel: usize| std::array::from_fn(|c| self.share[texel][c] * r[texel][c]);
            let sums = level.restrict(of);
            for (texel, cells) in level.cells.iter().enumerate() {
                for &(cell, share) in cells {
                    for c in 0..3 {
                        let back = share * self.share[texel][c];
                        z[texel][c] += back * level.inverse[cell][c] * sums[cell][c];
                    }
                }
            }
        }
        z
    }

    fn seam_weight(&self, row: usize) -> [f64; 3] {
        let mut sum = [0.0; 3];
        for entry in self.ties.seams.row(row) {
            add(&mut sum, |c| {
                0.5 * f64::from(entry.weight.abs()) * self.lambda[entry.texel as usize][c]
            });
        }
        sum.map(|sum| sum * self.seam_ratio)
    }

    /// Calls `add(texel, a, W, trust, rows, row)` for every entry.
    fn rows(&self, mut add: impl FnMut(usize, f64, [f64; 3], f64, &Rows, usize)) {
        let table = observed(self.blend);
        for (rows, trust) in self.views.iter().zip(&self.trust) {
            for row in 0..rows.len() {
                let colour = rows.colours[row];
                let w = std::array::from_fn(|c| {
                    trust[row] * f64::from(table[colour[c] as usize].slope_squared)
                });
                for entry in rows.row(row) {
                    add(
                        entry.texel as usize,
                        f64::from(entry.weight),
                        w,
                        trust[row],
                        rows,
                        row,
                    );
                }
            }
        }
    }

    fn neighbours(&self, texel: usize) -> Vec<usize> {
        let links = |at: usize| self.ties.links.get(at).copied().unwrap_or(0);
        let mut found = Vec::new();
        if links(texel) & LINK_RIGHT != 0 {
            found.push(texel + 1);
        }
        if links(texel) & LINK_DOWN != 0 {
            found.push(texel + self.size);
        }
        if !texel.is_multiple_of(self.size) && links(texel - 1) & LINK_RIGHT != 0 {
            found.push(texel - 1);
        }
        if texel >= self.size && links(texel - self.size) & LINK_DOWN != 0 {
            found.push(texel - self.size);
        }
        found
    }

    /// Half of the objective of `backend.rs`, with the current row weights.
    pub(super) fn objective(&self, x: &[[f64; 3]]) -> f64 {
        let table = observed(self.blend);
        let mut sum = 0.0;
        for (rows, trust) in self.views.iter().zip(&self.trust) {
            for row in 0..rows.len() {
                let predicted = predict(rows, row, x);
                for c in 0..3 {
                    let seen = table[rows.colours[row][c] as usize];
                    sum += trust[row]
                        * f64::from(seen.slope_squared)
                        * (predicted[c] - f64::from(seen.value)).powi(2);
                }
            }
        }
        for texel in 0..x.len() {
            for other in self.neighbours(texel) {
                for c in 0..3 {
                    // Each link is visited from both ends.
                    let lambda = 0.5 * (self.lambda[texel][c] + self.lambda[other][c]);
                    sum += 0.5 * lambda * (x[texel][c] - x[other][c]).powi(2);
                }
            }
        }
        let seams = &self.ties.seams;
        for row in 0..seams.len() {
            let weight = self.seam_weight(row);
            sum += predict(seams, row, x)
                .iter()
                .zip(weight)
                .map(|(d, weight)| weight * d * d)
                .sum::<f64>();
        }
        0.5 * sum
    }

    /// Gradient of [`Self::objective`].
    pub(super) fn gradient(&self, x: &[[f64; 3]]) -> Texels {
        let table = observed(self.blend);
        let mut out = vec![[0.0; 3]; x.len()];
        self.rows(|texel, weight, w, _, rows, row| {
            let predicted = predict(rows, row, x);
            for c in 0..3 {
                let y = f64::from(table[rows.colours[row][c] as usize].value);
                out[texel][c] += weight * w[c] * (predicted[c] - y);
            }
        });
        for texel in 0..x.len() {
            for other in self.neighbours(texel) {
                for c in 0..3 {
                    let lambda = 0.5 * (self.lambda[texel][c] + self.lambda[other][c]);
                    out[texel][c] += lambda * (x[texel][c] - x[other][c]);
                }
            }
        }
        let seams = &self.ties.seams;
        for row in 0..seams.len() {
            let off = predict(seams, row, x);
            let weight = self.seam_weight(row);
            for entry in seams.row(row) {
                for c in 0..3 {
                    out[entry.texel as usize][c] += weight[c] * f64::from(entry.weight) * off[c];
                }
            }
        }
        out
    }

    /// Conjugate gradients, preconditioned by the diagonal and coarse levels.
    pub(super) fn solve(&self, x: &mut Texels, iterations: u32) {
        let count = x.len();
        let at_zero = self.gradient(&vec![[0.0; 3]; count]);
        let mut r: Texels = self.gradient(x).iter().map(|g| g.map(|v| -v)).collect();
        let dot = |a: &Texels, b: &Texels| -> [f64; 3] {
            std::array::from_fn(|c| a.iter().zip(b).map(|(a, b)| a[c] * b[c]).sum())
        };
        let mut p = self.precondition(&r);
        let mut rz = dot(&r, &p);
        for _ in 0..iterations {
            // The gradient is affine; its linear part is the normal matrix.
            let q: Texels = self
                .gradient(&p)
                .iter()
                .zip(&at_zero)
                .map(|(g, b)| std::array::from_fn(|c| g[c] - b[c]))
                .collect();
            let pq = dot(&p, &q);
            let alpha: [f64; 3] =
                std::array::from_fn(|c| if pq[c] > 0.0 { rz[c] / pq[c] } else { 0.0 });
            for t in 0..count {
                for c in 0..3 {
                    x[t][c] += alpha[c] * p[t][c];
                    r[t][c] -= alpha[c] * q[t][c];
                }
            }
            let z = self.precondition(&r);
            let next = dot(&r, &z);
            for t in 0..count {
                for c in 0..3 {
                    let beta = if rz[c] > 0.0 { next[c] / rz[c] } else { 0.0 };
                    p[t][c] = z[t][c] + beta * p[t][c];
                }
            }
            rz = next;
        }
    }
}
