//! Makes a cleaned surface fit to texture: welds it, winds it consistently, removes unseen parts and fills small holes.
//! Each step runs only on request.
//!
//! ```text
//!   weld ─► orient ─► remove unseen ─► fill holes
//! ```
//!
//! TRELLIS' `to_glb` does this between decimation and unwrap. Here it precedes simplification, so that no triangle is
//! spent on removed parts. Each step is bounded in steps, not in seconds, so every machine gives the same mesh. A step
//! that would take too long is skipped and one that would do harm is refused; the report says so, with counts before
//! and after.

use std::time::{Duration, Instant};

use proto::job::Repair;
use proto::message::{MeshStep, Phase, StepFate, StepKind};

use super::clean::CleanMesh;
use crate::worker::progress::Progress;

mod weld;

mod orient;

mod unseen;

mod sight;

mod canvas;

mod patches;

mod holes;

mod span;

mod topology;

mod edit;
mod step;
#[cfg(test)]
mod tests;

use self::holes::Lids;
pub(crate) use self::sight::Eye;
use self::step::{Outcome, pass};
use self::topology::Topology;

/// Runs the steps that are asked for. `eyes` are the cameras of the job's views.
pub(crate) fn repair(
    mut mesh: CleanMesh,
    wish: &Repair,
    eyes: &[Eye],
    progress: &dyn Progress,
) -> (CleanMesh, Vec<MeshStep>) {
    let wanted = [
        (StepKind::Weld, wish.weld.is_some()),
        (StepKind::Orient, wish.orient),
        (StepKind::RemoveUnseen, wish.remove_unseen),
        (StepKind::FillHoles, wish.fill_holes.is_some()),
    ];
    let fills = wish.fill_holes.is_some() && mesh.corner_uvs.is_none();
    let mut steps = Vec::new();
    let mut topology = None;
    let wanted: Vec<StepKind> = wanted
        .into_iter()
        .filter_map(|(kind, wanted)| wanted.then_some(kind))
        .collect();
    for (number, &kind) in wanted.iter().enumerate() {
        let progress = &Share {
            of: progress,
            number: number as u64,
            steps: wanted.len() as u64,
        };
        progress.progress(Phase::Repair, 0, 1);
        progress.expect(name(kind), pass(&mesh));
        let start = Instant::now();
        let known = topology.take();
        let found = known.unwrap_or_else(|| Topology::new(&mesh.triangles, mesh.positions.len()));
        let limits = holes::Limits {
            edges: f64::from(wish.hole_edges),
            area: f64::from(wish.fill_holes.unwrap_or(Repair::HOLE_SIZE)),
        };
        let outcome = match kind {
            StepKind::Weld => weld::weld(&mut mesh, &found, f64::from(wish.weld.unwrap_or(0.0))),
            StepKind::Orient => orient::orient(&mut mesh, &found, progress),
            StepKind::RemoveUnseen => {
                let lids = match fills {
                    true => Lids::over(&mesh, &found, limits, progress),
                    false => Lids::NONE,
                };
                let eyes = unseen::Eyes {
                    eyes,
                    lids: &lids.triangles,
                };
                unseen::remove(&mut mesh, &found, limits.area, eyes, progress)
            }
            StepKind::FillHoles if !fills => Outcome::without(
                StepFate::Refused,
                "what is filled would have no texture coordinates",
            ),
            StepKind::FillHoles => holes::fill(&mut mesh, &found, limits, progress),
        };
        let before = found.counts();
        let left = match outcome.changed {
            0 => found,
            _ => Topology::new(&mesh.triangles, mesh.positions.len()),
        };
        if matches!(outcome.fate, StepFate::Skipped | StepFate::Refused) {
            let (step, why) = (name(kind), &outcome.note);
            progress.warning(&format!("{step} was left out: {why}"));
        }
        steps.push(MeshStep {
            step: kind,
            fate: outcome.fate,
            changed: outcome.changed,
            note: outcome.note,
            ms: start.elapsed().as_secs_f64() * 1e3,
            before,
            after: left.counts(),
        });
        mesh.counts.nonmanifold_edges = left.counts().nonmanifold_edges;
        topology = Some(left);
    }
    (mesh, steps)
}

/// Maps the progress of one step to that of all steps.
struct Share<'a> {
    of: &'a dyn Progress,
    number: u64,
    steps: u64,
}

impl Progress for Share<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        const PARTS: u64 = 1000;
        let within = PARTS * done.min(total) / total.max(1);
        self.of
            .progress(phase, self.number * PARTS + within, self.steps * PARTS);
    }

    fn expect(&self, label: &str, predicted: Duration) {
        self.of.expect(label, predicted);
    }

    fn warning(&self, text: &str) {
        self.of.warning(text);
    }
}

fn name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Weld => "welding borders",
        StepKind::Orient => "turning triangles outwards",
        StepKind::RemoveUnseen => "removing what is unseen",
        StepKind::FillHoles => "filling holes",
    }
}
