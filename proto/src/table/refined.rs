//! Cameras and exposures of the views after a fit that corrected them.

use std::io::{Read, Write};

use super::{
    Camera, HEADER_BYTES, TableError, bound, check_camera, header, read_array, read_header,
};
use crate::limits::{MAX_COORDINATE, MAX_VIEWS};

/// One view of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefinedView {
    /// See [`super::View::index`].
    pub index: u32,
    /// Its exposure by channel, in linear light: the view shows the texture times this. 1 if it was not corrected.
    pub gain: [f32; 3],
    /// Its camera, in pixels of the view's crop; as given if it was not corrected.
    pub camera: Camera,
}

/// Every view of the fit, after the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Refined {
    /// By rising index.
    pub views: Vec<RefinedView>,
}

impl Refined {
    const MAGIC: &'static [u8; 8] = b"KILNREF2";

    /// Size in bytes of a table of this many views.
    pub fn byte_len_of(views: usize) -> u64 {
        (HEADER_BYTES + views * (4 + 12 + size_of::<Camera>())) as u64
    }

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        Self::byte_len_of(self.views.len())
    }

    /// The view with this index.
    pub fn view(&self, index: u32) -> Option<&RefinedView> {
        let place = self.views.binary_search_by_key(&index, |view| view.index);
        self.views.get(place.ok()?)
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        let count = u32::try_from(self.views.len()).unwrap_or(u32::MAX);
        out.write_all(&header(Self::MAGIC, &[count]))?;
        for view in &self.views {
            out.write_all(&view.index.to_le_bytes())?;
        }
        for view in &self.views {
            out.write_all(bytemuck::bytes_of(&view.gain))?;
        }
        for view in &self.views {
            out.write_all(bytemuck::bytes_of(&view.camera))?;
        }
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [count] = read_header(input, Self::MAGIC, "refined")?;
        let count = bound("refined views", count, 1, MAX_VIEWS)?;
        let indices: Vec<u32> = read_array(input, count)?;
        let falls = |pair: &[u32]| pair[0] >= pair[1];
        let beyond = |&index: &u32| index as usize >= MAX_VIEWS;
        let wrong = indices.iter().copied().find(beyond);
        let wrong = wrong.or(indices.windows(2).find(|pair| falls(pair)).map(|p| p[1]));
        if let Some(index) = wrong {
            return Err(TableError::Bound {
                what: "index of a refined view",
                value: u64::from(index),
            });
        }
        let gains: Vec<[f32; 3]> = read_array(input, count)?;
        // A NaN is within no range.
        let range = 1.0 / MAX_COORDINATE..=MAX_COORDINATE;
        let good = |gains: &[f32; 3]| gains.iter().all(|gain| range.contains(gain));
        if let Some(index) = gains.iter().position(|gain| !good(gain)) {
            return Err(TableError::Number {
                what: "gain",
                index,
            });
        }
        let cameras: Vec<Camera> = read_array(input, count)?;
        cameras.iter().try_for_each(check_camera)?;
        let views = indices.into_iter().zip(gains).zip(cameras);
        let views = views.map(|((index, gain), camera)| RefinedView {
            index,
            gain,
            camera,
        });
        Ok(Self {
            views: views.collect(),
        })
    }
}
