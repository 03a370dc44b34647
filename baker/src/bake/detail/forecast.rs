//! A bake's detail → the time and the memory that it takes, before it is made.

use proto::job::Detail;
use proto::table::Layer;

use crate::bake::intake::surface::Original;
use crate::bake::model::hierarchy::Hierarchy;
use crate::bake::model::raster::NOTHING;
use crate::bake::solve::fit_context::Model;

/// Seconds on two threads of the reference machine: for a triangle of the original (boxes, normals, distance), for the rays
/// of one of its points, and for the lines of a texel.
const TRIANGLE: f64 = 1.2e-6;
const POINT: f64 = 7e-6;
const TEXEL: f64 = 5e-7;
/// Bytes of a point: its normal, its occlusion, its distance and the sums of its neighbours.
const POINT_BYTES: usize = 12 + 4 + 12 + 8;
/// Bytes of a texel: what it stands for, its colours while gutters are filled, and each layer.
const TEXEL_BYTES: usize = 6 + 22;
const LAYER_BYTES: usize = 4;

/// What the detail of an original takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Forecast {
    /// Seconds on two threads of the reference machine.
    pub(crate) seconds: f64,
    /// Host memory.
    pub(crate) bytes: u64,
    /// Textures that it makes, beside those that views show.
    pub(crate) layers: u32,
}

/// Forecasts what [`super::bake`] takes.
pub(crate) fn forecast(detail: Detail, original: Option<&Original>, model: &Model) -> Forecast {
    if detail == Detail::Off {
        return Forecast::default();
    }
    let scene = &model.scene;
    let (points, triangles) = match original {
        Some(original) => {
            let shown = original.shown();
            (shown.positions.len(), shown.triangles.len())
        }
        None => (scene.positions.len(), scene.triangles.len()),
    };
    let charted = (model.atlas.triangles.iter()).filter(|&&triangle| triangle != NOTHING);
    let rays = match detail.layers().has(Layer::Occlusion) {
        true => points as f64 * POINT,
        false => 0.0,
    };
    let layers = detail.layers().iter().count();
    let texels = scene.texels() * (TEXEL_BYTES + layers * LAYER_BYTES);
    let surfaces = Hierarchy::bytes(triangles) + Hierarchy::bytes(scene.triangles.len());
    Forecast {
        seconds: triangles as f64 * TRIANGLE + rays + charted.count() as f64 * TEXEL,
        bytes: (surfaces + points * POINT_BYTES + texels) as u64,
        layers: layers as u32,
    }
}
