//! Some views, the renders of each model and their errors → one contact sheet as PNG.
//!
//! ```text
//!   title
//!   view │ A │ B │ error of A │ error of B      up to four rows, each with its scores
//!   figures of A and B
//!   what the colours of the errors mean
//! ```

use proto::message::{CompareModel, CompareScore};
use proto::table::View;

use crate::image::measure::Pixel;
use crate::image::png::{self, PngError};
use crate::image::sheet::canvas::Canvas;
use crate::image::sheet::tile::{self, Shrink, Tile};
use crate::image::sheet::{
    BACKGROUND, CELL, ERROR_GAIN, FAINT, GAP, LINE, MARGIN, TEXT, draw_scale,
};

const ROWS: usize = 4;
const NAMES: [&str; 2] = ["A", "B"];

/// A view beside its renders.
pub(super) struct Row {
    index: u32,
    view: Tile,
    cells: Vec<Cells>,
}

/// One model's part of a row.
pub(super) struct Cells {
    render: Shrink,
    error: Shrink,
    score: Option<CompareScore>,
}

/// Chooses the views to show: evenly spread, including the first.
pub(super) fn choose(count: usize) -> Vec<usize> {
    let rows = count.min(ROWS);
    (0..rows).map(|row| row * count / rows).collect()
}

impl Row {
    pub(super) fn new(view: &View) -> Self {
        let size = [view.width as usize, view.height as usize];
        let mut picture = Shrink::new(size, CELL);
        for (index, pixel) in view.pixels.iter().enumerate() {
            picture.add([index % size[0], index / size[0]], tile::light(*pixel));
        }
        Self {
            index: view.index,
            view: picture.picture(),
            cells: Vec::new(),
        }
    }

    /// Begins the next model's part.
    pub(super) fn add(&mut self, view: &View) -> &mut Cells {
        let size = [view.width as usize, view.height as usize];
        let at = self.cells.len();
        self.cells.push(Cells {
            render: Shrink::new(size, CELL),
            error: Shrink::new(size, CELL),
            score: None,
        });
        &mut self.cells[at]
    }

    fn caption(&self) -> String {
        let scores = self
            .cells
            .iter()
            .zip(NAMES)
            .map(|(cells, name)| match cells.score {
                Some(score) if score.pixels > 0 => {
                    format!("{name} {:.2} dB, SSIM {:.4}", score.psnr_db, score.ssim)
                }
                _ => format!("{name} nothing to compare"),
            });
        let scores: Vec<String> = scores.collect();
        format!("view {}: {}", self.index, scores.join("   "))
    }
}

impl Cells {
    pub(super) fn add(&mut self, pixel: Pixel) {
        let at = [pixel.column, pixel.row];
        let [r, g, b] = pixel.colour;
        let rendered = [r, g, b, pixel.coverage].map(|x| (x.clamp(0.0, 1.0) * 255.0).round() as u8);
        self.render.add(at, tile::light(rendered));
        if let Some(error) = pixel.error {
            self.error.add(at, [error; 3]);
        }
    }

    pub(super) fn finish(&mut self, score: &CompareScore) {
        self.score = Some(*score);
    }
}

/// Draws the sheet.
///
/// # Errors
/// The PNG cannot be made.
pub(super) fn draw(rows: &[Row], models: &[CompareModel]) -> Result<Vec<u8>, PngError> {
    let columns = 1 + 2 * models.len();
    let mut canvas = Canvas::new(column(columns) - GAP + MARGIN, BACKGROUND);
    let mut y = MARGIN;
    let title = format!("kiln {} compare", env!("CARGO_PKG_VERSION"));
    canvas.text([column(0), y], &title, TEXT);
    y += LINE + GAP;
    canvas.text([column(0), y], "view", FAINT);
    for (k, name) in NAMES.into_iter().take(models.len()).enumerate() {
        canvas.text([column(1 + k), y], name, FAINT);
        let heading = format!("error of {name} ×8");
        canvas.text([column(1 + models.len() + k), y], &heading, FAINT);
    }
    y += LINE;
    for row in rows {
        let renders = row.cells.iter().map(|cells| cells.render.picture());
        let errors = row.cells.iter().map(|cells| cells.error.heat(ERROR_GAIN));
        let mut height = canvas.tile([column(0), y], &row.view, CELL);
        for (k, tile) in renders.chain(errors).enumerate() {
            height = height.max(canvas.tile([column(1 + k), y], &tile, CELL));
        }
        y += height + 8;
        canvas.text([column(0), y], &row.caption(), TEXT);
        y += LINE + GAP;
    }
    for (name, model) in NAMES.into_iter().zip(models) {
        for line in figures(name, model) {
            canvas.text([column(0), y], &line, TEXT);
            y += LINE;
        }
    }
    canvas.fill([column(0), y + 7], [14, 14], tile::UNCOMPARED);
    canvas.text([column(0) + 24, y + 4], "in error: not compared", FAINT);
    draw_scale(&mut canvas, [column(1), y + 4]);
    y += LINE;
    canvas.finish(y + MARGIN, png::encode)
}

