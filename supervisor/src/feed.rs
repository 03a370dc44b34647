//! Stock → what the next child still has to be sent, in order: `Warm` at once, `Start` as soon as its tables are there and, for
//! bake, its stages compiled,
//! each view as soon as it is filled, `EndOfViews` when no view will follow; the views once more where bake asks for them. A
//! fresh [`Feed`] repeats everything from kept tables.
//!
//! A bake that makes a texture looks at views while their mesh is unwrapped: it is sent as many before it as it may hold. Its turn
//! on the adapter begins with the mesh.

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

/// Training views on the contact sheet: more would shrink them below what an eye can judge.
const PREVIEW_TRAINING_VIEWS: usize = 3;

/// What is handed down with a packet. Shared, so that a queue of packets holds no second copy.
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

/// One packet on its way down.
#[derive(Debug)]
pub struct Parcel {
    /// The message.
    pub message: ToChild,
    /// Its descriptors, in the order that the message's own text states.
    pub fds: Vec<Handed>,
}

/// How far one process has been fed.
#[derive(Debug, Default)]
pub struct Feed {
    rung: Rung,
    warmed: bool,
    ready: bool,
    compiled: bool,
    started: bool,
    /// Bake has its mesh.
    meshed: bool,
    /// Of the views that it was sent before.
    view_bytes: u64,
    /// The files that prepare asks for.
    pub opener: Opener,
    views_seen: usize,
    views_sent: u32,
    delivered: bool,
    ended: bool,
    /// How often the views were sent once more.
    repeats: usize,
}

impl Feed {
    /// Nothing has been sent; a bake is to work on this rung.
    #[must_use]
    pub fn new(rung: Rung) -> Self {
        Self {
            rung,
            ..Self::default()
        }
    }

    /// Where bake works.
    #[must_use]
    pub fn rung(&self) -> &Rung {
        &self.rung
    }

    /// Everything has been sent: from here on, silence is the child's own.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// `Start` has been sent, so the child holds tables of the present prepare.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// Whether the child has all that it begins its own work with: of a bake, the mesh.
    #[must_use]
    pub fn at_work(&self) -> bool {
        self.started && self.meshed
    }

    /// The adapter is open; tells whether that was asked for, and for the first time.
    pub fn ready(&mut self) -> bool {
        self.warmed && !std::mem::replace(&mut self.ready, true)
    }

    /// Its stages are compiled, so that it may have data.
    #[must_use]
    pub fn compiled(&self) -> bool {
        self.compiled
    }

    /// They are; tells whether it was their turn.
    pub fn compile(&mut self) -> bool {
        self.ready && !std::mem::replace(&mut self.compiled, true)
    }

    /// What bake is sent before there is data, once.
    pub fn warm(&mut self, job: WarmJob) -> Option<Parcel> {
        (!std::mem::replace(&mut self.warmed, true)).then(|| Parcel {
            message: ToChild::Warm(job),
            fds: Vec::new(),
        })
    }

    /// The warm process gets a job, on a rung that wants the adapter that it opened.
    pub fn adopt(&mut self, rung: Rung) {
        self.rung = rung;
    }

    /// Bake wants the views once more; tells whether it may.
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

    /// What prepare is sent for a comparison: that job in place of its own.
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

    /// What bake can be sent now: the surface, the mesh if its adapter has a `place` for it, and the views that prepare marked for the
    /// fit.
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
                texture_size: (!spec.texture_auto).then(|| stock.texture_size()),
                maps: spec.maps.is_some(),
                refine: spec.refine,
                vram_budget: spec.vram_budget,
                gpu_times: spec.gpu_times,
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

    /// What encode is sent: all at once, since all is there.
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
            blend: spec.blend,
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

/// The views that encode gets, by rising index: all held-out ones to measure with, and for a preview some of the fit,
/// spread evenly with the first among them.
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
