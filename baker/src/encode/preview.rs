//! Views, renders, errors, atlas and provenance → a contact sheet as PNG, to judge a bake at a glance.
//!
//! ```text
//!   title
//!   input view │ result │ error       up to three rows, each with its score
//!   texture    │ origin of texels │ legend and figures
//! ```
//!
//! A bake of vertex colours has no texture, so the last line shows the figures alone.
//!
//! No cell is larger than [`CELL`] pixels, which bounds the sheet. Pictures are averaged down in linear light. Small
//! ones are enlarged by integer factors, so that their pixels stay visible.

use proto::message::ViewScore;
use proto::table::{Mesh, Provenance, Texture, View};

use super::material::Material;
use super::refined::Taken;
use super::skin::Skin;
use crate::image::measure::{self, Pixel};
use crate::image::png::{self, PngError};
use crate::image::sheet::canvas::Canvas;
use crate::image::sheet::tile::{self, Shrink, Tile};
use crate::image::sheet::{
    BACKGROUND, CELL, ERROR_GAIN, FAINT, GAP, LINE, MARGIN, TEXT, draw_scale,
};

const ROWS: usize = 3;

/// Origins of texels: colour (distinct for colour-blind readers too) and name.
pub(super) const ORIGINS: [(Provenance, [u8; 3], &str); 4] = [
    (Provenance::Observed, [0, 158, 115], "observed"),
    (Provenance::Weak, [240, 200, 60], "weakly observed"),
    (Provenance::Filled, [204, 90, 140], "filled in"),
    (Provenance::Gutter, [60, 60, 66], "outside charts"),
];

/// A row while its view is compared. Render and error are averaged down as they come.
#[derive(Debug)]
pub struct Row {
    view: u32,
    holdout: bool,
    taken: Taken,
    input: Tile,
    result: Shrink,
    error: Shrink,
    score: Option<ViewScore>,
}

impl Row {
    /// Starts a row with the view's own picture. The view is rendered as `taken`.
    #[must_use]
    pub fn new(view: &View, taken: Taken) -> Self {
        let size = [view.width as usize, view.height as usize];
        let mut input = Shrink::new(size, CELL);
        for (index, pixel) in view.pixels.iter().enumerate() {
            input.add([index % size[0], index / size[0]], tile::light(*pixel));
        }
        Self {
            view: view.index,
            holdout: view.holdout,
            taken,
            input: input.picture(),
            result: Shrink::new(size, CELL),
            error: Shrink::new(size, CELL),
            score: None,
        }
    }

    /// Adds a pixel of the comparison.
    pub fn add(&mut self, pixel: Pixel) {
        let at = [pixel.column, pixel.row];
        let [r, g, b] = pixel.colour;
        let rendered = [r, g, b, pixel.coverage].map(|x| (x.clamp(0.0, 1.0) * 255.0).round() as u8);
        self.result.add(at, tile::light(rendered));
        if let Some(error) = pixel.error {
            self.error.add(at, [error; 3]);
        }
    }

    /// Completes the row.
    #[must_use]
    pub fn finish(mut self, score: ViewScore) -> Self {
        self.score = Some(score);
        self
    }

    fn caption(&self) -> String {
        let mut kind = match self.holdout {
            true => "held out".to_owned(),
            false => "used in the fit".to_owned(),
        };
        if self.taken.moved {
            kind += ", camera refined";
        }
        if self.taken.gain != 1.0 {
            kind += &format!(", exposure x{:.3}", self.taken.gain);
        }
        match self.score {
            Some(score) if score.pixels > 0 => {
                format!(
                    "view {} ({kind}): {:.2} dB over {} pixels",
                    self.view, score.psnr_db, score.pixels
                )
            }
            _ => format!("view {} ({kind}): nothing to compare", self.view),
        }
    }

    /// Its score, if its view is part of the fit and the row complete.
    #[must_use]
    pub fn of_the_fit(&self) -> Option<ViewScore> {
        self.score.filter(|_| !self.holdout)
    }

