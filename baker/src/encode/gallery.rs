//! Rows of views, texture and layers → the part of a report's page that shows them: HTML whose pictures are data URIs.
//!
//! The supervisor puts it between a head with a policy that lets no script and nothing from elsewhere in, and its end. It
//! reads none of it. What it holds of the input are names, as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder as _, ImageError};
use proto::html::Text;
use proto::labels::Label;
use proto::limits::MAX_GALLERY_BYTES;
use proto::message::Side;

use super::material::Material;
use super::preview::{ORIGINS, RowSet, Shown, TextureTiles, advice, layers, shares};
use super::skin::Skin;
use crate::image::sheet::tile::Tile;

/// Largest edge of a picture.
pub(super) const CELL: usize = 512;
/// Rows of views of the fit, and of held-out ones.
pub(super) const ROWS: [usize; 2] = [24, 8];
/// JPEGs that look like their originals at this size.
const QUALITY: u8 = 82;
/// Room for what stands around the rows.
const AROUND_BYTES: usize = 4096;

/// The rows of a page, none yet.
pub(super) fn rows() -> RowSet {
    RowSet::new(CELL, ROWS)
}

/// What the page shows.
pub(super) struct Gallery<'a> {
    /// In order.
    pub(super) rows: &'a [Shown],
    /// Of all views, by their indices; may be empty.
    pub(super) names: &'a [Label],
    pub(super) skin: &'a Skin,
    pub(super) material: &'a Material,
    pub(super) unseen_side: Option<Side>,
}

impl Gallery<'_> {
    /// Writes it: held-out views first, and no more rows than [`MAX_GALLERY_BYTES`] hold.
    pub(super) fn write(&self) -> Result<Vec<u8>, ImageError> {
        let texture = self.texture()?;
        let most = MAX_GALLERY_BYTES as usize - AROUND_BYTES;
        let (held, fit): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| row.is_held_out());
        let (mut page, mut left_out) = (String::from("<section>\n<h2>Views</h2>\n"), 0);
        page.push_str(
            "<p>Drag across a picture: the input lies left of the line, the result right of it. Beside it is the error, eight \
             times brighter: black is none, pale yellow 32 of 255 and more, grey is not compared.</p>\n",
        );
        for row in held.into_iter().chain(fit) {
            let row = self.row(row)?;
            match page.len() + row.len() + texture.len() <= most {
                true => page.push_str(&row),
                false => left_out += 1,
            }
        }
        if left_out > 0 {
            page.push_str(&format!(
                "<p>Views left out for their size: {left_out}.</p>\n"
            ));
        }
        page.push_str("</section>\n");
        page.push_str(&texture);
        Ok(page.into_bytes())
    }

    fn row(&self, row: &Shown) -> Result<String, ImageError> {
        let [input, result, error] = row.pictures();
        let (class, kind) = match row.is_held_out() {
            true => (" class=\"held\"", "held out of the fit"),
            false => ("", "used in the fit"),
        };
        let name = self.names.get(row.view() as usize);
        Ok(format!(
            "<figure{class}>\n<figcaption><b>View {}</b> <i>{kind}{}</i> {} <small>{}</small></figcaption>\n\
             <div class=\"row\"><div class=\"pair\">{}{}<input type=\"range\" min=\"0\" max=\"100\" step=\"0.1\" \
             aria-label=\"Input left, result right\"></div>{}</div>\n</figure>\n",
            row.view(),
            row.refined(),
            row.likeness(),
            Text(name.map_or("", Label::text)),
            picture(input, "input")?,
            picture(result, "result")?,
            picture(error, "error")?,
        ))
    }

    /// The texture, where its texels come from, and the other layers; nothing of vertex colours.
    fn texture(&self) -> Result<String, ImageError> {
        let Skin::Texture(texture) = self.skin else {
            return Ok(String::new());
        };
        let TextureTiles {
            colours,
            origins,
            counts,
        } = TextureTiles::of(texture, 2 * CELL);
        let mut page = format!("<section>\n<h2>Texture, {0}×{0}</h2>\n", texture.size);
        for advice in advice(shares(counts), self.unseen_side) {
            page.push_str(&format!("<p>{}</p>\n", Text(&advice)));
        }
        page.push_str("<ul class=\"legend\">\n");
        for (share, ([r, g, b], name)) in shares(counts)
            .into_iter()
            .zip(ORIGINS.map(|(_, colour, name)| (colour, name)))
        {
            // A swatch of its own picture: the page's policy lets no styles in.
            let swatch = Tile {
                width: 8,
                height: 8,
                pixels: vec![[r, g, b]; 64],
            };
            let swatch = picture(&swatch, "")?;
            page.push_str(&format!(
                "<li>{swatch} {:.1} % {name}</li>\n",
                100.0 * share
            ));
        }
        page.push_str("</ul>\n<div class=\"layers\">\n");
        let mut tiles = vec![("colour", colours), ("where its texels come from", origins)];
        tiles.extend(layers(self.material, texture.size as usize, CELL));
        for (name, tile) in &tiles {
            let picture = picture(tile, name)?;
            page.push_str(&format!(
                "<figure>{picture}<figcaption>{name}</figcaption></figure>\n"
            ));
        }
        page.push_str("</div>\n</section>\n");
        Ok(page)
    }
}

