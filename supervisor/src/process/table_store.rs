//! The tables of a job: what a child asks for → memory that it may write → sealed data that others may read.
//!
//! Invariants: a role writes only its own tables, each once for each attempt; sizes are bounded before memory is made;
//! tables stay for as long as some role may need them, so that a crashed bake is repeated without preparing again.

mod error;

mod rules;

pub(crate) mod shape;

use std::collections::HashMap;
use std::sync::Arc;

use proto::blob::Blob;
use proto::job::{Container, Detail, Product};
use proto::limits::{MAX_TOTAL_VIEW_BYTES, MAX_VIEWS};
use proto::message::{CompareSummary, Done, PrepareSummary, Role, Sha256, Table};
use proto::pages::Pages;
use proto::table::{Layer, LayerSet, Refined, Texture, ViewHeader};

use self::rules::rules;
use crate::process::reserve::{self, lend};

pub use error::TableStoreError;

#[derive(Debug)]
struct Entry {
    blob: Arc<Blob>,
    filled: bool,
    /// Of a finished file: its maker has read it back, and these are the bytes that it read.
    verified: Option<Sha256>,
}

/// What a comparison is to give.
#[derive(Clone, Copy, Debug)]
struct Comparing {
    /// Meshes to compare.
    models: usize,
    /// Its one table is the sheet.
    picture: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct TableStore {
    texture_size: u32,
    texture_bytes: u64,
    maps: bool,
    /// Layers that come whether views show them or not.
    detail: LayerSet,
    html: bool,
    rejected: bool,
    dry_run: bool,
    comparison: Option<Comparing>,
    container: Container,
    pages: Pages,
    entries: HashMap<Table, Entry>,
    /// Views in the order in which they were filled, with their holdout mark.
    views: Vec<(u32, bool)>,
    /// What the views of the fit show beside their colours.
    layers: LayerSet,
    view_bytes: u64,
    /// All views are there.
    delivered: bool,
    prepared: bool,
}

/// A job with fewer tables is not the one that hoards descriptors, and may use the reserve.
const FEW: usize = 16;
/// Tables that must be there before others.
const ORDER: [(Table, Table); 2] = [
    (Table::Splats, Table::Surface),
    (Table::Surface, Table::Mesh),
];

impl TableStore {
    /// An empty store for a texture of `texture_size²` texels.
    pub fn new(texture_size: u32) -> Self {
        Self {
            texture_size,
            texture_bytes: Texture::bytes_for(texture_size, false),
            maps: false,
            detail: LayerSet::default(),
            html: false,
            rejected: false,
            dry_run: false,
            comparison: None,
            container: Container::Glb,
            pages: Pages::ONE,
            entries: HashMap::new(),
            views: Vec::new(),
            layers: LayerSet::default(),
            view_bytes: 0,
            delivered: false,
            prepared: false,
        }
    }

    /// An empty store for a comparison of so many models: prepare makes nothing but figures and perhaps a picture.
    pub fn of_comparison(models: usize, picture: bool) -> Self {
        let comparison = Some(Comparing { models, picture });
        Self {
            comparison,
            ..Self::new(0)
        }
    }

    /// The texture is to come with its maps, and all of them as pictures.
    #[must_use]
    pub fn with_maps(mut self, maps: bool) -> Self {
        self.maps = maps;
        self.texture_bytes = Texture::bytes_for(self.texture_size, maps);
        self
    }

    /// The texture is to come with these layers of the surface before simplification.
    #[must_use]
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.detail = detail.layers();
        self
    }

    /// Encode is to write its part of the report's page.
    #[must_use]
    pub fn with_html(mut self, html: bool) -> Self {
        self.html = html;
        self
    }

    /// The texture is to come with pictures of what was rejected of each view.
    #[must_use]
    pub fn with_rejected(mut self, rejected: bool) -> Self {
        self.rejected = rejected;
        self
    }

    /// Nothing is to be made, and bake is to tell what it would take.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// The result is a file of this kind, with others beside it, and has so many textures.
    #[must_use]
    pub fn with_container(mut self, container: Container, pages: Pages) -> Self {
        (self.container, self.pages) = (container, pages);
        self
    }

    /// Edge of the atlas in texels.
    pub fn texture_size(&self) -> u32 {
        self.texture_size
    }

    /// Prepare has chosen another edge, as long as no mesh is there whose atlas goes with the old one; `false` if it is too
    /// late.
    pub fn choose(&mut self, texture_size: u32) -> bool {
        let early = !self.entries.contains_key(&Table::Mesh);
        if early {
            self.texture_size = texture_size;
            self.texture_bytes = Texture::bytes_for(texture_size, self.maps);
        }
        early
    }

