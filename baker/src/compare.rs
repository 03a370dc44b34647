//! One or two finished GLBs and views → how well each matches the views, figures of its unwrap, and a contact sheet.
//!
//! | module | purpose |
//! |---|---|
//! | `model` | GLB → mesh, pictures, and figures of its unwrap that need no view |
//! | `normals` | the surface that they were simplified from → angles between normals |
//! | `score` | view, mesh → PSNR, SSIM, missing pixels |
//! | `gain` | a view and its render → the gain between them, and the PSNR after it |
//! | `ssim` | two pictures → their structural similarity |
//! | `seen` | views → the texels visible in one of them |
//! | `sheet` | some views, renders, errors → a picture side by side |
//!
//! Files of other programs come in as bytes, so this runs in prepare's role, with its sandbox and its way of opening
//! files. The figures are those of a bake's own report ([`crate::image::measure`], [`crate::image::survey`]). Views are
//! decoded and dropped one by one.

mod gain;
mod model;
mod normals;
mod score;
mod seen;
mod sheet;
mod ssim;

use std::time::Duration;

use proto::job::CompareJob;
use proto::message::{
    Code, CompareModel, CompareScore, CompareSummary, Failure, Phase, Root, Table,
};

use crate::bake::model::scene::Frame;
use crate::image::png;
use crate::prepare::load::Offset;
use crate::prepare::views::Whole;
use crate::worker::failure::internal;
use crate::worker::folder::Folder;
use crate::worker::memory::peak_rss_kib;
use crate::worker::pace;
use crate::worker::progress::{PhaseClock, Progress, each, unit};
use crate::worker::session::Session;

use model::Model;
use normals::{Angles, Shaded};
use score::Score;
use sheet::Row;

/// Largest number of views: the figures of all views are sent in one packet.
const MAX_VIEWS: usize = 2048;
/// Predicted duration of a band of a view, whose pixels are bounded, for any mesh.
const BAND: Duration = Duration::from_secs(1);

/// Runs the job.
///
/// # Errors
/// What the user is told.
pub fn run(session: &Session, job: &CompareJob) -> Result<CompareSummary, Failure> {
    let [first, second, views] =
        [Root::Mesh, Root::Second, Root::Views].map(|root| Folder::new(session, root));
    let mut clock = PhaseClock::default();
    let named = [(&first, Some(&job.first)), (&second, job.second.as_ref())];
    // Far from the origin all share the local one of the first.
    let mut models: Vec<Model> = Vec::new();
    for (folder, name) in named {
        if let Some(name) = name {
            let offset = models.first().map(|first| first.offset);
            let read = || Model::read(folder, name, offset, session);
            models.push(clock.time(Phase::LoadMesh, read)?);
        }
    }
    let offset = models.first().map_or([0.0; 3], |first| first.offset);
    let surface = models.first().map_or((&[][..], &[][..]), |first| {
        (
            first.mesh.positions.as_slice(),
            first.mesh.triangles.as_slice(),
        )
    });
    let views = Whole::read(&views, &job.views_file, (job.up, offset), surface, session)?;
    let original = Folder::new(session, Root::Original);
    let read = |name: &String| surfaces((&original, name), [&first, &second], job, offset, session);
    let normals = clock.time(Phase::LoadMesh, || {
        job.normals_of.as_ref().map(read).transpose()
    })?;
    let (models, rows) = compare(
        (&models, normals.as_ref()),
        &views,
        job,
        session,
        &mut clock,
    )?;
    if job.picture {
        session.progress(Phase::Preview, 0, 1);
        let picture = clock.time(Phase::Preview, || sheet::draw(&rows, &models));
        let picture = picture.map_err(|error| internal(&error))?;
        let whole = |file: &[u8]| png::decode(file).map_err(|error| internal(&error));
        session.put_file(Table::Preview, picture, whole)?;
        session.progress(Phase::Preview, 1, 1);
    }
    Ok(CompareSummary {
        models,
        times: clock.into_times(),
        peak_rss_kib: peak_rss_kib(),
    })
}

/// What normals are compared of: the meshes, the original, and the ball around that.
struct Surfaces {
    meshes: Vec<Shaded>,
    original: Shaded,
    frame: Frame,
}

