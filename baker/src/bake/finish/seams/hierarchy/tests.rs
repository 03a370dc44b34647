//! Nodes stand above the texels that mips average.

use crate::bake::finish::seams::hierarchy::*;
use crate::bake::finish::seams::rows::Tap;

/// A row that reads one texel of its level.
fn row(texel: u32) -> SeamRow {
    let mut taps = [[Tap::default(); 4]; 2];
    taps[1][2] = Tap { texel, weight: 0.5 };
    SeamRow {
        taps,
        charts: [0; 2],
        length: 1.0,
        target: None,
    }
}

#[test]
fn what_is_read_moves_and_every_node_is_above_its_texels() {
    // 13 → 6 → 3 → 1: the last column and row have no mip, and two levels up neither has column and row 12.
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
    let found = Forest::new(&charts, size, &rows);
    let moves = |x: usize, y: usize| {
        let read = y * size + x == 3 || (x, y) == (12, 12);
        // In the chart (x < 5), texels that mip 0 reads itself; gutter beneath texel (2, 2) of mip 1, and beneath that
        // of mip 3.
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
    let bands: Vec<usize> = [0..8, 8..13]
        .map(|rows| {
            let mut all = wanted.iter().map(|&texel| texel as usize / size);
            all.by_ref().filter(|row| rows.contains(row)).count()
        })
        .into();
    assert_eq!((&found.bands, found.rows), (&bands, 8));

    // (3, 0) and (12, 12) are read themselves, and so have nodes at all levels with a mip above them.
    let node = |level: usize, x: usize, y: usize| found.node_of[level][y * (size >> level) + x];
    let known = [
        (0, 3, 0),
        (1, 1, 0),
        (2, 0, 0),
        (3, 0, 0),
        (1, 2, 2),
        (2, 1, 1),
        (0, 12, 12),
    ];
    let count = |nodes: &Vec<u32>| nodes.iter().filter(|&&node| node != NONE).count();
    assert_eq!(found.node_of.iter().map(count).sum::<usize>(), known.len());
    for (level, x, y) in known {
        let number = node(level, x, y) as usize;
        assert_eq!(usize::from(found.levels[number]), level);
        let above = usize::from(found.above[number]) + number / PIECE * PIECE;
        let up = (x / 2, y / 2);
        if level < 3 && up.0 < size >> (level + 1) && up.1 < size >> (level + 1) {
            assert_eq!(above as u32, node(level + 1, up.0, up.1), "{level} {x} {y}");
        }
        // Its own texels lie beneath it and beneath no node of a finer level.
        let own = &found.texels[found.own[number] as usize..found.own[number + 1] as usize];
        let beneath = |texel: u32, level: usize| {
            let texel = texel as usize;
            ((texel % size) >> level, (texel / size) >> level)
        };
        let wanted: Vec<u32> = (wanted.iter().copied())
            .filter(|&texel| beneath(texel, level) == (x, y))
            .filter(|&texel| {
                let nearer = |&(fine, x, y): &(usize, usize, usize)| {
                    fine < level && beneath(texel, fine) == (x, y)
                };
                !known.iter().any(nearer)
            })
            .collect();
        let mut own = own.to_vec();
        own.sort_unstable();
        assert_eq!(own, wanted, "{level} {x} {y}");
    }
    assert!(found.len().is_multiple_of(PIECE));
}

#[test]
fn trees_lie_whole_in_their_pieces() {
    // Everything is gutter that rows of mip 1 read: trees of 21 nodes, which do not fill a piece exactly.
    let size = 256;
    let rows = [
        Vec::new(),
        (0..128 * 128).map(row).collect(),
        Vec::new(),
        Vec::new(),
    ];
    let found = Forest::new(&vec![NO_CHART; size * size], size, &rows);
    let nodes = |level: usize| found.node_of[level].iter().map(|&node| node as usize);
    assert_eq!(found.len() % PIECE, 0);
    assert!(found.len() > 10 * PIECE, "{}", found.len());
    for level in 1..4 {
        let edge = size >> level;
        for (place, number) in nodes(level).enumerate() {
            assert_ne!(number % PIECE, 0, "the first place is no node");
            let above = found.above[number];
            let up = place / edge / 2 * (edge / 2) + place % edge / 2;
            let wanted = match level {
                3 => 0,
                _ => nodes(level + 1).nth(up).map_or(0, |up| up % PIECE),
            };
            assert_eq!(usize::from(above), wanted, "level {level}, {place}");
            assert!(level == 3 || number / PIECE == nodes(level + 1).nth(up).unwrap() / PIECE);
            let own = found.own[number + 1] - found.own[number];
            assert_eq!(own, if level == 1 { 4 } else { 0 });
        }
    }
}