fn column(k: usize) -> usize {
    MARGIN + k * (CELL + GAP)
}

fn figures(name: &str, model: &CompareModel) -> Vec<String> {
    let number = |value: Option<f32>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mut lines = vec![format!(
        "{name}: {} dB ({} after gains)   SSIM {}   missing {:.2} %   unseen texels {} %   triangles {}",
        number(model.psnr_db, 2),
        number(model.psnr_gain_db, 2),
        number(model.ssim, 4),
        model.missing * 100.0,
        number(model.unseen.map(|share| share * 100.0), 2),
        model.triangles,
    )];
    if let Some(atlas) = &model.atlas {
        let [a, b, c, d] = atlas.seam_residual;
        lines.push(format!(
            "   seams {a:.2} {b:.2} {c:.2} {d:.2} /255 at mip 0-3   length {:.1}   charts {}   used {:.1} %   density ×{:.2}",
            atlas.seam_length,
            atlas.charts,
            atlas.used * 100.0,
            atlas.density_spread
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use proto::job::Blend;
    use proto::message::AtlasFigures;

    use super::super::model::tests::card;
    use super::super::score::score;
    use super::*;

    fn sheet(models: usize, damage: u8) -> image::RgbImage {
        let (_, _, mut view) = crate::image::measure::tests::scene();
        for pixel in &mut view.pixels[48 * 15..48 * 25] {
            pixel[0] = pixel[0].saturating_add(damage);
        }
        let mut row = Row::new(&view);
        for _ in 0..models {
            let cells = row.add(&view);
            let score = score(
                &card(),
                &view,
                Blend::Linear,
                |pixel| cells.add(pixel),
                |_| (),
            );
            cells.finish(&score.row);
        }
        let model = CompareModel {
            triangles: 2,
            textures: vec![[256; 2]],
            views: Vec::new(),
            psnr_db: Some(40.0),
            psnr_gain_db: Some(41.0),
            ssim: Some(0.9),
            missing: 0.0,
            unseen: Some(0.0),
            atlas: Some(AtlasFigures::default()),
            normals: None,
        };
        let file = draw(&[row], &vec![model; models]).expect("a sheet");
        image::load_from_memory(&file).expect("a PNG").to_rgb8()
    }

    #[test]
    fn renders_agree_and_errors_show() {
        // The view is 48×40, enlarged eightfold: its middle is at 192, 160 of its cell.
        let at = |sheet: &image::RgbImage, cell: usize| {
            let y = MARGIN + LINE + GAP + LINE + 164;
            sheet.get_pixel((column(cell) + 196) as u32, y as u32).0
        };
        for models in [1, 2] {
            let (clean, damaged) = (sheet(models, 0), sheet(models, 40));
            assert_eq!(
                clean.width() as usize,
                column(1 + 2 * models) - GAP + MARGIN
            );
            for k in 0..models {
                let close = |a: [u8; 3], b: [u8; 3]| (0..3).all(|k| a[k].abs_diff(b[k]) <= 3);
                assert!(close(at(&clean, 0), at(&clean, 1 + k)));
                assert!(!close(at(&damaged, 0), at(&damaged, 1 + k)));
                let error = 1 + models + k;
                assert!(at(&clean, error).iter().all(|&c| c < 20));
                assert!(at(&damaged, error).iter().any(|&c| c > 90));
            }
        }
    }

    #[test]
    fn shown_views_are_spread_and_none_twice() {
        assert_eq!(choose(8), [0, 2, 4, 6]);
        assert_eq!(choose(3), [0, 1, 2]);
        assert_eq!(choose(1), [0]);
    }
}
