//! Solves a mesh's Laplacian with some vertices fixed, for many right-hand sides: a Cholesky factor within its envelope.
//!
//! Row by row, the factor has entries only from the row's first entry to the diagonal (George and Liu, "Computer Solution
//! of Large Sparse Positive Definite Systems", 1981). Vertices in reverse Cuthill–McKee order keep that envelope narrow:
//! about as wide as the chart has vertices across. Charts are small, so no better order pays for itself.

use std::ops::Range;

/// Most entries of a factor: 32 MiB.
const MOST_ENTRIES: usize = 1 << 22;
/// Most multiplications of a factorisation. Conjugate gradients are faster beyond.
const MOST_PRODUCTS: u64 = 1 << 29;
/// Smallest part of a diagonal entry that elimination may leave. With less, the matrix counts as singular.
const LEAST_PIVOT: f64 = 1e-10;
/// Sums kept apart in a product, so that it uses vectors and gives the same bits on every machine.
const LANES: usize = 4;

/// An edge by its ends, and its weight.
pub(super) type Side = (u32, u32, f64);

/// No row: the vertex is fixed.
const FIXED: u32 = u32::MAX;

/// The factor of the rows of all vertices that are not fixed.
pub(super) struct Envelope {
    /// The row of each vertex, or [`FIXED`].
    rows: Vec<u32>,
    /// The column of each row's first entry.
    first: Vec<u32>,
    /// Where each row begins in `entries`, and the end.
    starts: Vec<usize>,
    /// Rows from their first entry to before the diagonal.
    entries: Vec<f64>,
    /// One over each entry of the diagonal.
    inverse: Vec<f64>,
    /// Multiplications that it took.
    products: u64,
}

impl Envelope {
    /// Factorises the Laplacian of weighted edges, which may come more than once. None where it has too many entries, or
    /// where a vertex is connected to none that is fixed.
    pub(super) fn new(sides: &[Side], is_fixed: &[bool]) -> Option<Self> {
        let rows = order(sides, is_fixed);
        let count = rows.iter().filter(|&&row| row != FIXED).count();
        let mut first: Vec<u32> = (0..count as u32).collect();
        for &(a, b, _) in sides {
            let [low, high] = ends(&rows, a, b);
            if high != FIXED {
                first[high as usize] = first[high as usize].min(low);
            }
        }
        let mut starts = vec![0];
        let (mut end, mut products) = (0, 0);
        for (row, &first) in first.iter().enumerate() {
            let width = row - first as usize;
            end += width;
            products += (width * width / 2) as u64;
            starts.push(end);
        }
        if end > MOST_ENTRIES || products > MOST_PRODUCTS {
            return None;
        }
        let mut factor = Self {
            rows,
            first,
            starts,
            entries: vec![0.0; end],
            inverse: vec![0.0; count],
            products,
        };
        factor.fill(sides);
        factor.eliminate()?;
        Some(factor)
    }

    /// Multiplications of the factorisation, and those of each solution.
    pub(super) fn work(&self) -> [u64; 2] {
        [self.products, 4 * self.entries.len() as u64]
    }

    /// The row of each vertex that is not fixed.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(vertex, &row)| (row != FIXED).then_some((vertex, row as usize)))
    }

    /// Where the entries of a row are.
    fn span(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    /// Enters the Laplacian. Its diagonal goes where the inverse of the factor's will be.
    fn fill(&mut self, sides: &[Side]) {
        for &(a, b, weight) in sides {
            for vertex in [a, b] {
                let row = self.rows[vertex as usize];
                if row != FIXED {
                    self.inverse[row as usize] += weight;
                }
            }
            let [low, high] = ends(&self.rows, a, b);
            if high != FIXED && low != high {
                let high = high as usize;
                self.entries[self.starts[high] + (low - self.first[high]) as usize] -= weight;
            }
        }
    }

    /// Makes the factor of the matrix, in place.
    fn eliminate(&mut self) -> Option<()> {
        for row in 0..self.inverse.len() {
            let span = self.span(row);
            let (above, own) = self.entries.split_at_mut(span.start);
            let own = &mut own[..span.len()];
            let first = self.first[row] as usize;
            for column in first..row {
                let other = self.first[column] as usize;
                let from = first.max(other);
                let there = &above[self.starts[column] + from - other..self.starts[column + 1]];
                let sum = dot(&own[from - first..column - first], there);
                own[column - first] = (own[column - first] - sum) * self.inverse[column];
            }
            let whole = self.inverse[row];
            let pivot = whole - dot(own, own);
            // False for NaN too.
            let is_regular = pivot > LEAST_PIVOT * whole;
            if !is_regular {
                return None;
            }
            self.inverse[row] = 1.0 / pivot.sqrt();
        }
        Some(())
    }

    /// Solves for one right-hand side, by row, in place.
    pub(super) fn solve(&self, x: &mut [f64]) {
        for row in 0..x.len() {
            let sum = dot(
                &self.entries[self.span(row)],
                &x[self.first[row] as usize..row],
            );
            x[row] = (x[row] - sum) * self.inverse[row];
        }
        for row in (0..x.len()).rev() {
            let found = x[row] * self.inverse[row];
            x[row] = found;
            let above = &mut x[self.first[row] as usize..row];
            for (x, entry) in above.iter_mut().zip(&self.entries[self.span(row)]) {
                *x -= entry * found;
            }
        }
    }
}

