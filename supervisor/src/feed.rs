//! The dispatcher (`Feed`): decides which packets a child must still be sent, from the table store (`Stock`).
//!
//! The order is: `Warm` at once; `Start` when its tables are present and, for bake, its stages are compiled; each view
//! as soon as it is filled; `EndOfViews` when no view will follow. All views follow once more where bake asks for them.
//! A fresh [`Feed`] repeats everything from the stored tables.
//!
//! A bake that makes a texture looks at views while prepare still unwraps the mesh, so it gets as many views before the
//! mesh as it may hold. It needs a slot on the adapter only from the mesh on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use proto::blob::Blob;
use proto::job::{BakeJob, CompareJob, EncodeJob, Product, WarmJob};
use proto::message::{Start, Table, ToChild};
use proto::table::Layer;

use crate::job::Spec;
use crate::ladder::Rung;
use crate::opener::Opener;
use crate::stock::Stock;

/// Training views on the contact sheet: more would be too small to judge by eye.
const PREVIEW_TRAINING_VIEWS: usize = 3;

/// What goes with a packet. Shared, so that queued packets hold no second copy.
#[derive(Clone, Debug)]
pub enum Handed {
    /// An opened input file.
    File(Arc<OwnedFd>),
    /// A table.
    Blob(Arc<Blob>),
}

impl AsFd for Handed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Blob(blob) => blob.as_fd(),
        }
    }
}

/// One packet on its way to a child.
#[derive(Debug)]
pub struct Parcel {
    /// The message.
    pub message: ToChild,
    /// Its descriptors, in the order that the message documents.
    pub fds: Vec<Handed>,
}

/// How much one process has been sent.
#[derive(Debug, Default)]
pub struct Feed {
    rung: Rung,
    warmed: bool,
    ready: bool,
    compiled: bool,
    started: bool,
    /// Bake has its mesh.
    meshed: bool,
    /// Bytes of the views that were sent before the mesh.
    view_bytes: u64,
    /// Opens the files that prepare asks for.
    pub opener: Opener,
    views_seen: usize,
    views_sent: u32,
    delivered: bool,
    ended: bool,
    /// How often the views were sent once more.
    repeats: usize,
}

impl Feed {
    /// Nothing has been sent. A bake works on this rung.
    #[must_use]
    pub fn new(rung: Rung) -> Self {
        Self {
            rung,
            ..Self::default()
        }
    }

    /// The rung that bake works on.
    #[must_use]
    pub fn rung(&self) -> &Rung {
        &self.rung
    }

    /// Everything has been sent: from here on, a silent child is itself at fault.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// `Start` has been sent, so the child holds tables of the current prepare.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// Whether the child has all that it needs to begin; for bake, that includes the mesh.
    #[must_use]
    pub fn at_work(&self) -> bool {
        self.started && self.meshed
    }

    /// The adapter is open. Returns whether that was asked for and is the first report of it.
    pub fn ready(&mut self) -> bool {
        self.warmed && !std::mem::replace(&mut self.ready, true)
    }

    /// Whether its stages are compiled, so that it may have data.
    #[must_use]
    pub fn compiled(&self) -> bool {
        self.compiled
    }

    /// The stages are compiled. Returns whether that report was due.
    pub fn compile(&mut self) -> bool {
        self.ready && !std::mem::replace(&mut self.compiled, true)
    }

    /// What bake is sent before there is data; `None` the second time.
    pub fn warm(&mut self, job: WarmJob) -> Option<Parcel> {
        (!std::mem::replace(&mut self.warmed, true)).then(|| Parcel {
            message: ToChild::Warm(job),
            fds: Vec::new(),
        })
    }

    /// Gives a warm process a job, on a rung that wants the adapter that the process opened.
    pub fn adopt(&mut self, rung: Rung) {
        self.rung = rung;
    }

    /// Bake asks for the views once more. Returns whether it may.
    pub fn again(&mut self) -> bool {
        let may = self.at_work() && self.ended && self.repeats < Layer::ALL.len();
        if may {
            self.repeats += 1;
            (self.views_seen, self.views_sent, self.ended) = (0, 0, false);
        }
        may
    }