/// Reads what normals are compared of, less the offset of the meshes.
fn surfaces(
    (folder, name): (&Folder<'_>, &str),
    [first, second]: [&Folder<'_>; 2],
    job: &CompareJob,
    offset: Offset,
    progress: &dyn Progress,
) -> Result<Surfaces, Failure> {
    let back = job.up.back(offset);
    let turn = |at| job.up.turned(at);
    let (original, frame) = Shaded::original((folder, name), back, turn, progress)?;
    let named = [(first, Some(&job.first)), (second, job.second.as_ref())];
    let meshes = named.into_iter().filter_map(|(folder, name)| {
        Some(Shaded::finished((folder, name?), (offset, frame), progress))
    });
    Ok(Surfaces {
        meshes: meshes.collect::<Result<_, _>>()?,
        original,
        frame,
    })
}

/// Scores every view with every model. Also returns the rows of the sheet.
fn compare(
    (models, normals): (&[Model], Option<&Surfaces>),
    views: &Whole<'_>,
    job: &CompareJob,
    progress: &dyn Progress,
    clock: &mut PhaseClock,
) -> Result<(Vec<CompareModel>, Vec<Row>), Failure> {
    let count = views.len();
    if count > MAX_VIEWS {
        return Err(Failure {
            code: Code::LimitExceeded,
            message: format!(
                "{}: {count} views, more than the {MAX_VIEWS} that are compared",
                job.views_file
            ),
            hint: "name fewer views".to_owned(),
        });
    }
    let shown = if job.picture {
        sheet::choose(count)
    } else {
        Vec::new()
    };
    let mut scores: Vec<Vec<Score>> = vec![Vec::new(); models.len()];
    let mut seen: Vec<_> = models.iter().map(seen::Seen::new).collect();
    let mut angles = vec![Angles::default(); models.len()];
    let mut rows = Vec::new();
    for index in 0..count {
        progress.progress(Phase::Measure, index as u64, count as u64);
        let view = clock.time(Phase::DecodeViews, || views.load(index, progress))?;
        let mut row = shown.contains(&index).then(|| Row::new(&view));
        for (number, model) in models.iter().enumerate() {
            let band = each(model.mesh.triangles.len(), pace::BAND_TRIANGLE) + BAND;
            progress.expect("a band of a view", band);
            clock.time(Phase::Measure, || {
                let mut cells = row.as_mut().map(|row| row.add(&view));
                let score = score::score(
                    model,
                    &view,
                    job.blend,
                    |pixel| cells.iter_mut().for_each(|cells| cells.add(pixel)),
                    |_pixels| unit(),
                );
                if let Some(cells) = cells {
                    cells.finish(&score.row);
                }
                scores[number].push(score);
                seen[number].look(model, &view);
                if let Some(normals) = normals {
                    let both = (&normals.meshes[number], &normals.original);
                    let of = (&view.camera, [view.width, view.height]);
                    angles[number].look(both, &normals.frame, of);
                }
            });
        }
        rows.extend(row);
    }
    progress.progress(Phase::Measure, count as u64, count as u64);
    if scores.iter().flatten().all(|score| score.row.pixels == 0) {
        return Err(Failure {
            code: Code::InvalidAsset,
            message: format!(
                "{}: no view shows any of it: not one pixel lies wholly on a mesh and is opaque",
                job.views_file
            ),
            hint: "check that meshes and transforms share one coordinate frame".to_owned(),
        });
    }
    let models = models.iter().zip(scores).zip(&seen);
    let models = models
        .zip(&angles)
        .map(|(((model, scores), seen), angles)| CompareModel {
            normals: angles.figures(),
            ..summary(model, &scores, seen.unseen())
        });
    Ok((models.collect(), rows))
}

fn summary(model: &Model, scores: &[Score], unseen: Option<f32>) -> CompareModel {
    let views: Vec<CompareScore> = scores.iter().map(|score| score.row).collect();
    let mean = |value: fn(&CompareScore) -> f32| {
        let counted: Vec<f64> = (views.iter().filter(|score| score.pixels > 0))
            .map(|score| f64::from(value(score)))
            .collect();
        (!counted.is_empty()).then(|| (counted.iter().sum::<f64>() / counted.len() as f64) as f32)
    };
    let sum = |value: fn(&Score) -> u64| scores.iter().map(value).sum::<u64>();
    let (missing, object) = (sum(|score| score.missing), sum(|score| score.on_object));
    CompareModel {
        triangles: model.mesh.triangles.len() as u64,
        textures: model.texture_sizes(),
        psnr_db: mean(|score| score.psnr_db),
        psnr_gain_db: mean(|score| score.psnr_gain_db),
        ssim: mean(|score| score.ssim),
        missing: (missing as f64 / object.max(1) as f64) as f32,
        unseen,
        atlas: model.atlas,
        normals: None,
        views,
    }
}
