//! Moves the borders of charts to where views see least: along creases, and short.
//!
//! Charts grown by normals have borders where two of them met: ragged, and often in full view. Around such a border
//! lies a band of triangles that either chart could have. The cheapest border through it is a minimum cut
//! ([`crate::flow`]) over common edges, priced by [`Price`]. What changes sides is laid beside its new chart
//! like whole charts in [`super`], or stays where it does not fit without stretch.
//!
//! A move changes the two charts and nothing else. So borders without a common chart move side by side, and the result
//! is as if they moved one after the other, most expensive first: each round takes every border that comes first at both
//! of its charts (deterministic reservations; Blelloch, Fineman, Gibbons and Shun, "Internally Deterministic Parallel
//! Algorithms Can Be Fast", 2012). Each move visits the band and what borders on it.

use std::collections::BinaryHeap;
use std::sync::Mutex;

use rayon::prelude::*;

use super::border::Border;
use super::ground::{Ground, Laid};
use super::price::Price;
use super::{Merger, WORK};
use crate::flow::Graph;
use crate::piece::Piece;
use crate::work::unit;
use kiln_raster::vector::sub;

/// Reach of the band to either side, relative to the edge of a square as large as the smaller chart.
const REACH: f64 = 0.3;
/// A border is moved only if it becomes cheaper by at least this share.
const LEAST_GAIN: f64 = 0.05;
/// Rounds over all borders: once one has moved, the next may move further.
const ROUNDS: usize = 2;
/// Largest number of steps of one minimum cut.
const CUT_STEPS: u64 = 20_000_000;
/// More than all edges together.
const FIRM: u64 = 1 << 50;
/// Work of a step of a cut, of a triangle of a band, of one that a flood visits, and of one of the charts.
const STEP: u64 = 4;
const BANDED: u64 = 160;
const FLOODED: u64 = 32;
const SCANNED: u64 = 8;

/// The triangles near the border of two charts.
#[derive(Default)]
struct Band {
    faces: Vec<u32>,
    /// Distance of each from the border, along the surface.
    distances: Vec<f64>,
}

/// A triangle of a band to visit: nearest first; ties go to the lower index.
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

/// A number for each face of the surface, 0 between uses. Whoever writes some clears them.
type Marks = Vec<u32>;

/// Marks that no thread uses.
struct Idle {
    faces: usize,
    marks: Mutex<Vec<Marks>>,
}

impl Idle {
    /// Calls with marks of its own.
    fn lend<T>(&self, work: impl FnOnce(&mut Marks) -> T) -> T {
        let idle = self.marks.lock().ok().and_then(|mut all| all.pop());
        let mut marks = idle.unwrap_or_else(|| vec![0; self.faces]);
        let done = work(&mut marks);
        if let Ok(mut all) = self.marks.lock() {
            all.push(marks);
        }
        done
    }
}

