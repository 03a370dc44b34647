//! Whether the mesh stands where the views look: some of their silhouettes are compared with its own before anything
//! else is made of the views ([`crate::prepare::frame`]).

use std::time::Duration;

use proto::job::{Frame, PrepareJob};
use proto::message::{Code, Failure};
use rayon::prelude::*;

use super::IN_FLIGHT_BYTES;
use super::borders::Sample;
use super::set::{Set, Source, in_file};
use crate::prepare::frame::{
    Candidate, DATAPARSER, Input, POINTS, Silhouette, Similarity, Verdict, all_fit, judge, off,
    picked, places, spread, straight,
};
use crate::prepare::load::Offset;
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};

/// Views whose silhouettes are compared, and how many of them suffice where each fits.
const VIEWS: usize = 16;
const FIRST: usize = 6;
/// Predicted duration of one step of the search for another frame.
const STEP: Duration = Duration::from_secs(2);
/// Names of views that a warning gives.
const NAMES: usize = 3;

/// What was found of the frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Stand {
    /// The frame that is taken instead of the given one.
    taken: Option<Candidate>,
    /// The mesh is known to be where the cameras look.
    sure: bool,
    /// Numbers of views that look elsewhere while most do not, in ascending order.
    pub(super) left_out: Vec<usize>,
}

impl Stand {
    /// Where the mesh lies in the world of the views.
    pub(super) fn place(&self) -> Similarity {
        self.taken.map_or(Similarity::NONE, |taken| taken.place)
    }

    /// Whether the cameras are not those that the file gives.
    pub(super) fn is_other(&self) -> bool {
        self.taken.is_some()
    }

    /// Changes the cameras of `set`, or warns where only the user can know that they are right.
    pub(super) fn apply(&self, set: &mut Set<'_>, progress: &dyn Progress) {
        if let Some(candidate) = &self.taken {
            set.take(candidate);
        }
        if let Some(applied) = set.applied.as_ref().filter(|_| !self.sure) {
            progress.warning(&format!("{}: {}", set.file, applied.warning()));
        }
    }
}

/// Looks at some views: whether their pictures have wedges, and, unless [`Frame::Given`] says that they are right, whether
/// their silhouettes are those of the mesh at an offset. What is wrong with the pictures is left to
/// [`super::Views::deliver`].
///
/// # Errors
/// They do not belong together, and no other frame in use fits.
pub(super) fn settle(
    set: &mut Set<'_>,
    job: &PrepareJob,
    surface: (&[[f32; 3]], &[[u32; 3]], Offset),
    progress: &dyn Progress,
) -> Result<Stand, Failure> {
    set.wedges = have_wedges(set, progress);
    match job.frame {
        Frame::Auto => compare(set, job, surface, progress),
        Frame::Given => Ok(Stand::default()),
    }
}

/// Whether the pictures have wedges, by a few of them that are opaque. The first one mostly says that none is.
fn have_wedges(set: &Set<'_>, progress: &dyn Progress) -> bool {
    let mut sample = Sample::default();
    for index in picked(set.len(), FIRST) {
        let Ok(source) = set.source(index) else {
            continue;
        };
        progress.expect("borders", each(source.decoding_bytes(), pace::DECODE_BYTE));
        let Some(wedged) = source.has_wedges() else {
            break;
        };
        sample.views += 1;
        sample.wedged += u32::from(wedged);
        // Most sets have none, and a second look at their pictures is not free.
        if sample.views == 2 && sample.wedged == 0 {
            break;
        }
    }
    sample.has_wedges()
}

