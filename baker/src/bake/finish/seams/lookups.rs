//! Rows and nodes → what each row sees of the nodes, and what it gives back to them.

use rayon::prelude::*;

use crate::bake::finish::seams::hierarchy::{Forest, NONE};
use crate::bake::finish::seams::rows::SeamRow;
use crate::worker::progress::{ticked, ticking};

/// The taps of a row on the nodes.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    nodes: [u32; 8],
    /// Weights: the first four belong to one side, the last four to the other.
    weights: [f32; 8],
}

/// A tap on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeReader {
    /// Twice the row, plus 1 for its second side.
    pub(super) side: u32,
    pub(super) weight: f32,
}

/// Colours on both sides of a row.
pub(super) type Sides = [[f32; 4]; 2];

/// The lookups of all levels, one level after the other.
#[derive(Debug)]
pub(super) struct Lookups {
    rows: Vec<Lookup>,
    /// Readers of node `n`: `starts[n]..starts[n + 1]` in `readers`.
    starts: Vec<u32>,
    readers: Vec<NodeReader>,
}

impl Lookups {
    pub(super) fn new(forest: &Forest, rows: &[Vec<SeamRow>]) -> Self {
        let of_level = |(node_of, rows): (&Vec<u32>, &Vec<SeamRow>)| -> Vec<Lookup> {
            let lookup = |row: &SeamRow| {
                let taps = row.taps.as_flattened();
                let nodes: [u32; 8] = std::array::from_fn(|k| node_of[taps[k].texel as usize]);
                Lookup {
                    nodes: nodes.map(|node| if node == NONE { 0 } else { node }),
                    weights: std::array::from_fn(|k| match nodes[k] {
                        NONE => 0.0,
                        _ => taps[k].weight,
                    }),
                }
            };
            ticking(rows.par_iter())
                .with_min_len(1 << 10)
                .map(lookup)
                .collect()
        };
        let levels = forest.node_of.iter().zip(rows);
        let rows = levels.map(of_level).collect::<Vec<_>>().concat();
        let used = |row: &Lookup| {
            let (nodes, weights) = (row.nodes, row.weights);
            (0..8)
                .filter(move |&k| weights[k] != 0.0)
                .map(move |k| (k, nodes[k] as usize))
        };
        let nodes = forest.len();
        let mut starts = vec![0u32; nodes + 1];
        for (_, node) in ticked(rows.iter()).flat_map(used) {
            starts[node + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut readers = vec![NodeReader::default(); starts[nodes] as usize];
        for (number, row) in ticked(rows.iter()).enumerate() {
            for (k, node) in used(row) {
                readers[next[node] as usize] = NodeReader {
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
        }
    }

    /// Rows of all levels.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// What a row sees on its sides, given what the nodes show.
    pub(super) fn see(&self, row: usize, shown: &[[f32; 4]]) -> Sides {
        let row = &self.rows[row];
        let mut sides = Sides::default();
        for k in 0..8 {
            let node = shown[row.nodes[k] as usize];
            for channel in 0..4 {
                sides[k / 4][channel] += row.weights[k] * node[channel];
            }
        }
        sides
    }

    pub(super) fn readers_of(&self, node: usize) -> &[NodeReader] {
        &self.readers[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}
