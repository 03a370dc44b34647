//! Powers and logarithms of two of eight numbers at once, in which no C library has a say.

use crate::lanes::Lanes;

/// Sums with it have no fraction bits, so that f32 rounds them to the nearest integer, which is in their last bits. A call
/// of `round` would be none of SSE2's instructions.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// 2ˣ for x from -126 to 126, with an error below 4 · 10⁻⁷ of the value.
///
/// Splits x into an integer and a remainder within ± ½, for which a polynomial of degree 5 serves: (2ˣ - 1)/x interpolated
/// at Chebyshev's nodes, off by 2.1 · 10⁻⁷ at most.
#[inline(always)]
pub(crate) fn exp2<L: Lanes>(x: L) -> L {
    let shifted = x + L::all(ROUND);
    let rest = x - (shifted - L::all(ROUND));
    // In pairs, so that no product waits for all others.
    let pair = |low: f32, high: f32| L::all(low) + rest * L::all(high);
    let square = rest * rest;
    let series = pair(1.0, std::f32::consts::LN_2)
        + square * (pair(0.240_223_5, 0.055_503_81) + square * pair(0.009_666_368, 0.001_338_13));
    // Adds the integer to the exponent.
    series.plus(shifted.up::<23>())
}

/// log₂ x for normal positive x, with an error below 4 · 10⁻⁷ of the greater of 1 and the value.
///
/// Splits x into a power of two and a factor m from √½ to √2; log₂ m is the series of the inverse hyperbolic tangent of
/// (m - 1)/(m + 1), whose next term is below 5 · 10⁻⁸.
#[inline(always)]
pub(crate) fn log2<L: Lanes>(x: L) -> L {
    let half_root = L::bits(0x3f35_04f3);
    let one = L::all(1.0);
    let above = x.minus(half_root);
    let m = (above & L::bits(0x007f_ffff)).plus(half_root);
    let z = (m - one) / (m + one);
    let zz = z * z;
    let mut series = L::all(1.0 / 7.0);
    for coefficient in [1.0 / 5.0, 1.0 / 3.0, 1.0] {
        series = L::all(coefficient) + zz * series;
    }
    above.down::<23>().float() + L::all(2.0 * std::f32::consts::LOG2_E) * z * series
}

#[cfg(test)]
mod tests {
    use crate::lanes::{Lanes, Plain};

    fn exp2(x: f32) -> f32 {
        super::exp2(Plain::all(x)).list()[0]
    }

    fn log2(x: f32) -> f32 {
        super::log2(Plain::all(x)).list()[0]
    }

    #[test]
    fn it_is_exp2_to_the_last_bits() {
        for step in 0..=1_260_000_i32 {
            let x = -1e-4 * step as f32;
            let wanted = f64::from(x).exp2();
            let off = (f64::from(exp2(x)) - wanted).abs() / wanted;
            assert!(off < 4e-7, "{x}: {off}");
        }
        assert_eq!(exp2(0.0), 1.0);
        assert_eq!(exp2(-3.0), 0.125);
    }

    #[test]
    fn it_is_log2_to_the_last_bits() {
        for step in 1..=1_000_000_i32 {
            let x = 1e-6 * step as f32;
            let wanted = f64::from(x).log2();
            let off = (f64::from(log2(x)) - wanted).abs() / wanted.abs().max(1.0);
            assert!(off < 4e-7, "{x}: {off}");
        }
        assert_eq!(log2(1.0), 0.0);
        assert_eq!(log2(0.25), -2.0);
    }
}
