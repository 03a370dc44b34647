//! Moves the borders of charts to where views see least: along creases, and short.
//!
//! Charts grown by normals have borders where two of them met: ragged, and often in full view. Around such a border
//! lies a band of triangles that either chart could have. The cheapest border through it is a minimum cut
//! ([`crate::flow`]) over common edges, priced by [`Price`]. What changes sides is laid beside its new chart
//! like whole charts in [`super`], or stays where it does not fit without stretch.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use super::border::{self, Place};
use super::outline::Outline;
use super::{Merger, WORK};
use crate::flow::Graph;
use crate::input::Mesh;
use crate::piece::Piece;
use crate::work::unit;
use kiln_raster::vector::{cross, sub, unit as direction};

/// Reach of the band to either side, relative to the edge of a square as large as the smaller chart.
const REACH: f64 = 0.3;
/// Price of an unseen edge, relative to one seen like the mean of the surface: borders are to be short as well.
const UNSEEN: f64 = 0.25;
/// Visibility above this many times the mean makes no difference.
const MOST_SEEN: f64 = 3.0;
/// Discount of a sharp crease: shading breaks there anyway.
const CREASE: f64 = 0.6;
/// Cosine between normals at which a crease is sharp.
const SHARP: f64 = 0.5;
/// A border is moved only if it becomes cheaper by at least this share.
const LEAST_GAIN: f64 = 0.05;
/// Rounds over all borders: once one has moved, the next may move further.
const ROUNDS: usize = 2;
/// Largest number of steps of one minimum cut.
const CUT_STEPS: u64 = 20_000_000;
/// Integer price of the surface's mean edge.
const UNITS: f64 = 1e4;
/// More than all edges together.
const FIRM: u64 = 1 << 50;

/// The cost of having an edge of the surface in a border.
pub(super) struct Price<'a> {
    mesh: &'a Mesh<'a>,
    /// Visibility by triangle, relative to the mean of the surface.
    seen: Vec<f64>,
    normals: Vec<Option<[f64; 3]>>,
    mean_edge: f64,
}

