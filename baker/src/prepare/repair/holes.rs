//! Fills small holes of a surface.
//!
//! A hole is a closed border with few enough edges and a small enough area. These are TRELLIS' two limits: it applies
//! the first to holes of the input and the second to openings left by its cut. The rim of a sheet is no hole, since
//! filling it would lay a second sheet on the first. Patches add no points, and are wound like most of the border.

use std::collections::HashSet;

use kiln_raster::vector::{cross, sub, unit};
use proto::message::{Phase, StepFate};
use rayon::prelude::*;

use super::span::{Rim, span};
use super::step::{Outcome, Ruler, pass};
use super::topology::{Border, Step, Topology, ends};
use super::unseen::{fan_area, length};
use crate::prepare::clean::{CleanMesh, MIN_HEIGHT};
use crate::worker::progress::{self, Progress};

/// A part whose area is smaller than this times its border's own area is a sheet with that border as its rim. Half a
/// sphere has 2.
const SHEET: f64 = 1.5;
/// Triangles that all spans together may try: about ten seconds.
const MAX_TRIED: u64 = 400_000_000;

/// The limits of a small hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Edges of the border.
    pub(super) edges: f64,
    /// Area as a share of the mesh's longest side squared.
    pub(super) area: f64,
}

pub(super) fn fill(
    mesh: &mut CleanMesh,
    topology: &Topology,
    limits: Limits,
    progress: &dyn Progress,
) -> Outcome {
    let lids = Lids::over(mesh, topology, limits, progress);
    mesh.triangles.extend(lids.triangles);
    Outcome {
        fate: StepFate::of(lids.filled),
        changed: lids.filled,
        note: lids.left.note(),
    }
}

/// The patches that close small holes.
pub(super) struct Lids {
    pub(super) triangles: Vec<[u32; 3]>,
    filled: u64,
    left: Left,
}

impl Lids {
    pub(super) const NONE: Self = Self {
        triangles: Vec::new(),
        filled: 0,
        left: Left {
            large: 0,
            sheets: 0,
            unspanned: 0,
            costly: 0,
        },
    };

    pub(super) fn over(
        mesh: &CleanMesh,
        topology: &Topology,
        limits: Limits,
        progress: &dyn Progress,
    ) -> Self {
        let (holes, mut left) = small(mesh, topology, limits);
        let total = holes.len() as u64;
        progress.progress(Phase::Repair, 0, total);
        progress.expect("filling holes", pass(mesh));
        let closed = edges_between(mesh, &holes);
        let patches: Vec<Option<Vec<[u32; 3]>>> = holes
            .par_iter()
            .map(|border| {
                let patch = patch(mesh, border, &closed);
                progress::unit();
                patch
            })
            .collect();
        progress.progress(Phase::Repair, total, total);
        let mut made = HashSet::new();
        let (mut triangles, mut filled) = (Vec::new(), 0);
        for patch in patches {
            // Two holes may share points. An edge across both would have four triangles.
            let patch =
                patch.filter(|patch| inner_edges(patch).iter().all(|edge| !made.contains(edge)));
            match patch {
                Some(patch) => {
                    made.extend(inner_edges(&patch));
                    triangles.extend(patch);
                    filled += 1;
                }
                None => left.unspanned += 1,
            }
        }
        Self {
            triangles,
            filled,
            left,
        }
    }
}

/// The borders to fill, and how many others stay open and why.
fn small<'a>(mesh: &CleanMesh, topology: &'a Topology, limits: Limits) -> (Vec<&'a Border>, Left) {
    let ruler = Ruler::of(mesh);
    let mut areas = vec![0.0; topology.part_count];
    for (corners, &part) in mesh.triangles.iter().zip(&topology.parts) {
        let [a, b, c] = corners.map(|point| mesh.positions[point as usize].map(f64::from));
        areas[part as usize] += length(cross(sub(b, a), sub(c, a))) / 2.0;
    }
    let mut left = Left::default();
    let mut holes: Vec<&Border> = Vec::new();
    for border in &topology.loops {
        let pairs: Vec<[u32; 2]> = border
            .iter()
            .map(|step| ends(&mesh.triangles, step.half))
            .collect();
        let area = fan_area(mesh, &pairs);
        let part = topology.parts[border[0].half as usize / 3];
        if border.len() as f64 > limits.edges || area > limits.area * ruler.side * ruler.side {
            left.large += 1;
        } else if areas[part as usize] < SHEET * area {
            left.sheets += 1;
        } else {
            holes.push(border);
        }
    }
    // Small ones first, so that the bound on steps excludes the fewest.
    holes.sort_by_key(|border| border.len());
    let mut tried = 0;
    let affordable = holes.partition_point(|border| {
        tried += (border.len() as u64).pow(3) / 6;
        tried <= MAX_TRIED
    });
    left.costly = holes.len() - affordable;
    holes.truncate(affordable);
    (holes, left)
}