    /// Makes the memory that `role` asks for.
    ///
    /// # Errors
    /// A wish that breaks the protocol, or no memory.
    pub fn allocate(
        &mut self,
        role: Role,
        table: Table,
        bytes: u64,
    ) -> Result<Arc<Blob>, TableStoreError> {
        let (_, min, max) = rules(table, self.texture_size, self.texture_bytes);
        let index_ok = match table {
            Table::View(index) => !self.delivered && (index as usize) < MAX_VIEWS,
            Table::Rejected(index) => (index as usize) < MAX_VIEWS,
            Table::Picture(page) => page < self.pages.count(),
            // Of what no view shows and nobody asked for there is no texture.
            Table::Layer(layer) => self.prepared && self.layers.or(self.detail).has(layer),
            _ => true,
        };
        if !self.owns(role, table) || !index_ok {
            return Err(TableStoreError::Foreign(role, table));
        }
        if self.entries.contains_key(&table) {
            return Err(TableStoreError::Twice(table));
        }
        if !(min..=max).contains(&bytes) {
            return Err(TableStoreError::Size {
                table,
                bytes,
                min,
                max,
            });
        }
        let late = ORDER
            .iter()
            .find(|(first, then)| *first == table && self.has(*then));
        if let Some(&(first, then)) = late {
            return Err(TableStoreError::Late(first, then));
        }
        if let Table::View(_) = table {
            let total = self.view_bytes + bytes;
            if total > MAX_TOTAL_VIEW_BYTES {
                return Err(TableStoreError::TotalViews(total));
            }
            self.view_bytes = total;
        }
        let make = || Blob::create(&format!("kiln-{table:?}"), bytes);
        let blob = if self.entries.len() < FEW {
            lend(make)?
        } else {
            reserve::refill();
            make()?
        };
        let blob = Arc::new(blob);
        self.entries.insert(
            table,
            Entry {
                blob: Arc::clone(&blob),
                filled: false,
                verified: None,
            },
        );
        Ok(blob)
    }

    /// Takes a table as written and freezes it.
    ///
    /// # Errors
    /// A word that breaks the protocol.
    pub fn fill(&mut self, role: Role, table: Table) -> Result<(), TableStoreError> {
        if !self.owns(role, table) {
            return Err(TableStoreError::Foreign(role, table));
        }
        let open = |table| (self.entries.get(&table)).is_some_and(|entry| !entry.filled);
        let late = ORDER
            .iter()
            .find(|(first, then)| *then == table && open(*first));
        if let Some(&(first, then)) = late {
            return Err(TableStoreError::Late(first, then));
        }
        let Some(entry) = self.entries.get_mut(&table).filter(|entry| !entry.filled) else {
            return Err(TableStoreError::NotOpen(table));
        };
        entry.blob.seal_written()?;
        entry.filled = true;
        if let Table::View(index) = table {
            // Read after the seal: nobody can change it any more.
            let header = ViewHeader::read(&mut entry.blob.reader())?;
            let bytes = header.table_bytes();
            if header.index != index || bytes != entry.blob.len() {
                return Err(TableStoreError::Header(index));
            }
            if header.undrawn && !self.has(Table::Splats) {
                return Err(TableStoreError::Undrawn(index));
            }
            self.views.push((index, header.holdout));
            if !header.holdout {
                self.layers = self.layers.or(header.layers);
            }
        }
        Ok(())
    }

    /// Takes the word of a file's maker that the sealed file is what it was made of.
    ///
    /// # Errors
    /// A word that breaks the protocol, or a file that is not of its kind.
    pub fn verify(
        &mut self,
        role: Role,
        table: Table,
        digest: Sha256,
    ) -> Result<(), TableStoreError> {
        if !self.owns(role, table) {
            return Err(TableStoreError::Foreign(role, table));
        }
        let unread = |entry: &&mut Entry| entry.filled && entry.verified.is_none();
        let entry = self.entries.get_mut(&table).filter(unread);
        let Some(entry) = entry.filter(|_| table.is_file()) else {
            return Err(TableStoreError::NotOpen(table));
        };
        shape::check(table, self.container, &entry.blob)
            .map_err(|what| TableStoreError::Shape(table, what))?;
        entry.verified = Some(digest);
        Ok(())
    }