    /// What prepare is sent: its job. Files follow as it asks for them.
    pub fn for_prepare(&mut self, spec: &Spec) -> Vec<Parcel> {
        if self.started {
            return Vec::new();
        }
        (self.started, self.meshed, self.ended) = (true, true, true);
        vec![Parcel {
            message: ToChild::Start(Start::Prepare(spec.prepare_job())),
            fds: Vec::new(),
        }]
    }

    /// What prepare is sent for a comparison, instead of its own job.
    pub fn for_compare(&mut self, job: CompareJob) -> Option<Parcel> {
        if self.started {
            return None;
        }
        (self.started, self.meshed, self.ended) = (true, true, true);
        Some(Parcel {
            message: ToChild::Start(Start::Compare(job)),
            fds: Vec::new(),
        })
    }

    /// What bake can be sent before it may have data.
    pub fn before_data(&mut self, spec: &Spec) -> Vec<Parcel> {
        let warm = spec.warm_job(&self.rung);
        self.warm(warm).into_iter().collect()
    }

    /// What bake can be sent now: the surface, the mesh if `place` finds a slot on its adapter, and the views that
    /// prepare marked for the fit.
    pub fn for_bake(
        &mut self,
        spec: &Spec,
        stock: &Stock,
        place: impl FnOnce() -> bool,
    ) -> Vec<Parcel> {
        let mut parcels = self.before_data(spec);
        if !self.compiled {
            return parcels;
        }
        if !self.started {
            let Some(surface) = stock.filled(Table::Surface) else {
                return parcels;
            };
            let job = BakeJob {
                product: self.rung.product,
                memory: self.rung.memory,
                texture_size: (!spec.options.texture_auto).then(|| stock.texture_size()),
                maps: spec.maps.is_some(),
                refine: spec.options.refine,
                vram_budget: spec.options.vram_budget,
                gpu_times: spec.options.gpu_times,
                rejected: spec.rejected.is_some(),
                dry_run: spec.dry_run.then_some(spec.form.texture),
            };
            parcels.push(Parcel {
                message: ToChild::Start(Start::Bake(job)),
                fds: vec![Handed::Blob(Arc::clone(surface))],
            });
            self.started = true;
        }
        if !self.meshed
            && let Some(mesh) = stock.filled(Table::Mesh)
            && place()
        {
            parcels.push(Parcel {
                message: ToChild::Mesh {
                    texture_size: stock.texture_size(),
                },
                fds: vec![Handed::Blob(Arc::clone(mesh))],
            });
            self.meshed = true;
        }
        for &(index, holdout) in stock.views().iter().skip(self.views_seen) {
            let blob = stock.filled(Table::View(index));
            let bytes = blob.map_or(0, |blob| blob.len());
            if !holdout && !self.meshed && !self.held_before_mesh(spec, bytes) {
                return parcels;
            }
            self.views_seen += 1;
            if !holdout {
                self.view(stock, index, &mut parcels);
            }
        }
        if stock.delivered() && !std::mem::replace(&mut self.delivered, true) {
            let views = self.views_sent;
            parcels.push(Parcel {
                message: ToChild::Delivered { views },
                fds: Vec::new(),
            });
        }
        if self.meshed && stock.prepared() {
            self.end(&mut parcels);
        }
        parcels
    }

    /// Whether bake may hold `bytes` more of views before it has its mesh.
    fn held_before_mesh(&mut self, spec: &Spec, bytes: u64) -> bool {
        let looks = self.rung.product == Product::Texture && !spec.dry_run;
        let held = self.view_bytes + bytes;
        let fit = looks && held <= self.rung.memory.held_view_bytes();
        if fit {
            self.view_bytes = held;
        }
        fit
    }

