//! The views of a file: cameras and sizes at once, each picture when it is asked for, by any thread.

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEW_PIXELS, MAX_VIEWS};
use proto::table::Camera;
use safetensors::Dtype;

use super::header::{Arrays, Axis, PIECE, Tensor};
use super::{ArraysError, Problem, cameras, pictures};
use crate::prepare::folder::Opened;
use crate::prepare::picture::Picture;

/// All tensors that have a meaning.
const KNOWN: [&str; 7] = [
    "vertices",
    "faces",
    "uvs",
    "observations",
    "masks",
    "extrinsics",
    "intrinsics",
];

/// Posed views, not yet decoded.
#[derive(Debug)]
pub(in crate::prepare) struct ArrayViews {
    arrays: Arrays,
    observations: Tensor<4>,
    masks: Option<Tensor<3>>,
    cameras: Vec<Camera>,
}

impl ArrayViews {
    /// Reads everything but the pictures; `warn` is given what the user should know.
    pub(in crate::prepare) fn read(
        file: Opened,
        mut warn: impl FnMut(&str),
    ) -> Result<Self, ArraysError> {
        let arrays = Arrays::read(file)?;
        let shape = [Axis::Any('V'), Axis::Any('H'), Axis::Any('W'), Axis::Is(3)];
        let observations = arrays.tensor("observations", &[Dtype::U8, Dtype::F32], shape)?;
        observations.at_most(MAX_VIEWS, 0, "views")?;
        observations.at_most(MAX_VIEW_EDGE as usize, 1, "rows")?;
        observations.at_most(MAX_VIEW_EDGE as usize, 2, "columns")?;
        let [views, height, width, _] = observations.shape;
        if views * height * width == 0 {
            return Err(observations.wrong(Problem::Empty));
        }
        let count = (height * width) as u64;
        if count > MAX_VIEW_PIXELS {
            return Err(observations.wrong(Problem::TooLarge {
                what: "pixels in each view",
                count,
                limit: MAX_VIEW_PIXELS,
            }));
        }
        let shape = [Axis::Is(views), Axis::Is(height), Axis::Is(width)];
        let masks =
            arrays.tensor_if_there("masks", &[Dtype::U8, Dtype::BOOL, Dtype::F32], shape)?;
        let read = cameras::read(&arrays, views, [width, height])?;
        if let Some(others) = arrays.others(&KNOWN) {
            warn(&format!(
                "nothing is known of these tensors, they are not read: {others}"
            ));
        }
        if read.scaled > 0 {
            warn(&format!(
                "extrinsics of {} views contain a scale, which is taken out",
                read.scaled
            ));
        }
        Ok(Self {
            arrays,
            observations,
            masks,
            cameras: read.cameras,
        })
    }

    /// How many there are, at least one.
    pub(in crate::prepare) fn len(&self) -> usize {
        self.cameras.len()
    }

    /// Width and height of every picture.
    pub(in crate::prepare) fn size(&self) -> [usize; 2] {
        let [_, height, width, _] = self.observations.shape;
        [width, height]
    }

    /// One of each view.
    pub(in crate::prepare) fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    /// Memory that decoding one of them may take: its pixels, their crop, and what is read at once.
    pub(in crate::prepare) fn decoding_bytes(&self) -> usize {
        let [_, height, width, _] = self.observations.shape;
        height * width * (4 + 4) + PIECE
    }

    /// Decodes view `index`; the flag says that floats of it were far outside 0-1.
    pub(in crate::prepare) fn decode(
        &self,
        index: usize,
    ) -> Result<(Picture, Camera, bool), ArraysError> {
        let (picture, far_outside) =
            pictures::read(&self.arrays, &self.observations, self.masks.as_ref(), index)?;
        Ok((picture, self.cameras[index], far_outside))
    }
}
