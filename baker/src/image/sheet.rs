//! What sheets of pictures have in common: a canvas with text, pictures averaged down, colours and distances.

pub(crate) mod canvas;
mod font;
pub(crate) mod tile;

use canvas::Canvas;
use tile::heat;

/// Largest edge of a picture on the sheet, in pixels.
pub(crate) const CELL: usize = 384;
pub(crate) const GAP: usize = 14;
pub(crate) const MARGIN: usize = 20;
/// Height of a line of text with its spacing.
pub(crate) const LINE: usize = 22;
pub(crate) const TEXT: [u8; 3] = [225; 3];
pub(crate) const FAINT: [u8; 3] = [150; 3];
pub(crate) const BACKGROUND: [u8; 3] = [24; 3];

/// Factor by which errors are brightened.
pub(crate) const ERROR_GAIN: f32 = 8.0;

/// The colour scale of the error, in 8-bit steps.
pub(crate) fn draw_scale(canvas: &mut Canvas, [x, y]: [usize; 2]) {
    const WIDTH: usize = 150;
    canvas.text([x, y], "0", FAINT);
    for k in 0..WIDTH {
        canvas.fill(
            [x + 18 + k, y],
            [1, 14],
            heat(k as f32 / (WIDTH - 1) as f32),
        );
    }
    let full = 255.0 / ERROR_GAIN;
    canvas.text([x + 18 + WIDTH + 6, y], &format!("{full:.0}/255"), FAINT);
}
