//! Makes a [`View`] of a decoded picture and its camera, cropped to what can matter.

use proto::table::{Camera, Layer, View};

use super::crop::{self, Crop, Outline};
use super::layers;
use crate::prepare::picture::{Colours, Picture};

/// A view and what there is to report about it.
pub(super) struct Loaded {
    pub(super) view: View,
    /// The pixels of its layers, cropped like its own.
    pub(super) layers: Vec<(Layer, Vec<[u8; 4]>)>,
    pub(super) sees: Sees,
    /// What was made of the tags of its colours.
    pub(super) colours: Colours,
    /// Black wedges at its border were made transparent.
    pub(super) wedged: bool,
    /// Its colours were far outside 0-1.
    pub(super) far_outside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// The mesh, as far as bounding rectangles can tell.
    Mesh,
    /// Nothing of the mesh.
    Nothing,
    /// Only transparent pixels.
    Transparent,
}

/// The window of a view that shows nothing.
const NOTHING: Crop = [0, 0, 1, 1];

/// A principal point, in pixels of a window whose corner is given.
fn within(centre: [f64; 2], corner: [u32; 2]) -> [f64; 2] {
    [0, 1].map(|k| centre[k] - f64::from(corner[k]))
}

impl Loaded {
    /// A view with alpha that is to be drawn of splats.
    pub(super) fn undrawn(
        index: usize,
        size: [u32; 2],
        mut camera: Camera,
        outline: &Outline,
        holdout: bool,
    ) -> Self {
        let (sees, [left, top, width, height], pixels) = match outline.crop_undrawn(&camera, size) {
            Some(crop) => (Sees::Mesh, crop, Vec::new()),
            None => (Sees::Nothing, NOTHING, vec![[0; 4]]),
        };
        camera.centre = within(camera.centre, [left, top]);
        let view = View {
            index: index as u32,
            width,
            height,
            crop: [left, top],
            has_alpha: true,
            holdout,
            camera,
            pixels,
        };
        Self {
            view,
            layers: Vec::new(),
            sees,
            colours: Colours::Srgb,
            wedged: false,
            far_outside: false,
        }
    }

    /// The same view, showing nothing.
    pub(super) fn emptied(mut self) -> Self {
        let view = &mut self.view;
        (view.width, view.height, view.crop) = (1, 1, [0, 0]);
        (view.has_alpha, view.pixels) = (true, vec![[0; 4]]);
        for (_, pixels) in &mut self.layers {
            *pixels = vec![[0; 4]];
        }
        self
    }

    /// Crops. A view keeps its index even if it is empty.
    pub(super) fn new(
        index: usize,
        picture: &Picture,
        pictures: &[(Layer, Picture)],
        mut camera: Camera,
        outline: &Outline,
        holdout: bool,
    ) -> Self {
        let (sees, [left, top, width, height], pixels) = match outline.crop(&camera, picture) {
            Some(crop) => (Sees::Mesh, crop, crop::cut(picture, crop)),
            None if picture.pixels.iter().all(|pixel| pixel[3] == 0) => {
                (Sees::Transparent, NOTHING, vec![[0; 4]])
            }
            None => (Sees::Nothing, NOTHING, vec![[0; 4]]),
        };
        let layers = pictures
            .iter()
            .map(|(layer, picture)| match sees {
                Sees::Mesh => {
                    let mut cut = crop::cut(picture, [left, top, width, height]);
                    layers::mask(&mut cut, &pixels);
                    (*layer, cut)
                }
                Sees::Nothing | Sees::Transparent => (*layer, vec![[0; 4]]),
            })
            .collect();
        camera.centre = within(camera.centre, [left, top]);
        let view = View {
            index: index as u32,
            width,
            height,
            crop: [left, top],
            has_alpha: picture.has_alpha || sees != Sees::Mesh,
            holdout,
            camera,
            pixels,
        };
        Self {
            view,
            layers,
            sees,
            colours: picture.colours,
            wedged: false,
            far_outside: false,
        }
    }
}
