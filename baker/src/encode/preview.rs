//! Views, renders, errors, atlas and provenance → a contact sheet as PNG, to judge a bake at a glance.
//!
//! ```text
//!   title
//!   input view │ result │ error       up to three views of the fit and two held-out ones, each with its score
//!   texture    │ origin of texels │ legend, figures, and what can be done
//! ```
//!
//! A bake of vertex colours has no texture, so the last line shows the figures alone.
//!
//! No cell is larger than [`CELL`] pixels, which bounds the sheet. Pictures are averaged down in linear light. Small
//! ones are enlarged by integer factors, so that their pixels stay visible.

use proto::message::{ProvenanceShares, Side, ViewScore};
use proto::table::{Mesh, Provenance, Texture};

use super::material::Material;
use super::skin::Skin;
use crate::image::measure;
use crate::image::png::{self, PngError};
use crate::image::sheet::canvas::Canvas;
use crate::image::sheet::tile::{self, Shrink, Tile};
use crate::image::sheet::{BACKGROUND, CELL, FAINT, GAP, LINE, MARGIN, TEXT, columns, draw_scale};
use crate::worker::progress::ticked;

mod row;

pub use row::{Row, RowSet, Shown};

/// Rows of views of the fit, and of held-out ones.
pub const ROWS: [usize; 2] = [3, 2];
/// Colour of what is said of held-out views.
const HELD_OUT: [u8; 3] = [120, 190, 255];

/// Origins of texels: colour (distinct for colour-blind readers too) and name.
pub(super) const ORIGINS: [(Provenance, [u8; 3], &str); 4] = [
    (
        Provenance::Observed,
        [0, 158, 115],
        "observed: a pixel or more each",
    ),
    (
        Provenance::Weak,
        [240, 200, 60],
        "weak: finer than the views",
    ),
    (
        Provenance::Filled,
        [204, 90, 140],
        "inferred: no view shows it",
    ),
    (Provenance::Gutter, [60, 60, 66], "outside charts"),
];

/// The rows of a sheet, none yet, of which `fit` views of the fit may be kept until they are spread.
pub fn rows(fit: usize) -> RowSet {
    RowSet::new(CELL, [fit, ROWS[1]])
}

/// What is said of the held-out views and of unseen places.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    /// Scores of all held-out views.
    pub holdout: &'a [ViewScore],
    /// See [`proto::message::EncodeSummary::unseen_side`].
    pub unseen_side: Option<Side>,
}

/// Draws the sheet.
///
/// # Errors
/// The PNG cannot be made.
pub fn draw(
    mesh: &Mesh,
    skin: &Skin,
    material: &Material,
    rows: &[Shown],
    findings: Findings<'_>,
) -> Result<Vec<u8>, PngError> {
    let mut canvas = Canvas::new(column(3) - GAP + MARGIN, BACKGROUND);
    let mut y = MARGIN;
    let made = match skin {
        Skin::Texture(texture) => format!("texture {0}×{0}", texture.size),
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
        for (k, heading) in ["input", "result", "error ×8"].into_iter().enumerate() {
            canvas.text([column(k), y], heading, FAINT);
        }
        draw_scale(&mut canvas, [column(2) + 130, y]);
        y += LINE;
    }
    for row in rows {
        let mut height = 0;
        for (k, tile) in row.pictures().iter().enumerate() {
            height = height.max(canvas.tile([column(k), y], tile, CELL));
        }
        let colour = match row.is_held_out() {
            true => {
                canvas.fill([MARGIN - 12, y], [6, height + 8 + LINE], HELD_OUT);
                HELD_OUT
            }
            false => TEXT,
        };
        y += height + 8;
        canvas.text([column(0), y], &row.caption(), colour);
        y += LINE + GAP;
    }

    let bottom = match skin {
        Skin::Texture(texture) => {
            let bottom = draw_texture(&mut canvas, y, texture, findings);
            draw_material(&mut canvas, bottom, texture.size as usize, material)
        }
        Skin::Vertices(_) => draw_scores(&mut canvas, [column(0), y], findings.holdout),
    };
    canvas.finish(bottom + MARGIN, |width, height, pixels| {
        png::encode(width, height, pixels)
    })
}

fn column(k: usize) -> usize {
    MARGIN + k * (CELL + GAP)
}

/// The texture and the origin of its texels, averaged down.
pub(super) struct TextureTiles {
    pub(super) colours: Tile,
    pub(super) origins: Tile,
    /// Texels of each of [`ORIGINS`].
    pub(super) counts: [u64; 4],
}

impl TextureTiles {
    pub(super) fn of(texture: &Texture, cell: usize) -> Self {
        let size = [texture.size as usize; 2];
        let [mut colours, mut origins] = [Shrink::new(size, cell), Shrink::new(size, cell)];
        let mut counts = [0_u64; 4];
        let texels = texture.texels.iter().zip(&texture.provenance);
        for (index, (&[r, g, b, _], &provenance)) in ticked(texels.enumerate()) {
            let at = [index % size[0], index / size[0]];
            colours.add(at, tile::light([r, g, b, 255]));
            let kind = ORIGINS
                .iter()
                .position(|(kind, ..)| *kind as u8 == provenance)
                .unwrap_or(0);
            counts[kind] += 1;
            let [r, g, b] = ORIGINS[kind].1;
            origins.add(at, tile::light([r, g, b, 255]));
        }
        Self {
            colours: colours.picture(),
            origins: origins.picture(),
            counts,
        }
    }
}

/// Shares of each of [`ORIGINS`]: of the texels of charts, and for what is outside of them, of all.
pub(super) fn shares(counts: [u64; 4]) -> [f32; 4] {
    let charts = (counts[0] + counts[1] + counts[2]).max(1) as f64;
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let of = [charts, charts, charts, all];
    std::array::from_fn(|kind| (counts[kind] as f64 / of[kind]) as f32)
}

