//! What every step of the repair gives and takes.

use std::time::Duration;

use proto::message::StepFate;

use crate::prepare::clean::CleanMesh;
use crate::worker::pace;
use crate::worker::progress::each;

/// The result of a step.
pub(super) struct Outcome {
    pub(super) fate: StepFate,
    /// Points, triangles or holes, depending on the step.
    pub(super) changed: u64,
    pub(super) note: String,
}

impl Outcome {
    pub(super) fn without(fate: StepFate, note: &str) -> Self {
        Self {
            fate,
            changed: 0,
            note: note.to_owned(),
        }
    }
}

/// The unit of relative sizes.
pub(super) struct Ruler {
    /// Longest side of the bounding box.
    pub(super) side: f64,
}

impl Ruler {
    pub(super) fn of(mesh: &CleanMesh) -> Self {
        let side = |axis: usize| {
            let along = mesh.positions.iter().map(|at| f64::from(at[axis]));
            along.clone().fold(f64::NEG_INFINITY, f64::max) - along.fold(f64::INFINITY, f64::min)
        };
        Self {
            side: (0..3).map(side).fold(0.0, f64::max),
        }
    }
}

/// Predicted duration of a step between two progress counts: a few passes over all triangles.
pub(super) fn pass(mesh: &CleanMesh) -> Duration {
    each(mesh.triangles.len(), pace::REPAIR_TRIANGLE) + pace::REPAIR
}
