//! Makes one [`View`] table of each posed picture of a `transforms.json`, a COLMAP model or a safetensors file, or of each
//! camera about splats, cropped to what can matter and handed on at once.
//!
//! The calling thread reads the picture files and speaks to the supervisor. A thread pool of its own decodes, and reads
//! slices of a safetensors file, while other threads unwrap. With one shared pool, a thread that waits for a part of the
//! unwrap would pick up a picture instead. Views of splats go out without pixels.
//!
//! The views in flight are bounded in bytes and number, so memory does not grow with the number of views. Views go out
//! in the order of the file, so a receiver that adds floats as they arrive gets the same sums every time.

mod borders;
mod crop;
mod holdout;
mod layers;
mod load;
mod names;
mod overview;
mod set;
mod show;
mod stand;
mod straighten;
#[cfg(test)]
mod tests;
mod upright;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use proto::job::{PrepareJob, Up};
use proto::labels::{self, Label};
use proto::limits::MAX_TOTAL_VIEW_BYTES;
use proto::message::{Code, Failure, Phase, SplatSummary, Table};
use proto::splats::SplatOptions;
use proto::table::{LayerSet, LayeredView, Mesh, View};

use super::frame::Similarity;
use super::load::{Offset, RawMesh};
use super::picture::Colours;
use super::repair::Eye;
use super::texels::Lookout;
use crate::worker::failure::{internal, no_thread};
use crate::worker::folder::Folder;
use crate::worker::progress::{Progress, Silent, Strand, each, unit};
use crate::worker::session::Session;
use crate::worker::{last_words, pace};
use crop::Outline;
use set::Set;
use show::{Loaded, Sees};
use stand::Stand;
use upright::Exif;

/// Number of views handed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewsSummary {
    /// Views for the fit.
    pub(crate) views: u32,
    /// Views to measure with.
    pub(crate) holdout_views: u32,
    /// What they were drawn from.
    pub(crate) splats: Option<SplatSummary>,
    /// Their names, by their indices.
    pub(crate) names: Vec<Label>,
}

/// Edge of the texture, in texels, for which splats are drawn in a comparison.
const COMPARED: u32 = 1024;
/// Predicted duration of reading `transforms.json`, whose size is bounded, or the cameras of a safetensors file.
const POSES: Duration = Duration::from_secs(2);
/// Files and decoded pixels in memory at once, unless a single picture needs more.
const IN_FLIGHT_BYTES: usize = 640 << 20;

/// The views of a job. Their cameras are read, their pictures are not.
pub(crate) struct Views<'a> {
    set: Set<'a>,
    job: &'a PrepareJob,
    /// What was found of the frame.
    stand: Stand,
}

impl<'a> Views<'a> {
    /// Reads the cameras of `job.views_file` beneath `folder`.
    ///
    /// # Errors
    /// The file cannot be read, or has no camera.
    pub(crate) fn read(
        folder: &'a Folder<'a>,
        job: &'a PrepareJob,
        progress: &dyn Progress,
    ) -> Result<Self, Failure> {
        progress.expect("poses", POSES);
        let mut set = Set::read(
            folder,
            &job.views_file,
            (job.repair.up, &job.splats),
            progress,
        )?;
        (set.layered, set.drawn) = (job.layers, false);
        Ok(Self {
            set,
            job,
            stand: Stand::default(),
        })
    }

    /// The surface that the views show, where they are splats.
    pub(crate) fn surface(&self, progress: &dyn Progress) -> Option<Result<RawMesh, Failure>> {
        self.set.surface(progress)
    }

    /// Moves the cameras into the world of the mesh, whose positions are less an offset, with y up.
    ///
    /// # Errors
    /// Mesh and views do not belong together.
    pub(crate) fn settle(
        &mut self,
        surface: (&[[f32; 3]], &[[u32; 3]], Offset),
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        self.stand = stand::settle(&mut self.set, self.job, surface, progress)?;
        let (positions, triangles, offset) = surface;
        self.set.look_at(
            (positions, triangles),
            (&self.stand.place(), offset),
            (&self.job.splats, self.job.texture_size),
        );
        self.stand.apply(&mut self.set, progress);
        self.set.shift(&offset);
        Ok(())
    }

