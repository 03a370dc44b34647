//! The baked texture, and what is known of each texel.

use std::io::{Read, Write};

use super::maps::Maps;
use super::{HEADER_BYTES, TableError, bound, header, read_array, read_header};
use crate::limits::{MAX_TEXTURE_SIZE, MIN_TEXTURE_SIZE};

/// What is known of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Provenance {
    /// Outside every chart: the gutter.
    Gutter = 0,
    /// Inside a chart, but no pixel of any view sees it: filled from its neighbours on the surface.
    Filled = 1,
    /// Seen by less than one pixel's weight in all.
    Weak = 2,
    /// Seen by one pixel's weight or more.
    Observed = 3,
}

/// The baked texture.
#[derive(Clone, Debug, PartialEq)]
pub struct Texture {
    /// Edge in texels.
    pub size: u32,
    /// `size²` texels, row by row from v = 0: sRGB, alpha 255.
    pub texels: Vec<[u8; 4]>,
    /// `size²` values of [`Provenance`].
    pub provenance: Vec<u8>,
    /// Coverage and residual of each texel, if requested.
    pub maps: Option<Maps>,
}

impl Texture {
    const MAGIC: &'static [u8; 8] = b"KILNTEX1";

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        Self::bytes_for(self.size, self.maps.is_some())
    }

    /// Size in bytes of the table of a texture of `size²` texels, with or without maps.
    pub fn bytes_for(size: u32, maps: bool) -> u64 {
        let each = 5 + if maps { Maps::TEXEL_BYTES } else { 0 };
        HEADER_BYTES as u64 + u64::from(size) * u64::from(size) * each
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        out.write_all(&header(
            Self::MAGIC,
            &[self.size, u32::from(self.maps.is_some())],
        ))?;
        out.write_all(bytemuck::cast_slice(&self.texels))?;
        out.write_all(&self.provenance)?;
        if let Some(maps) = &self.maps {
            out.write_all(&maps.coverage)?;
            out.write_all(&maps.residual)?;
        }
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [size, maps] = read_header(input, Self::MAGIC, "texture")?;
        bound(
            "texture size",
            size,
            MIN_TEXTURE_SIZE as usize,
            MAX_TEXTURE_SIZE as usize,
        )?;
        let maps = bound("number of sets of maps", maps, 0, 1)? == 1;
        let count = size as usize * size as usize;
        let texels = read_array(input, count)?;
        let provenance = read_array(input, count)?;
        if let Some(index) = provenance
            .iter()
            .position(|&value: &u8| value > Provenance::Observed as u8)
        {
            return Err(TableError::Number {
                what: "provenance",
                index,
            });
        }
        let maps = if maps {
            let maps = Maps {
                coverage: read_array(input, count)?,
                residual: read_array(input, count)?,
            };
            if let Some(index) = maps.contradiction(&provenance) {
                return Err(TableError::Number {
                    what: "code of the maps",
                    index,
                });
            }
            Some(maps)
        } else {
            None
        };
        Ok(Self {
            size,
            texels,
            provenance,
            maps,
        })
    }
}
