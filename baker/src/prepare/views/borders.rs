//! Finds the black wedges that undistortion leaves at the borders of opaque pictures, and makes them transparent: as
//! colours they would smear over the texture.
//!
//! Noise and light keep the black of a photograph from being exactly 0 over a large area, so a wedge is a connected region of
//! zeros at the border that holds a corner of the picture or a large part of one side. Two things look alike and stay: a
//! picture whose border is nearly all black has a black background, and black at the border of a few views is the object's.
//! Therefore a sample of the views decides for the set ([`Sample`]).

use crate::prepare::picture::Picture;
use crate::worker::progress::Ticker;

/// Largest channel of a pixel in a wedge, for what JPEG leaves of black.
const BLACK: u8 = 3;
/// Least share of exact zeros in a wedge.
const ZEROS: f64 = 0.8;
/// Least share of the picture that a wedge covers.
const LEAST: f64 = 0.004;
/// Least share of one side that a wedge without a corner takes.
const SIDE: f64 = 0.3;
/// Share of black pixels on the border from which on it is a background.
const BACKGROUND: f64 = 0.8;
/// Pixels around a wedge that are blended with it: by resampling, and by JPEG.
const BLENDED: [usize; 2] = [1, 3];

/// How many of some views have wedges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) views: u32,
    pub(super) wedged: u32,
}

impl Sample {
    /// Whether the set has wedges: two views at least, and half of them.
    pub(super) fn has_wedges(self) -> bool {
        self.wedged >= 2 && 2 * self.wedged >= self.views
    }
}

/// Whether an opaque picture has wedges.
pub(super) fn has_wedges(picture: &Picture) -> bool {
    !picture.has_alpha && !wedges(picture).is_empty()
}

/// Makes the wedges of an opaque picture transparent; false where it has none.
pub(super) fn clear(picture: &mut Picture) -> bool {
    if picture.has_alpha {
        return false;
    }
    let wedges = wedges(picture);
    let [width, height] = [picture.width as usize, picture.height as usize];
    for wedge in &wedges {
        let around = BLENDED[usize::from(!wedge.exact)];
        for &at in &wedge.pixels {
            let (x, y) = (at as usize % width, at as usize / width);
            let columns = x.saturating_sub(around)..(x + around + 1).min(width);
            for row in y.saturating_sub(around)..(y + around + 1).min(height) {
                for column in columns.clone() {
                    picture.pixels[row * width + column][3] = 0;
                }
            }
        }
    }
    picture.has_alpha = !wedges.is_empty();
    picture.has_alpha
}

struct Wedge {
    pixels: Vec<u32>,
    /// All of them are 0.
    exact: bool,
}

fn is_black(pixel: [u8; 4]) -> bool {
    pixel[..3].iter().all(|&channel| channel <= BLACK)
}

/// The wedges of a picture, which counts as opaque.
fn wedges(picture: &Picture) -> Vec<Wedge> {
    let [width, height] = [picture.width as usize, picture.height as usize];
    let black = |at: usize| is_black(picture.pixels[at]);
    let (last_column, last_row) = (width - 1, height - 1);
    let border = (0..width)
        .flat_map(|x| [x, last_row * width + x])
        .chain((1..last_row).flat_map(|y| [y * width, y * width + last_column]));
    let border: Vec<usize> = border.collect();
    let dark = border.iter().filter(|&&at| black(at)).count();
    if dark == 0 || dark as f64 > BACKGROUND * border.len() as f64 {
        return Vec::new();
    }
    let (mut seen, mut found) = (vec![false; width * height], Vec::new());
    let mut ticker = Ticker::default();
    for start in border {
        if seen[start] || !black(start) {
            continue;
        }
        seen[start] = true;
        let (mut pixels, mut next) = (vec![start as u32], 0);
        let (mut zeros, mut corners) = (0, 0);
        // On the top, the bottom, the left and the right.
        let mut sides = [0; 4];
        while let Some(&at) = pixels.get(next) {
            next += 1;
            ticker.did(1);
            let at = at as usize;
            let (x, y) = (at % width, at / width);
            zeros += usize::from(picture.pixels[at][..3] == [0; 3]);
            let on = [y == 0, y == last_row, x == 0, x == last_column];
            (0..4).for_each(|side| sides[side] += usize::from(on[side]));
            corners += usize::from((on[0] || on[1]) && (on[2] || on[3]));
            let beside = [
                (x > 0).then(|| at - 1),
                (x < last_column).then_some(at + 1),
                (y > 0).then(|| at - width),
                (y < last_row).then_some(at + width),
            ];
            for at in beside.into_iter().flatten() {
                if !seen[at] && black(at) {
                    seen[at] = true;
                    pixels.push(at as u32);
                }
            }
        }
        let count = pixels.len() as f64;
        let edges = [width, width, height, height];
        let along = (0..4).any(|side| sides[side] as f64 >= SIDE * edges[side] as f64);
        let large = count >= LEAST * (width * height) as f64;
        if large && (corners > 0 || along) && zeros as f64 >= ZEROS * count {
            let exact = zeros == pixels.len();
            found.push(Wedge { pixels, exact });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::picture::Colours;

    fn picture(pixel: impl Fn(u32, u32) -> [u8; 3]) -> Picture {
        let pixels = (0..40 * 30).map(|at| {
            let [r, g, b] = pixel(at % 40, at / 40);
            [r, g, b, 255]
        });
        Picture {
            width: 40,
            height: 30,
            pixels: pixels.collect(),
            has_alpha: false,
            colours: Colours::default(),
        }
    }

    #[test]
    fn wedges_are_cleared_and_other_black_stays() {
        let grey = |black: bool| [if black { 0 } else { 90 }; 3];
        // A picture, and how many of its pixels become transparent.
        let corner = picture(|x, y| grey(x + y < 10));
        let crescent = picture(|x, y| grey(y == 0 && (10..30).contains(&x)));
        let object = picture(|x, y| grey(y > 20 && (15..22).contains(&x)));
        let inside = picture(|x, y| grey((10..30).contains(&x) && (10..20).contains(&y)));
        let background = picture(|x, y| grey(!(10..30).contains(&x) || !(10..29).contains(&y)));
        let shadow = picture(|x, y| if x + y < 10 { [2; 3] } else { [90; 3] });
        let jpeg = picture(|x, y| match x + y {
            9 => [2; 3],
            0..9 => [0; 3],
            _ => [90; 3],
        });
        let cases = [
            (corner, 55 + 21),
            (crescent, 44),
            (object, 0),
            (inside, 0),
            (background, 0),
            (shadow, 0),
            // A fifth of its pixels at most may be more than 0.
            (jpeg, 124),
        ];
        for (number, (mut picture, expected)) in cases.into_iter().enumerate() {
            assert_eq!(has_wedges(&picture), expected > 0, "case {number}");
            clear(&mut picture);
            let cleared = picture.pixels.iter().filter(|pixel| pixel[3] == 0).count();
            assert_eq!(cleared, expected, "case {number}");
            assert_eq!(picture.has_alpha, expected > 0);
        }
    }

    #[test]
    fn few_wedges_make_no_set_of_them() {
        let of = |wedged, views| Sample { views, wedged }.has_wedges();
        assert!(of(3, 6) && of(2, 2) && !of(1, 1) && !of(2, 6) && !of(0, 0));
    }
}
