//! A view and the textured mesh → how well they match.
//!
//! The mesh is rendered with 8×8 samples per pixel and compared in sRGB, as a viewer shows it. A pixel counts where
//! both are certain: the picture is opaque and at least three pixels (4-connected) away from anything that is not, and
//! every sample hits the mesh. A picture without alpha takes its opacity from the render. So silhouettes, where the
//! background shows, do not count.

use proto::job::Blend;
use proto::message::ViewScore;
use proto::table::{Camera, Mesh, View};
use rayon::prelude::*;

use crate::image::render::{self, Paint, Render, srgb};

/// Samples of a pixel along each axis. With 4 the sampling error is 53 dB on a texture as busy as catstatue's, which
/// takes 2 dB off the score of a good bake. With 8 it is 59 dB, below the rounding of the pictures.
const SAMPLES: u32 = 8;
/// Erosion steps of the opaque area.
const EROSION: usize = 2;
/// Pixels rendered at a time. Bounds memory, and the time between two progress reports.
const BAND_PIXELS: usize = if cfg!(test) { 1 << 11 } else { 1 << 20 };
/// Score of a perfect match in dB.
const PERFECT_DB: f64 = 100.0;

/// A pixel of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pixel {
    /// Column in the view.
    pub column: usize,
    /// Row in the view.
    pub row: usize,
    /// The rendered colour in sRGB, 0-1.
    pub colour: [f32; 3],
    /// The render's coverage.
    pub coverage: f32,
    /// The pixel is certainly on the object according to the picture, whatever the render says.
    pub on_object: bool,
    /// Mean absolute difference of the three channels in sRGB, 0-1; none where the pixel does not count.
    pub error: Option<f32>,
}

/// Compares `view`, whose exposure is `gain` by channel in linear light, with the render of the mesh under that exposure. Passes
/// every pixel to `each`, if given, in rows from the top, and the pixels of each band to `band_done`.
pub fn compare(
    mesh: &Mesh,
    paint: Paint<'_>,
    view: &View,
    (blend, gain): (Blend, [f32; 3]),
    mut each: Option<&mut dyn FnMut(Pixel)>,
    mut band_done: impl FnMut(u64),
) -> ViewScore {
    let (width, height) = (view.width as usize, view.height as usize);
    let rows = (BAND_PIXELS / width.max(1)).max(1);
    let wanted = each.is_some();
    let (mut squares, mut count) = (0.0_f64, 0_u32);
    for first in (0..height).step_by(rows) {
        let last = (first + rows).min(height);
        // Erosion needs the rows around the band.
        let (top, bottom) = (first.saturating_sub(EROSION), (last + EROSION).min(height));
        let camera = Camera {
            centre: [view.camera.centre[0], view.camera.centre[1] - top as f64],
            ..view.camera
        };
        let size = [view.width, (bottom - top) as u32];
        let render = render::render(mesh, paint, &camera, size, SAMPLES, blend);
        let on_object = on_object(view, &render, top);
        let compared = |row: usize| {
            let mut line = Line::default();
            for column in 0..width {
                let index = (row - top) * width + column;
                let counts = on_object[index] && render.coverage[index] >= 1.0;
                if !counts && !wanted {
                    continue;
                }
                let colour = exposed(render.colours[index], gain);
                let seen = view.pixels[row * width + column];
                let off =
                    [0, 1, 2].map(|channel| colour[channel] - f32::from(seen[channel]) / 255.0);
                if counts {
                    line.squares += off.map(|x| f64::from(x) * f64::from(x)).iter().sum::<f64>();
                    line.count += 1;
                }
                if wanted {
                    let error = off.iter().map(|x| x.abs()).sum::<f32>() / 3.0;
                    line.pixels.push((colour, counts.then_some(error)));
                }
            }
            line
        };
        let lines: Vec<Line> = (first..last).into_par_iter().map(compared).collect();
        // Summed in row order, so the score does not depend on the number of threads.
        for (row, line) in (first..last).zip(lines) {
            squares += line.squares;
            count += line.count;
            for (column, (colour, error)) in line.pixels.into_iter().enumerate() {
                let index = (row - top) * width + column;
                let pixel = Pixel {
                    column,
                    row,
                    colour,
                    coverage: render.coverage[index],
                    on_object: on_object[index],
                    error,
                };
                each.iter_mut().for_each(|each| each(pixel));
            }
        }
        band_done(((last - first) * width) as u64);
    }
    let psnr_db = match count {
        0 => 0.0,
        _ => psnr(squares / (f64::from(count) * 3.0)) as f32,
    };
    ViewScore {
        view: view.index,
        pixels: count,
        psnr_db,
    }
}

#[derive(Default)]
struct Line {
    /// Sum of squared differences of its pixels that count.
    squares: f64,
    count: u32,
    /// Colour and error of each pixel, where asked for.
    pixels: Vec<([f32; 3], Option<f32>)>,
}

