//! sRGB and linear light (IEC 61966-2-1), as functions and as tables over the 256 values of a byte.

use std::sync::LazyLock;

use proto::job::Blend;

/// Decodes an sRGB value, 0-1, to linear light.
pub fn decode(encoded: f32) -> f32 {
    if encoded <= 0.04045 {
        encoded / 12.92
    } else {
        ((encoded + 0.055) / 1.055).powf(2.4)
    }
}

/// Steps of the square root of light between which [`encode`] interpolates; it errs by 5e-7 at most.
const ROOTS: usize = 1024;

/// Encodes linear light to sRGB; values outside 0-1 are clamped.
pub fn encode(linear: f32) -> f32 {
    /// The power law at each step, and at one more: it spares a power for each pixel and channel.
    static ENCODED: LazyLock<[f32; ROOTS + 2]> = LazyLock::new(|| {
        let at = |step: usize| (step as f64 / ROOTS as f64).powf(2.0 / 2.4);
        std::array::from_fn(|step| (1.055 * at(step) - 0.055) as f32)
    });
    let linear = linear.clamp(0.0, 1.0);
    if linear <= 0.003_130_8 {
        return linear * 12.92;
    }
    let root = linear.sqrt() * ROOTS as f32;
    let step = root as usize;
    let [one, other] = [ENCODED[step], ENCODED[step + 1]];
    one + (root - step as f32) * (other - one)
}

/// Slope of [`encode`] at a linear value.
pub fn encode_slope(linear: f32) -> f32 {
    if linear <= 0.003_130_8 {
        12.92
    } else {
        1.055 / 2.4 * linear.powf(1.0 / 2.4 - 1.0)
    }
}

/// Darkest value at which the slope is taken: below, an 8-bit value is uncertain by more than the slope changes. It is
/// above sRGB's linear part, at whose end the slope jumps by 1.7 %; there λ of a texel would depend on the last bits of
/// its colour.
pub const SLOPE_FLOOR: f32 = 0.0032;

/// What a picture's bytes mean, and so how they are averaged, compared and mixed into mips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// sRGB. The blend says how footprints are averaged; differences are judged in sRGB, and mips are means of light.
    Colour(Blend),
    /// Plain numbers throughout.
    Data,
    /// Components of unit vectors: like numbers, but other lengths do not survive.
    Direction,
}

impl Space {
    /// How the fit's stages read the bytes; [`Blend::Srgb`] leaves them unchanged.
    pub fn blend(self) -> Blend {
        match self {
            Self::Colour(blend) => blend,
            Self::Data | Self::Direction => Blend::Srgb,
        }
    }
}

impl From<Blend> for Space {
    fn from(blend: Blend) -> Self {
        Self::Colour(blend)
    }
}

/// An observed byte in the space in which footprints are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The value: linear light for [`Blend::Linear`], sRGB for [`Blend::Srgb`].
    pub value: f32,
    /// Square of d(sRGB)/d(value): converts a squared error of `value` into one that is seen.
    pub slope_squared: f32,
}

/// [`Observed`] for each byte.
pub fn observed(blend: Blend) -> &'static [Observed; 256] {
    static LINEAR: LazyLock<[Observed; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| {
            let value = decode(byte as f32 / 255.0);
            let slope = encode_slope(value.max(SLOPE_FLOOR));
            Observed {
                value,
                slope_squared: slope * slope,
            }
        })
    });
    static SRGB: LazyLock<[Observed; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| Observed {
            value: byte as f32 / 255.0,
            slope_squared: 1.0,
        })
    });
    match blend {
        Blend::Linear => &LINEAR,
        Blend::Srgb => &SRGB,
    }
}

/// Square of d(sRGB)/d(value) at any value of the space of the fit.
pub fn slope_squared(value: f32, blend: Blend) -> f32 {
    match blend {
        Blend::Linear => encode_slope(value.clamp(SLOPE_FLOOR, 1.0)).powi(2),
        Blend::Srgb => 1.0,
    }
}

/// From the space of the fit to sRGB, 0-1.
pub fn to_display(value: f32, blend: Blend) -> f32 {
    match blend {
        Blend::Linear => encode(value),
        Blend::Srgb => value.clamp(0.0, 1.0),
    }
}

/// From the space of the fit to a byte of sRGB, rounded to nearest.
pub fn to_byte(value: f32, blend: Blend) -> u8 {
    (to_display(value, blend) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_the_round_trip() {
        for blend in [Blend::Linear, Blend::Srgb] {
            for byte in 0..=255u8 {
                assert_eq!(to_byte(observed(blend)[byte as usize].value, blend), byte);
            }
        }
    }

    #[test]
    fn slope_is_the_derivative() {
        for step in 1..100 {
            let linear = step as f32 / 100.0;
            let h = 1e-3;
            let difference = (encode(linear + h) - encode(linear - h)) / (2.0 * h);
            // Central differences of a function with bounded third derivative here: error O(h²), a little more near
            // black.
            assert!(
                (difference / encode_slope(linear) - 1.0).abs() < 2e-2,
                "at {linear}"
            );
        }
    }

    #[test]
    fn encoding_undoes_decoding_and_clamps() {
        for step in 0..=1000 {
            let encoded = step as f32 / 1000.0;
            assert!((encode(decode(encoded)) - encoded).abs() < 2e-6);
            // A plain power of 2.2 is another curve.
            assert!(step % 100 != 50 || (encode(encoded.powf(2.2)) - encoded).abs() > 1e-5);
        }
        assert_eq!(encode(-1.0), 0.0);
        assert!((encode(7.0) - 1.0).abs() < 1e-6);
        assert_eq!(
            (to_byte(-1.0, Blend::Srgb), to_byte(7.0, Blend::Srgb)),
            (0, 255)
        );
    }

    #[test]
    fn both_pieces_of_the_curve_meet() {
        let (below, above) = (0.003_130_7, 0.003_131);
        assert!((encode(above) - encode(below)).abs() < 1e-5);
        assert!((decode(0.040_46) - decode(0.040_44)).abs() < 2e-6);
    }

    #[test]
    fn slopes_of_bytes_and_of_values_agree_and_are_bounded_near_black() {
        for blend in [Blend::Linear, Blend::Srgb] {
            for byte in observed(blend) {
                assert_eq!(byte.slope_squared, slope_squared(byte.value, blend));
            }
            assert_eq!(
                slope_squared(-3.0, blend),
                slope_squared(SLOPE_FLOOR, blend)
            );
            assert_eq!(slope_squared(3.0, blend), slope_squared(1.0, blend));
        }
    }
}