    /// What encode is sent: everything at once, since all tables are complete.
    pub fn for_encode(&mut self, spec: &Spec, stock: &Stock) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        let texture = stock.filled(Table::Texture);
        let product = if texture.is_some() {
            Product::Texture
        } else {
            Product::VertexColours
        };
        let (Some(mesh), Some(baked)) = (
            stock.filled(Table::Mesh),
            texture.or(stock.filled(Table::Colours)),
        ) else {
            return parcels;
        };
        if self.started {
            return parcels;
        }
        (self.started, self.meshed) = (true, true);
        let refined = stock.filled(Table::Refined);
        let job = EncodeJob {
            product,
            blend: spec.options.blend,
            preview: spec.preview.is_some(),
            maps: spec.maps.is_some(),
            has_refined: refined.is_some(),
            form: spec.form.clone(),
            layers: stock.baked_layers().collect(),
        };
        let layers = stock.baked_layers();
        let layers = layers.filter_map(|layer| stock.filled(Table::Layer(layer)));
        let fds = [mesh, baked]
            .into_iter()
            .chain(refined)
            .chain(layers)
            .map(|blob| Handed::Blob(Arc::clone(blob)))
            .collect();
        parcels.push(Parcel {
            message: ToChild::Start(Start::Encode(job)),
            fds,
        });
        for index in encode_views(stock.views(), spec.preview.is_some()) {
            self.view(stock, index, &mut parcels);
        }
        self.end(&mut parcels);
        parcels
    }

    fn view(&mut self, stock: &Stock, index: u32, parcels: &mut Vec<Parcel>) {
        if let Some(blob) = stock.filled(Table::View(index)) {
            parcels.push(Parcel {
                message: ToChild::View { index },
                fds: vec![Handed::Blob(Arc::clone(blob))],
            });
            self.views_sent += 1;
        }
    }

    fn end(&mut self, parcels: &mut Vec<Parcel>) {
        if !self.ended {
            self.ended = true;
            parcels.push(Parcel {
                message: ToChild::EndOfViews {
                    count: self.views_sent,
                },
                fds: Vec::new(),
            });
        }
    }
}

/// The views that encode gets, by rising index. These are all held-out views for measurement and, for a preview, some
/// views of the fit, spread evenly from the first on.
#[must_use]
pub fn encode_views(views: &[(u32, bool)], preview: bool) -> Vec<u32> {
    let sorted = |wanted: bool| {
        let mut indices: Vec<u32> = views
            .iter()
            .filter(|(_, h)| *h == wanted)
            .map(|(i, _)| *i)
            .collect();
        indices.sort_unstable();
        indices
    };
    let mut chosen = sorted(true);
    if preview {
        let training = sorted(false);
        let count = training.len().min(PREVIEW_TRAINING_VIEWS);
        chosen.extend((0..count).map(|k| training[k * training.len() / count]));
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_gets_every_heldout_view_and_a_spread_of_the_rest() {
        let views: Vec<(u32, bool)> = (0..12).rev().map(|index| (index, index % 4 == 3)).collect();
        assert_eq!(encode_views(&views, false), [3, 7, 11]);
        // Training: 0 1 2 4 5 6 8 9 10, of which the first, fourth and seventh.
        assert_eq!(encode_views(&views, true), [0, 3, 4, 7, 8, 11]);
    }

    #[test]
    fn views_are_sent_again_where_all_were_sent_and_no_oftener_than_there_are_layers() {
        let mut feed = Feed {
            started: true,
            meshed: true,
            ..Feed::default()
        };
        assert!(!feed.again(), "before all were sent");
        for _ in Layer::ALL {
            (feed.ended, feed.views_seen, feed.views_sent) = (true, 7, 5);
            assert!(feed.again());
            assert_eq!(
                (feed.ended, feed.views_seen, feed.views_sent),
                (false, 0, 0)
            );
            assert!(!feed.again(), "they are on their way");
        }
        feed.ended = true;
        assert!(!feed.again());
    }

    #[test]
    fn few_views_are_not_repeated() {
        assert_eq!(encode_views(&[(1, false), (0, false)], true), [0, 1]);
        assert!(encode_views(&[], true).is_empty());
    }
}
