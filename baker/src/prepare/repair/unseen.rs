//! Removes what no view from outside can see, cut where the border is shortest. After TRELLIS' `_fill_holes`.
//!
//! Each patch has the share of views from all around that show it. Patches never seen are inner. Patches seen by at
//! least the third quartile of their part, clamped to ¼-½, are outer. A minimum cut by edge length separates them. Each
//! connected piece on the inner side goes, unless its median view share is above ¼ or it would leave too large an
//! opening.
//!
//! Deliberate differences:
//!
//! - Patches instead of triangles, so that fine meshes are judged like coarse ones.
//! - Quartiles by area, and lengths as shares of the mesh's longest side, so that scale does not matter.
//! - A piece also stays if the job's own views show much of it (an object within a room). Of other pieces the patches
//!   that those views show stay, with the patches around them, so nothing that they picture is lost. Of many views only
//!   some are drawn.
//! - Holes that are to be filled count as closed for the job's views, since what only shows through them will be
//!   hidden.
//! - Where nothing is outer, or everything would go, nothing goes.

use std::time::Duration;

use kiln_atlas::flow::Graph;
use kiln_raster::vector::{cross, sub};
use proto::message::StepFate;

use super::edit;
use super::patches::patches;
use super::sight::{self, EDGE, Eye, Groups, Sight};
use super::step::{Outcome, Ruler, pass};
use super::topology::{Topology, ends};
use crate::prepare::clean::CleanMesh;
use crate::worker::progress::{Progress, unit};

/// Pairs of views, as many as TRELLIS has. Tests need fewer.
const PAIRS: usize = if cfg!(test) { 100 } else { 500 };
/// Fewer pairs say too little about what is never seen.
const FEWEST_PAIRS: usize = 16;
/// Radius of a patch in pixels.
const PATCH_PIXELS: f64 = 1.5;
/// Bounds of the view share from which on a patch is outer. The lower one is also the highest median of a piece that
/// goes.
const OUTER: [f64; 2] = [0.25, 0.5];
/// Capacity of an edge as long as the longest side. An inner or outer triangle has as much, as in TRELLIS.
const CAPACITY: f64 = 1e6;
/// Arcs that the cut may visit: about ten seconds.
const FLOW_STEPS: u64 = 1_000_000_000;
/// Predicted duration of one round that uses all of these steps.
const FLOW_ROUND: Duration = Duration::from_secs(20);
/// A piece stays whole if the job's views see this share of its area, or if it is this share of all that they see: more
/// than what shows through a few small holes.
const SHOWN_AREA: f64 = 0.25;
const SHOWN_PIXELS: f64 = 0.02;

/// The job's views, and the patches that close the holes to be filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eyes<'a> {
    pub(super) eyes: &'a [Eye],
    pub(super) lids: &'a [[u32; 3]],
}

impl Eyes<'_> {
    /// What the views show of each group, with holes closed.
    fn sight(self, groups: Groups<'_>, progress: &dyn Progress) -> Sight {
        let lids = self.lids.len();
        let lid = vec![groups.count as u32; lids];
        let mut shown = sight::from_eyes(
            Groups {
                triangles: &[groups.triangles, self.lids].concat(),
                of: &[groups.of, &lid].concat(),
                count: groups.count + 1,
                ..groups
            },
            self.eyes,
            progress,
        );
        shown.forget(groups.count);
        shown
    }
}

