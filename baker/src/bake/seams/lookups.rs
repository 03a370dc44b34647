//! Rows and nodes → what each row sees of the nodes of its level, and what it gives back to them.

use rayon::prelude::*;

use super::hierarchy::{Level, NONE};
use super::rows::Row;

/// The taps of a row on the texels that may move.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    nodes: [u32; 8],
    /// Shares: of the first four on one side, of the last four on the other.
    weights: [f32; 8],
}

/// A tap on a node.
#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    /// Twice the row, and 1 for its second side.
    side: u32,
    weight: f32,
}

/// What a row sees: the difference of its sides, and their mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) difference: [f32; 4],
    pub(super) mean: [f32; 4],
}

/// The lookups of a level.
#[derive(Debug)]
pub(super) struct Lookups {
    rows: Vec<Lookup>,
    /// What of `readers` reads node `n`: `starts[n]..starts[n + 1]`.
    pub(super) starts: Vec<u32>,
    readers: Vec<Reader>,
    /// d² · length of each row.
    pub(super) strengths: Vec<[f32; 4]>,
    /// τ² of each row, 0 without a target.
    pub(super) pulls: Vec<f32>,
}

impl Lookups {
    pub(super) fn new(level: &Level, rows: &[Row]) -> Self {
        let (nodes, node_of) = (level.nodes, &level.node_of);
        let lookup =
            |row: &Row| {
                let taps = row.taps.as_flattened();
                let node = |k: usize| node_of[taps[k].texel as usize];
                Lookup {
                    nodes: std::array::from_fn(|k| if node(k) == NONE { 0 } else { node(k) }),
                    weights: std::array::from_fn(|k| {
                        if node(k) == NONE { 0.0 } else { taps[k].weight }
                    }),
                }
            };
        let rows: Vec<Lookup> = rows.par_iter().map(lookup).collect();
        let used = |row: &Lookup| {
            let (nodes, weights) = (row.nodes, row.weights);
            (0..8)
                .filter(move |&k| weights[k] != 0.0)
                .map(move |k| (k, nodes[k] as usize))
        };
        let mut starts = vec![0u32; nodes + 1];
        for (_, node) in rows.iter().flat_map(used) {
            starts[node + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut readers = vec![Reader::default(); starts[nodes] as usize];
        for (number, row) in rows.iter().enumerate() {
            for (k, node) in used(row) {
                readers[next[node] as usize] = Reader {
                    side: (number * 2 + k / 4) as u32,
                    weight: row.weights[k],
                };
                next[node] += 1;
            }
        }
        Self {
            rows,
            starts,
            readers,
            strengths: Vec::new(),
            pulls: Vec::new(),
        }
    }

    /// What the rows see of a change of the level's nodes.
    pub(super) fn see(&self, mips: &[[f32; 4]], seen: &mut [Seen]) {
        if mips.is_empty() {
            return;
        }
        seen.par_iter_mut()
            .zip(&self.rows)
            .with_min_len(1 << 11)
            .for_each(|(seen, row)| {
                let mut sides = [[0.0_f32; 4]; 2];
                for k in 0..8 {
                    let texel = mips[row.nodes[k] as usize];
                    for channel in 0..3 {
                        sides[k / 4][channel] += row.weights[k] * texel[channel];
                    }
                }
                let [one, other] = sides;
                seen.difference = std::array::from_fn(|c| one[c] - other[c]);
                seen.mean = std::array::from_fn(|c| 0.5 * (one[c] + other[c]));
            });
    }

    /// Row, weight and sign of each tap on a node.
    pub(super) fn readers_of(&self, node: usize) -> impl Iterator<Item = (usize, f32, f32)> {
        let range = self.starts[node] as usize..self.starts[node + 1] as usize;
        self.readers[range].iter().map(|reader| {
            let sign = if reader.side % 2 == 0 { 1.0 } else { -1.0 };
            (reader.side as usize / 2, reader.weight, sign)
        })
    }

    /// Weighs what the rows see by their strengths: what [`Self::add_back`] gives back.
    pub(super) fn weigh(&self, seen: &mut [Seen]) {
        seen.par_iter_mut()
            .zip(&self.strengths)
            .zip(&self.pulls)
            .with_min_len(1 << 11)
            .for_each(|((seen, strength), pull)| {
                for channel in 0..3 {
                    seen.difference[channel] *= strength[channel];
                    seen.mean[channel] *= 0.5 * pull * strength[channel];
                }
            });
    }

    /// Adds a node's part of the gradient that the rows' weighed sights make.
    pub(super) fn add_back(&self, node: usize, seen: &[Seen], sum: &mut [f32; 4]) {
        for (row, weight, sign) in self.readers_of(node) {
            let seen = &seen[row];
            for channel in 0..3 {
                sum[channel] += weight * (sign * seen.difference[channel] + seen.mean[channel]);
            }
        }
    }
}
