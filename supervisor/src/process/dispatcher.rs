//! Decides which packets a child must still be sent, from the tables in the store.
//!
//! The order is: `Warm` at once; `Start` when its tables are present and, for bake, its stages are compiled; each view
//! as soon as it is filled; `EndOfViews` when no view will follow. All views follow once more where bake asks for them.
//! A fresh [`Dispatcher`] repeats everything from the stored tables.
//!
//! A bake that makes a texture looks at views while prepare still unwraps the mesh, so it gets as many views before the
//! mesh as it may hold. It needs a slot on the adapter only from the mesh on.

use proto::job::{BakeJob, EncodeJob, Product, WarmJob};
use proto::message::{Start, Table, ToChild};
use proto::table::Layer;

use crate::process::child::Parcel;
use crate::process::opener::Opener;
use crate::process::table_store::TableStore;

/// Training views on the contact sheet: more would be too small to judge by eye.
const PREVIEW_TRAINING_VIEWS: usize = 3;
/// Views of the fit on a report's page. A multiple of those on the sheet, so that these are among them.
const PAGE_TRAINING_VIEWS: usize = 24;

/// What a process is for.
#[derive(Clone, Debug)]
pub enum Assignment {
    /// A prepare: its job, or a comparison. Files follow as it asks for them.
    Prepare(Start),
    /// A bake: what it can do before there is data, and its job; a spare has no job yet.
    Bake(WarmJob, Option<BakeJob>),
    /// An encode. All tables are complete before it starts.
    Encode(EncodeJob),
}

/// How much one process has been sent.
#[derive(Debug)]
pub struct Dispatcher {
    assignment: Assignment,
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

impl Dispatcher {
    /// Nothing has been sent.
    pub fn new(assignment: Assignment) -> Self {
        Self {
            assignment,
            warmed: false,
            ready: false,
            compiled: false,
            started: false,
            meshed: false,
            view_bytes: 0,
            opener: Opener::default(),
            views_seen: 0,
            views_sent: 0,
            delivered: false,
            ended: false,
            repeats: 0,
        }
    }

    /// Everything has been sent: from here on, a silent child is itself at fault.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// `Start` has been sent, so the child holds tables of the current prepare.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Whether the child has all that it needs to begin; for bake, that includes the mesh.
    pub fn at_work(&self) -> bool {
        self.started && self.meshed
    }

    /// The adapter is open. Returns whether that was asked for and is the first report of it.
    pub fn ready(&mut self) -> bool {
        self.warmed && !std::mem::replace(&mut self.ready, true)
    }

    /// Whether its stages are compiled, so that it may have data.
    pub fn compiled(&self) -> bool {
        self.compiled
    }

    /// The stages are compiled. Returns whether that report was due.
    pub fn compile(&mut self) -> bool {
        self.ready && !std::mem::replace(&mut self.compiled, true)
    }

    /// What a bake is sent before there is data; `None` the second time.
    pub fn warm(&mut self) -> Option<Parcel> {
        let Assignment::Bake(warm, _) = &self.assignment else {
            return None;
        };
        (!std::mem::replace(&mut self.warmed, true))
            .then(|| Parcel::bare(ToChild::Warm(warm.clone())))
    }

    /// Gives a spare, which is warm, a job for the adapter that it opened.
    pub fn adopt(&mut self, assignment: Assignment) {
        self.assignment = assignment;
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

    /// What the process can be sent now. A bake gets its mesh if `place` finds a slot on its adapter.
    pub fn next(&mut self, tables: &TableStore, place: impl FnOnce() -> bool) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        match &self.assignment {
            Assignment::Prepare(start) if !self.started => {
                parcels.push(Parcel::bare(ToChild::Start(start.clone())));
                (self.started, self.meshed, self.ended) = (true, true, true);
            }
            Assignment::Encode(job) if !self.started => {
                let job = job.clone();
                self.encode(job, tables, &mut parcels);
            }
            Assignment::Prepare(_) | Assignment::Encode(_) => {}
            Assignment::Bake(_, job) => {
                let job = job.clone().filter(|_| self.compiled);
                parcels.extend(self.warm());
                if let Some(job) = job {
                    self.bake(job, tables, place, &mut parcels);
                }
            }
        }
        parcels
    }

    /// Sends a bake the surface, its mesh, and the views that prepare marked for the fit.
    fn bake(
        &mut self,
        job: BakeJob,
        tables: &TableStore,
        place: impl FnOnce() -> bool,
        parcels: &mut Vec<Parcel>,
    ) {
        let looks = job.product == Product::Texture && job.dry_run.is_none();
        let most_before_mesh = looks.then(|| job.memory.held_view_bytes());
        if !self.started {
            let Some(surface) = tables.filled(Table::Surface) else {
                return;
            };
            let inputs = [surface].into_iter().chain(tables.filled(Table::Splats));
            parcels.push(Parcel::with(ToChild::Start(Start::Bake(job)), inputs));
            self.started = true;
        }
        if !self.meshed
            && let Some(mesh) = tables.filled(Table::Mesh)
            && place()
        {
            let texture_size = tables.texture_size();
            parcels.push(Parcel::with(ToChild::Mesh { texture_size }, [mesh]));
            self.meshed = true;
        }
        for &(index, holdout) in tables.views().iter().skip(self.views_seen) {
            let bytes = || tables.pixel_bytes(index);
            if !holdout && !self.meshed && !self.held_before_mesh(most_before_mesh, bytes()) {
                return;
            }
            self.views_seen += 1;
            if !holdout {
                self.view(tables, index, parcels);
            }
        }
        if tables.delivered() && !std::mem::replace(&mut self.delivered, true) {
            let views = self.views_sent;
            parcels.push(Parcel::bare(ToChild::Delivered { views }));
        }
        if self.meshed && tables.prepared() {
            self.end(parcels);
        }
    }