/// Removes what is unseen. May leave openings up to `largest`, a share of the longest side squared.
pub(super) fn remove(
    mesh: &mut CleanMesh,
    topology: &Topology,
    largest: f64,
    eyes: Eyes<'_>,
    progress: &dyn Progress,
) -> Outcome {
    let ruler = Ruler::of(mesh);
    let pixel = 2.0 * mesh.radius / EDGE as f64;
    let (of, count) = patches(mesh, topology, PATCH_PIXELS * pixel);
    let groups = Groups {
        positions: &mesh.positions,
        triangles: &mesh.triangles,
        of: &of,
        count,
    };
    let Some(sight) = sight::from_all_around(groups, [PAIRS, FEWEST_PAIRS], progress) else {
        return Outcome::without(
            StepFate::Skipped,
            "its triangles overlap too often to be drawn from all around",
        );
    };
    progress.expect("a minimum cut", pass(mesh));
    let patches = Patches::new(mesh, topology, &of, &sight);
    let cut = match patches.cut(mesh, topology, &of, &ruler, progress) {
        Cut::Side(side) => side,
        Cut::AllSeen => {
            return Outcome::without(StepFate::Unchanged, "all of it is seen");
        }
        Cut::NothingOuter => {
            return Outcome::without(
                StepFate::Refused,
                "nothing of it counts as outside, so that all would go",
            );
        }
        Cut::TooLong => {
            return Outcome::without(StepFate::Skipped, "the minimum cut takes too many steps");
        }
    };
    let pieces = Pieces::new(topology, &of, &cut);
    let shown = eyes.sight(groups, progress);
    progress.expect("what is cut off", pass(mesh));
    let (goes, stayed) = pieces.judge(
        (mesh, topology),
        &patches,
        &shown,
        largest * ruler.side * ruler.side,
    );
    let going = |piece: u32| piece != Pieces::NONE && goes[piece as usize];
    let pictured = pictured(&shown, topology, &of);
    let leaves = |triangle: usize| going(pieces.of[triangle]) && !pictured[of[triangle] as usize];
    let gone = (0..mesh.triangles.len()).filter(|&t| leaves(t)).count();
    if gone == mesh.triangles.len() {
        return Outcome::without(StepFate::Refused, "all of it would go");
    }
    if gone > 0 {
        *mesh = edit::keep(mesh, |triangle| !leaves(triangle));
    }
    let mut notes = vec![format!("{} views", sight.views)];
    for (count, why) in [
        (stayed.visible, "are seen by many views"),
        (stayed.wide, "would leave too large an opening"),
        (stayed.shown, "are shown by the job's views"),
    ] {
        if count > 0 {
            notes.push(format!("{count} pieces stay that {why}"));
        }
    }
    let spared = (0..count).filter(|&patch| going(pieces.of_patch[patch]) && pictured[patch]);
    let spared = spared.count();
    if spared > 0 {
        notes.push(format!(
            "{spared} patches of others stay that the job's views show, or lie beside such"
        ));
    }
    Outcome {
        fate: StepFate::of(gone as u64),
        changed: gone as u64,
        note: notes.join("; "),
    }
}

/// For each patch, whether the job's views show it or a neighbour of it. Other views of the scene would show neighbours
/// as well.
fn pictured(shown: &Sight, topology: &Topology, of: &[u32]) -> Vec<bool> {
    let is_shown = |patch: usize| shown.pixels[patch] != [0; 2];
    let mut pictured: Vec<bool> = (0..shown.pixels.len()).map(is_shown).collect();
    for half in 0..3 * of.len() as u32 {
        if let Some(mate) = topology.mate(half) {
            let [patch, beside] = [half, mate].map(|half| of[half as usize / 3] as usize);
            pictured[patch] |= is_shown(beside);
        }
    }
    pictured
}

struct Patches {
    /// Share of the views that show the patch.
    seen: Vec<f64>,
    area: Vec<f64>,
    triangles: Vec<u64>,
    part: Vec<u32>,
    parts: usize,
}

enum Cut {
    /// For each patch, whether it is cut off.
    Side(Vec<bool>),
    AllSeen,
    NothingOuter,
    TooLong,
}

impl Patches {
    fn new(mesh: &CleanMesh, topology: &Topology, of: &[u32], sight: &Sight) -> Self {
        let count = sight.seen_in.len();
        let mut patches = Self {
            seen: sight
                .seen_in
                .iter()
                .map(|&views| f64::from(views) / f64::from(sight.views))
                .collect(),
            area: vec![0.0; count],
            triangles: vec![0; count],
            part: vec![0; count],
            parts: topology.part_count,
        };
        for (triangle, &patch) in of.iter().enumerate() {
            let [a, b, c] =
                mesh.triangles[triangle].map(|point| mesh.positions[point as usize].map(f64::from));
            patches.area[patch as usize] += length(cross(sub(b, a), sub(c, a))) / 2.0;
            patches.triangles[patch as usize] += 1;
            patches.part[patch as usize] = topology.parts[triangle];
        }
        patches
    }