/// Borders that stay open, by reason.
#[derive(Default)]
struct Left {
    large: usize,
    sheets: usize,
    unspanned: usize,
    costly: usize,
}

impl Left {
    fn note(&self) -> String {
        let notes: Vec<String> = [
            (self.large, "are larger than allowed"),
            (self.sheets, "are rims of sheets"),
            (
                self.unspanned,
                "cannot be spanned without folding the surface",
            ),
            (self.costly, "would take too many steps"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} borders stay open that {why}"))
        .collect();
        notes.join("; ")
    }
}

/// All edges of the mesh between two points on holes.
fn edges_between(mesh: &CleanMesh, holes: &[&Border]) -> HashSet<[u32; 2]> {
    let mut on_hole = vec![false; mesh.positions.len()];
    for step in holes.iter().copied().flatten() {
        on_hole[step.point as usize] = true;
    }
    let sides = mesh
        .triangles
        .iter()
        .flat_map(|[a, b, c]| [[*a, *b], [*b, *c], [*c, *a]]);
    sides
        .filter(|edge| edge.iter().all(|&point| on_hole[point as usize]))
        .map(|[a, b]| [a.min(b), a.max(b)])
        .collect()
}

/// Edges shared by two triangles of a patch.
fn inner_edges(patch: &[[u32; 3]]) -> Vec<[u32; 2]> {
    let sides = patch
        .iter()
        .flat_map(|[a, b, c]| [[*a, *b], [*b, *c], [*c, *a]]);
    let mut sides: Vec<[u32; 2]> = sides.map(|[a, b]| [a.min(b), a.max(b)]).collect();
    sides.sort_unstable();
    let twice = sides.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
    twice.map(|same| same[0]).collect()
}

fn patch(mesh: &CleanMesh, border: &Border, closed: &HashSet<[u32; 2]>) -> Option<Vec<[u32; 3]>> {
    // A patch runs along the border against the triangles there.
    let against = |step: &Step| ends(&mesh.triangles, step.half)[0] != step.point;
    let forward = 2 * border.iter().filter(|step| against(step)).count() >= border.len();
    let mut steps = border.clone();
    if !forward {
        // In reverse, the edge to the next point is the one that came from it.
        let points: Vec<u32> = border.iter().rev().map(|step| step.point).collect();
        let n = points.len();
        steps = (0..n)
            .map(|k| Step {
                point: points[k],
                half: border[(2 * n - 2 - k) % n].half,
            })
            .collect();
    }
    let points: Vec<[f64; 3]> = steps
        .iter()
        .map(|step| mesh.positions[step.point as usize].map(f64::from))
        .collect();
    let beyond: Vec<Option<[f64; 3]>> = steps
        .iter()
        .map(|step| {
            let [a, b, c] = mesh.triangles[step.half as usize / 3]
                .map(|point| mesh.positions[point as usize].map(f64::from));
            let normal = unit(cross(sub(b, a), sub(c, a)))?;
            Some(if against(step) {
                normal
            } else {
                normal.map(|x| -x)
            })
        })
        .collect();
    let rim = Rim {
        points: &points,
        beyond: &beyond,
        least_height: MIN_HEIGHT * 2.0 * mesh.radius,
    };
    let barred = |a: usize, b: usize| {
        let (a, b) = (steps[a].point, steps[b].point);
        closed.contains(&[a.min(b), a.max(b)])
    };
    let spanned = span(&rim, barred)?;
    Some(
        spanned
            .into_iter()
            .map(|corners| corners.map(|at| steps[at].point))
            .collect(),
    )
}