/// A colour in sRGB under this exposure, clipped to white.
fn exposed(colour: [f32; 3], gain: [f32; 3]) -> [f32; 3] {
    if gain == [1.0; 3] {
        return colour;
    }
    std::array::from_fn(|c| srgb::encode(gain[c] * srgb::decode(colour[c])).min(1.0))
}

/// Mean over the views with pixels to compare.
pub fn mean_psnr(scores: &[ViewScore]) -> Option<f32> {
    let counted: Vec<f32> = scores
        .iter()
        .filter(|score| score.pixels > 0)
        .map(|score| score.psnr_db)
        .collect();
    (!counted.is_empty()).then(|| counted.iter().sum::<f32>() / counted.len() as f32)
}

/// PSNR in dB of a mean squared difference of values of 0 to 1.
pub(crate) fn psnr(mean_square: f64) -> f64 {
    (-10.0 * mean_square.log10()).min(PERFECT_DB)
}

/// Which pixels of the render are certainly on the object. Its first row is row `top` of the view. For a picture
/// without alpha the mesh must cover them.
fn on_object(view: &View, render: &Render, top: usize) -> Vec<bool> {
    let width = render.width;
    let full = |index: usize| render.coverage[index] >= 1.0;
    let mut mask: Vec<bool> = (0..width * render.height)
        .into_par_iter()
        .map(|index| view.pixels[top * width + index][3] == 255 && (view.has_alpha || full(index)))
        .collect();
    for _ in 0..EROSION {
        mask = erode(&mask, width);
    }
    mask
}

/// Keeps pixels with four neighbours; the outside does not count.
fn erode(mask: &[bool], width: usize) -> Vec<bool> {
    let height = mask.len() / width;
    let mut inner = vec![false; mask.len()];
    let rows = inner.par_chunks_mut(width).enumerate();
    rows.for_each(|(row, inner)| {
        if row == 0 || row + 1 == height || width < 3 {
            return;
        }
        let of = |row: usize| &mask[row * width..][..width];
        let (above, own, below) = (of(row - 1), of(row), of(row + 1));
        for column in 1..width - 1 {
            let across = own[column - 1] & own[column] & own[column + 1];
            inner[column] = across & above[column] & below[column];
        }
    });
    inner
}

#[cfg(test)]
pub(crate) mod tests {
    use proto::table::Texture;

    use super::*;

    /// A card of 40×30 units at depth 40, in front of a camera of 48×40 pixels: it covers columns 4-44 and rows 5-35.
    pub(crate) fn scene() -> (Mesh, Texture, View) {
        let [left, top, right, bottom] = [-20.0, -15.0, 20.0, 15.0];
        let mesh = Mesh {
            positions: vec![
                [left, top, 40.0],
                [right, top, 40.0],
                [right, bottom, 40.0],
                [left, bottom, 40.0],
            ],
            normals: vec![[0.0, 0.0, -1.0]; 4],
            uvs: vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
            surface_vertices: vec![0, 1, 2, 3],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            charts: 1,
        };
        let texel = |k: u32| [(k % 256) as u8, (k / 256) as u8, (k / 7 % 200) as u8, 255];
        let provenance = |k: u32| ((k / 64) % 4) as u8;
        let texture = Texture {
            size: 256,
            texels: (0..65_536).map(texel).collect(),
            provenance: (0..65_536).map(provenance).collect(),
            maps: None,
        };
        let camera = Camera {
            focal: [40.0; 2],
            centre: [24.0, 20.0],
            ..Camera::default()
        };
        let image = render::render(
            &mesh,
            (&texture).into(),
            &camera,
            [48, 40],
            SAMPLES,
            Blend::Linear,
        );
        let view = View {
            index: 5,
            width: 48,
            height: 40,
            crop: [0, 0],
            has_alpha: true,
            holdout: true,
            camera,
            pixels: image.to_rgba8(),
        };
        (mesh, texture, view)
    }

    fn score(view: &View) -> (ViewScore, Vec<Pixel>) {
        score_exposed(view, [1.0; 3])
    }

    fn score_exposed(view: &View, gain: [f32; 3]) -> (ViewScore, Vec<Pixel>) {
        let (mesh, texture, _) = scene();
        let mut pixels = Vec::new();
        let mut done = 0;
        let score = compare(
            &mesh,
            (&texture).into(),
            view,
            (Blend::Linear, gain),
            Some(&mut |pixel| pixels.push(pixel)),
            |band| done += band,
        );
        assert_eq!((pixels.len(), done), (48 * 40, 48 * 40));
        let unheard = compare(
            &mesh,
            (&texture).into(),
            view,
            (Blend::Linear, gain),
            None,
            |_| (),
        );
        assert_eq!(unheard, score);
        (score, pixels)
    }

    #[test]
    fn own_render_scores_its_rounding_alone() {
        let (score, pixels) = score(&scene().2);
        // 40×30 less two pixels on each side.
        assert_eq!((score.view, score.pixels), (5, 36 * 26));
        // Uniform rounding has a mean square of 1/12 step.
        assert!((score.psnr_db - 58.92).abs() < 0.3, "{} dB", score.psnr_db);
        for pixel in pixels {
            let inside = (6..42).contains(&pixel.column) && (7..33).contains(&pixel.row);
            assert_eq!(pixel.error.is_some(), inside, "{pixel:?}");
        }
    }

