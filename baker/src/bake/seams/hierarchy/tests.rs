//! Nodes stand above the texels that mips would average.

use super::super::rows::Tap;
use super::*;

/// A row that reads one texel of its level.
fn row(texel: u32) -> Row {
    let mut taps = [[Tap::default(); 4]; 2];
    taps[1][2] = Tap { texel, weight: 0.5 };
    Row {
        taps,
        charts: [0; 2],
        length: 1.0,
        target: None,
    }
}

#[test]
fn what_is_read_moves_and_every_node_is_above_its_texels() {
    // 13 → 6 → 3 → 1: the last column and row have no mip, nor have those of 12 one two levels up.
    let size = 13;
    let charts: Vec<u32> = (0..size * size)
        .map(|texel| if texel % size < 5 { 0 } else { NO_CHART })
        .collect();
    let rows = [
        vec![row(3), row(12 * 13 + 12)],
        vec![row(2 * 6 + 2)],
        Vec::new(),
        vec![row(0)],
    ];
    let found = Hierarchy::new(&charts, size, &rows);
    let moves = |x: usize, y: usize| {
        let read = y * size + x == 3 || (x, y) == (12, 12);
        // Of the chart (x < 5) what mip 0 reads alone; gutter beneath texel (2, 2) of mip 1 and beneath the one of mip 3.
        read || (x >= 5 && ((x / 2, y / 2) == (2, 2) || (x < 8 && y < 8)))
    };
    let mut wanted: Vec<u32> = (0..size * size)
        .filter(|k| moves(k % size, k / size))
        .map(|k| k as u32)
        .collect();
    let mut texels = found.texels.clone();
    texels.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(texels, wanted);

    let mut above: Vec<usize> = (0..found.texels.len()).collect();
    for (level, nodes) in found.levels.iter().enumerate() {
        let edge = size >> level;
        for (&texel, &node) in found.texels.iter().zip(&above) {
            let (x, y) = (
                (texel as usize % size) >> level,
                (texel as usize / size) >> level,
            );
            let wanted = if x < edge && y < edge {
                node as u32
            } else {
                continue;
            };
            assert_eq!(
                nodes.node_of[y * edge + x],
                wanted,
                "level {level}, texel {texel}"
            );
        }
        assert_eq!(nodes.nodes, above.iter().max().map_or(0, |last| last + 1));
        if let Some(coarser) = found.levels.get(level + 1) {
            for (node, &parent) in nodes.parents.iter().enumerate() {
                let children =
                    coarser.children[parent as usize]..coarser.children[parent as usize + 1];
                assert!(children.contains(&(node as u32)));
            }
            above
                .iter_mut()
                .for_each(|node| *node = nodes.parents[*node] as usize);
        }
    }
}