impl Merger<'_> {
    /// Moves the borders of all charts. Returns how many parts changed charts.
    pub(super) fn reroute(&mut self, price: &Price) -> usize {
        let idle = Idle {
            faces: self.ground.neighbours.len(),
            marks: Mutex::default(),
        };
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let before = moved;
            let mut pairs = self.by_price(price);
            while !pairs.is_empty() {
                if self.work >= WORK {
                    return moved;
                }
                let (first, rest) = self.first_at_both(pairs);
                moved += self.shift_all(&first, price, &idle);
                pairs = rest;
            }
            if moved == before {
                break;
            }
        }
        moved
    }

    /// Pairs of charts with a common border, most expensive first.
    fn by_price(&self, price: &Price) -> Vec<[u32; 2]> {
        let places = &self.ground.places;
        let chart = |face: u32| places.of(face).map(|place| place.0);
        let borders = |(face, across): (usize, &[u32; 3])| {
            let (face, across) = (face as u32, *across);
            (0..3).filter_map(move |side| {
                let (a, b) = (chart(face)?, chart(across[side])?);
                (across[side] > face && a != b)
                    .then(|| ([a.min(b), a.max(b)], price.of(face, side)))
            })
        };
        let faces = self.ground.neighbours.par_iter().enumerate();
        let mut edges: Vec<([u32; 2], u64)> = faces.flat_map_iter(borders).collect();
        edges.par_sort_unstable();
        let mut pairs: Vec<([u32; 2], u64)> = (edges.chunk_by(|a, b| a.0 == b.0))
            .map(|edges| (edges[0].0, edges.iter().map(|edge| edge.1).sum()))
            .collect();
        pairs.sort_by(|(a, dear), (b, dearer)| dearer.cmp(dear).then(a.cmp(b)));
        pairs.into_iter().map(|(pair, _)| pair).collect()
    }

    /// The pairs that come before all others of both their charts, and the rest.
    fn first_at_both(&self, pairs: Vec<[u32; 2]>) -> (Vec<[u32; 2]>, Vec<[u32; 2]>) {
        let mut met = vec![false; self.charts.len()];
        pairs.into_iter().partition(|pair| {
            let [a, b] = pair.map(|chart| std::mem::replace(&mut met[chart as usize], true));
            !a && !b
        })
    }

    /// Moves the borders of pairs without a common chart. Returns how many parts changed charts.
    fn shift_all(&mut self, pairs: &[[u32; 2]], price: &Price, idle: &Idle) -> usize {
        let taken: Vec<([u32; 2], [Laid; 2])> = (pairs.iter())
            .map(|&pair| {
                let take = |chart: u32| std::mem::take(&mut self.charts[chart as usize]);
                (pair, pair.map(take))
            })
            .collect();
        let ground = &self.ground;
        let shifted = |(numbers, charts)| {
            let mut shift = Shift {
                ground,
                price,
                numbers,
                charts,
                work: 0,
            };
            let moved = idle.lend(|marks| shift.shift(marks));
            unit();
            (shift.numbers, shift.charts, shift.work, moved)
        };
        let done: Vec<([u32; 2], [Laid; 2], u64, usize)> = (taken.into_par_iter())
            .with_max_len(1)
            .map(shifted)
            .collect();
        let mut moved = 0;
        for (numbers, charts, work, count) in done {
            for (number, laid) in numbers.into_iter().zip(charts) {
                self.charts[number as usize] = laid;
            }
            self.work += work;
            moved += count;
        }
        moved
    }
}

/// Two charts whose border moves. They are told apart as 0 and 1.
struct Shift<'a> {
    ground: &'a Ground<'a>,
    price: &'a Price,
    numbers: [u32; 2],
    charts: [Laid; 2],
    work: u64,
}

