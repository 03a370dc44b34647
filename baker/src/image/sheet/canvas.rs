//! A sheet that grows downwards as it is drawn on: rectangles, tiles, text. Clips at its sides.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster};

use crate::image::sheet::ADVANCE;
use crate::image::sheet::tile::Tile;

pub(crate) struct Canvas {
    width: usize,
    background: [u8; 3],
    pixels: Vec<[u8; 4]>,
}

impl Canvas {
    pub(crate) fn new(width: usize, background: [u8; 3]) -> Self {
        Self {
            width,
            background,
            pixels: Vec::new(),
        }
    }

    fn reach(&mut self, bottom: usize) {
        let [r, g, b] = self.background;
        if self.pixels.len() < bottom * self.width {
            self.pixels.resize(bottom * self.width, [r, g, b, 255]);
        }
    }

    pub(crate) fn fill(
        &mut self,
        [x, y]: [usize; 2],
        [width, height]: [usize; 2],
        [r, g, b]: [u8; 3],
    ) {
        self.reach(y + height);
        let (left, right) = (x.min(self.width), (x + width).min(self.width));
        for row in y..y + height {
            self.pixels[row * self.width + left..row * self.width + right].fill([r, g, b, 255]);
        }
    }

    /// Draws a tile, enlarged by the largest integer factor that fits into `cell`. Returns its height.
    pub(crate) fn tile(&mut self, [x, y]: [usize; 2], tile: &Tile, cell: usize) -> usize {
        let factor = (cell / tile.width.max(tile.height).max(1)).max(1);
        for (index, &pixel) in tile.pixels.iter().enumerate() {
            let (column, row) = (index % tile.width, index / tile.width);
            self.fill([x + column * factor, y + row * factor], [factor; 2], pixel);
        }
        tile.height * factor
    }

    /// Draws one line of text; `[x, y]` is its top left corner. What the font lacks shows as a question mark.
    pub(crate) fn text(&mut self, [x, y]: [usize; 2], text: &str, colour: [u8; 3]) {
        self.reach(y + RasterHeight::Size20.val());
        for (k, character) in text.chars().enumerate() {
            let glyph =
                |character| get_raster(character, FontWeight::Regular, RasterHeight::Size20);
            let Some(glyph) = glyph(character).or_else(|| glyph('?')) else {
                continue;
            };
            for (row, line) in glyph.rows().enumerate() {
                let left = x + k * ADVANCE;
                for (column, &ink) in (left..self.width).zip(line) {
                    let pixel = &mut self.pixels[(y + row) * self.width + column];
                    for (below, colour) in pixel.iter_mut().zip(colour) {
                        let [a, b, ink] = [*below, colour, ink].map(u32::from);
                        *below = ((a * (255 - ink) + b * ink + 127) / 255) as u8;
                    }
                }
            }
        }
    }

    /// Extends the sheet to `bottom`, and passes width, height and pixels to `encode`.
    pub(crate) fn finish<T>(
        mut self,
        bottom: usize,
        encode: impl FnOnce(u32, u32, &[[u8; 4]]) -> T,
    ) -> T {
        self.reach(bottom);
        encode(
            self.width as u32,
            (self.pixels.len() / self.width) as u32,
            &self.pixels,
        )
    }
}
