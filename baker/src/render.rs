//! Mesh, its paint (a texture, or colours of its vertices) and camera into a picture: the plain reference that tests, scores, preview and benchmark share.
//!
//! Every pixel is the mean of s×s regularly spaced samples, at `(k + ½)/s`; a sample sees the nearest surface, whichever
//! way it faces, and looks its colour up bilinearly on the base level, clamped to the edge. The mean is taken over the
//! samples that hit (straight alpha; alpha = their share) in the space that [`Blend`] names: linear light for renders and
//! photographs. There are no mips: minification is resolved by the number of samples alone. Colours of vertices are
//! interpolated over their triangle in linear light, as glTF asks of a viewer.
//!
//! Conventions are those of [`proto::table`]. All geometry is in f64; the result does not depend on the number of threads.

mod clip;
mod raster;
mod shade;
mod sight;

pub mod srgb;
#[cfg(test)]
mod tests;

pub use clip::{Bounds, Projection, projected_bounds};
pub(crate) use shade::split;
pub use shade::{Image, Paint, Textures};
pub use sight::Sight;

use proto::job::Blend;
use proto::table::{Camera, Mesh};
use rayon::prelude::*;

use crate::progress::unit;
use raster::Hits;
use shade::Shader;

/// A picture as floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Render {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Row by row from the top: sRGB-encoded, 0-1; black where nothing was hit.
    pub colours: Vec<[f32; 3]>,
    /// Share of the samples that hit, 0-1.
    pub coverage: Vec<f32>,
}

impl Render {
    /// The picture as 8-bit sRGB with straight alpha, rounded.
    #[must_use]
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
#[must_use]
pub fn render(
    mesh: &Mesh,
    paint: Paint<'_>,
    camera: &Camera,
    [width, height]: [u32; 2],
    samples: u32,
    blend: Blend,
) -> Render {
    let (width, height, samples) = (width as usize, height as usize, samples.max(1) as usize);
    let scene = raster::Scene::new(mesh, camera, [width, height], samples);
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

/// Of a band, the unit of work: so many that finding its triangles among all costs little, and so few that there are several
/// for each core of a large machine.
const BAND_SAMPLES: usize = 1 << 19;
/// What is drawn at a time and then shaded, 12 bytes each: about what a core's own cache holds.
const SAMPLES_TOGETHER: usize = 1 << 16;
