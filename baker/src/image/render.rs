//! The reference renderer: mesh, paint (a texture or vertex colours) and camera → a picture. Tests, scores, preview and
//! benchmark share it.
//!
//! Every pixel is the mean of s×s regular samples at `(k + ½)/s`. A sample sees the nearest surface, whichever way it
//! faces, and looks its colour up bilinearly on the base level, clamped to the edge. The mean is over the samples that
//! hit (straight alpha; alpha is their share), in the space that [`Blend`] names: linear light for renders and
//! photographs. There are no mips; only the number of samples resolves minification. Vertex colours are interpolated in
//! linear light, as glTF demands.
//!
//! Conventions are those of [`proto::table`]. Geometry is in f64. The result does not depend on the number of threads.

mod clip;
mod shade;
mod sight;

pub mod srgb;
#[cfg(test)]
mod tests;

pub use clip::{Projection, projected_bounds};
pub use kiln_raster::Bounds;
pub(crate) use shade::split;
pub use shade::{Image, Paint, Textures};
pub use sight::Sight;

use proto::job::Blend;
use proto::table::{Camera, Mesh};
use rayon::prelude::*;

use crate::worker::progress::unit;
use kiln_raster::Hits;
use shade::Shader;

/// A picture in floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Render {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Row-major from the top; sRGB-encoded, 0-1; black where nothing was hit.
    pub colours: Vec<[f32; 3]>,
    /// Share of the samples that hit, 0-1.
    pub coverage: Vec<f32>,
}

impl Render {
    /// The picture as 8-bit sRGB with straight alpha, rounded.
    pub fn to_rgba8(&self) -> Vec<[u8; 4]> {
        let byte = |x: f32| (x.clamp(0.0, 1.0) * 255.0).round() as u8;
        self.colours
            .iter()
            .zip(&self.coverage)
            .map(|(c, &a)| [byte(c[0]), byte(c[1]), byte(c[2]), byte(a)])
            .collect()
    }
}

/// Renders `width`×`height` pixels with `samples`×`samples` samples each.
pub fn render(
    mesh: &Mesh,
    paint: Paint<'_>,
    camera: &Camera,
    [width, height]: [u32; 2],
    samples: u32,
    blend: Blend,
) -> Render {
    let (width, height, samples) = (width as usize, height as usize, samples.max(1) as usize);
    let scene = clip::scene(mesh, camera, [width, height], samples);
    let mut result = Render {
        width,
        height,
        colours: vec![[0.0; 3]; width * height],
        coverage: vec![0.0; width * height],
    };

    let row_samples = (width * samples * samples).max(1);
    let rows = (BAND_SAMPLES / row_samples).clamp(1, 32);
    let together = (SAMPLES_TOGETHER / row_samples).clamp(1, rows);
    let band_pixels = (rows * width).max(1);
    let together_pixels = (together * width).max(1);
    result
        .colours
        .par_chunks_mut(band_pixels)
        .zip(result.coverage.par_chunks_mut(band_pixels))
        .enumerate()
        .for_each_init(Hits::default, |hits, (band, (colours, coverage))| {
            let triangles = scene.touching(band * rows, coverage.len() / width);
            let parts = colours
                .chunks_mut(together_pixels)
                .zip(coverage.chunks_mut(together_pixels));
            for (part, (colours, coverage)) in parts.enumerate() {
                let first = band * rows + part * together;
                scene.draw(&triangles, first, coverage.len() / width, hits);
                let mut shader = Shader::new(mesh, paint, &scene, blend);
                shader.shade(hits, first, [width, samples], colours, coverage);
            }
            unit();
        });
    result
}

/// Samples of a band, the unit of work: enough to make the search for its triangles cheap, and few enough for several
/// bands per core of a large machine.
const BAND_SAMPLES: usize = 1 << 19;
/// Samples drawn before they are shaded, 12 bytes each: about the size of a core's own cache.
const SAMPLES_TOGETHER: usize = 1 << 16;
