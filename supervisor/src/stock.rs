//! The tables of a job: what a child asks for → memory that it may write → sealed data that others may read.
//!
//! Invariants: a role writes only its own tables, each once for each attempt; sizes are bounded before memory is made;
//! tables stay for as long as some role may need them, so that a crashed bake is repeated without preparing again.

use std::collections::HashMap;
use std::sync::Arc;

use proto::blob::{Blob, BlobError};
use proto::limits::{
    MAX_BLOB_BYTES, MAX_TOTAL_VIEW_BYTES, MAX_TRIANGLES, MAX_VERTICES, MAX_VIEW_PIXELS, MAX_VIEWS,
};
use proto::message::{Done, Role, Table};
use proto::table::{TableError, ViewHeader};

use crate::reserve::{self, lend};

/// Why a child's wish is not granted. All but [`StockError::Memory`] break the protocol.
#[derive(Debug, thiserror::Error)]
pub enum StockError {
    /// Not this role's table.
    #[error("{role} has no business with table {table:?}", role = .0.name(), table = .1)]
    Foreign(Role, Table),
    /// Asked for a second time.
    #[error("table {0:?} was asked for twice")]
    Twice(Table),
    /// Filled without having been asked for, or a second time.
    #[error("table {0:?} was filled out of turn")]
    NotOpen(Table),
    /// Outside the bounds of such a table.
    #[error("table {table:?} of {bytes} bytes is outside its bounds ({min} to {max})")]
    Size {
        /// The table.
        table: Table,
        /// The size asked for.
        bytes: u64,
        /// The least that it can have.
        min: u64,
        /// The most that it can have.
        max: u64,
    },
    /// All views together are too large.
    #[error("views of {0} bytes in all are more than {MAX_TOTAL_VIEW_BYTES}")]
    TotalViews(u64),
    /// Bake starts with the mesh, so the surface must be there before it.
    #[error("the surface came after the mesh")]
    SurfaceAfterMesh,
    /// The head of a view contradicts its packet.
    #[error("the header of view {0} contradicts the packets about it")]
    Header(u32),
    /// The head of a view is out of bounds.
    #[error("header of a view")]
    BadHeader(#[from] TableError),
    /// The result was announced without its tables.
    #[error("done, but {0}")]
    Incomplete(&'static str),
    /// The kernel gave no memory, or did not seal it.
    #[error("shared memory")]
    Memory(#[from] BlobError),
}

#[derive(Debug)]
struct Entry {
    blob: Arc<Blob>,
    filled: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Stock {
    texture_bytes: u64,
    tables: HashMap<Table, Entry>,
    /// Views in the order in which they were filled, with their holdout mark.
    views: Vec<(u32, bool)>,
    view_bytes: u64,
    prepared: bool,
}

/// A job with fewer tables is not the one that hoards descriptors, and may use the reserve.
const FEW: usize = 16;
/// Header of every table.
const HEADER: u64 = 64;
/// Camera of a view: 16 doubles, of which the table writes all.
const CAMERA: u64 = size_of::<proto::table::Camera>() as u64;

impl Stock {
    /// An empty stock for a texture of `texture_size²` texels.
    #[must_use]
    pub fn new(texture_size: u32) -> Self {
        let texture_bytes = HEADER + u64::from(texture_size) * u64::from(texture_size) * 5;
        Self {
            texture_bytes,
            tables: HashMap::new(),
            views: Vec::new(),
            view_bytes: 0,
            prepared: false,
        }
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
    ) -> Result<Arc<Blob>, StockError> {
        let (owner, min, max) = self.rules(table);
        let index_ok = !matches!(table, Table::View(index) if index as usize >= MAX_VIEWS);
        if owner != role || !index_ok {
            return Err(StockError::Foreign(role, table));
        }
        if self.tables.contains_key(&table) {
            return Err(StockError::Twice(table));
        }
        if !(min..=max).contains(&bytes) {
            return Err(StockError::Size {
                table,
                bytes,
                min,
                max,
            });
        }
        match table {
            Table::Surface if self.filled(Table::Mesh).is_some() => {
                return Err(StockError::SurfaceAfterMesh);
            }
            Table::View(_) => {
                let total = self.view_bytes + bytes;
                if total > MAX_TOTAL_VIEW_BYTES {
                    return Err(StockError::TotalViews(total));
                }
                self.view_bytes = total;
            }
            Table::Surface
            | Table::Mesh
            | Table::Texture
            | Table::Glb
            | Table::Preview
            | Table::Colours => {}
        }
        let make = || Blob::create(&format!("kiln-{table:?}"), bytes);
        let blob = if self.tables.len() < FEW {
            lend(make)?
        } else {
            reserve::refill();
            make()?
        };
        let blob = Arc::new(blob);
        self.tables.insert(
            table,
            Entry {
                blob: Arc::clone(&blob),
                filled: false,
            },
        );
        Ok(blob)
    }

    /// Takes a table as written and freezes it.
    ///
    /// # Errors
    /// A word that breaks the protocol.
    pub fn fill(&mut self, role: Role, table: Table) -> Result<(), StockError> {
        if self.rules(table).0 != role {
            return Err(StockError::Foreign(role, table));
        }
        let surface_open = self
            .tables
            .get(&Table::Surface)
            .is_some_and(|surface| !surface.filled);
        if table == Table::Mesh && surface_open {
            return Err(StockError::SurfaceAfterMesh);
        }
        let Some(entry) = self.tables.get_mut(&table).filter(|entry| !entry.filled) else {
            return Err(StockError::NotOpen(table));
        };
        entry.blob.seal_written()?;
        entry.filled = true;
        if let Table::View(index) = table {
            // Read after the seal: nobody can change it any more.
            let header = ViewHeader::read(&mut entry.blob.reader())?;
            if header.index != index || header.table_bytes() != entry.blob.len() {
                return Err(StockError::Header(index));
            }
            self.views.push((index, header.holdout));
        }
        Ok(())
    }

    /// Checks that a role that says it is done has filled what it must and left nothing open.
    ///
    /// # Errors
    /// [`StockError::Incomplete`], or [`StockError::Foreign`] where another role's summary came.
    pub fn complete(&mut self, role: Role, done: &Done, preview: bool) -> Result<(), StockError> {
        if self
            .tables
            .iter()
            .any(|(table, entry)| self.rules(*table).0 == role && !entry.filled)
        {
            return Err(StockError::Incomplete(
                "a table was asked for and not filled",
            ));
        }
        match (role, done) {
            (Role::Prepare, Done::Prepare(summary)) => {
                let holdout = self.views.iter().filter(|(_, holdout)| *holdout).count();
                let fit = self.views.len() - holdout;
                if self.filled(Table::Mesh).is_none() {
                    return Err(StockError::Incomplete("there is no mesh"));
                }
                if fit == 0 {
                    return Err(StockError::Incomplete("there is no view for the fit"));
                }
                if fit != summary.views as usize || holdout != summary.holdout_views as usize {
                    return Err(StockError::Incomplete(
                        "the number of views is not the one announced",
                    ));
                }
                if self
                    .views
                    .iter()
                    .any(|(index, _)| *index as usize >= self.views.len())
                {
                    return Err(StockError::Incomplete("the views' numbers have gaps"));
                }
                self.prepared = true;
            }
            (Role::Bake, Done::Bake(_)) => {
                let colours = self.filled(Table::Colours).is_some();
                if self.filled(Table::Texture).is_some() == colours {
                    return Err(StockError::Incomplete(
                        "there is no texture, or colours beside it",
                    ));
                }
            }
            (Role::Encode, Done::Encode(_)) => {
                if self.filled(Table::Glb).is_none() {
                    return Err(StockError::Incomplete("there is no GLB"));
                }
                if preview && self.filled(Table::Preview).is_none() {
                    return Err(StockError::Incomplete("there is no preview"));
                }
            }
            _ => return Err(StockError::Incomplete("the summary is another role's")),
        }
        Ok(())
    }

    /// Forgets what a dead attempt of `role` wrote.
    pub fn discard(&mut self, role: Role) {
        let texture_bytes = self.texture_bytes;
        self.tables
            .retain(|table, _| rules(*table, texture_bytes).0 != role);
        if role == Role::Prepare {
            self.views.clear();
            self.view_bytes = 0;
            self.prepared = false;
        }
    }

    /// Frees what only bake reads, once it is done; `keep` names the views that encode gets.
    pub fn release_bake_inputs(&mut self, keep: &[u32]) {
        self.tables.retain(|table, _| match table {
            Table::Surface => false,
            Table::View(index) => keep.contains(index),
            Table::Mesh | Table::Texture | Table::Glb | Table::Preview | Table::Colours => true,
        });
    }

    /// A table, once it is written.
    #[must_use]
    pub fn filled(&self, table: Table) -> Option<&Arc<Blob>> {
        self.tables
            .get(&table)
            .filter(|entry| entry.filled)
            .map(|entry| &entry.blob)
    }

    /// Filled views in the order in which they came: index and holdout mark.
    #[must_use]
    pub fn views(&self) -> &[(u32, bool)] {
        &self.views
    }

    /// Prepare is done: no further view will come.
    #[must_use]
    pub fn prepared(&self) -> bool {
        self.prepared
    }

    fn rules(&self, table: Table) -> (Role, u64, u64) {
        rules(table, self.texture_bytes)
    }
}

/// Who writes a table, and its least and largest size. Exact arithmetic: the bounds of `limits` keep it far from overflow.
fn rules(table: Table, texture_bytes: u64) -> (Role, u64, u64) {
    let (vertices, triangles) = (MAX_VERTICES as u64, MAX_TRIANGLES as u64);
    match table {
        Table::Mesh => (
            Role::Prepare,
            HEADER + 3 * 36 + 12,
            HEADER + vertices * 36 + triangles * 12,
        ),
        Table::Surface => (
            Role::Prepare,
            HEADER + 3 * 12 + 12,
            HEADER + (vertices + triangles) * 12,
        ),
        Table::View(_) => (
            Role::Prepare,
            HEADER + CAMERA + 4,
            HEADER + CAMERA + MAX_VIEW_PIXELS * 4,
        ),
        Table::Texture => (Role::Bake, texture_bytes, texture_bytes),
        Table::Colours => (Role::Bake, HEADER + 3 * 4, HEADER + vertices * 4),
        // The header of a GLB; a PNG signature with an IHDR chunk.
        Table::Glb => (Role::Encode, 12, MAX_BLOB_BYTES),
        Table::Preview => (Role::Encode, 33, MAX_BLOB_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use proto::blob::BlobFile;
    use proto::table::{Camera, View};

    use super::*;

    fn view(index: u32, holdout: bool) -> View {
        let camera = Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0; 3],
            focal: [1.0; 2],
            centre: [0.0; 2],
        };
        let pixels = vec![[0; 4]; 2];
        View {
            index,
            width: 2,
            height: 1,
            crop: [0; 2],
            has_alpha: true,
            holdout,
            camera,
            pixels,
        }
    }

    fn write(blob: &Blob, bytes: &[u8]) {
        let file =
            BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed in size");
        file.writer().write_all(bytes).expect("room");
    }

    fn put(stock: &mut Stock, number: u32, view: &View) -> Result<(), StockError> {
        let table = Table::View(number);
        let blob = stock.allocate(Role::Prepare, table, view.byte_len())?;
        let mut bytes = Vec::new();
        view.write(&mut bytes)?;
        write(&blob, &bytes);
        stock.fill(Role::Prepare, table)
    }

    #[test]
    fn a_view_is_sorted_by_its_own_header() {
        let mut stock = Stock::new(256);
        put(&mut stock, 1, &view(1, true)).expect("right");
        put(&mut stock, 0, &view(0, false)).expect("right");
        assert_eq!(stock.views(), [(1, true), (0, false)]);
        assert!(
            matches!(
                put(&mut stock, 2, &view(7, false)),
                Err(StockError::Header(2))
            ),
            "another's number"
        );
        stock.discard(Role::Prepare);
        assert!(stock.views().is_empty() && stock.filled(Table::View(0)).is_none());
    }

    #[test]
    fn nobody_writes_what_is_not_theirs_or_twice() {
        let mut stock = Stock::new(256);
        let texture = 64 + 256 * 256 * 5;
        assert!(matches!(
            stock.allocate(Role::Prepare, Table::Texture, texture),
            Err(StockError::Foreign(..))
        ));
        assert!(matches!(
            stock.allocate(Role::Encode, Table::Mesh, 500),
            Err(StockError::Foreign(..))
        ));
        assert!(matches!(
            stock.allocate(Role::Prepare, Table::View(4096), 500),
            Err(StockError::Foreign(..))
        ));
        stock
            .allocate(Role::Bake, Table::Texture, texture)
            .expect("right");
        assert!(matches!(
            stock.allocate(Role::Bake, Table::Texture, texture),
            Err(StockError::Twice(_))
        ));
        assert!(matches!(
            stock.fill(Role::Encode, Table::Texture),
            Err(StockError::Foreign(..))
        ));
        stock.fill(Role::Bake, Table::Texture).expect("right");
        assert!(matches!(
            stock.fill(Role::Bake, Table::Texture),
            Err(StockError::NotOpen(_))
        ));
        assert!(matches!(
            stock.fill(Role::Prepare, Table::Mesh),
            Err(StockError::NotOpen(_))
        ));
    }

    #[test]
    fn sizes_are_bounded_before_memory_is_made() {
        let mut stock = Stock::new(256);
        for (role, table, bytes) in [
            (Role::Bake, Table::Texture, 64 + 256 * 256 * 5 + 1),
            (Role::Bake, Table::Texture, 64 + 256 * 256 * 5 - 1),
            (Role::Prepare, Table::Mesh, 10),
            (Role::Prepare, Table::Mesh, u64::MAX),
            (Role::Prepare, Table::View(0), 64 + 128 + (64 << 20) * 4 + 1),
            (Role::Encode, Table::Glb, 0),
        ] {
            let result = stock.allocate(role, table, bytes);
            assert!(
                matches!(result, Err(StockError::Size { .. })),
                "{table:?} of {bytes}: {result:?}"
            );
        }
    }

    #[test]
    fn the_surface_is_there_before_the_mesh() {
        let mut stock = Stock::new(256);
        stock
            .allocate(Role::Prepare, Table::Surface, 200)
            .expect("right");
        stock
            .allocate(Role::Prepare, Table::Mesh, 200)
            .expect("right");
        assert!(matches!(
            stock.fill(Role::Prepare, Table::Mesh),
            Err(StockError::SurfaceAfterMesh)
        ));
        stock.fill(Role::Prepare, Table::Surface).expect("right");
        stock.fill(Role::Prepare, Table::Mesh).expect("right");

        let mut stock = Stock::new(256);
        stock
            .allocate(Role::Prepare, Table::Mesh, 200)
            .expect("right");
        stock.fill(Role::Prepare, Table::Mesh).expect("right");
        let late = stock.allocate(Role::Prepare, Table::Surface, 200);
        assert!(matches!(late, Err(StockError::SurfaceAfterMesh)));
    }
}
