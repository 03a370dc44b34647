//! A flat table of any kind: typed errors, memory that follows the bytes that are there, and the same bytes when written.

use std::io::Read;

use proto::table::{Colours, Mesh, Surface, TableError, Texture, View, ViewHeader};

use crate::heap;

/// What reading may take besides twice the table.
const READING_BYTES: usize = 512 << 10;

/// The bytes of one blob.
#[must_use]
pub fn table(bytes: &[u8]) -> bool {
    let header = ViewHeader::read(&mut &*bytes);
    let view = read(bytes, View::read, View::write, View::byte_len);
    if let Some(size) = view {
        let header = header.expect("a view has a good header");
        assert_eq!(header.table_bytes(), size, "the header tells the size");
    }
    [
        view,
        read(bytes, Mesh::read, Mesh::write, Mesh::byte_len),
        read(bytes, Surface::read, Surface::write, Surface::byte_len),
        read(bytes, Texture::read, Texture::write, Texture::byte_len),
        read(bytes, Colours::read, Colours::write, Colours::byte_len),
    ]
    .iter()
    .any(Option::is_some)
}

/// Reads a table and writes it back; gives its size if there is one.
fn read<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Limited<'a>) -> Result<T, TableError>,
    write: impl FnOnce(&T, &mut Vec<u8>) -> Result<(), TableError>,
    size: impl Fn(&T) -> u64,
) -> Option<u64> {
    let limit = READING_BYTES + 2 * bytes.len();
    let table = heap::within(limit, "reading a table", || read(&mut Limited(bytes))).ok()?;
    let mut written = Vec::new();
    write(&table, &mut written).expect("memory takes all");
    assert_eq!(
        written.len() as u64,
        size(&table),
        "the size that is asked for is the size that is written"
    );
    assert!(
        bytes.starts_with(&written),
        "what was read is written as the same bytes"
    );
    Some(size(&table))
}

/// Gives at most a few thousand bytes at once, as a pipe would.
struct Limited<'a>(&'a [u8]);

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(4093);
        self.0.read(&mut buffer[..most])
    }
}
