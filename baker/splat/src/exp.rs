//! `exp` for exponents of 0 and less, without a branch or a call: loops over it become vector instructions.

/// Error below 2 · 10⁻⁷ of the value. 0 below -87, where f32 has no normal numbers.
///
/// Splits into a power of two and a remainder within ± ½ ln 2, for which a polynomial of degree 6 (Taylor's, whose rest is
/// 1.2 · 10⁻⁷ there) serves.
#[inline]
pub(crate) fn exp(x: f32) -> f32 {
    const LEAST: f32 = -87.0;
    const ROUND: f32 = 12_582_912.0;
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let clamped = x.max(LEAST);
    // Rounds to the nearest integer as f32 does: the sum has no fraction bits. A call of `round` would be none of SSE2's.
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = (clamped - power * LN_2[0]) - power * LN_2[1];
    let series = 1.0
        + rest
            * (1.0
                + rest
                    * (0.5
                        + rest
                            * (1.0 / 6.0
                                + rest * (1.0 / 24.0 + rest * (1.0 / 120.0 + rest / 720.0)))));
    // The integer is in the last bits of the sum.
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < LEAST { 0.0 } else { series * scale }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn it_is_exp_to_the_last_bits() {
        for step in 0..=870_000_i32 {
            let x = -1e-4 * step as f32;
            let wanted = f64::from(x).exp();
            let off = (f64::from(exp(x)) - wanted).abs() / wanted;
            assert!(off < 2.5e-7, "{x}: {off}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }
}
