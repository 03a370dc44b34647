//! A view and a model → PSNR, SSIM, and how much of the object the model does not cover.

use proto::job::Blend;
use proto::message::CompareScore;
use proto::table::View;

use super::gain::after_gain;
use super::model::Model;
use super::ssim::ssim;
use crate::image::measure::{self, Pixel};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) row: CompareScore,
    /// Pixels certainly on the object.
    pub(super) on_object: u64,
    /// Those of them that the model does not fully cover.
    pub(super) missing: u64,
}

/// Both pictures have this value where they are not compared, so SSIM windows that reach there lose nothing.
const GREY: f32 = 0.5;

/// Renders and compares. Passes every pixel to `each` in rows from the top, and the pixels of each band to `band_done`.
pub(super) fn score(
    model: &Model,
    view: &View,
    blend: Blend,
    mut each: impl FnMut(Pixel),
    band_done: impl FnMut(u64),
) -> Score {
    let images = model.pictures.images();
    let pixels = view.pixels.len();
    let mut compared = vec![false; pixels];
    let mut render = [0, 1, 2].map(|_| vec![GREY; pixels]);
    let mut truth = render.clone();
    let (mut on_object, mut missing) = (0, 0);
    let measured = measure::compare(
        &model.mesh,
        crate::image::render::Paint::Textures(model.textures(&images)),
        view,
        (blend, [1.0; 3]),
        Some(&mut |pixel: Pixel| {
            let index = pixel.row * view.width as usize + pixel.column;
            on_object += u64::from(pixel.on_object);
            missing += u64::from(pixel.on_object && pixel.error.is_none());
            if pixel.error.is_some() {
                compared[index] = true;
                for channel in 0..3 {
                    render[channel][index] = pixel.colour[channel].clamp(0.0, 1.0);
                    truth[channel][index] = f32::from(view.pixels[index][channel]) / 255.0;
                }
            }
            each(pixel);
        }),
        band_done,
    );
    let (gain, after) = after_gain(&truth, &render, &compared);
    Score {
        row: CompareScore {
            view: view.index,
            pixels: measured.pixels,
            psnr_db: measured.psnr_db,
            gain,
            psnr_gain_db: match measured.pixels {
                0 => 0.0,
                _ => after as f32,
            },
            ssim: ssim(&truth, &render, &compared, view.width as usize) as f32,
        },
        on_object,
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::card;
    use super::*;

    #[test]
    fn own_picture_scores_its_rounding_and_a_hole_is_missing() {
        let (_, _, view) = measure::tests::scene();
        let model = card();
        let of = |view: &View| score(&model, view, Blend::Linear, |_| (), |_| ());
        let clean = of(&view);
        assert!((clean.row.psnr_db - 58.92).abs() < 0.3, "{clean:?}");
        assert!(clean.row.ssim > 0.999, "{clean:?}");
        let gain = clean.row.psnr_gain_db - clean.row.psnr_db;
        assert!(
            (0.0..0.2).contains(&gain),
            "next to nothing to gain: {clean:?}"
        );
        assert_eq!((clean.on_object, clean.missing), (36 * 26, 0));

        // The object reaches one column further than the card: after erosion that column is on the object, and missing.
        let mut wide = view.clone();
        for row in 5..35 {
            for column in 44..47 {
                wide.pixels[row * 48 + column] = [10, 10, 10, 255];
            }
        }
        let wide = of(&wide);
        assert_eq!(wide.missing, 26);
        assert_eq!(wide.row.pixels, (36 + 2) * 26);

        let mut noisy = view;
        for (index, pixel) in noisy.pixels.iter_mut().enumerate() {
            pixel[1] ^= (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] & 63;
        }
        let noisy = of(&noisy);
        assert!(
            noisy.row.ssim < 0.97 && noisy.row.psnr_db < 30.0,
            "{noisy:?}"
        );
    }
}