    /// The cameras, without their pictures' pixels.
    pub(crate) fn eyes(&self) -> Vec<Eye> {
        self.set.eyes()
    }

    /// The cameras with their picture sizes, for visibility queries (lookouts), except views held out by name. The
    /// header of the first picture gives the size where the file states none, or else the factor that scales stated
    /// sizes.
    pub(crate) fn lookouts(&self) -> Result<Vec<Lookout>, Failure> {
        self.set.lookouts()
    }

    /// Puts the splats that the views are to be drawn of, if they come without pixels.
    ///
    /// # Errors
    /// The supervisor is gone, or gives no memory.
    pub(crate) fn put_splats(&self, session: &Session) -> Result<(), Failure> {
        let Some(scene) = self.set.scene() else {
            return Ok(());
        };
        let put = session.put(Table::Splats, scene.byte_len(), |out| scene.write(out));
        put.map_err(|error| internal(&error))
    }

    /// Puts every view; its index is its number in the file. `positions` are the mesh's vertices. Stops once `unwanted`
    /// is set.
    pub(crate) fn deliver(
        &self,
        session: &Session,
        positions: &[[f32; 3]],
        unwanted: &AtomicBool,
    ) -> Result<ViewsSummary, Failure> {
        session.progress(Phase::DecodeViews, 0, 0);
        session.expect("the mesh's outline", each(positions.len(), pace::TRIANGLE));
        let set = &self.set;
        let held_out = choose_holdout(set, self.job)?;
        check_layers(set, &held_out, session)?;
        let holdout_views = held_out.iter().filter(|&&held| held).count() as u32;
        let delivery = Delivery {
            session,
            outline: &Outline::new(positions),
            unwanted,
            mesh: &self.job.mesh_file,
            set,
            held_out: &held_out,
            left_out: &self.stand.left_out,
        };
        delivery.run()?;
        let told = session.delivered(set.len() as u32);
        told.map_err(|error| internal(&error))?;
        Ok(ViewsSummary {
            views: set.len() as u32 - holdout_views,
            holdout_views,
            splats: set.splats(self.job),
            names: labels::short_list(&(0..set.len()).map(|k| set.name(k)).collect::<Vec<_>>()),
        })
    }

    /// Draws the mesh's outline over some of the views, as a PNG.
    ///
    /// # Errors
    /// The views cannot be read.
    pub(crate) fn overview(
        &self,
        mesh: &Mesh,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, Failure> {
        overview::overview(&self.set, &self.stand, mesh, progress)
    }
}

/// The first `most` views of the file `name` as [`Views::deliver`] hands them on, after all other readers of their
/// cameras.
pub(crate) fn first(
    folder: &Folder<'_>,
    name: &str,
    positions: &[[f32; 3]],
    most: usize,
) -> Result<Vec<LayeredView>, Failure> {
    let mut set = Set::read(folder, name, (Up::Y, &SplatOptions::default()), &Silent)?;
    set.layered = true;
    set.eyes();
    set.lookouts()?;
    let outline = Outline::new(positions);
    let load = |index| {
        let Loaded { view, layers, .. } = set.source(index)?.load(&outline, false)?;
        Ok(LayeredView { view, layers })
    };
    (0..set.len().min(most)).map(load).collect()
}

/// The views of a file, each decoded on request and cropped only of what is transparent, for a comparison.
pub(crate) struct Whole<'a> {
    set: Set<'a>,
    outline: Outline,
}

