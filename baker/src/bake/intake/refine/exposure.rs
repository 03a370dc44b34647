//! Divides the gain of each channel out of a view, in linear light, and rounds to 8 bits again. The rounding, 59 dB below white, averages
//! out over the views that see a texel.

use proto::job::Blend;
use proto::table::View;

use crate::bake::model::colour::{decode, to_byte};

/// Of red, green and blue, in linear light.
pub(super) type Gain = [f64; 3];
/// Of a view that is left as it is.
pub(super) const AS_GIVEN: Gain = [1.0; 3];

/// Alpha of saturated pixels: what they show is at least as bright as they are, so they count little.
const SATURATED_ALPHA: u8 = 128;

/// Table of the bytes with `gain` divided out.
fn divided(gain: f64) -> [u8; 256] {
    std::array::from_fn(|byte| {
        let light = decode(byte as f32 / 255.0) / gain as f32;
        to_byte(light, Blend::Linear)
    })
}

/// Whether dividing `gain` out changes any byte. If not, it would only cost the pixels that count as saturated.
pub(super) fn matters(gain: Gain) -> bool {
    let changes = |gain| {
        (0..)
            .zip(divided(gain))
            .any(|(before, after)| before != after)
    };
    gain.into_iter().any(changes)
}

pub(super) fn divide(view: &mut View, gain: Gain) {
    let divided = gain.map(divided);
    for pixel in &mut view.pixels {
        let saturated = pixel[..3].contains(&255);
        for (channel, divided) in pixel.iter_mut().zip(&divided) {
            *channel = divided[*channel as usize];
        }
        if saturated {
            pixel[3] = pixel[3].min(SATURATED_ALPHA);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{blank_view, camera};

    #[test]
    fn a_gain_matters_from_half_a_step_of_a_byte_on() {
        for gain in [0.998, 1.0, 1.000_003, 1.002] {
            assert!(!matters([gain; 3]), "{gain}");
        }
        for gain in [0.9, 0.99, 1.01, 1.1] {
            assert!(matters([1.0, 1.0, gain]), "{gain}");
        }
    }

    #[test]
    fn a_gain_that_was_multiplied_is_divided_out() {
        let pixels: Vec<[u8; 4]> = (0..=255).map(|k| [k, 255 - k, 77, 255]).collect();
        let camera = camera([0.0, 0.0, 3.0], 9.0, [16, 16], [0.0, 0.0]);
        for gain in [[0.8; 3], [1.0; 3], [1.2, 1.0, 0.9]] {
            let exposed = |byte: u8, gain: f64| {
                to_byte(decode(f32::from(byte) / 255.0) * gain as f32, Blend::Linear)
            };
            let seen = pixels
                .iter()
                .map(|&[r, g, b, a]| {
                    [
                        exposed(r, gain[0]),
                        exposed(g, gain[1]),
                        exposed(b, gain[2]),
                        a,
                    ]
                })
                .collect();
            let mut view = blank_view(0, camera, [16, 16], seen);
            let saturated: Vec<bool> = view.pixels.iter().map(|p| p[..3].contains(&255)).collect();
            divide(&mut view, gain);
            for ((was, is), saturated) in pixels.iter().zip(&view.pixels).zip(saturated) {
                assert_eq!(is[3], if saturated { SATURATED_ALPHA } else { 255 });
                for channel in 0..3 {
                    let off = i32::from(was[channel]) - i32::from(is[channel]);
                    assert!(saturated || off.abs() <= 1, "{gain:?}: {was:?} {is:?}");
                }
            }
        }
    }
}