    /// Views of the fit first, then by number.
    fn order(&self) -> (bool, u32) {
        (self.holdout, self.view)
    }
}

/// Whether [`keep`] would keep a row of `view` beside `rows`.
#[must_use]
pub fn wants(rows: &[Row], view: &View) -> bool {
    rows.len() < ROWS
        || rows
            .iter()
            .any(|row| row.order() > (view.holdout, view.index))
}

/// Adds a row and keeps the first ones in order.
pub fn keep(rows: &mut Vec<Row>, row: Row) {
    rows.push(row);
    rows.sort_by_key(Row::order);
    rows.truncate(ROWS);
}

/// Draws the sheet.
///
/// # Errors
/// The PNG cannot be made.
pub fn draw(
    mesh: &Mesh,
    skin: &Skin,
    material: &Material,
    rows: &[Row],
    holdout: &[ViewScore],
) -> Result<Vec<u8>, PngError> {
    let mut canvas = Canvas::new(column(3) - GAP + MARGIN, BACKGROUND);
    let mut y = MARGIN;
    let made = match skin {
        Skin::Texture(texture) => format!("texture {0}x{0}", texture.size),
        Skin::Vertices(colours) => format!("no texture, vertex colours {}", colours.len()),
    };
    let title = format!(
        "kiln {}   {made}   triangles {}   charts {}",
        env!("CARGO_PKG_VERSION"),
        mesh.triangles.len(),
        mesh.charts
    );
    canvas.text([column(0), y], &title, TEXT);
    y += LINE + GAP;

    if !rows.is_empty() {
        for (k, heading) in ["input", "result", "error x8"].into_iter().enumerate() {
            canvas.text([column(k), y], heading, FAINT);
        }
        draw_scale(&mut canvas, [column(2) + 130, y]);
        y += LINE;
    }
    for row in rows {
        let mut height = 0;
        for (k, tile) in [
            &row.input,
            &row.result.picture(),
            &row.error.heat(ERROR_GAIN),
        ]
        .into_iter()
        .enumerate()
        {
            height = height.max(canvas.tile([column(k), y], tile, CELL));
        }
        y += height + 8;
        canvas.text([column(0), y], &row.caption(), TEXT);
        y += LINE + GAP;
    }

    let bottom = match skin {
        Skin::Texture(texture) => {
            let bottom = draw_texture(&mut canvas, y, texture, holdout);
            draw_material(&mut canvas, bottom, texture.size as usize, material)
        }
        Skin::Vertices(_) => draw_scores(&mut canvas, [column(0), y], holdout),
    };
    canvas.finish(bottom + MARGIN, |width, height, pixels| {
        png::encode(width, height, pixels)
    })
}

fn column(k: usize) -> usize {
    MARGIN + k * (CELL + GAP)
}

/// Draws texture, origin of texels and figures side by side. Returns the lower edge.
fn draw_texture(
    canvas: &mut Canvas,
    mut y: usize,
    texture: &Texture,
    holdout: &[ViewScore],
) -> usize {
    canvas.text([column(0), y], "texture", FAINT);
    canvas.text([column(1), y], "where its texels come from", FAINT);
    y += LINE;
    let size = [texture.size as usize; 2];
    let mut atlas = Shrink::new(size, CELL);
    let mut origin = Shrink::new(size, CELL);
    let mut counts = [0_u64; 4];
    for (index, (texel, &provenance)) in texture.texels.iter().zip(&texture.provenance).enumerate()
    {
        let at = [index % size[0], index / size[0]];
        atlas.add(at, tile::light([texel[0], texel[1], texel[2], 255]));
        let kind = ORIGINS
            .iter()
            .position(|(kind, ..)| *kind as u8 == provenance)
            .unwrap_or(0);
        counts[kind] += 1;
        let [r, g, b] = ORIGINS[kind].1;
        origin.add(at, tile::light([r, g, b, 255]));
    }
    let bottom = y + canvas.tile([column(0), y], &atlas.picture(), CELL);
    canvas.tile([column(1), y], &origin.picture(), CELL);
    draw_figures(canvas, [column(2), y], counts, holdout);
    bottom
}