impl<'a> Whole<'a> {
    /// Reads the file `name` beneath `folder`, without pictures, for meshes that are read less `offset`, with y up.
    /// Splats are seen from all around the surface.
    pub(crate) fn read(
        folder: &'a Folder<'a>,
        name: &'a str,
        (up, offset): (Up, Offset),
        surface: (&[[f32; 3]], &[[u32; 3]]),
        progress: &dyn Progress,
    ) -> Result<Self, Failure> {
        progress.expect("poses", POSES);
        let mut set = Set::read(folder, name, (up, &SplatOptions::default()), progress)?;
        let (options, size) = (SplatOptions::default(), COMPARED);
        set.look_at(surface, (&Similarity::NONE, offset), (&options, size));
        Stand::default().apply(&mut set, progress);
        set.shift(&offset);
        Ok(Self {
            set,
            outline: Outline::whole(),
        })
    }

    /// Number of views, at least one.
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    pub(crate) fn load(&self, index: usize, progress: &dyn Progress) -> Result<View, Failure> {
        let source = self.set.source(index)?;
        progress.expect(
            &self.set.name(index),
            each(source.decoding_bytes(), pace::DECODE_BYTE),
        );
        Ok(source.load(&self.outline, false)?.view)
    }
}

/// Decoding threads, as many as the default pool has.
fn pool() -> io::Result<rayon::ThreadPool> {
    let start = |_| {
        Strand::Second.take();
        last_words::guard_thread();
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(rayon::current_num_threads())
        .thread_name(|number| format!("views {number}"))
        .start_handler(start)
        .build()
        .map_err(io::Error::other)
}

/// Never shown: the mesh has failed, and that failure is reported.
fn unwanted() -> Failure {
    Failure {
        code: Code::Cancelled,
        message: "the views are not wanted any more".to_owned(),
        hint: String::new(),
    }
}

/// Flags the views that the file holds out by name, and `job.holdout` more of the rest.
fn choose_holdout(set: &Set<'_>, job: &PrepareJob) -> Result<Vec<bool>, Failure> {
    let mut held_out: Vec<bool> = (0..set.len()).map(|index| set.held_out(index)).collect();
    let whole = |&index: &usize| !held_out[index] && !set.continues(index);
    // The faces of a panorama show one another's borders: they stay together.
    let rest: Vec<usize> = (0..set.len()).filter(whole).collect();
    if job.holdout as usize >= rest.len() {
        let named = match held_out.iter().filter(|&&held| held).count() {
            0 => String::new(),
            named => format!(" ({named} more are held out by name)"),
        };
        return Err(Failure {
            code: Code::InvalidSpec,
            message: format!(
                "{} views to hold out of {}{named} leave none to bake from",
                job.holdout,
                rest.len()
            ),
            hint: format!("hold out at most {}", rest.len().saturating_sub(1)),
        });
    }
    let chosen = holdout::choose(rest.len(), job.holdout as usize, job.seed);
    for (index, chosen) in rest.into_iter().zip(chosen) {
        held_out[index] |= chosen;
        let mut next = index + 1;
        while chosen && next < set.len() && set.continues(next) {
            held_out[next] = true;
            next += 1;
        }
    }
    Ok(held_out)
}

/// Refuses layers that only held-out views have, since they cannot be fitted. Warns where layers are left out.
fn check_layers(set: &Set<'_>, held_out: &[bool], progress: &dyn Progress) -> Result<(), Failure> {
    let of = |wanted: bool| {
        let views = (0..set.len()).filter(|&index| wanted || !held_out[index]);
        views.fold(LayerSet::default(), |all, index| all.or(set.layers(index)))
    };
    let (all, fitted) = (of(true), of(false));
    let names = |layers: &mut dyn Iterator<Item = proto::table::Layer>| {
        let names: Vec<&str> = layers.map(proto::table::Layer::name).collect();
        names.join(", ")
    };
    if !set.layered {
        if !all.is_empty() {
            progress.warning(&format!(
                "{}: PLY and OBJ carry the base colour alone: {} left out (a GLB carries all channels)",
                set.file,
                names(&mut all.iter())
            ));
        }
        return Ok(());
    }
    let lacking = names(&mut all.iter().filter(|&layer| !fitted.has(layer)));
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Failure {
        code: Code::InvalidAsset,
        message: format!(
            "{}: only held-out views have the channels {lacking}: none is left to bake from",
            set.file
        ),
        hint: "hold out other views, or leave these channels out".to_owned(),
    })
}

