//! What a job's JSON says of its mesh → [`Repair`] and [`Simplify`], checked.

use proto::job::{Repair, Simplify};
use proto::limits::{MAX_HOLE_EDGES, MAX_HOLE_SIZE, MAX_TRIANGLES, MAX_WELD};

use super::{JobSpec, Problem};

impl JobSpec {
    pub(super) fn check_mesh(&self) -> Result<(), Problem> {
        let within = |value: Option<f64>, most: f32| {
            value.is_none_or(|value| value > 0.0 && single(value) <= most)
        };
        let wrong = |field: &str, why: String| Err(Problem::field(field, why));
        match (self.target_faces, self.simplify) {
            (Some(_), Some(_)) => {
                return wrong("simplify", "not together with target_faces".to_owned());
            }
            (Some(count), None) if !(1..=MAX_TRIANGLES).contains(&(count as usize)) => {
                return wrong("target_faces", format!("must be from 1 to {MAX_TRIANGLES}"));
            }
            (None, Some(share)) if !(0.0..1.0).contains(&share) => {
                return wrong("simplify", "must be at least 0 and less than 1".to_owned());
            }
            _ => {}
        }
        if self.uv_set.is_some() && !self.keep_uvs {
            return wrong(
                "uv_set",
                "is for keep_uvs: which of the mesh's sets is kept".to_owned(),
            );
        }
        if self.fill_holes.is_some() && self.keep_uvs {
            let why = "not together with keep_uvs: what is filled has no texture coordinates";
            return wrong("fill_holes", why.to_owned());
        }
        if !within(self.fill_holes, MAX_HOLE_SIZE) {
            let why = format!("must be above 0, and {MAX_HOLE_SIZE} at most");
            return wrong("fill_holes", why);
        }
        if !within(self.weld, MAX_WELD) {
            let why = format!("must be above 0, and {MAX_WELD} at most");
            return wrong("weld", why);
        }
        if !(3..=MAX_HOLE_EDGES).contains(&self.hole_edges) {
            let why = format!("must be from 3 to {MAX_HOLE_EDGES}");
            return wrong("hole_edges", why);
        }
        Ok(())
    }

    /// What is to be simplified.
    #[must_use]
    pub fn simplify(&self) -> Simplify {
        match (self.target_faces, self.simplify) {
            (Some(count), _) => Simplify::TargetFaces(count),
            (None, Some(share)) if share > 0.0 => Simplify::RemoveShare(below_one(share)),
            (None, _) => Simplify::Keep,
        }
    }

    /// What is to be mended of the mesh.
    #[must_use]
    pub fn repair(&self) -> Repair {
        Repair {
            weld: self.weld.map(single),
            orient: self.orient,
            remove_unseen: self.remove_unseen,
            fill_holes: self.fill_holes.map(single),
            hole_edges: self.hole_edges,
            up: self.up,
        }
    }
}

/// The nearest `f32`, which of a number above 0 is above 0 too.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn single(value: f64) -> f32 {
    (value as f32).max(f32::MIN_POSITIVE)
}

/// The nearest `f32` that is less than 1, as `share` is.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn below_one(share: f64) -> f32 {
    (share as f32).min(1.0_f32.next_down())
}