    /// The view share that a fraction of the area of each group of patches does not exceed.
    fn quantiles(&self, group: &[u32], groups: usize, fraction: f64) -> Vec<f64> {
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); groups];
        for (patch, &group) in group.iter().enumerate() {
            if group != Pieces::NONE {
                of[group as usize].push(patch as u32);
            }
        }
        of.into_iter()
            .map(|mut patches| {
                patches.sort_by(|a, b| self.seen[*a as usize].total_cmp(&self.seen[*b as usize]));
                let area = |patch: &u32| self.area[*patch as usize];
                let wanted = fraction * patches.iter().map(area).sum::<f64>();
                let mut sum = 0.0;
                let reached = patches.iter().find(|patch| {
                    sum += area(patch);
                    sum >= wanted
                });
                reached
                    .or(patches.last())
                    .map_or(0.0, |&patch| self.seen[patch as usize])
            })
            .collect()
    }

    fn cut(
        &self,
        mesh: &CleanMesh,
        topology: &Topology,
        of: &[u32],
        ruler: &Ruler,
        progress: &dyn Progress,
    ) -> Cut {
        if self.seen.iter().all(|&seen| seen > 0.0) {
            return Cut::AllSeen;
        }
        let thresholds: Vec<f64> = self
            .quantiles(&self.part, self.parts, 0.75)
            .into_iter()
            .map(|third| third.clamp(OUTER[0], OUTER[1]))
            .collect();
        let is_outer = |patch: usize| self.seen[patch] >= thresholds[self.part[patch] as usize];
        if !(0..self.seen.len()).any(is_outer) {
            return Cut::NothingOuter;
        }
        let mut graph = Graph::new(self.seen.len());
        for patch in 0..self.seen.len() {
            let capacity = self.triangles[patch] * CAPACITY as u64;
            if self.seen[patch] == 0.0 {
                graph.feed(patch as u32, capacity);
            } else if is_outer(patch) {
                graph.drain(patch as u32, capacity);
            }
        }
        // One link per pair of neighbours, with the length of all edges between them.
        let mut links: Vec<(u32, u32, u64)> = Vec::new();
        for half in 0..3 * of.len() as u32 {
            let Some(mate) = topology.mate(half).filter(|&mate| mate > half) else {
                continue;
            };
            let (a, b) = (of[half as usize / 3], of[mate as usize / 3]);
            if a != b {
                let [from, to] = ends(&mesh.triangles, half)
                    .map(|point| mesh.positions[point as usize].map(f64::from));
                let share = length(sub(to, from)) / ruler.side;
                links.push((a.min(b), a.max(b), (share * CAPACITY).round() as u64));
            }
        }
        links.sort_unstable();
        for pair in links.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let sum = pair.iter().map(|link| link.2).sum::<u64>();
            graph.link(pair[0].0, pair[0].1, sum.max(1));
        }
        progress.expect("a minimum cut", FLOW_ROUND);
        graph.cut(FLOW_STEPS, unit).map_or(Cut::TooLong, Cut::Side)
    }
}

/// The connected pieces that were cut off.
struct Pieces {
    /// By triangle.
    of: Vec<u32>,
    /// By patch.
    of_patch: Vec<u32>,
    count: usize,
}

/// Number of pieces that stayed, by reason.
#[derive(Default)]
struct Stayed {
    visible: usize,
    wide: usize,
    shown: usize,
}

impl Pieces {
    /// Not cut off.
    const NONE: u32 = u32::MAX;

    fn new(topology: &Topology, patch: &[u32], cut: &[bool]) -> Self {
        let mut pieces = Self {
            of: vec![Self::NONE; patch.len()],
            of_patch: vec![Self::NONE; cut.len()],
            count: 0,
        };
        let is_cut = |triangle: usize| cut[patch[triangle] as usize];
        let mut open = Vec::new();
        for seed in 0..patch.len() {
            if !is_cut(seed) || pieces.of[seed] != Self::NONE {
                continue;
            }
            pieces.of[seed] = pieces.count as u32;
            open.push(seed);
            while let Some(triangle) = open.pop() {
                pieces.of_patch[patch[triangle] as usize] = pieces.count as u32;
                for half in 3 * triangle..3 * triangle + 3 {
                    if let Some(mate) = topology.mate(half as u32) {
                        let other = mate as usize / 3;
                        if is_cut(other) && pieces.of[other] == Self::NONE {
                            pieces.of[other] = pieces.count as u32;
                            open.push(other);
                        }
                    }
                }
            }
            pieces.count += 1;
        }
        pieces
    }

