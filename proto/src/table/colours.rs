//! One colour for each vertex of a [`super::Mesh`]: what a bake makes if a texture is not possible.

use std::io::{Read, Write};

use super::{HEADER_BYTES, TableError, bound, header, read_array, read_header};
use crate::limits::MAX_VERTICES;

/// The baked colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colours {
    /// sRGB, alpha 255, in the order of the mesh's vertices.
    pub colours: Vec<[u8; 4]>,
}

impl Colours {
    const MAGIC: &'static [u8; 8] = b"KILNCOL1";

    /// Size in bytes of a table of this many vertices.
    pub fn byte_len_of(vertices: usize) -> u64 {
        HEADER_BYTES as u64 + vertices as u64 * 4
    }

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        Self::byte_len_of(self.colours.len())
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        let count = u32::try_from(self.colours.len()).unwrap_or(u32::MAX);
        out.write_all(&header(Self::MAGIC, &[count]))?;
        out.write_all(bytemuck::cast_slice(&self.colours))?;
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [count] = read_header(input, Self::MAGIC, "colours")?;
        let count = bound("vertices", count, 3, MAX_VERTICES)?;
        Ok(Self {
            colours: read_array(input, count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_back_and_a_lie_does_not() {
        let table = Colours {
            colours: vec![[1, 2, 3, 255], [4, 5, 6, 255], [7, 8, 9, 255]],
        };
        let mut bytes = Vec::new();
        table.write(&mut bytes).expect("memory takes all");
        assert_eq!(bytes.len() as u64, table.byte_len());
        assert_eq!(Colours::read(&mut &bytes[..]).expect("its own"), table);
        bytes[8] = 4;
        assert!(matches!(
            Colours::read(&mut &bytes[..]),
            Err(TableError::Io(_))
        ));
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            Colours::read(&mut &bytes[..]),
            Err(TableError::Bound { .. })
        ));
    }
}