/// Draws the other layers, laid out like the texture. Returns the lower edge.
fn draw_material(canvas: &mut Canvas, mut y: usize, edge: usize, material: &Material) -> usize {
    let orm = match (material.occlusion, material.metallic_roughness) {
        (true, true) => "occlusion, roughness, metallic",
        (true, false) => "occlusion",
        _ => "roughness, metallic",
    };
    let pictures = [
        (orm, material.orm.as_ref().map(|picture| &picture.texels)),
        (
            "normal",
            material.normal.as_ref().map(|picture| &picture.texels),
        ),
        (
            "emissive",
            material.emissive.as_ref().map(|picture| &picture.texels),
        ),
        ("opacity", material.opacity.as_ref()),
    ];
    let pictures: Vec<_> = pictures
        .into_iter()
        .filter_map(|(name, texels)| Some((name, texels?)))
        .collect();
    for row in pictures.chunks(3) {
        y += GAP;
        let mut height = 0;
        for (k, (name, texels)) in row.iter().enumerate() {
            canvas.text([column(k), y], name, FAINT);
            let mut shrunk = Shrink::new([edge; 2], CELL);
            for (index, &[r, g, b, _]) in texels.iter().enumerate() {
                shrunk.add([index % edge, index / edge], tile::light([r, g, b, 255]));
            }
            let shown = canvas.tile([column(k), y + LINE], &shrunk.picture(), CELL);
            height = height.max(shown);
        }
        y += LINE + height;
    }
    y
}

fn draw_figures(
    canvas: &mut Canvas,
    [x, mut y]: [usize; 2],
    counts: [u64; 4],
    holdout: &[ViewScore],
) {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let charts = (counts[0] + counts[1] + counts[2]).max(1) as f64;
    for (k, (kind, colour, name)) in ORIGINS.into_iter().enumerate() {
        canvas.fill([x, y], [14, 14], colour);
        let share = if kind == Provenance::Gutter {
            counts[k] as f64 / all
        } else {
            counts[k] as f64 / charts
        };
        canvas.text(
            [x + 24, y],
            &format!("{:5.1} % {name}", share * 100.0),
            TEXT,
        );
        y += LINE;
    }
    canvas.text([x, y], "of chart texels; the last of all", FAINT);
    y += LINE + GAP;
    draw_scores(canvas, [x, y], holdout);
}

/// Draws the scores of the held-out views and the legend of uncompared pixels. Returns the lower edge.
fn draw_scores(canvas: &mut Canvas, [x, mut y]: [usize; 2], holdout: &[ViewScore]) -> usize {
    if let Some(mean) = measure::mean_psnr(holdout) {
        canvas.text([x, y], &format!("held-out views: {mean:.2} dB"), TEXT);
        y += LINE;
        let counted = || holdout.iter().filter(|score| score.pixels > 0);
        if let Some(worst) = counted().min_by(|a, b| a.psnr_db.total_cmp(&b.psnr_db)) {
            canvas.text(
                [x, y],
                &format!(
                    "{} views, least {:.2} (view {})",
                    counted().count(),
                    worst.psnr_db,
                    worst.view
                ),
                FAINT,
            );
            y += LINE;
        }
    }
    y += GAP;
    canvas.fill([x, y], [14, 14], tile::UNCOMPARED);
    canvas.text([x + 24, y], "in error: not compared", FAINT);
    y + LINE
}

#[cfg(test)]
mod tests {
    use proto::job::Blend;

    use super::*;
    use crate::image::measure::tests::scene;