    #[test]
    fn a_view_that_was_exposed_otherwise_is_met_by_its_gain_alone() {
        for gain in [[0.7_f32; 3], [1.4, 1.0, 0.7]] {
            let mut view = scene().2;
            let pixels = view.pixels.iter_mut();
            for (gain, channel) in pixels.flat_map(|pixel| gain.iter().zip(pixel)) {
                let light = gain * srgb::decode(f32::from(*channel) / 255.0);
                *channel = (srgb::encode(light).min(1.0) * 255.0).round() as u8;
            }
            let (met, pixels) = score_exposed(&view, gain);
            // The exposed picture was rounded twice, before and after.
            assert!(met.psnr_db > 55.0, "{gain:?}: {} dB", met.psnr_db);
            let brightest = pixels.iter().flat_map(|pixel| pixel.colour);
            assert!(brightest.fold(0.0, f32::max) <= 1.0);
            let missed = score(&view).0;
            assert!(missed.psnr_db < 30.0, "{gain:?}: {} dB", missed.psnr_db);
        }
    }

    #[test]
    fn known_error_has_its_known_score() {
        let mut view = scene().2;
        for pixel in &mut view.pixels {
            // Ten steps in one of three channels, away from the end of the range.
            pixel[2] = if pixel[2] < 128 {
                pixel[2] + 10
            } else {
                pixel[2] - 10
            };
        }
        let wanted = -10.0 * ((10.0_f32 / 255.0).powi(2) / 3.0).log10();
        let got = score(&view).0.psnr_db;
        assert!((got - wanted).abs() < 0.15, "{got} dB instead of {wanted}");
    }

    #[test]
    fn what_is_uncertain_does_not_count() {
        let clean = score(&scene().2).0;
        let mut view = scene().2;
        // Wrong colours at the border, a hole with wrong colours around it, and soft alpha.
        for (index, pixel) in view.pixels.iter_mut().enumerate() {
            let (column, row) = (index % 48, index / 48);
            if column < 6 || row >= 33 {
                *pixel = [255, 0, 255, pixel[3]];
            }
            if (20..23).contains(&column) && row == 20 {
                *pixel = [255, 0, 255, if column == 21 { 254 } else { 255 }];
            }
        }
        let holed = score(&view).0;
        // A diamond of 13 pixels around the hole.
        assert_eq!(holed.pixels, clean.pixels - 13);
        assert!(
            (holed.psnr_db - clean.psnr_db).abs() < 0.3,
            "{} dB",
            holed.psnr_db
        );
        // An error in one counted pixel shows.
        view.pixels[20 * 48 + 30] = [255, 0, 255, 255];
        assert!(score(&view).0.psnr_db < 50.0);
    }

    #[test]
    fn picture_without_alpha_counts_where_the_mesh_is() {
        let mut view = scene().2;
        let clean = score(&view).0;
        view.has_alpha = false;
        for pixel in &mut view.pixels {
            pixel[3] = 255;
        }
        assert_eq!(score(&view).0, clean);
    }

    #[test]
    fn bands_do_not_show() {
        // Three bands of 16 rows; a wrong halo would lose pixels at their borders. The card covers 80×30 of 128×44.
        let (mesh, texture, view) = scene();
        let camera = Camera {
            focal: [80.0, 40.0],
            centre: [64.0, 22.0],
            ..view.camera
        };
        let image = render::render(
            &mesh,
            (&texture).into(),
            &camera,
            [128, 44],
            SAMPLES,
            Blend::Linear,
        );
        let view = View {
            width: 128,
            height: 44,
            camera,
            pixels: image.to_rgba8(),
            ..view
        };
        let (mut bands, mut rows) = (Vec::new(), Vec::new());
        let score = compare(
            &mesh,
            (&texture).into(),
            &view,
            (Blend::Linear, [1.0; 3]),
            Some(&mut |pixel| rows.extend(pixel.error.map(|_| pixel.row))),
            |pixels| bands.push(pixels),
        );
        assert_eq!(
            (bands, score.pixels),
            (vec![16 * 128, 16 * 128, 12 * 128], 76 * 26)
        );
        assert!((9..35).all(|row| rows.iter().filter(|&&r| r == row).count() == 76));
        assert!((score.psnr_db - 58.92).abs() < 0.3, "{} dB", score.psnr_db);
    }

    #[test]
    fn mean_leaves_out_views_without_pixels() {
        let score = |pixels, psnr_db| ViewScore {
            view: 0,
            pixels,
            psnr_db,
        };
        assert_eq!(
            mean_psnr(&[score(9, 40.0), score(0, 0.0), score(1, 50.0)]),
            Some(45.0)
        );
        assert_eq!(mean_psnr(&[score(0, 0.0)]), None);
    }
}