    fn judge(
        &self,
        (mesh, topology): (&CleanMesh, &Topology),
        patches: &Patches,
        shown: &Sight,
        largest: f64,
    ) -> (Vec<bool>, Stayed) {
        let medians = patches.quantiles(&self.of_patch, self.count, 0.5);
        let openings = self.openings(mesh, topology);
        let mut pixels = vec![0; self.count];
        let mut areas = vec![[0.0; 2]; self.count];
        let mut all = 0;
        for (patch, &piece) in self.of_patch.iter().enumerate() {
            let here = shown.pixels[patch][0] + shown.pixels[patch][1];
            all += here;
            if piece != Self::NONE {
                pixels[piece as usize] += here;
                areas[piece as usize][usize::from(here > 0)] += patches.area[patch];
            }
        }
        let mut stayed = Stayed::default();
        let goes = (0..self.count).map(|piece| {
            if medians[piece] > OUTER[0] {
                stayed.visible += 1;
            } else if openings[piece] > largest {
                stayed.wide += 1;
            } else if pixels[piece] as f64 > SHOWN_PIXELS * all as f64
                || areas[piece][1] > SHOWN_AREA * (areas[piece][0] + areas[piece][1])
            {
                stayed.shown += 1;
            } else {
                return true;
            }
            false
        });
        (goes.collect(), stayed)
    }

    /// The largest opening that each piece would leave, by the area of a fan over its border.
    fn openings(&self, mesh: &CleanMesh, topology: &Topology) -> Vec<f64> {
        let mut largest = vec![0.0f64; self.count];
        let mut border: Vec<Vec<[u32; 2]>> = vec![Vec::new(); self.count];
        for (triangle, &piece) in self.of.iter().enumerate() {
            if piece == Self::NONE {
                continue;
            }
            for half in 3 * triangle as u32..3 * triangle as u32 + 3 {
                let stays = |mate: u32| self.of[mate as usize / 3] == Self::NONE;
                if topology.mate(half).is_some_and(stays) {
                    border[piece as usize].push(ends(&mesh.triangles, half));
                }
            }
        }
        for (piece, edges) in border.into_iter().enumerate() {
            for edges in linked(edges) {
                largest[piece] = largest[piece].max(fan_area(mesh, &edges));
            }
        }
        largest
    }
}

/// Groups edges that are connected by their points.
fn linked(edges: Vec<[u32; 2]>) -> Vec<Vec<[u32; 2]>> {
    let mut points: Vec<u32> = edges.as_flattened().to_vec();
    points.sort_unstable();
    points.dedup();
    let number = |point: u32| points.binary_search(&point).unwrap_or(0);
    let mut roots: Vec<usize> = (0..points.len()).collect();
    fn root(roots: &mut [usize], mut at: usize) -> usize {
        while roots[at] != at {
            roots[at] = roots[roots[at]];
            at = roots[at];
        }
        at
    }
    for [a, b] in &edges {
        let [a, b] = [*a, *b].map(|point| root(&mut roots, number(point)));
        roots[a.max(b)] = a.min(b);
    }
    let mut of: Vec<Vec<[u32; 2]>> = vec![Vec::new(); points.len()];
    for edge in edges {
        of[root(&mut roots, number(edge[0]))].push(edge);
    }
    of.retain(|edges| !edges.is_empty());
    of
}

/// Area of the triangles from each edge to the mean of the edges' midpoints: TRELLIS' size of a hole.
pub(super) fn fan_area(mesh: &CleanMesh, edges: &[[u32; 2]]) -> f64 {
    let place = |point: u32| mesh.positions[point as usize].map(f64::from);
    let mut centre = [0.0; 3];
    for edge in edges {
        for end in edge.map(place) {
            for axis in 0..3 {
                centre[axis] += end[axis] / (2.0 * edges.len() as f64);
            }
        }
    }
    let double = edges.iter().map(|edge| {
        let [a, b] = edge.map(|point| sub(place(point), centre));
        length(cross(a, b))
    });
    double.sum::<f64>() / 2.0
}

pub(super) fn length(v: [f64; 3]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}