    fn sheet(holdout: bool, damage: u8) -> Vec<u8> {
        let (mesh, texture, mut view) = scene();
        view.holdout = holdout;
        for pixel in &mut view.pixels[48 * 15..48 * 25] {
            pixel[0] = pixel[0].saturating_add(damage);
        }
        let mut row = Row::new(&view, Taken::AS_GIVEN);
        let score = measure::compare(
            &mesh,
            (&texture).into(),
            &view,
            (Blend::Linear, 1.0),
            Some(&mut |pixel| row.add(pixel)),
            |_| {},
        );
        let rows = [row.finish(score)];
        draw(
            &mesh,
            &texture.into(),
            &Material::default(),
            &rows,
            &[score],
        )
        .expect("a sheet")
    }

    fn decode(file: &[u8]) -> image::RgbImage {
        image::load_from_memory(file).expect("a PNG").to_rgb8()
    }

    #[test]
    fn sheet_shows_what_it_should() {
        let clean = decode(&sheet(true, 0));
        assert!(clean.width() as usize <= 3 * CELL + 2 * (GAP + MARGIN) && clean.height() < 1000);
        // Input and result agree. The error is black in the middle, except where the input is damaged.
        let damaged = decode(&sheet(true, 40));
        // The view is 48×40, enlarged eightfold: its middle is at 192, 160 of its cell.
        let top = (MARGIN + LINE + GAP + LINE) as u32;
        let at = |image: &image::RgbImage, cell: u32| {
            image
                .get_pixel(MARGIN as u32 + cell * (CELL + GAP) as u32 + 196, top + 164)
                .0
        };
        let near = |a: [u8; 3], b: [u8; 3]| (0..3).all(|k| a[k].abs_diff(b[k]) <= 3);
        assert!(
            near(at(&clean, 0), at(&clean, 1)),
            "{:?} {:?}",
            at(&clean, 0),
            at(&clean, 1)
        );
        assert!(!near(at(&damaged, 0), at(&damaged, 1)));
        assert!(at(&clean, 2).iter().all(|&c| c < 20), "{:?}", at(&clean, 2));
        assert!(
            at(&damaged, 2).iter().any(|&c| c > 90),
            "{:?}",
            at(&damaged, 2)
        );
        // All four origins occur.
        for (_, colour, name) in ORIGINS {
            assert!(
                clean.pixels().filter(|pixel| pixel.0 == colour).count() > 14 * 14,
                "{name}"
            );
        }
    }

    #[test]
    fn sheet_without_views_is_a_sheet() {
        let (mesh, texture, _) = scene();
        let image =
            decode(&draw(&mesh, &texture.into(), &Material::default(), &[], &[]).expect("a sheet"));
        assert!(image.height() as usize > 256);
    }

    #[test]
    fn a_row_says_what_was_refined() {
        let (_, _, view) = scene();
        let score = ViewScore {
            view: 5,
            pixels: 9,
            psnr_db: 48.5,
        };
        let says = |holdout, moved, gain| {
            let view = View {
                holdout,
                ..view.clone()
            };
            Row::new(&view, Taken { moved, gain })
                .finish(score)
                .caption()
        };
        assert_eq!(
            says(true, false, 1.0),
            "view 5 (held out): 48.50 dB over 9 pixels"
        );
        assert_eq!(
            says(false, true, 1.0625),
            "view 5 (used in the fit, camera refined, exposure x1.062): 48.50 dB over 9 pixels"
        );
    }

    #[test]
    fn views_of_the_fit_come_first() {
        let (_, _, view) = scene();
        let mut rows = Vec::new();
        for (index, holdout) in [
            (9, true),
            (2, true),
            (7, false),
            (4, true),
            (1, false),
            (3, false),
            (8, false),
        ] {
            let view = View {
                index,
                holdout,
                ..view.clone()
            };
            if wants(&rows, &view) {
                keep(&mut rows, Row::new(&view, Taken::AS_GIVEN));
            }
        }
        assert_eq!(
            rows.iter().map(|row| row.view).collect::<Vec<_>>(),
            [1, 3, 7]
        );
    }
}