/// What can be done about the places of such shares.
pub(super) fn advice(shares: [f32; 4], unseen_side: Option<Side>) -> Vec<String> {
    let [observed, weak, inferred, _] = shares;
    let shares = ProvenanceShares {
        observed,
        weak,
        inferred,
    };
    shares.advice(unseen_side)
}

/// Draws texture, origin of texels and figures side by side. Returns the lower edge.
fn draw_texture(
    canvas: &mut Canvas,
    mut y: usize,
    texture: &Texture,
    findings: Findings<'_>,
) -> usize {
    canvas.text([column(0), y], "texture", FAINT);
    canvas.text([column(1), y], "where its texels come from", FAINT);
    y += LINE;
    let TextureTiles {
        colours,
        origins,
        counts,
    } = TextureTiles::of(texture, CELL);
    let bottom = y + canvas.tile([column(0), y], &colours, CELL);
    canvas.tile([column(1), y], &origins, CELL);
    bottom.max(draw_figures(canvas, [column(2), y], counts, findings))
}

/// The other layers by their names, averaged down.
pub(super) fn layers(material: &Material, edge: usize, cell: usize) -> Vec<(&'static str, Tile)> {
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
    let shrunk = |texels: &Vec<[u8; 4]>| {
        let mut shrunk = Shrink::new([edge; 2], cell);
        for (index, &[r, g, b, _]) in ticked(texels.iter().enumerate()) {
            shrunk.add([index % edge, index / edge], tile::light([r, g, b, 255]));
        }
        shrunk.picture()
    };
    let there = pictures
        .into_iter()
        .filter_map(|(name, texels)| Some((name, texels?)));
    there.map(|(name, texels)| (name, shrunk(texels))).collect()
}

/// Draws the other layers, laid out like the texture. Returns the lower edge.
fn draw_material(canvas: &mut Canvas, mut y: usize, edge: usize, material: &Material) -> usize {
    for row in layers(material, edge, CELL).chunks(3) {
        y += GAP;
        let mut height = 0;
        for (k, (name, tile)) in row.iter().enumerate() {
            canvas.text([column(k), y], name, FAINT);
            height = height.max(canvas.tile([column(k), y + LINE], tile, CELL));
        }
        y += LINE + height;
    }
    y
}

/// Draws the shares of each origin, the scores of held-out views, and what can be done. Returns the lower edge.
fn draw_figures(
    canvas: &mut Canvas,
    [x, mut y]: [usize; 2],
    counts: [u64; 4],
    findings: Findings<'_>,
) -> usize {
    let shares = shares(counts);
    for (share, (_, colour, name)) in shares.into_iter().zip(ORIGINS) {
        canvas.fill([x, y + 3], [14, 14], colour);
        canvas.text(
            [x + 24, y],
            &format!("{:5.1} % {name}", share * 100.0),
            TEXT,
        );
        y += LINE;
    }
    canvas.text([x, y], "of chart texels; the last of all", FAINT);
    y = draw_scores(canvas, [x, y + LINE + GAP], findings.holdout) + GAP;
    for advice in advice(shares, findings.unseen_side) {
        for line in columns(&advice, CELL) {
            canvas.text([x, y], &line, TEXT);
            y += LINE;
        }
    }
    y
}

/// Draws the scores of the held-out views and the legend of uncompared pixels. Returns the lower edge.
fn draw_scores(canvas: &mut Canvas, [x, mut y]: [usize; 2], holdout: &[ViewScore]) -> usize {
    if let Some(mean) = measure::mean_psnr(holdout) {
        canvas.text([x, y], &format!("held-out views: {mean:.2} dB"), HELD_OUT);
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
    canvas.fill([x, y + 3], [14, 14], tile::UNCOMPARED);
    canvas.text([x + 24, y], "in error: not compared", FAINT);
    y + LINE
}

#[cfg(test)]
mod tests {
    use proto::job::Blend;

    use super::super::refined::Taken;
    use super::*;
    use crate::image::measure::tests::scene;

    fn sheet(holdout: bool, damage: u8) -> Vec<u8> {
        let (mesh, texture, mut view) = scene();
        view.holdout = holdout;
        for pixel in &mut view.pixels[48 * 15..48 * 25] {
            pixel[0] = pixel[0].saturating_add(damage);
        }
        let mut row = Row::new(&view, Taken::AS_GIVEN, CELL);
        let score = measure::compare(
            &mesh,
            (&texture).into(),
            &view,
            (Blend::Linear, [1.0; 3]),
            Some(&mut |pixel| row.add(pixel)),
            |_| {},
        );
        let rows = [row.finish(score)];
        draw(
            &mesh,
            &texture.into(),
            &Material::default(),
            &rows,
            Findings {
                holdout: &[score],
                unseen_side: None,
            },
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
        // A held-out view is marked beside its row, and one of the fit is not.
        let marked = |image: &image::RgbImage| image.pixels().any(|pixel| pixel.0 == HELD_OUT);
        assert!(marked(&clean) && !clean.pixels().all(|pixel| pixel.0 == HELD_OUT));
        let bar = |image: &image::RgbImage| image.get_pixel(MARGIN as u32 - 10, 200).0;
        assert_eq!(
            [bar(&clean), bar(&decode(&sheet(false, 0)))],
            [HELD_OUT, BACKGROUND]
        );
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
        let findings = Findings {
            holdout: &[],
            unseen_side: None,
        };
        let sheet = draw(&mesh, &texture.into(), &Material::default(), &[], findings);
        let image = decode(&sheet.expect("a sheet"));
        assert!(image.height() as usize > 256);
    }
}
