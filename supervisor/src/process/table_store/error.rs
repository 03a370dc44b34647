//! Why a child's wish about its tables is not granted.

use proto::blob::BlobError;
use proto::limits::MAX_TOTAL_VIEW_BYTES;
use proto::message::{Role, Table};
use proto::table::TableError;

/// Why a child's wish is not granted. All but [`TableStoreError::Memory`] break the protocol.
#[derive(Debug, thiserror::Error)]
pub enum TableStoreError {
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
    /// A file that is not of its kind, or not as long as it says, whatever its maker says.
    #[error("the file {0:?} is {1}")]
    Shape(Table, &'static str),
    /// All views together are too large.
    #[error("views of {0} bytes in all are more than {MAX_TOTAL_VIEW_BYTES}")]
    TotalViews(u64),
    /// The first must be there before the second: bake starts with splats and surface, and gets its mesh later.
    #[error("table {0:?} came after {1:?}")]
    Late(Table, Table),
    /// The head of a view contradicts its packet.
    #[error("the header of view {0} contradicts the packets about it")]
    Header(u32),
    /// There is nothing to draw a view of.
    #[error("view {0} has no pixels, and there are no splats to draw it of")]
    Undrawn(u32),
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