    /// Takes it that every view is there; `false` where that is said twice, or there are not so many.
    pub fn deliver(&mut self, views: u32) -> bool {
        let all = self.views.len() == views as usize && self.view_tables() == self.views.len();
        let due = all && self.comparison.is_none();
        due && !std::mem::replace(&mut self.delivered, true)
    }

    /// Views that were asked for.
    fn view_tables(&self) -> usize {
        let tables = self.entries.keys();
        tables
            .filter(|table| matches!(table, Table::View(_)))
            .count()
    }

    /// Checks that a role that says it is done has filled what it must and left nothing open; bake the `product` that it was
    /// asked for, and no other.
    ///
    /// # Errors
    /// [`TableStoreError::Incomplete`].
    pub fn complete(
        &mut self,
        role: Role,
        done: &Done,
        preview: bool,
        product: Product,
    ) -> Result<(), TableStoreError> {
        let checked = self.closed(role).and_then(|()| match (role, done) {
            (Role::Prepare, Done::Compare(summary)) => self.compared(summary),
            (Role::Prepare, Done::Prepare(_))
                if self.dry_run && preview && !self.has(Table::Preview) =>
            {
                Err("there is no preview")
            }
            (Role::Prepare, Done::Prepare(summary)) => self.made_by_prepare(summary),
            (Role::Bake, Done::Plan(_)) if self.dry_run => self.made_by_dry_run(),
            (Role::Bake, Done::Bake(_)) if !self.dry_run => self.made_by_bake(product),
            (Role::Encode, Done::Encode(_)) => self.made_by_encode(preview),
            _ => Err("the summary is another role's"),
        });
        checked.map_err(TableStoreError::Incomplete)?;
        self.prepared |= role == Role::Prepare;
        Ok(())
    }