/// The rows of both ends, lower first.
fn ends(rows: &[u32], a: u32, b: u32) -> [u32; 2] {
    let [a, b] = [a, b].map(|vertex| rows[vertex as usize]);
    [a.min(b), a.max(b)]
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, rest_a) = a.as_chunks::<LANES>();
    let (b, rest_b) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// The row of each vertex in reverse Cuthill–McKee order: breadth first from the rim of the graph, neighbours of few
/// neighbours first, and backwards.
fn order(sides: &[Side], is_fixed: &[bool]) -> Vec<u32> {
    let graph = Graph::new(sides, is_fixed);
    let count = is_fixed.len();
    let mut rows = vec![FIXED; count];
    let mut levels = vec![0; count];
    let mut queue: Vec<u32> = Vec::with_capacity(count);
    let mut stamp = 0;
    let mut next = is_fixed.iter().filter(|&&fixed| !fixed).count() as u32;
    for seed in 0..count as u32 {
        if is_fixed[seed as usize] || rows[seed as usize] != FIXED {
            continue;
        }
        // The last vertex reached from the last one reached lies on the rim.
        let mut from = seed;
        for _ in 0..2 {
            stamp += 1;
            graph.search(from, stamp, (&mut levels, &mut queue));
            from = queue.last().copied().unwrap_or(from);
        }
        stamp += 1;
        graph.search(from, stamp, (&mut levels, &mut queue));
        for &vertex in &queue {
            next -= 1;
            rows[vertex as usize] = next;
        }
    }
    rows
}

/// The neighbours of each vertex that are not fixed, those with few neighbours first.
struct Graph {
    starts: Vec<u32>,
    neighbours: Vec<u32>,
}