/// A picture as a data URI.
fn picture(tile: &Tile, name: &str) -> Result<String, ImageError> {
    let (width, height) = (tile.width as u32, tile.height as u32);
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, QUALITY).write_image(
        tile.pixels.as_flattened(),
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    let data = STANDARD.encode(file);
    Ok(format!(
        "<img alt=\"{name}\" width=\"{width}\" height=\"{height}\" src=\"data:image/jpeg;base64,{data}\">"
    ))
}

#[cfg(test)]
mod tests {
    use proto::message::ViewScore;

    use super::super::preview::Row;
    use super::super::refined::Taken;
    use super::*;
    use crate::image::measure::tests::scene;

    fn page(count: u32, edge: usize, names: &[Label]) -> String {
        let (_, texture, view) = scene();
        let noise = |k: usize| (k as u32).wrapping_mul(2_654_435_761).to_le_bytes();
        let rows: Vec<Shown> = (0..count)
            .map(|index| {
                let mut view = view.clone();
                (view.index, view.holdout) = (index, index % 2 == 1);
                if edge > 0 {
                    (view.width, view.height) = (edge as u32, edge as u32);
                    let pixel = |k| {
                        let [_, r, g, b] = noise(k);
                        [r, g, b, 255]
                    };
                    view.pixels = (0..edge * edge).map(pixel).collect();
                }
                let score = ViewScore {
                    view: index,
                    pixels: 9,
                    psnr_db: 41.5,
                };
                Row::new(&view, Taken::AS_GIVEN, CELL).finish(score)
            })
            .collect();
        let gallery = Gallery {
            rows: &rows,
            names,
            skin: &texture.into(),
            material: &Material::default(),
            unseen_side: None,
        };
        String::from_utf8(gallery.write().expect("a page")).expect("text")
    }

    #[test]
    fn a_row_has_its_pictures_and_names_are_text() {
        let name = Label::name("<script>alert(1)</script>\" onload=\"x");
        let page = page(2, 0, &[name.clone(), name]);
        assert_eq!(
            page.matches("data:image/jpeg;base64,/9j/").count(),
            2 * 3 + 4 + 2
        );
        assert!(
            !page.contains("<script") && !page.contains("\" onload"),
            "{page}"
        );
        let text = "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x";
        assert_eq!(page.matches(text).count(), 2);
        // Held-out views come first.
        let [held, fit] = ["View 1", "View 0"].map(|view| page.find(view).expect("there"));
        assert!(held < fit && page.contains("held out of the fit") && page.contains("41.50 dB"));
        assert!(page.starts_with("<section>") && page.ends_with("</section>\n"));
    }

    #[test]
    fn a_page_keeps_its_size_whatever_the_pictures() {
        let page = page(32, CELL, &[]);
        assert!(page.len() as u64 <= MAX_GALLERY_BYTES, "{}", page.len());
        assert!(
            page.contains("Views left out for their size: "),
            "{}",
            page.len()
        );
        assert!(page.matches("<figcaption><b>").count() >= 8);
    }
}