    /// Checks that a role has left none of its tables open or unread.
    fn closed(&self, role: Role) -> Result<(), &'static str> {
        let mut own = (self.entries.iter()).filter(|(table, _)| self.owns(role, **table));
        if own.clone().any(|(_, entry)| !entry.filled) {
            return Err("a table was asked for and not filled");
        }
        match own.any(|(table, entry)| table.is_file() && entry.verified.is_none()) {
            true => Err("a file was not read back"),
            false => Ok(()),
        }
    }

    fn has(&self, table: Table) -> bool {
        self.filled(table).is_some()
    }

    fn compared(&self, summary: &CompareSummary) -> Result<(), &'static str> {
        let Some(Comparing { models, picture }) = self.comparison else {
            return Err("it has compared, which nobody asked for");
        };
        match summary.models.len() == models && self.has(Table::Preview) == picture {
            true => Ok(()),
            false => Err("it is done with something else than its job"),
        }
    }

    fn made_by_prepare(&self, summary: &PrepareSummary) -> Result<(), &'static str> {
        let holdout = self.views.iter().filter(|(_, holdout)| *holdout).count();
        let fit = self.views.len() - holdout;
        let announced = (summary.views as usize, summary.holdout_views as usize);
        let mut indices = self.views.iter().map(|(index, _)| *index as usize);
        first_wrong([
            (self.comparison.is_some(), "it was to compare"),
            (!self.has(Table::Mesh), "there is no mesh"),
            (!self.has(Table::Surface), "there is no surface"),
            (!self.delivered, "nobody said which view is the last"),
            (fit == 0, "there is no view for the fit"),
            (
                (fit, holdout) != announced,
                "the number of views is not the one announced",
            ),
            (
                indices.any(|index| index >= self.views.len()),
                "the views' numbers have gaps",
            ),
        ])
    }

    fn made_by_dry_run(&self) -> Result<(), &'static str> {
        let mut tables = self.entries.keys();
        let made = tables.any(|table| self.owns(Role::Bake, *table));
        first_wrong([(made, "a dry run made something")])
    }

    fn made_by_bake(&self, product: Product) -> Result<(), &'static str> {
        let textured = product == Product::Texture;
        let made = [Table::Texture, Table::Colours].map(|table| self.has(table));
        let layers = match product {
            Product::Texture => self.layers.or(self.detail),
            Product::VertexColours => LayerSet::default(),
        };
        let mut fitted = self.views.iter().filter(|(_, holdout)| !holdout);
        let cameras = Refined::byte_len_of(fitted.clone().count());
        let refined = self.filled(Table::Refined);
        let drawn = fitted.all(|(index, _)| self.has(Table::Rejected(*index)));
        first_wrong([
            (
                made != [textured, !textured],
                "what it made is not what it was asked for",
            ),
            (
                !layers.iter().eq(self.baked_layers()),
                "its layers are not those of the views and of --detail",
            ),
            (
                refined.is_some_and(|refined| refined.len() != cameras),
                "its cameras are not those of the views",
            ),
            (
                self.rejected && textured && !drawn,
                "a view has no picture of what was rejected",
            ),
        ])
    }

    fn made_by_encode(&self, preview: bool) -> Result<(), &'static str> {
        let textured = self.has(Table::Texture);
        // A page without charts has no picture.
        let mut pages = (0..self.pages.count()).map(Table::Picture);
        let pictured = pages.any(|page| self.has(page));
        let beside = match self.container {
            Container::Glb => true,
            Container::Ply => pictured,
            Container::Obj => pictured && self.has(Table::Material),
        };
        let mut maps = [Table::Coverage, Table::Residual, Table::Provenance].into_iter();
        first_wrong([
            (!self.has(Table::Glb), "there is no GLB"),
            (preview && !self.has(Table::Preview), "there is no preview"),
            (
                self.html && !self.has(Table::Gallery),
                "there are no rows of views",
            ),
            (textured && !beside, "there are no files beside the mesh"),
            (
                textured && self.maps && !maps.all(|table| self.has(table)),
                "there are no maps",
            ),
        ])
    }

    /// Forgets what a dead attempt of `role` wrote.
    pub fn discard(&mut self, role: Role) {
        let tables = self.entries.keys().copied();
        let own: Vec<Table> = tables.filter(|table| self.owns(role, *table)).collect();
        for table in own {
            self.entries.remove(&table);
        }
        if role == Role::Prepare {
            self.views.clear();
            self.layers = LayerSet::default();
            self.view_bytes = 0;
            self.delivered = false;
            self.prepared = false;
        }
    }

    /// Frees what only bake reads, once it is done; `keep` names the views that encode gets.
    pub fn release_bake_inputs(&mut self, keep: &[u32]) {
        self.entries.retain(|table, _| match table {
            Table::Surface => false,
            Table::Splats => !keep.is_empty(),
            Table::View(index) => keep.contains(index),
            _ => true,
        });
    }

    /// A table, once it is written.
    pub fn filled(&self, table: Table) -> Option<&Arc<Blob>> {
        self.entries
            .get(&table)
            .filter(|entry| entry.filled)
            .map(|entry| &entry.blob)
    }

    /// Bytes of a view's pixels, drawn or not; 0 where the view is not there.
    pub fn pixel_bytes(&self, view: u32) -> u64 {
        let header = self
            .filled(Table::View(view))
            .and_then(|blob| ViewHeader::read(&mut blob.reader()).ok());
        header.map_or(0, |header| header.pixel_bytes())
    }

    /// A finished file that its maker has read back, and the digest of what it read.
    pub fn file(&self, table: Table) -> Option<(Arc<Blob>, Sha256)> {
        let entry = self.entries.get(&table)?;
        Some((Arc::clone(&entry.blob), entry.verified?))
    }

    /// The layers that bake has made, in their order.
    pub fn baked_layers(&self) -> impl Iterator<Item = Layer> {
        let made = |&layer: &Layer| self.filled(Table::Layer(layer)).is_some();
        Layer::ALL.into_iter().filter(made)
    }

    /// Filled views in the order in which they came: index and holdout mark.
    pub fn views(&self) -> &[(u32, bool)] {
        &self.views
    }

    /// No further view will come.
    pub fn delivered(&self) -> bool {
        self.delivered
    }

    /// Prepare is done.
    pub fn prepared(&self) -> bool {
        self.prepared
    }

    /// Whether `role` makes this table.
    fn owns(&self, role: Role, table: Table) -> bool {
        match self.comparison {
            Some(Comparing { picture, .. }) => {
                picture && (role, table) == (Role::Prepare, Table::Preview)
            }
            // Nothing is encoded: prepare draws what it understood.
            None if self.dry_run && table == Table::Preview => role == Role::Prepare,
            None => rules(table, self.texture_size, self.texture_bytes).0 == role,
        }
    }
}

/// The first complaint that is true.
fn first_wrong<const N: usize>(complaints: [(bool, &'static str); N]) -> Result<(), &'static str> {
    let mut complaints = complaints.into_iter();
    let wrong = complaints.find(|(wrong, _)| *wrong);
    wrong.map_or(Ok(()), |(_, what)| Err(what))
}

#[cfg(test)]
mod tests;