impl Graph {
    fn new(sides: &[Side], is_fixed: &[bool]) -> Self {
        let free = |&&(a, b, _): &&Side| !is_fixed[a as usize] && !is_fixed[b as usize] && a != b;
        let mut starts = vec![0_u32; is_fixed.len() + 1];
        for &(a, b, _) in sides.iter().filter(free) {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for vertex in 1..starts.len() {
            starts[vertex] += starts[vertex - 1];
        }
        let mut places = starts.clone();
        let mut neighbours = vec![0; starts.last().map_or(0, |&end| end as usize)];
        for &(a, b, _) in sides.iter().filter(free) {
            for (from, to) in [(a, b), (b, a)] {
                let place = &mut places[from as usize];
                neighbours[*place as usize] = to;
                *place += 1;
            }
        }
        let degree = |&vertex: &u32| {
            (
                starts[vertex as usize + 1] - starts[vertex as usize],
                vertex,
            )
        };
        for vertex in 0..is_fixed.len() {
            neighbours[starts[vertex] as usize..starts[vertex + 1] as usize]
                .sort_unstable_by_key(degree);
        }
        Self { starts, neighbours }
    }

    /// Puts the vertices connected to `from` into the queue, breadth first. `stamp` marks those that are met.
    fn search(&self, from: u32, stamp: u32, (met, queue): (&mut [u32], &mut Vec<u32>)) {
        queue.clear();
        queue.push(from);
        met[from as usize] = stamp;
        let mut at = 0;
        while let Some(&vertex) = queue.get(at) {
            at += 1;
            let span =
                self.starts[vertex as usize] as usize..self.starts[vertex as usize + 1] as usize;
            for &other in &self.neighbours[span] {
                if met[other as usize] != stamp {
                    met[other as usize] = stamp;
                    queue.push(other);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers from 0 to 1, the same each time.
    fn noise(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 33) as f64 / (1u64 << 31) as f64
    }

    /// The edges of a grid's triangles, each of them once for each triangle, with random weights and vertices in random
    /// order.
    fn grid(columns: u32, rows: u32, state: &mut u64) -> Vec<Side> {
        let count = columns * rows;
        let mut numbers: Vec<u32> = (0..count).collect();
        for k in (1..count as usize).rev() {
            numbers.swap(k, (noise(state) * (k + 1) as f64) as usize);
        }
        let mut sides = Vec::new();
        for y in 0..rows - 1 {
            for x in 0..columns - 1 {
                let [a, b] = [y * columns + x, (y + 1) * columns + x];
                for corners in [[a, a + 1, b + 1], [a, b + 1, b]] {
                    for side in 0..3 {
                        let ends = [corners[side], corners[(side + 1) % 3]];
                        let [p, q] = ends.map(|k| numbers[k as usize]);
                        sides.push((p, q, 0.01 + 10.0 * noise(state).powi(4)));
                    }
                }
            }
        }
        sides
    }

    /// Gaussian elimination with all entries.
    fn dense(sides: &[Side], is_fixed: &[bool], right: &[f64]) -> Vec<f64> {
        let count = right.len();
        let mut rows: Vec<Vec<f64>> = (0..count)
            .map(|k| {
                let mut row = vec![0.0; count + 1];
                row[count] = if is_fixed[k] { 0.0 } else { right[k] };
                row[k] = f64::from(u8::from(is_fixed[k]));
                row
            })
            .collect();
        for &(a, b, weight) in sides {
            for (from, to) in [(a as usize, b as usize), (b as usize, a as usize)] {
                if !is_fixed[from] {
                    rows[from][from] += weight;
                    rows[from][to] -= if is_fixed[to] { 0.0 } else { weight };
                }
            }
        }
        for k in 0..count {
            let best = (k..count).max_by(|&i, &j| rows[i][k].abs().total_cmp(&rows[j][k].abs()));
            rows.swap(k, best.unwrap());
            let pivot = rows[k].clone();
            for (other, row) in rows.iter_mut().enumerate() {
                let factor = row[k] / pivot[k];
                if other != k {
                    row.iter_mut()
                        .zip(&pivot)
                        .for_each(|(x, p)| *x -= factor * p);
                }
            }
        }
        (0..count).map(|k| rows[k][count] / rows[k][k]).collect()
    }

    #[test]
    fn it_solves_what_elimination_solves() {
        let mut state = 3;
        for (columns, rows, fixed) in [(2, 2, 1), (9, 7, 1), (9, 7, 20), (3, 40, 2), (12, 12, 5)] {
            let sides = grid(columns, rows, &mut state);
            let count = (columns * rows) as usize;
            let is_fixed: Vec<bool> = (0..count).map(|k| k * 7 % count < fixed).collect();
            let right: Vec<f64> = (0..count).map(|_| noise(&mut state) - 0.5).collect();
            let factor = Envelope::new(&sides, &is_fixed).unwrap();
            let mut x = vec![0.0; factor.rows().count()];
            factor
                .rows()
                .for_each(|(vertex, row)| x[row] = right[vertex]);
            factor.solve(&mut x);
            let wanted = dense(&sides, &is_fixed, &right);
            let scale = wanted.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            for (vertex, row) in factor.rows() {
                let off = (x[row] - wanted[vertex]).abs();
                assert!(
                    off < 1e-9 * scale,
                    "{columns} × {rows}: {} {}",
                    x[row],
                    wanted[vertex]
                );
            }
        }
    }

    #[test]
    fn rows_of_a_long_strip_are_short() {
        let mut state = 5;
        let sides = grid(5, 400, &mut state);
        let is_fixed: Vec<bool> = (0..2000).map(|k| k == 77).collect();
        let factor = Envelope::new(&sides, &is_fixed).unwrap();
        assert!(factor.entries.len() < 8 * 2000, "{}", factor.entries.len());
    }

    #[test]
    fn nothing_fixed_is_singular() {
        let sides = grid(4, 4, &mut 9);
        assert!(Envelope::new(&sides, &[false; 16]).is_none());
        // A part of its own without a fixed vertex.
        let apart = [(0, 1, 1.0), (2, 3, 1.0)];
        assert!(Envelope::new(&apart, &[true, false, false, false]).is_none());
    }
}