/// Compares the silhouettes of some views with those of the mesh.
fn compare(
    set: &Set<'_>,
    job: &PrepareJob,
    (positions, triangles, offset): (&[[f32; 3]], &[[u32; 3]], Offset),
    progress: &dyn Progress,
) -> Result<Stand, Failure> {
    let (up, mesh) = (job.repair.up, job.mesh_file.as_str());
    let picked = picked(set.len(), VIEWS);
    let (first, rest) = picked.split_at(FIRST.min(picked.len()));
    let mut silhouettes = silhouettes(set, first, progress);
    if silhouettes.is_empty() {
        return Ok(Stand::default());
    }
    progress.expect(
        "silhouettes of the mesh",
        each(triangles.len(), pace::TRIANGLE) + STEP,
    );
    // Their own world, in f64, since a matrix may be read the other way only about its origin.
    let mut points = spread(positions, triangles, POINTS);
    points
        .iter_mut()
        .for_each(|at| *at = in_file(*at, offset, up));
    let poses = set.poses();
    let mut input = Input {
        poses: &poses,
        views: silhouettes.clone(),
        points,
        opengl: set.opengl(),
        own: set.has_own_cameras(),
        known: Vec::new(),
    };
    if let Some(refused) = straight(&input) {
        return settled(refused, set, mesh, progress);
    }
    if all_fit(&input) {
        return Ok(Stand {
            sure: true,
            ..Stand::default()
        });
    }
    silhouettes.extend(self::silhouettes(set, rest, progress));
    silhouettes.sort_by_key(|(index, _)| *index);
    input.views = silhouettes;
    input.known = places(set.applied.as_ref(), set.beside(DATAPARSER).as_deref());
    progress.expect("frames", STEP);
    let verdict = judge(&input, &unit);
    if matches!(&verdict, Verdict::Fits { off } if !off.is_empty()) {
        let all: Vec<usize> = (0..set.len()).collect();
        input.views = self::silhouettes(set, &all, progress);
        progress.expect(
            "silhouettes of the mesh",
            each(input.views.len(), pace::TRIANGLE) + STEP,
        );
        let off = off(&input);
        return settled(Verdict::Fits { off }, set, mesh, progress);
    }
    settled(verdict, set, mesh, progress)
}

/// What follows for the views of the file `mesh`.
fn settled(
    verdict: Verdict,
    set: &Set<'_>,
    mesh: &str,
    progress: &dyn Progress,
) -> Result<Stand, Failure> {
    let mut stand = Stand::default();
    match verdict {
        Verdict::Unknown => {}
        Verdict::Fits { off } => {
            stand.sure = true;
            if !off.is_empty() {
                let mut names: Vec<String> = off
                    .iter()
                    .take(NAMES)
                    .map(|&index| set.name(index))
                    .collect();
                if off.len() > NAMES {
                    names.push("…".to_owned());
                }
                progress.warning(&format!(
                    "{} of {} views look elsewhere, as with cameras that were not found, and are left out: their silhouettes are not the mesh's ({})",
                    off.len(),
                    set.len(),
                    names.join(", ")
                ));
                stand.left_out = off;
            }
        }
        Verdict::Doubtful(text) => progress.warning(&format!("{}: {text}", set.file)),
        Verdict::Other(candidate, text) => {
            progress.warning(&format!("{}: {text}", set.file));
            stand.taken = Some(candidate);
            stand.sure = true;
        }
        Verdict::Refused(text, hint) => {
            return Err(Failure {
                code: Code::InvalidAsset,
                message: format!("{mesh} with {}: {text}", set.file),
                hint: hint.to_owned(),
            });
        }
    }
    Ok(stand)
}

/// The silhouettes of these views, as far as they have any.
fn silhouettes(
    set: &Set<'_>,
    views: &[usize],
    progress: &dyn Progress,
) -> Vec<(usize, Silhouette)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut batch: Vec<(usize, Source<'_>)> = Vec::new();
    let mut decode = |batch: &mut Vec<(usize, Source<'_>)>, bytes: usize| {
        progress.expect("silhouettes", each(bytes, pace::DECODE_BYTE));
        let decoded = batch.par_drain(..).map(|(index, source)| {
            let silhouette = source.silhouette();
            unit();
            Some((index, silhouette?))
        });
        found.par_extend(decoded.flatten_iter());
    };
    for &index in views {
        let Ok(source) = set.source(index) else {
            continue;
        };
        let needed = source.decoding_bytes();
        if bytes + needed > IN_FLIGHT_BYTES && !batch.is_empty() {
            decode(&mut batch, bytes);
            bytes = 0;
        }
        bytes += needed;
        batch.push((index, source));
    }
    decode(&mut batch, bytes);
    found
}
