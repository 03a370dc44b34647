//! What sheets of pictures have in common: a canvas with text, pictures averaged down, colours and distances.

pub(crate) mod canvas;
pub(crate) mod tile;

use canvas::Canvas;
use tile::heat;

/// Largest edge of a picture on the sheet, in pixels.
pub(crate) const CELL: usize = 384;
pub(crate) const GAP: usize = 14;
pub(crate) const MARGIN: usize = 20;
/// Height of a line of text with its spacing.
pub(crate) const LINE: usize = 22;
/// Width of a character.
pub(crate) const ADVANCE: usize = 9;
pub(crate) const TEXT: [u8; 3] = [225; 3];
pub(crate) const FAINT: [u8; 3] = [150; 3];
pub(crate) const BACKGROUND: [u8; 3] = [24; 3];

/// Factor by which errors are brightened.
pub(crate) const ERROR_GAIN: f32 = 8.0;

/// Breaks a text at spaces into lines that are no wider than `width` pixels, where its words let it.
pub(crate) fn columns(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) * ADVANCE <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The colour scale of the error, in 8-bit steps.
pub(crate) fn draw_scale(canvas: &mut Canvas, [x, y]: [usize; 2]) {
    const WIDTH: usize = 150;
    canvas.text([x, y], "0", FAINT);
    for k in 0..WIDTH {
        canvas.fill(
            [x + 18 + k, y + 3],
            [1, 14],
            heat(k as f32 / (WIDTH - 1) as f32),
        );
    }
    let full = 255.0 / ERROR_GAIN;
    canvas.text([x + 18 + WIDTH + 6, y], &format!("{full:.0}/255"), FAINT);
}

#[cfg(test)]
mod tests {
    use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

    use super::*;

    #[test]
    fn the_font_has_what_sheets_say_and_the_width_that_they_reckon_with() {
        let (weight, height) = (FontWeight::Regular, RasterHeight::Size20);
        assert_eq!(get_raster_width(weight, height), ADVANCE);
        for character in (' '..='~').chain("é×°".chars()) {
            assert!(
                get_raster(character, weight, height).is_some(),
                "{character}"
            );
        }
    }

    #[test]
    fn text_is_broken_at_spaces() {
        let lines = columns("one two three, four", 9 * ADVANCE);
        assert_eq!(lines, ["one two", "three,", "four"]);
        assert_eq!(columns("unbreakable", 3 * ADVANCE), ["unbreakable"]);
    }
}
