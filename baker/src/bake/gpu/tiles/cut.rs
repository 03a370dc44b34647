//! A view → parts of it: its blocks with a pixel that counts, up to a number of them together.
//!
//! A part need not be a square. Where a view is decimated, or shows the window in scattered places, its part has blocks
//! from wherever they lie within its region.

use proto::table::View;

use super::super::layout::PIXELS;
use super::super::raster::Shape;
use super::super::visible::ShownBlocks;
use crate::bake::intake::pixel_mask::ViewMask;
use crate::bake::model::footprint::MIN_ALPHA;
use crate::bake::solve::backend::BLOCK;

/// What is drawn of a view: the blocks that show the window, and in them the pixels that decimation keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drawn<'a> {
    pub(crate) shown: Option<ShownBlocks<'a>>,
    pub(crate) kept: Option<ViewMask<'a>>,
}

/// Blocks of a view that are drawn together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Corner in the view, and size, of the region around its blocks, in pixels.
    pub(crate) origin: [u32; 2],
    pub(crate) size: [u32; 2],
    /// Corners of its blocks in the view, line by line.
    pub(crate) corners: Vec<[u32; 2]>,
    /// Pixels of all blocks, [`PIXELS`] each. Those beyond the view, and those not drawn, do not count.
    pub(crate) pixels: Vec<[u8; 4]>,
    pub(crate) counting: u32,
}

impl Drawn<'_> {
    /// Whether anything is drawn of the block around a pixel.
    fn holds(self, x: u32, y: u32) -> bool {
        self.shown.is_none_or(|shown| shown.holds(x, y))
            && self.kept.is_none_or(|kept| kept.any(x, y))
    }

    /// The pixels of the block with this corner, and how many of them count.
    fn block(self, view: &View, [left, top]: [u32; 2]) -> ([[u8; 4]; PIXELS], u32) {
        let mut pixels = [[0; 4]; PIXELS];
        let across = BLOCK.min(view.width - left) as usize;
        let lines = pixels.chunks_exact_mut(BLOCK as usize);
        for (y, line) in (top..view.height).zip(lines) {
            let first = y as usize * view.width as usize + left as usize;
            line[..across].copy_from_slice(&view.pixels[first..first + across]);
            if let Some(kept) = self.kept {
                kept.mask_row([left, y], line);
            }
        }
        let counting = counting(&pixels);
        (pixels, counting)
    }
}

pub(super) fn counting(pixels: &[[u8; 4]]) -> u32 {
    let counts = |pixel: &[u8; 4]| u32::from(pixel[3] >= MIN_ALPHA);
    pixels.iter().map(counts).sum()
}

impl Part {
    fn add(&mut self, corner: [u32; 2], pixels: &[[u8; 4]], counting: u32) {
        self.corners.push(corner);
        self.pixels.extend_from_slice(pixels);
        self.counting += counting;
    }

    /// Sets the region around its blocks, clipped to the view.
    fn bounded(mut self, view: &View) -> Self {
        let ends = |axis: usize| {
            let along = self.corners.iter().map(|corner| corner[axis]);
            let low = along.clone().min().unwrap_or(0);
            let high = along.max().unwrap_or(0) + BLOCK;
            (low, high.min([view.width, view.height][axis]) - low)
        };
        let [(left, width), (top, height)] = [0, 1].map(ends);
        (self.origin, self.size) = ([left, top], [width, height]);
        self
    }

    pub(super) fn split(&self, blocks: u32) -> impl Iterator<Item = Self> {
        let blocks = blocks as usize;
        let both = (self.corners.chunks(blocks)).zip(self.pixels.chunks(blocks * PIXELS));
        both.map(|(corners, pixels)| Self {
            corners: corners.to_vec(),
            pixels: pixels.to_vec(),
            counting: counting(pixels),
            ..*self
        })
    }
}