struct Delivery<'a> {
    session: &'a Session,
    outline: &'a Outline,
    unwanted: &'a AtomicBool,
    mesh: &'a str,
    set: &'a Set<'a>,
    held_out: &'a [bool],
    /// Numbers of views that show nothing of the mesh, in ascending order.
    left_out: &'a [usize],
}

/// A view that the pool is decoding.
struct InFlight {
    index: usize,
    bytes: usize,
    result: Receiver<Result<Loaded, Failure>>,
}

/// What to report at the end.
#[derive(Default)]
struct Tally {
    bytes: u64,
    delivered: u64,
    unseen: Vec<usize>,
    transparent: Vec<usize>,
    turned: Vec<usize>,
    sideways: Vec<usize>,
    converted: Vec<usize>,
    clipped: Vec<usize>,
    unknown_colours: Vec<usize>,
    renamed: Vec<usize>,
    masked: Vec<usize>,
    wedged: Vec<usize>,
    far_outside: Vec<usize>,
}

impl Delivery<'_> {
    fn run(&self) -> Result<(), Failure> {
        let mut tally = Tally::default();
        self.session
            .progress(Phase::DecodeViews, 0, self.set.len() as u64);
        let pool = pool().map_err(|error| no_thread("decode views", &error))?;
        pool.in_place_scope_fifo(|scope| {
            let most = 2 * pool.current_num_threads();
            let mut in_flight = VecDeque::new();
            let mut bytes = 0;
            for index in 0..self.set.len() {
                if self.unwanted.load(Ordering::Relaxed) {
                    return Err(unwanted());
                }
                let source = self.set.source(index)?;
                let needed = source.decoding_bytes();
                if source.masked_beside() {
                    tally.masked.push(index);
                }
                match source.exif() {
                    Exif::None => {}
                    Exif::Applied => tally.turned.push(index),
                    Exif::Ignored => tally.sideways.push(index),
                }
                if source.renamed() {
                    tally.renamed.push(index);
                }
                while in_flight.len() >= most || bytes + needed > IN_FLIGHT_BYTES {
                    let Some(oldest) = in_flight.pop_front() else {
                        break;
                    };
                    bytes -= self.finish(oldest, &mut tally)?;
                }
                let (sender, result) = sync_channel(1);
                let (outline, holdout) = (self.outline, self.held_out[index]);
                scope.spawn_fifo(move |_| {
                    // Nobody receives when an earlier view has failed.
                    drop(sender.send(source.load(outline, holdout)));
                    unit();
                });
                in_flight.push_back(InFlight {
                    index,
                    bytes: needed,
                    result,
                });
                bytes += needed;
            }
            in_flight
                .into_iter()
                .try_for_each(|next| self.finish(next, &mut tally).map(drop))
        })?;
        self.report(&mut tally)
    }

    /// Waits for a view and puts it; returns the bytes it held in memory.
    fn finish(&self, next: InFlight, tally: &mut Tally) -> Result<usize, Failure> {
        let name = self.set.name(next.index);
        self.session
            .expect(&name, each(next.bytes, pace::DECODE_BYTE));
        let mut loaded = next.result.recv().map_err(|error| internal(&error))??;
        if self.left_out.binary_search(&next.index).is_ok() {
            loaded = loaded.emptied();
        }
        let Loaded {
            view,
            layers,
            sees,
            colours,
            wedged,
            far_outside,
        } = loaded;
        let view = LayeredView { view, layers };
        tally.bytes += view.byte_len();
        if tally.bytes > MAX_TOTAL_VIEW_BYTES {
            return Err(Failure {
                code: Code::LimitExceeded,
                message: format!(
                    "{}: the views have more than {MAX_TOTAL_VIEW_BYTES} bytes once decoded",
                    self.set.file
                ),
                hint: "use fewer or smaller views".to_owned(),
            });
        }
        self.session
            .put(Table::View(view.view.index), view.byte_len(), |out| {
                view.write(out)
            })
            .map_err(|error| internal(&error))?;
        match sees {
            Sees::Mesh => {}
            Sees::Nothing => tally.unseen.push(next.index),
            Sees::Transparent => tally.transparent.push(next.index),
        }
        match colours {
            Colours::Srgb => {}
            Colours::Converted => tally.converted.push(next.index),
            Colours::Clipped => tally.clipped.push(next.index),
            Colours::Unknown => tally.unknown_colours.push(next.index),
        }
        if wedged {
            tally.wedged.push(next.index);
        }
        if far_outside {
            tally.far_outside.push(next.index);
        }
        tally.delivered += 1;
        self.session
            .progress(Phase::DecodeViews, tally.delivered, self.set.len() as u64);
        Ok(next.bytes)
    }

    fn report(&self, tally: &mut Tally) -> Result<(), Failure> {
        let (unseen, transparent) = (tally.unseen.len(), tally.transparent.len());
        if unseen + transparent == self.set.len() {
            let why = match (unseen, transparent) {
                (0, _) => "all pictures are fully transparent".to_owned(),
                (_, 0) => "it is behind every camera or outside every picture".to_owned(),
                _ => format!(
                    "in {unseen} it is behind the camera or outside the picture, {transparent} are fully transparent"
                ),
            };
            return Err(Failure {
                code: Code::InvalidAsset,
                message: format!("{}: no view shows {}: {why}", self.set.file, self.mesh),
                hint: self.set.convention().to_owned(),
            });
        }
        // Most faces of a panorama look past the mesh.
        tally.unseen.retain(|&index| !self.set.is_face(index));
        for (list, text) in [
            (
                &tally.unseen,
                "show nothing of the mesh: it is behind the camera or outside the picture",
            ),
            (&tally.transparent, "are fully transparent"),
            (
                &tally.turned,
                "are turned as their EXIF orientation says: their cameras are taken for those of the pictures as shown",
            ),
            (
                &tally.sideways,
                "carry an EXIF orientation, which is not applied: their cameras are those of the pixels as stored",
            ),
            (
                &tally.converted,
                "are converted to sRGB from the colour space that their profile, cICP, gAMA, cHRM or EXIF names, or from light",
            ),
            (
                &tally.clipped,
                "hold light brighter than white (1), which is clipped: render them darker, or tone-mapped, if that shows",
            ),
            (
                &tally.unknown_colours,
                "have a colour profile, cICP, gAMA or cHRM that cannot be read or followed: they are taken for sRGB",
            ),
            (
                &tally.renamed,
                "lie under other names than their file says: another folder, ending or spelling",
            ),
            (
                &tally.masked,
                "are masked by files beside them (dynamic_mask_NAME.png, NAME.alpha.png, NAME.mask.png, or masks/ beside images/)",
            ),
            (
                &tally.wedged,
                "have black wedges at their border, as undistortion leaves them: these count as no data (alpha or a mask says otherwise)",
            ),
            (
                &tally.far_outside,
                "have floats below -1 or above 2: colours and masks are 0-1, what is beyond is clamped",
            ),
        ] {
            if !list.is_empty() {
                self.session.warning(&format!(
                    "{} of {} views {text} ({})",
                    list.len(),
                    self.set.len(),
                    self.names(list)
                ));
            }
        }
        Ok(())
    }

    /// Names of up to three views.
    fn names(&self, list: &[usize]) -> String {
        let mut names: Vec<String> = list
            .iter()
            .take(3)
            .map(|&index| self.set.name(index))
            .collect();
        if list.len() > names.len() {
            names.push("…".to_owned());
        }
        names.join(", ")
    }
}