    /// Whether bake may hold `bytes` more of views before it has its mesh.
    fn held_before_mesh(&mut self, most: Option<u64>, bytes: u64) -> bool {
        let held = self.view_bytes + bytes;
        let fit = most.is_some_and(|most| held <= most);
        if fit {
            self.view_bytes = held;
        }
        fit
    }

    /// Sends an encode everything at once.
    fn encode(&mut self, job: EncodeJob, tables: &TableStore, parcels: &mut Vec<Parcel>) {
        let baked = match job.product {
            Product::Texture => Table::Texture,
            Product::VertexColours => Table::Colours,
        };
        let refined = job.has_refined.then_some(Table::Refined);
        let layers = job.layers.iter().map(|&layer| Table::Layer(layer));
        let wanted = [Table::Mesh, baked]
            .into_iter()
            .chain(refined)
            .chain(layers);
        let inputs: Option<Vec<_>> = wanted.map(|table| tables.filled(table)).collect();
        let Some(mut inputs) = inputs else { return };
        (self.started, self.meshed) = (true, true);
        let views = encode_views(tables.views(), shown_views(job.preview, job.html));
        inputs.extend(tables.filled(Table::Splats));
        parcels.push(Parcel::with(ToChild::Start(Start::Encode(job)), inputs));
        for index in views {
            self.view(tables, index, parcels);
        }
        self.end(parcels);
    }

    fn view(&mut self, tables: &TableStore, index: u32, parcels: &mut Vec<Parcel>) {
        if let Some(blob) = tables.filled(Table::View(index)) {
            parcels.push(Parcel::with(ToChild::View { index }, [blob]));
            self.views_sent += 1;
        }
    }

    fn end(&mut self, parcels: &mut Vec<Parcel>) {
        if !self.ended {
            self.ended = true;
            let count = self.views_sent;
            parcels.push(Parcel::bare(ToChild::EndOfViews { count }));
        }
    }
}

/// How many views of the fit encode shows on a contact sheet and on a report's page.
pub fn shown_views(preview: bool, html: bool) -> usize {
    match (preview, html) {
        (_, true) => PAGE_TRAINING_VIEWS,
        (true, false) => PREVIEW_TRAINING_VIEWS,
        (false, false) => 0,
    }
}

/// The views that encode gets, by rising index. These are all held-out views for measurement and, to be shown, so many
/// views of the fit, spread evenly from the first on.
pub fn encode_views(views: &[(u32, bool)], shown: usize) -> Vec<u32> {
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
    let training = sorted(false);
    let count = training.len().min(shown);
    chosen.extend((0..count).map(|k| training[k * training.len() / count]));
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_gets_every_heldout_view_and_a_spread_of_the_rest() {
        let views: Vec<(u32, bool)> = (0..12).rev().map(|index| (index, index % 4 == 3)).collect();
        let sheet = shown_views(true, false);
        assert_eq!(encode_views(&views, shown_views(false, false)), [3, 7, 11]);
        // Training: 0 1 2 4 5 6 8 9 10, of which the first, fourth and seventh.
        assert_eq!(encode_views(&views, sheet), [0, 3, 4, 7, 8, 11]);
        // Views of the sheet are among those of the page, at even places.
        let many: Vec<(u32, bool)> = (0..1000).map(|index| (index, false)).collect();
        let page = encode_views(&many, shown_views(true, true));
        let spread = [0, 8, 16].map(|place| page[place]);
        assert_eq!(encode_views(&many, sheet), spread);
    }

    #[test]
    fn views_are_sent_again_where_all_were_sent_and_no_oftener_than_there_are_layers() {
        let mut dispatcher = Dispatcher {
            started: true,
            meshed: true,
            ..Dispatcher::new(Assignment::Bake(WarmJob::default(), None))
        };
        assert!(!dispatcher.again(), "before all were sent");
        for _ in Layer::ALL {
            (
                dispatcher.ended,
                dispatcher.views_seen,
                dispatcher.views_sent,
            ) = (true, 7, 5);
            assert!(dispatcher.again());
            assert_eq!(
                (
                    dispatcher.ended,
                    dispatcher.views_seen,
                    dispatcher.views_sent
                ),
                (false, 0, 0)
            );
            assert!(!dispatcher.again(), "they are on their way");
        }
        dispatcher.ended = true;
        assert!(!dispatcher.again());
    }

    #[test]
    fn few_views_are_not_repeated() {
        assert_eq!(encode_views(&[(1, false), (0, false)], 3), [0, 1]);
        assert!(encode_views(&[], 3).is_empty());
    }
}
