//! Where a chart's neighbours on the surface touch it: runs of shared edges.

use std::collections::BTreeMap;

use super::places::Places;
use crate::piece::Piece;

/// A vertex of a chart and the neighbour's vertex at the same point of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pair {
    pub(super) own: u32,
    pub(super) other: u32,
}

/// Connected edges that two charts share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Border {
    pub(super) other: u32,
    /// In the direction of the chart's own triangles.
    pub(super) edges: Vec<[Pair; 2]>,
    /// The vertices of the edges, each once.
    pub(super) pairs: Vec<Pair>,
    /// Length in the chart, in units of the mesh.
    pub(super) length: f64,
}

/// The borders of a piece with the charts that `of` knows, longest first.
pub(super) fn found<'p>(
    piece: &Piece,
    (neighbours, places): (&[[u32; 3]], &Places),
    of: impl Fn(u32) -> Option<&'p Piece>,
) -> Vec<Border> {
    let mut shared: BTreeMap<u32, Vec<[Pair; 2]>> = BTreeMap::new();
    for (&face, corners) in piece.faces.iter().zip(&piece.chart.triangles) {
        for side in 0..3 {
            let across = neighbours[face as usize][side];
            let Some((other, row)) = places.of(across) else {
                continue;
            };
            let Some(there) = of(other) else {
                continue;
            };
            let pair = |vertex: u32| {
                let point = piece.points[vertex as usize];
                let corners = there.chart.triangles[row as usize];
                let same = |&corner: &u32| there.points[corner as usize] == point;
                let other = corners.into_iter().find(same)?;
                Some(Pair { own: vertex, other })
            };
            let ends = [corners[side], corners[(side + 1) % 3]].map(pair);
            if let [Some(a), Some(b)] = ends {
                shared.entry(other).or_default().push([a, b]);
            }
        }
    }
    let mut found: Vec<Border> = shared
        .into_iter()
        .flat_map(|(other, edges)| runs(piece, other, &edges))
        .collect();
    found.sort_by(|a, b| b.length.total_cmp(&a.length));
    found
}

/// Groups edges shared with one neighbour into runs that are connected in both charts.
fn runs(piece: &Piece, other: u32, edges: &[[Pair; 2]]) -> Vec<Border> {
    let mut numbers: BTreeMap<Pair, usize> = BTreeMap::new();
    for &pair in edges.as_flattened() {
        let next = numbers.len();
        numbers.entry(pair).or_insert(next);
    }
    let mut parents: Vec<usize> = (0..numbers.len()).collect();
    let root = |mut k: usize, parents: &[usize]| {
        while parents[k] != k {
            k = parents[k];
        }
        k
    };
    for [a, b] in edges {
        let (a, b) = (root(numbers[a], &parents), root(numbers[b], &parents));
        parents[a.max(b)] = a.min(b);
    }
    let mut runs: BTreeMap<usize, Border> = BTreeMap::new();
    for edge in edges {
        let run = runs
            .entry(root(numbers[&edge[0]], &parents))
            .or_insert_with(|| Border {
                other,
                edges: Vec::new(),
                pairs: Vec::new(),
                length: 0.0,
            });
        let [a, b] = edge.map(|pair| piece.chart.uvs[pair.own as usize]);
        run.edges.push(*edge);
        run.length += (a[0] - b[0]).hypot(a[1] - b[1]);
    }
    for (&pair, &number) in &numbers {
        if let Some(run) = runs.get_mut(&root(number, &parents)) {
            run.pairs.push(pair);
        }
    }
    // Where one of the charts is cut, a vertex may match two, but cannot be in both places.
    let once = |run: &Border| {
        let (mut own, mut other): (Vec<u32>, Vec<u32>) =
            run.pairs.iter().map(|pair| (pair.own, pair.other)).unzip();
        own.sort_unstable();
        other.sort_unstable();
        let distinct = |list: &[u32]| list.windows(2).all(|two| two[0] != two[1]);
        distinct(&own) && distinct(&other)
    };
    runs.into_values().filter(once).collect()
}