impl Shift<'_> {
    /// Which of the two charts a face is in.
    fn chart(&self, face: u32) -> Option<usize> {
        let (number, _) = self.ground.places.of(face)?;
        self.numbers.iter().position(|&own| own == number)
    }

    /// The neighbours of a face in its chart, with the sides that they share.
    fn beside(&self, chart: usize, face: u32) -> impl Iterator<Item = (usize, u32)> {
        let own = (self.numbers[chart], &self.charts[chart].piece);
        self.ground.beside(own, face)
    }

    /// Moves the border. Returns how many parts changed to the other chart.
    fn shift(&mut self, marks: &mut Marks) -> usize {
        let faces = [0, 1].map(|chart| self.charts[chart].piece.faces.len());
        if faces.iter().any(|&faces| faces < 2) {
            return 0;
        }
        let band = self.band(marks);
        self.work += (faces[0] + faces[1]) as u64 * SCANNED + band.faces.len() as u64 * BANDED;
        let side = self.cut(&band, marks);
        band.faces.iter().for_each(|&face| marks[face as usize] = 0);
        let Some(side) = side else {
            return 0;
        };
        let mut moved = 0;
        for from in [0, 1] {
            for strip in self.strips(&band, &side, from) {
                moved += usize::from(self.hand_over(&strip, from, marks));
            }
        }
        moved
    }

    /// The triangles near the border. Marks them with their index and 1.
    fn band(&self, marks: &mut Marks) -> Band {
        let [a, b] = [0, 1].map(|chart| self.charts[chart].area);
        let reach = REACH * a.min(b).sqrt();
        let mut band = Band::default();
        let mut queue = BinaryHeap::new();
        for chart in [0, 1] {
            for &face in &self.charts[chart].piece.faces {
                let across = self.ground.neighbours[face as usize];
                if across
                    .iter()
                    .any(|&across| self.chart(across) == Some(1 - chart))
                {
                    queue.push(Next(0.0, band.faces.len() as u32));
                    band.faces.push(face);
                    band.distances.push(0.0);
                    marks[face as usize] = band.faces.len() as u32;
                }
            }
        }
        let middles = &self.ground.middles;
        while let Some(Next(distance, number)) = queue.pop() {
            let face = band.faces[number as usize];
            let Some(chart) = self
                .chart(face)
                .filter(|_| band.distances[number as usize] >= distance)
            else {
                continue;
            };
            for (_, across) in self.beside(chart, face) {
                let step = sub(middles[across as usize], middles[face as usize]);
                let there = distance + step.iter().map(|x| x * x).sum::<f64>().sqrt();
                if there > reach {
                    continue;
                }
                let mark = &mut marks[across as usize];
                if *mark == 0 {
                    band.faces.push(across);
                    band.distances.push(there);
                    *mark = band.faces.len() as u32;
                } else if there < band.distances[*mark as usize - 1] {
                    band.distances[*mark as usize - 1] = there;
                } else {
                    continue;
                }
                queue.push(Next(there, *mark - 1));
            }
        }
        band
    }

    /// For each triangle of the band whether the first chart gets it; none where there is little to gain.
    fn cut(&mut self, band: &Band, marks: &Marks) -> Option<Vec<bool>> {
        let of: Vec<usize> = (band.faces.iter())
            .map(|&face| self.chart(face))
            .collect::<Option<_>>()?;
        let mut graph = Graph::new(band.faces.len());
        let mut links: Vec<(u32, u32, u64)> = Vec::new();
        let mut held = [false; 2];
        let hold = |graph: &mut Graph, number: u32, chart: usize| match chart {
            0 => graph.feed(number, FIRM),
            _ => graph.drain(number, FIRM),
        };
        for ((number, &face), &chart) in (0..).zip(&band.faces).zip(&of) {
            let mut is_held = false;
            let mut link = |side: usize, across: u32| match marks[across as usize] {
                0 => is_held = true,
                mark if mark - 1 > number => {
                    links.push((number, mark - 1, self.price.of(face, side)));
                }
                _ => {}
            };
            for (side, across) in self.beside(chart, face) {
                link(side, across);
            }
            for (side, across) in self.ground.neighbours[face as usize]
                .into_iter()
                .enumerate()
            {
                if self.chart(across) == Some(1 - chart) {
                    link(side, across);
                }
            }
            if is_held {
                hold(&mut graph, number, chart);
                held[chart] = true;
            }
        }
        // A chart that lies in the band entirely keeps its triangle farthest from the border.
        for chart in [0, 1] {
            if !held[chart] {
                let own = (0..band.faces.len()).filter(|&k| of[k] == chart);
                let farthest = own.max_by(|&k, &l| {
                    (band.distances[k].total_cmp(&band.distances[l]))
                        .then(band.faces[l].cmp(&band.faces[k]))
                })?;
                hold(&mut graph, farthest as u32, chart);
            }
        }
        for &(one, other, capacity) in &links {
            graph.link(one, other, capacity);
        }
        let mut steps = CUT_STEPS;
        let side = graph.cut_within(&mut steps, || ());
        self.work += (CUT_STEPS - steps) * STEP;
        let side = side?;
        let (mut before, mut after) = (0, 0);
        for (one, other, price) in links {
            let [one, other] = [one, other].map(|number| number as usize);
            if of[one] != of[other] {
                before += price;
            }
            if side[one] != side[other] {
                after += price;
            }
        }
        (after as f64 <= (1.0 - LEAST_GAIN) * before as f64).then_some(side)
    }

    /// The connected parts that leave a chart. `side` is true for what the first chart gets.
    fn strips(&self, band: &Band, side: &[bool], from: usize) -> Vec<Vec<u32>> {
        let mut leaves: Vec<u32> = (band.faces.iter().zip(side))
            .filter(|&(&face, &first)| first == (from == 1) && self.chart(face) == Some(from))
            .map(|(&face, _)| face)
            .collect();
        leaves.sort_unstable();
        let own = (self.numbers[from], &self.charts[from].piece);
        parts(self.ground, own, &leaves)
    }

    /// Whether a chart stays connected without some of its triangles. False if nothing is left. A triangle that hangs on
    /// the chart by a corner alone does not count.
    ///
    /// A flood begins at each triangle beside those that leave, all at once, and ends where all have met.
    fn holds_without(&mut self, chart: usize, strip: &[u32], marks: &mut Marks) -> bool {
        strip
            .iter()
            .for_each(|&face| marks[face as usize] = u32::MAX);
        let mut queue: Vec<u32> = Vec::new();
        for &face in strip {
            for (_, across) in self.beside(chart, face) {
                if marks[across as usize] == 0 {
                    queue.push(across);
                    marks[across as usize] = queue.len() as u32;
                }
            }
        }
        // Marks are floods and 1. Floods that have met have one root.
        let mut parents: Vec<u32> = (0..queue.len() as u32).collect();
        let root = |parents: &mut [u32], mut flood: u32| {
            while parents[flood as usize] != flood {
                let above = parents[parents[flood as usize] as usize];
                parents[flood as usize] = above;
                flood = above;
            }
            flood
        };
        let (mut floods, mut at) = (queue.len(), 0);
        while floods > 1 && at < queue.len() {
            let face = queue[at];
            at += 1;
            let own = root(&mut parents, marks[face as usize] - 1);
            for (_, across) in self.beside(chart, face) {
                match marks[across as usize] {
                    u32::MAX => {}
                    0 => {
                        marks[across as usize] = own + 1;
                        queue.push(across);
                    }
                    mark => {
                        let other = root(&mut parents, mark - 1);
                        if other != own {
                            parents[other as usize] = own;
                            floods -= 1;
                        }
                    }
                }
            }
        }
        let written = strip.iter().chain(&queue);
        written.for_each(|&face| marks[face as usize] = 0);
        self.work += queue.len() as u64 * FLOODED;
        floods == 1
    }

    /// Lays a part of one chart beside the other, if that pays, fits, and leaves the first chart connected.
    fn hand_over(&mut self, strip: &[u32], from: usize, marks: &mut Marks) -> bool {
        if !self.holds_without(from, strip, marks) {
            return false;
        }
        // What the chart and the part have in common becomes border.
        let mut dearer = 0;
        for &face in strip {
            for (side, across) in self.beside(from, face) {
                if strip.binary_search(&across).is_err() {
                    dearer += self.price.of(face, side);
                }
            }
        }
        let piece = &self.charts[from].piece;
        let mut rows: Vec<u32> = (strip.iter())
            .filter_map(|&face| Some(self.ground.places.of(face)?.1))
            .collect();
        rows.sort_unstable();
        let part = piece.part_at(rows.iter().map(|&row| row as usize));
        let to = (self.numbers[1 - from], &self.charts[1 - from].piece);
        let borders = self.ground.borders_with(&part, to);
        let Some(border) = borders.into_iter().next() else {
            return false;
        };
        if self.gain(&part, &border) <= dearer {
            return false;
        }
        let part = Laid::new(part);
        let (uvs, work) = self.ground.fit(&part, &self.charts[1 - from], &border);
        self.work += work;
        let Some(uvs) = uvs else {
            return false;
        };
        let mut leaving = rows.iter().peekable();
        let kept = (0..piece.faces.len())
            .filter(|&row| leaving.next_if(|&&next| next as usize == row).is_none());
        let kept = Laid::new(piece.part_at(kept));
        self.ground
            .join(part, &uvs, &border, &mut self.charts[1 - from]);
        self.ground.places.enter(self.numbers[from], &kept.piece);
        self.charts[from] = kept;
        true
    }

    /// Price of the border of a part, which is none once the part is laid there.
    fn gain(&self, part: &Piece, border: &Border) -> u64 {
        let point = |vertex: u32| part.points[vertex as usize];
        let mut within: Vec<[u32; 2]> = (border.edges.iter())
            .map(|edge| edge.map(|pair| point(pair.own)))
            .collect();
        within.sort_unstable();
        let mut gain = 0;
        for &face in &part.faces {
            let corners = self.ground.mesh.triangles[face as usize];
            for side in 0..3 {
                let ends = [corners[side], corners[(side + 1) % 3]];
                if within.binary_search(&ends).is_ok() {
                    gain += self.price.of(face, side);
                }
            }
        }
        gain
    }
}

/// The connected parts of some triangles of one chart. All are sorted.
fn parts(ground: &Ground<'_>, own: (u32, &Piece), faces: &[u32]) -> Vec<Vec<u32>> {
    let mut met = vec![false; faces.len()];
    let mut parts = Vec::new();
    for first in 0..faces.len() {
        if std::mem::replace(&mut met[first], true) {
            continue;
        }
        let mut part = vec![faces[first]];
        let mut at = 0;
        while at < part.len() {
            for (_, across) in ground.beside(own, part[at]) {
                if let Ok(index) = faces.binary_search(&across)
                    && !std::mem::replace(&mut met[index], true)
                {
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

#[cfg(test)]
mod tests;
