//! Texels that may move → nodes: at each level the mip texels above them, in an order in which the children of a node are
//! neighbours, so that a vector of texels becomes its mips by sums over ranges, and back by copies.

use rayon::prelude::*;

use super::NO_CHART;
use super::rows::Row;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of one level.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) nodes: usize,
    /// Node of each mip texel, [`NONE`] where nothing beneath may move.
    pub(super) node_of: Vec<u32>,
    /// Children of node `n` on the finer level: `children[n]..children[n + 1]`. Empty at mip 0.
    pub(super) children: Vec<u32>,
    /// Node above each node. Empty at the last level.
    pub(super) parents: Vec<u32>,
}

/// The nodes of all levels, and the texels of those of mip 0.
#[derive(Debug, Default)]
pub(super) struct Hierarchy {
    pub(super) texels: Vec<u32>,
    pub(super) levels: Vec<Level>,
}

impl Hierarchy {
    /// Texels move that some row reads at some level, if they are gutter or rows read them at mip 0 itself.
    pub(super) fn new(charts: &[u32], size: usize, rows: &[Vec<Row>]) -> Self {
        let read: Vec<Vec<bool>> = rows
            .par_iter()
            .enumerate()
            .map(|(level, rows)| {
                let mut read = vec![false; (size >> level).pow(2)];
                for tap in rows.iter().flat_map(|row| row.taps.as_flattened()) {
                    read[tap.texel as usize] |= tap.weight > 0.0;
                }
                read
            })
            .collect();
        let moves = |column: usize, row: usize| {
            let texel = row * size + column;
            let reads = |level: usize| {
                let (edge, x, y) = (size >> level, column >> level, row >> level);
                x < edge && y < edge && read[level][y * edge + x]
            };
            read[0][texel] || (charts[texel] == NO_CHART && (1..rows.len()).any(reads))
        };
        let deepest = rows.len().saturating_sub(1);
        let block = 1usize << deepest;
        let of_blocks = |row: usize| {
            let mut texels = Vec::new();
            for column in (0..size).step_by(block) {
                for place in 0..block * block {
                    let (x, y) = (column + every_second(place), row + every_second(place >> 1));
                    if x < size && y < size && moves(x, y) {
                        texels.push((y * size + x) as u32);
                    }
                }
            }
            texels
        };
        let bands: Vec<Vec<u32>> = (0..size)
            .into_par_iter()
            .step_by(block)
            .map(of_blocks)
            .collect();
        let texels = bands.concat();
        let mut levels = vec![Level::default(); rows.len()];
        let mut above: Vec<[u32; 2]> = texels
            .iter()
            .map(|&texel| [texel % size as u32, texel / size as u32])
            .collect();
        for level in 0..rows.len() {
            let edge = size >> level;
            let mut node_of = vec![NONE; edge * edge];
            for (node, &[x, y]) in above.iter().enumerate() {
                // Mips leave an odd last row or column out.
                if (x as usize) < edge && (y as usize) < edge {
                    node_of[y as usize * edge + x as usize] = node as u32;
                }
            }
            levels[level].nodes = above.len();
            levels[level].node_of = node_of;
            if level == deepest {
                break;
            }
            let (mut children, mut parents) = (Vec::new(), Vec::with_capacity(above.len()));
            let mut coarser: Vec<[u32; 2]> = Vec::new();
            for (node, at) in above.iter().enumerate() {
                let at = at.map(|x| x / 2);
                if coarser.last() != Some(&at) {
                    coarser.push(at);
                    children.push(node as u32);
                }
                parents.push(coarser.len() as u32 - 1);
            }
            children.push(above.len() as u32);
            levels[level].parents = parents;
            levels[level + 1].children = children;
            above = coarser;
        }
        Self { texels, levels }
    }
}

/// Every second bit of a number, from the first: a coordinate along a Z-order curve.
fn every_second(number: usize) -> usize {
    (0..4).map(|bit| (number >> (2 * bit) & 1) << bit).sum()
}

#[cfg(test)]
mod tests;