/// Cuts what is `drawn` of a view into parts of this shape, without blocks that have no pixel that counts.
pub(crate) fn parts(view: &View, shape: Shape, drawn: Drawn<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut finish = |part: Part| {
        if !part.corners.is_empty() {
            parts.push(part.bounded(view));
        }
    };
    for top in (0..view.height).step_by(shape.region as usize) {
        for left in (0..view.width).step_by(shape.region as usize) {
            let [right, bottom] = [
                (left + shape.region).min(view.width),
                (top + shape.region).min(view.height),
            ];
            let mut part = Part::default();
            for y in (top..bottom).step_by(BLOCK as usize) {
                for x in (left..right).step_by(BLOCK as usize) {
                    if !drawn.holds(x, y) {
                        continue;
                    }
                    let (pixels, counting) = drawn.block(view, [x, y]);
                    if counting == 0 {
                        continue;
                    }
                    if part.corners.len() == shape.blocks as usize {
                        finish(std::mem::take(&mut part));
                    }
                    part.add([x, y], &pixels, counting);
                }
            }
            finish(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::gpu::tests::view;
    use crate::bake::intake::pixel_mask::PixelMask;

    fn shape(blocks: u32, region: u32) -> Shape {
        Shape { blocks, region }
    }

    #[test]
    fn a_tile_has_the_blocks_of_what_counts_and_its_region_is_theirs() {
        // Blocks at the right and lower border are cut.
        let mut view = view(0, 61, 44, 3.0, 0.0);
        view.pixels.fill([1, 2, 3, 255]);
        let all = parts(&view, shape(48, 64), Drawn::default());
        assert_eq!(all.len(), 1);
        let all = &all[0];
        assert_eq!((all.origin, all.size), ([0, 0], [61, 44]));
        assert_eq!((all.corners.len(), all.counting), (48, 61 * 44));
        for (at, pixel) in (0..).zip(&mut view.pixels) {
            let inside = [(43, 25), (60, 9)].contains(&(at % 61, at / 61));
            pixel[3] = if inside { MIN_ALPHA } else { MIN_ALPHA - 1 };
        }
        let some = parts(&view, shape(48, 64), Drawn::default());
        let some = &some[0];
        assert_eq!(some.corners, [[56, 8], [40, 24]]);
        assert_eq!((some.origin, some.size), ([40, 8], [21, 24]));
        assert_eq!((some.counting, some.pixels.len()), (2, 2 * PIXELS));
        assert_eq!(some.pixels[8 + 4][3], MIN_ALPHA, "row 9, column 60");
        assert_eq!(
            some.pixels[PIXELS + 8 + 3][3],
            MIN_ALPHA,
            "row 25, column 43"
        );
        view.pixels.fill([0; 4]);
        assert!(parts(&view, shape(48, 64), Drawn::default()).is_empty());
    }

    #[test]
    fn tiles_together_have_every_pixel_once_however_many_they_are() {
        let mut view = view(0, 90, 70, 3.0, 0.0);
        for (at, pixel) in (0..).zip(&mut view.pixels) {
            *pixel = [
                (at % 251) as u8,
                (at / 251) as u8,
                0,
                if at % 9 < 4 { 255 } else { 0 },
            ];
        }
        let whole: u32 = counting(&view.pixels);
        for shape in [shape(4, 32), shape(7, 64), shape(1000, 1024)] {
            let parts = parts(&view, shape, Drawn::default());
            assert_eq!(parts.iter().map(|part| part.counting).sum::<u32>(), whole);
            let mut seen = vec![false; view.pixels.len()];
            let pieces = parts
                .iter()
                .flat_map(|part| part.split(3).collect::<Vec<_>>());
            let mut counted = 0;
            for part in parts.iter().cloned().chain(pieces) {
                assert!(part.corners.len() <= shape.blocks as usize);
                assert!(part.size.iter().all(|&edge| edge <= shape.region));
                counted += part.counting;
                for (corner, pixels) in part.corners.iter().zip(part.pixels.chunks(PIXELS)) {
                    for (at, pixel) in (0..).zip(pixels) {
                        let [x, y] = [corner[0] + at % BLOCK, corner[1] + at / BLOCK];
                        if x < view.width && y < view.height {
                            let at = (y * view.width + x) as usize;
                            assert_eq!(*pixel, view.pixels[at]);
                            seen[at] = true;
                        }
                    }
                }
            }
            assert_eq!(counted, 2 * whole, "and once more in pieces");
            let missed = view
                .pixels
                .iter()
                .zip(seen)
                .filter(|(pixel, seen)| pixel[3] > 0 && !seen);
            assert_eq!(missed.count(), 0);
        }
    }

    #[test]
    fn blocks_that_are_left_out_are_in_no_tile() {
        let mut view = view(3, 32, 16, 3.0, 0.0);
        view.pixels.fill([1, 2, 3, 255]);
        let kept: PixelMask = [(3, vec![64, 0, 5, 64, 0, 0, 0, 9])].into_iter().collect();
        let drawn = Drawn {
            kept: kept.of(&view),
            ..Drawn::default()
        };
        let parts = parts(&view, shape(100, 64), drawn);
        assert_eq!(parts[0].corners, [[0, 0], [16, 0], [24, 0], [24, 8]]);
        assert_eq!(parts[0].counting, 64 + 5 + 64 + 9);
    }
}
