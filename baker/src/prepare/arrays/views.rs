//! The views of a file. Cameras and sizes are read at once, each picture on demand, on any thread.

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEW_PIXELS, MAX_VIEWS};
use proto::table::{Camera, Layer, LayerSet};
use safetensors::Dtype;

use super::header::{Arrays, Axis, PIECE, Tensor};
use super::{ArraysError, Problem, cameras, pictures};
use crate::prepare::picture::Picture;
use crate::prepare::transforms::{NormalSpace, Pose};
use crate::worker::folder::Opened;

/// All tensor names with a meaning.
const KNOWN: [&str; 12] = [
    "vertices",
    "faces",
    "uvs",
    "observations",
    "masks",
    "extrinsics",
    "intrinsics",
    channel(Layer::MetallicRoughness),
    channel(Layer::Normal),
    channel(Layer::Emissive),
    channel(Layer::Occlusion),
    channel(Layer::Opacity),
];

const fn channel(layer: Layer) -> &'static str {
    match layer {
        Layer::MetallicRoughness => "channels.metallic_roughness",
        Layer::Normal => "channels.normal",
        Layer::Emissive => "channels.emissive",
        Layer::Occlusion => "channels.occlusion",
        Layer::Opacity => "channels.opacity",
    }
}

/// Posed views, not yet decoded.
#[derive(Debug)]
pub(in crate::prepare) struct ArrayViews {
    arrays: Arrays,
    observations: Tensor<4>,
    masks: Option<Tensor<3>>,
    layers: Vec<(Layer, Tensor<4>)>,
    normal_space: NormalSpace,
    cameras: Vec<Camera>,
}

impl ArrayViews {
    /// Reads everything but the pictures. Passes warnings to `warn`.
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
        let all = [
            Axis::Is(views),
            Axis::Is(height),
            Axis::Is(width),
            Axis::Is(3),
        ];
        let mut layers = Vec::new();
        for layer in Layer::ALL {
            let name = channel(layer);
            let found = arrays.tensor_if_there(name, &[Dtype::U8, Dtype::F32], all)?;
            layers.extend(found.map(|tensor| (layer, tensor)));
        }
        let normal_space = match arrays.note("normal_space") {
            None | Some("world") => NormalSpace::World,
            Some("camera") => NormalSpace::Camera,
            Some(other) => {
                return Err(ArraysError::Metadata {
                    key: "normal_space",
                    value: other.to_owned(),
                    wanted: "\"world\" or \"camera\"",
                });
            }
        };
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
            layers,
            normal_space,
            cameras: read.cameras,
        })
    }

    /// Number of views, at least one.
    pub(in crate::prepare) fn len(&self) -> usize {
        self.cameras.len()
    }

    pub(in crate::prepare) fn size(&self) -> [usize; 2] {
        let [_, height, width, _] = self.observations.shape;
        [width, height]
    }

    /// One for each view.
    pub(in crate::prepare) fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    /// Changes the cameras' poses, and counts their principal points from the other side along the `mirrored` axes.
    pub(in crate::prepare) fn move_cameras(
        &mut self,
        mirrored: [bool; 2],
        moved: impl Fn(&Pose) -> Pose,
    ) {
        let [_, height, width, _] = self.observations.shape;
        for camera in &mut self.cameras {
            let pose = moved(&Pose {
                rotation: camera.rotation,
                translation: camera.translation,
            });
            (camera.rotation, camera.translation) = (pose.rotation, pose.translation);
            for (axis, edge) in [width, height].into_iter().enumerate() {
                if mirrored[axis] {
                    camera.centre[axis] = edge as f64 - camera.centre[axis];
                }
            }
        }
    }

    /// Bytes that decoding a view may take: its pixels, their crop, both of each layer, and the read buffer.
    pub(in crate::prepare) fn decoding_bytes(&self) -> usize {
        let [_, height, width, _] = self.observations.shape;
        height * width * (4 + 4) * (1 + self.layers.len()) + PIECE
    }

    /// The layers that every view has.
    pub(in crate::prepare) fn layer_set(&self) -> LayerSet {
        self.layers.iter().map(|(layer, _)| *layer).collect()
    }

    /// The axes of normals: the metadata `normal_space`.
    pub(in crate::prepare) fn normal_space(&self) -> NormalSpace {
        self.normal_space
    }

    /// Decodes the layers of view `index`. The flag is that of [`Self::decode`].
    pub(in crate::prepare) fn decode_layers(
        &self,
        index: usize,
    ) -> Result<(Vec<(Layer, Picture)>, bool), ArraysError> {
        let (mut all, mut any) = (Vec::new(), false);
        for (layer, tensor) in &self.layers {
            let (picture, far_outside) = pictures::read(&self.arrays, tensor, None, index)?;
            all.push((*layer, picture));
            any |= far_outside;
        }
        Ok((all, any))
    }

    /// Decodes view `index`. The flag says that floats of it were far outside 0-1.
    pub(in crate::prepare) fn decode(
        &self,
        index: usize,
    ) -> Result<(Picture, Camera, bool), ArraysError> {
        let (picture, far_outside) =
            pictures::read(&self.arrays, &self.observations, self.masks.as_ref(), index)?;
        Ok((picture, self.cameras[index], far_outside))
    }
}
