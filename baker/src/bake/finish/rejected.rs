//! Draws what the fit rejected of each view: views and the final texels → a picture, and shares for the report.
//!
//! | index | colour | pixel |
//! |---|---|---|
//! | 0 | grey | beside the mesh |
//! | 1 | blue | only partly on the mesh: its outline runs through it |
//! | 2 | teal | on the mesh, and less than half opaque |
//! | 3 | green | the surface before simplification lies elsewhere |
//! | 4 … 255 | black over violet, red and orange to pale yellow | robust weight 1 − (index − 4) / 251: black counts in full, pale yellow not at all |
//!
//! The weights are those of one more round with the last scale, including the neighbourhood weight and without the
//! weight of alpha. The native stages compute them, whatever the adapter: the rows are the same, and the feature costs
//! nothing unless asked for. Views are stored until the fit is done, at four bytes a pixel.

use proto::job::Blend;
use proto::message::Rejected;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::model::footprint::{BAND, MIN_ALPHA, footprints};
use crate::bake::model::raster::{NOTHING, Projected, raster};
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::robust_weight;
use crate::bake::solve::native::{apply_consensus, residual};
use crate::image::png::{self, PngError};
use crate::image::sheet::tile::heat;
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};

const BESIDE: u8 = 0;
const OUTLINE: u8 = 1;
const ALPHA: u8 = 2;
const SURFACE: u8 = 3;
const BELIEVED: u8 = 4;

const ABOUT: &str = "kiln rejected map of a view. Index 0 (grey): beside the mesh; 1 (blue): only in part on it; 2 (teal): less \
    than half opaque; 3 (green): the surface before simplification lies elsewhere; 4 to 255 (black to pale yellow): the fit's \
    robust weight is 1-(index-4)/251.";

/// The fitted views, with the mask of [`opaque`] for each.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Vec<(View, Vec<bool>)>);

/// A fitted texture that views are compared with.
#[derive(Clone, Copy)]
pub(crate) struct Against<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) texels: &'a [[f32; 4]],
    pub(crate) taps: u32,
    /// The last scale of the robust loss.
    pub(crate) scale: f32,
    pub(crate) blend: Blend,
}

/// The picture of one view.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) view: u32,
    pub(crate) picture: Vec<u8>,
    pub(crate) shares: Rejected,
}

/// Which pixels are opaque enough for the fit, before another surface masks some.
pub(crate) fn opaque(view: &View) -> Vec<bool> {
    view.pixels
        .iter()
        .map(|pixel| pixel[3] >= MIN_ALPHA)
        .collect()
}

impl Doubts {
    /// Keeps a view as the fit took it, and which of its pixels were opaque before.
    pub(crate) fn keep(&mut self, view: View, opaque: Vec<bool>) {
        self.0.push((view, opaque));
    }

    /// See the head of this file.
    pub(crate) fn draw(
        self,
        against: Against<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Drawn>, PngError> {
        let draw = |(view, opaque): (View, Vec<bool>)| {
            let Against { scene, taps, .. } = against;
            let samples = view.pixels.len() * (taps * taps) as usize;
            progress.expect(
                "what was rejected of a view",
                each(scene.triangles.len(), pace::TRIANGLE) + 2 * each(samples, pace::SAMPLE),
            );
            let codes = codes(against, &view, &opaque);
            unit();
            let about = format!(
                "{ABOUT} Its upper left pixel is at column {}, row {} of the view.",
                view.crop[0], view.crop[1]
            );
            let picture =
                png::encode_indexed([view.width, view.height], &codes, &palette(), &about)?;
            png::verify_indexed(&picture, &codes)?;
            Ok(Drawn {
                view: view.index,
                picture,
                shares: shares(&codes),
            })
        };
        self.0.into_iter().map(draw).collect()
    }
}

fn codes(against: Against<'_>, view: &View, opaque: &[bool]) -> Vec<u8> {
    let Against {
        scene,
        texels,
        taps,
        scale,
        blend,
    } = against;
    let mut codes = vec![BESIDE; view.pixels.len()];
    let camera = scene.camera(&view.camera);
    let projected = Projected::of_scene(scene, &camera, view.width, view.height);
    let bands = projected.bands(view.height, BAND);
    codes
        .par_chunks_mut((view.width * BAND) as usize)
        .zip(&bands)
        .enumerate()
        .for_each(|(band, (codes, triangles))| {
            if triangles.is_empty() {
                return;
            }
            let first = band as u32 * BAND;
            let end = (first + BAND).min(view.height);
            let samples = raster(&projected, triangles, view.width, first, end, taps);
            for (place, code) in codes.iter_mut().enumerate() {
                let (column, row) = (place % view.width as usize, place / view.width as usize);
                let pixel = first as usize * view.width as usize + place;
                let taps = taps as usize;
                let hits = (0..taps * taps).filter(|tap| {
                    let at =
                        (row * taps + tap / taps) * samples.row_length + column * taps + tap % taps;
                    samples.triangles[at] != NOTHING
                });
                let hits = hits.count();
                *code = match (hits, opaque[pixel], view.pixels[pixel][3] >= MIN_ALPHA) {
                    (0, ..) => BESIDE,
                    (_, true, false) => SURFACE,
                    (_, true, true) => OUTLINE,
                    // Background beside the outline is not reported.
                    (hits, false, _) if hits == taps * taps => ALPHA,
                    _ => BESIDE,
                };
            }
            unit();
        });
    let chunks = footprints(scene, view, taps);
    let mut weights: Vec<f32> = chunks
        .par_iter()
        .flat_map_iter(|rows| {
            (0..rows.len()).map(move |row| {
                let predicted = rows.predict(row, texels);
                robust_weight(residual(predicted, rows.colours[row], blend), scale)
            })
        })
        .collect();
    let pixels = || chunks.iter().flat_map(|rows| &rows.pixels);
    let rows = || pixels().map(|&pixel| (pixel, true));
    apply_consensus([view.width, view.height], rows, &mut weights);
    for (&pixel, weight) in pixels().zip(weights) {
        let steps = f32::from(u8::MAX - BELIEVED);
        codes[pixel as usize] = BELIEVED + ((1.0 - weight.clamp(0.0, 1.0)) * steps).round() as u8;
    }
    codes
}

fn shares(codes: &[u8]) -> Rejected {
    let mut counts = [0_u64; 256];
    codes
        .iter()
        .for_each(|&code| counts[usize::from(code)] += 1);
    let all = (codes.len() as u64 - counts[usize::from(BESIDE)]).max(1) as f64;
    let share = |code: u8| (counts[usize::from(code)] as f64 / all) as f32;
    let doubt = |(code, &count): (usize, &u64)| {
        let steps = code.saturating_sub(usize::from(BELIEVED)) as f64;
        count as f64 * steps / f64::from(u8::MAX - BELIEVED)
    };
    Rejected {
        outliers: (counts.iter().enumerate().map(doubt).sum::<f64>() / all) as f32,
        outline: share(OUTLINE),
        alpha: share(ALPHA),
        surface: share(SURFACE),
    }
}

fn palette() -> [[u8; 3]; 256] {
    std::array::from_fn(|code| match code as u8 {
        BESIDE => [60, 60, 66],
        OUTLINE => [40, 90, 200],
        ALPHA => [0, 160, 170],
        SURFACE => [60, 160, 60],
        doubted => heat(f32::from(doubted - BELIEVED) / f32::from(u8::MAX - BELIEVED)),
    })
}

#[cfg(test)]
mod tests;