impl<'a> Price<'a> {
    /// `exposure` holds, for each triangle, the pixels per unit of area of all views together; empty where unknown.
    pub(super) fn new(mesh: &'a Mesh<'a>, exposure: &[f64]) -> Self {
        let place = |corner: u32| mesh.positions[corner as usize].map(f64::from);
        let crossed = |t: &[u32; 3]| {
            let [a, b, c] = t.map(place);
            cross(sub(b, a), sub(c, a))
        };
        let crosses: Vec<[f64; 3]> = mesh.triangles.iter().map(crossed).collect();
        let length = |v: &[f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (mut shown, mut area) = (0.0, 0.0);
        for (cross, seen) in crosses.iter().zip(exposure) {
            shown += length(cross) * seen;
            area += length(cross);
        }
        let mean = shown / area;
        let seen = if mean > 0.0 {
            let of = |seen: &f64| (seen / mean).min(MOST_SEEN);
            exposure.iter().map(of).collect()
        } else {
            vec![1.0; mesh.triangles.len()]
        };
        let edges = mesh
            .triangles
            .iter()
            .flat_map(|t| [[t[0], t[1]], [t[1], t[2]], [t[2], t[0]]]);
        let all: f64 = edges.map(|[a, b]| length(&sub(place(a), place(b)))).sum();
        Self {
            mesh,
            seen,
            normals: crosses.into_iter().map(direction).collect(),
            mean_edge: all / (3 * mesh.triangles.len()).max(1) as f64,
        }
    }

    /// Price of the edge between two triangles, which is `side` of the first; at least 1.
    fn of(&self, face: u32, side: usize, across: u32) -> u64 {
        let corners = self.mesh.triangles[face as usize];
        let [a, b] = [corners[side], corners[(side + 1) % 3]]
            .map(|corner| self.mesh.positions[corner as usize].map(f64::from));
        let length = sub(a, b).iter().map(|x| x * x).sum::<f64>().sqrt();
        let [one, other] = [face, across].map(|face| face as usize);
        let seen = (self.seen[one] + self.seen[other]) / 2.0;
        let cosine = match (self.normals[one], self.normals[other]) {
            (Some(n), Some(m)) => n[0] * m[0] + n[1] * m[1] + n[2] * m[2],
            _ => 1.0,
        };
        let crease = ((1.0 - cosine) / (1.0 - SHARP)).clamp(0.0, 1.0);
        let price = (UNSEEN + (1.0 - UNSEEN) * seen) * (1.0 - CREASE * crease);
        (length / self.mean_edge.max(f64::MIN_POSITIVE) * price * UNITS) as u64 + 1
    }
}

/// The triangles near the border of two charts, with their indices in the band.
struct Band {
    faces: Vec<u32>,
    numbers: HashMap<u32, u32>,
    /// Distance of each from the border, along the surface.
    distances: Vec<f64>,
}

/// A triangle to visit: nearest first; ties go to the lower index.
#[derive(PartialEq)]
struct Next(f64, u32);

impl Eq for Next {}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.0.total_cmp(&self.0)).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Merger<'_> {
    /// Moves the borders of all charts. Returns how many parts changed charts.
    pub(super) fn reroute(&mut self, price: &Price<'_>) -> usize {
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let before = moved;
            for pair in self.by_price(price) {
                if self.work >= WORK {
                    return moved;
                }
                moved += self.shift(pair, price);
                unit();
            }
            if moved == before {
                break;
            }
        }
        moved
    }

    /// Pairs of charts with a common border, most expensive first.
    fn by_price(&self, price: &Price<'_>) -> Vec<[u32; 2]> {
        let mut prices: BTreeMap<[u32; 2], u64> = BTreeMap::new();
        for face in 0..self.neighbours.len() as u32 {
            for side in 0..3 {
                let across = self.neighbours[face as usize][side];
                if across == u32::MAX || across < face {
                    continue;
                }
                let [a, b] = [face, across].map(|face| self.places[face as usize].0);
                if a != b {
                    *prices.entry([a.min(b), a.max(b)]).or_default() +=
                        price.of(face, side, across);
                }
            }
        }
        let mut pairs: Vec<([u32; 2], u64)> = prices.into_iter().collect();
        pairs.sort_by(|(a, dear), (b, dearer)| dearer.cmp(dear).then(a.cmp(b)));
        pairs.into_iter().map(|(pair, _)| pair).collect()
    }

    /// Whether two neighbours on the surface are neighbours in their chart too.
    fn together(&self, face: u32, side: usize, across: u32) -> bool {
        let [(a, row), (b, there)] = [face, across].map(|face| self.places[face as usize]);
        if a != b {
            return false;
        }
        let triangles = &self.pieces[a as usize].chart.triangles;
        let corners = triangles[row as usize];
        let ends = [corners[side], corners[(side + 1) % 3]];
        ends.iter()
            .all(|end| triangles[there as usize].contains(end))
    }

    /// The neighbours of a triangle in its chart, with the sides that they share.
    fn beside(&self, face: u32) -> impl Iterator<Item = (usize, u32)> {
        let across = self.neighbours[face as usize];
        (0..3)
            .map(move |side| (side, across[side]))
            .filter(move |&(side, across)| across != u32::MAX && self.together(face, side, across))
    }

    fn band(&self, [a, b]: [u32; 2]) -> Band {
        let smaller = self.areas[a as usize].min(self.areas[b as usize]);
        let reach = REACH * smaller.sqrt();
        let mut found: BTreeMap<u32, f64> = BTreeMap::new();
        let mut queue = BinaryHeap::new();
        for (own, other) in [(a, b), (b, a)] {
            for &face in &self.pieces[own as usize].faces {
                let at_border = |&across: &u32| {
                    let place = self.places.get(across as usize);
                    place.is_some_and(|place| place.0 == other)
                };
                if self.neighbours[face as usize].iter().any(at_border) {
                    found.insert(face, 0.0);
                    queue.push(Next(0.0, face));
                }
            }
        }
        let middle = |face: u32| {
            let corners = self.mesh.triangles[face as usize];
            let at = corners.map(|corner| self.mesh.positions[corner as usize].map(f64::from));
            [0, 1, 2].map(|axis| (at[0][axis] + at[1][axis] + at[2][axis]) / 3.0)
        };
        while let Some(Next(distance, face)) = queue.pop() {
            if found.get(&face).is_some_and(|&known| known < distance) {
                continue;
            }
            let here = middle(face);
            for (_, across) in self.beside(face) {
                let step = sub(middle(across), here).iter().map(|x| x * x).sum::<f64>();
                let there = distance + step.sqrt();
                if there <= reach && found.get(&across).is_none_or(|&known| there < known) {
                    found.insert(across, there);
                    queue.push(Next(there, across));
                }
            }
        }
        let (faces, distances): (Vec<u32>, Vec<f64>) = found.into_iter().unzip();
        let numbers = faces
            .iter()
            .zip(0..)
            .map(|(&face, number)| (face, number))
            .collect();
        Band {
            faces,
            numbers,
            distances,
        }
    }

    /// Moves the border of two charts. Returns how many parts changed to the other.
    fn shift(&mut self, [a, b]: [u32; 2], price: &Price<'_>) -> usize {
        let sides = [a, b].map(|piece| &self.pieces[piece as usize].faces);
        if sides.iter().any(|faces| faces.len() < 2) {
            return 0;
        }
        let band = self.band([a, b]);
        self.work += band.faces.len() as u64 * 64;
        let Some(side) = self.cut(&band, [a, b], price) else {
            return 0;
        };
        let mut moved = 0;
        for (from, to) in [(a, b), (b, a)] {
            for strip in self.strips(&band, &side, from, from == a) {
                moved += usize::from(self.hand_over(&strip, from, to, price));
            }
        }
        moved
    }

    /// For each triangle of the band whether the first chart gets it; none where there is little to gain.
    fn cut(&mut self, band: &Band, [a, b]: [u32; 2], price: &Price<'_>) -> Option<Vec<bool>> {
        let mut graph = Graph::new(band.faces.len());
        let mut links: Vec<(u32, u32, u64)> = Vec::new();
        let mut held = [false; 2];
        let of = |face: u32| self.places[face as usize].0;
        let mut hold = |graph: &mut Graph, number: u32, piece: u32| {
            if piece == a {
                graph.feed(number, FIRM);
            } else {
                graph.drain(number, FIRM);
            }
            held[usize::from(piece == b)] = true;
        };
        for (number, &face) in (0..).zip(&band.faces) {
            for side in 0..3 {
                let across = self.neighbours[face as usize][side];
                let Some(&(piece, _)) = self.places.get(across as usize) else {
                    continue;
                };
                let there = band.numbers.get(&across).copied();
                let joined = piece != of(face) || self.together(face, side, across);
                match there {
                    Some(there) if there > number && joined => {
                        links.push((number, there, price.of(face, side, across)));
                    }
                    None if piece == of(face) && joined => hold(&mut graph, number, piece),
                    _ => {}
                }
            }
        }
        // A chart that lies in the band entirely keeps its triangle farthest from the border.
        for (nth, piece) in [a, b].into_iter().enumerate() {
            if !held[nth] {
                let own = (0..band.faces.len()).filter(|&k| of(band.faces[k]) == piece);
                let farthest = own.max_by(|&k, &l| {
                    (band.distances[k].total_cmp(&band.distances[l])).then(l.cmp(&k))
                })?;
                let number = farthest as u32;
                if piece == a {
                    graph.feed(number, FIRM);
                } else {
                    graph.drain(number, FIRM);
                }
            }
        }
        for &(one, other, capacity) in &links {
            graph.link(one, other, capacity);
        }
        let mut steps = CUT_STEPS;
        let side = graph.cut_within(&mut steps, || ());
        self.work += CUT_STEPS - steps;
        let side = side?;
        let of = |face: u32| self.places[face as usize].0;
        let (mut before, mut after) = (0, 0);
        for (one, other, price) in links {
            let [one, other] = [one, other].map(|number| number as usize);
            if of(band.faces[one]) != of(band.faces[other]) {
                before += price;
            }
            if side[one] != side[other] {
                after += price;
            }
        }
        (after as f64 <= (1.0 - LEAST_GAIN) * before as f64).then_some(side)
    }

    /// The connected parts that leave a chart. `stays` is the side of the cut that does not leave.
    fn strips(&self, band: &Band, side: &[bool], from: u32, stays: bool) -> Vec<Vec<u32>> {
        let leaves: Vec<u32> = (band.faces.iter().zip(side))
            .filter(|&(&face, &side)| self.places[face as usize].0 == from && side != stays)
            .map(|(&face, _)| face)
            .collect();
        self.parts(&leaves)
    }

    /// The connected parts of some triangles of one chart, each sorted.
    fn parts(&self, faces: &[u32]) -> Vec<Vec<u32>> {
        let mut left: BTreeSet<u32> = faces.iter().copied().collect();
        let mut parts = Vec::new();
        while let Some(first) = left.pop_first() {
            let mut part = vec![first];
            let mut at = 0;
            while at < part.len() {
                for (_, across) in self.beside(part[at]) {
                    if left.remove(&across) {
                        part.push(across);
                    }
                }
                at += 1;
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts
    }

    /// Whether a chart stays connected without some of its triangles, which are sorted. False if nothing is left.
    fn holds_without(&mut self, chart: u32, strip: &[u32]) -> bool {
        let faces = &self.pieces[chart as usize].faces;
        let leaves = |face: &u32| strip.binary_search(face).is_ok();
        let Some(row) = faces.iter().position(|face| !leaves(face)) else {
            return false;
        };
        let mut met = vec![false; faces.len()];
        met[row] = true;
        let mut queue = vec![faces[row]];
        let mut count = 0;
        while let Some(face) = queue.pop() {
            count += 1;
            for (_, across) in self.beside(face) {
                let row = self.places[across as usize].1 as usize;
                if !met[row] && !leaves(&across) {
                    met[row] = true;
                    queue.push(across);
                }
            }
        }
        let whole = faces.len();
        self.work += whole as u64 * 16;
        count + strip.len() == whole
    }

    /// Lays a part of one chart beside another, if that pays, fits, and leaves the first chart connected.
    fn hand_over(&mut self, strip: &[u32], from: u32, to: u32, price: &Price<'_>) -> bool {
        if !self.holds_without(from, strip) {
            return false;
        }
        let leaves = |face: u32| strip.binary_search(&face).is_ok();
        // What the chart and the part have in common becomes border.
        let mut dearer = 0;
        for &face in strip {
            for (side, across) in self.beside(face) {
                if !leaves(across) {
                    dearer += price.of(face, side, across);
                }
            }
        }
        let before: Vec<Place> = (strip.iter())
            .map(|&face| self.places[face as usize])
            .collect();
        let part = self.pieces[from as usize].part_of(leaves);
        let own = self.pieces.len() as u32;
        self.pieces.push(Piece::default());
        self.outlines.push(Outline::default());
        self.areas.push(0.0);
        self.put(own, part);
        let handed = self.lay(own, to, dearer, price);
        if handed {
            let kept = self.pieces[from as usize].part_of(|face| !leaves(face));
            self.put(from, kept);
        } else {
            for (&face, place) in strip.iter().zip(before) {
                self.places[face as usize] = place;
            }
        }
        self.pieces.pop();
        self.outlines.pop();
        self.areas.pop();
        handed
    }

    /// Lays a chart beside another if their common border costs more than `dearer`, and it fits there.
    fn lay(&mut self, own: u32, to: u32, dearer: u64, price: &Price<'_>) -> bool {
        let borders = border::borders(own, &self.pieces, &self.places, &self.neighbours);
        let Some(border) = borders.into_iter().find(|border| border.other == to) else {
            return false;
        };
        let piece = &self.pieces[own as usize];
        let point = |vertex: u32| piece.points[vertex as usize];
        let within: HashSet<[u32; 2]> = (border.edges.iter())
            .map(|edge| edge.map(|pair| point(pair.own)))
            .collect();
        let mut cheaper = 0;
        for &face in &piece.faces {
            let corners = self.mesh.triangles[face as usize];
            for side in 0..3 {
                let ends = [corners[side], corners[(side + 1) % 3]];
                if within.contains(&ends) {
                    cheaper += price.of(face, side, self.neighbours[face as usize][side]);
                }
            }
        }
        if cheaper <= dearer {
            return false;
        }
        let Some(uvs) = self.fit(own, &border) else {
            return false;
        };
        self.join(own, &border, &uvs);
        true
    }

    /// Stores a chart under this index.
    fn put(&mut self, number: u32, piece: Piece) {
        for (row, &face) in (0..).zip(&piece.faces) {
            self.places[face as usize] = (number, row);
        }
        self.outlines[number as usize] = Outline::of(&piece.chart);
        self.areas[number as usize] = piece.chart.area();
        self.pieces[number as usize] = piece;
    }
}

#[cfg(test)]
mod tests;
