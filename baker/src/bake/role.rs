//! The bake as a process's role: receives the tables, bakes, and sends what was made.

use std::os::fd::OwnedFd;
use std::time::Instant;

use proto::blob::BlobFile;
use proto::job::{BakeJob, Product};
use proto::message::{BakeSummary, Failure, StageTime, Table};
use proto::table::{LayerSet, Refined, Surface};

use super::finish::Baked;
use super::vertices::{self, Coloured};
use crate::bake::intake::view_source::{Artist, HandedViews, Unwrapped, ViewSource};
use crate::bake::plan::artist::GpuArtist;
use crate::bake::plan::warm::Warm;
use crate::image::splats::Undrawn;
use crate::worker::failure::internal;
use crate::worker::memory::peak_rss_kib;
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};
use crate::worker::session::{Session, take_fds, unchanged};

/// Runs the role: receives the tables, bakes, and sends the texture back.
///
/// # Errors
/// A failure with a message and a hint for the user.
pub fn run(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    fds: Vec<OwnedFd>,
) -> Result<BakeSummary, Failure> {
    let stages = warm.stages();
    let (surface, splats) = inputs(session, fds)?;
    let (summary, came) = match job.product {
        Product::Texture => texture(session, warm, job, (surface, splats))?,
        Product::VertexColours => colours(session, warm, job, (surface, splats))?,
    };
    let mut summary = BakeSummary {
        peak_rss_kib: peak_rss_kib(),
        pipeline_cache: stages.map(|(origin, _)| origin),
        from_mesh_ms: came.elapsed().as_secs_f64() * 1e3,
        ..summary
    };
    if let Some((_, ms)) = stages {
        let (stage, count) = ("stages".to_owned(), 1);
        (summary.host_times).insert(0, StageTime { stage, ms, count });
    }
    Ok(summary)
}

/// The views of a job that makes a texture, which its device draws where they show splats and its memory holds them.
pub(super) struct Views<'a> {
    pub(super) views: HandedViews<'a>,
    /// The job for the rest of the device's memory.
    pub(super) job: BakeJob,
    /// Device memory for drawing, before the first view.
    pub(super) drawing_bytes: u64,
}

impl<'a> Views<'a> {
    pub(super) fn new(
        session: &'a Session,
        warm: &Warm,
        job: &BakeJob,
        splats: Option<Undrawn>,
    ) -> Result<Self, Failure> {
        let artist = match &splats {
            Some(splats) => GpuArtist::new(warm, splats, job)?,
            None => None,
        };
        let drawing_bytes = artist.as_ref().map_or(0, GpuArtist::bytes);
        let artist = artist.map(|artist| Box::new(artist) as Box<dyn Artist + Send>);
        Ok(Self {
            views: HandedViews::new(session, splats, artist),
            job: BakeJob {
                vram_budget: job.vram_budget.map(|all| all.saturating_sub(drawing_bytes)),
                ..job.clone()
            },
            drawing_bytes,
        })
    }
}

/// Bakes and sends a texture. Returns its report, and when the mesh came.
fn texture(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    (surface, splats): (Surface, Option<Undrawn>),
) -> Result<(BakeSummary, Instant), Failure> {
    let Views {
        mut views,
        job,
        drawing_bytes,
    } = Views::new(session, &warm, job, splats)?;
    let Baked {
        texture,
        rejected,
        refined,
        came,
        mut summary,
    } = super::bake(surface, warm, &job, session, &mut views)?;
    summary.peak_vram_kib += drawing_bytes / 1024;
    (summary.host_times).extend(views.drawn());
    put_refined(session, refined.as_ref())?;
    for (view, picture) in rejected {
        let unchanged = unchanged(&picture);
        session.put_file(Table::Rejected(view), picture, unchanged)?;
    }
    session
        .put(Table::Texture, texture.byte_len(), |out| texture.write(out))
        .map_err(|error| internal(&error))?;
    Ok((summary, came))
}

/// Bakes and sends colours of vertices. Returns their report, and when the mesh came.
fn colours(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    (surface, splats): (Surface, Option<Undrawn>),
) -> Result<(BakeSummary, Instant), Failure> {
    let blend = warm.blend;
    if job.rejected {
        session
            .warning("nothing is drawn of what was rejected: colours of vertices take every pixel");
    }
    // The open adapter is dropped: nothing of this product may depend on it.
    drop(warm);
    let mut views = HandedViews::new(session, splats, None);
    let mut layers = LayerSet::default();
    let Unwrapped { mesh, came, .. } = views.mesh()?;
    let next_view = || {
        Ok(views.next(LayerSet::default())?.map(|(layered, set)| {
            layers = layers.or(set);
            layered.view
        }))
    };
    let Coloured {
        colours,
        refined,
        summary,
    } = vertices::bake(&mesh, surface, blend, job.refine, session, next_view)?;
    put_refined(session, refined.as_ref())?;
    if !layers.is_empty() {
        session.warning(
            "no channels beside the base colour: colours of vertices have no texture for them",
        );
    }
    session
        .put(Table::Colours, colours.byte_len(), |out| colours.write(out))
        .map_err(|error| internal(&error))?;
    Ok((summary, came))
}

/// Sends the refined cameras and exposures, if any differ from what was given.
fn put_refined(session: &Session, refined: Option<&Refined>) -> Result<(), Failure> {
    let Some(refined) = refined else {
        return Ok(());
    };
    session
        .put(Table::Refined, refined.byte_len(), |out| refined.write(out))
        .map_err(|error| internal(&error))
}

/// Reads the surface that the views show, and the splats that they are to be drawn of, where they come without pixels.
pub(super) fn inputs(
    session: &Session,
    mut fds: Vec<OwnedFd>,
) -> Result<(Surface, Option<Undrawn>), Failure> {
    let splats = Undrawn::read_first(fds.split_off(fds.len().min(1)))?;
    let [surface] = take_fds(fds)?;
    let surface = BlobFile::open(surface).map_err(|error| internal(&error))?;
    session.expect(
        "reading the surface",
        each(surface.len() as usize, pace::TABLE_BYTE),
    );
    let surface = Surface::read(&mut surface.reader()).map_err(|error| internal(&error))?;
    unit();
    Ok((surface, splats))
}
