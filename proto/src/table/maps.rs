//! The maps of a texture, one byte per texel each: how well the views see it, and how much they differ from the result
//! there. The bytes are also the palette indices of the pictures that `--maps` writes, so a picture holds the numbers,
//! too.
//!
//! | code | coverage: w view pixels see the texel | residual: they differ from the result by e |
//! |---|---|---|
//! | 0 | outside every chart | outside every chart |
//! | 1 | inside a chart, w = 0: filled in | no pixel counts |
//! | 2 … 65 | w < 1: `2^((code − 66) / 16) ≤ w < 2^((code − 65) / 16)`; 2 also holds what is less | `√e = (code − 2) / 506`, rounded |
//! | 66 … 255 | w ≥ 1: likewise; 255 also holds what is more | likewise; 255 also holds e ≥ ¼ |
//!
//! w is the sum of the texel's shares in the footprints of all pixels of the views of the fit. A view that sees the
//! texel at its own size adds 1. e is a mean over those pixels, weighted by share and alpha⁴, of the mean over the
//! colour channels of |picture − render|, in sRGB from 0 to 1. It leaves out the robust weights of the fit, so that it
//! shows occluders and highlights that the fit has rejected.

use super::Provenance;

/// Outside every chart, in both maps.
pub const CODE_GUTTER: u8 = 0;
/// Nothing is known of the texel, in both maps.
pub const CODE_UNSEEN: u8 = 1;
/// First code of a texel that some pixel sees.
pub const CODE_SEEN: u8 = 2;
/// First code of a coverage of one pixel or more.
pub const CODE_OBSERVED: u8 = 66;
/// Codes per factor of two of the coverage.
pub const CODES_PER_OCTAVE: f32 = 16.0;
/// Residuals from here on have the last code.
pub const FULL_RESIDUAL: f32 = 0.25;

/// Both maps, `size²` codes each; see the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    /// How well each texel is seen.
    pub coverage: Vec<u8>,
    /// How much the views differ from the result.
    pub residual: Vec<u8>,
}

impl Maps {
    /// Bytes per texel of both maps together.
    pub const TEXEL_BYTES: u64 = 2;

    /// The first texel whose codes contradict its provenance.
    pub(super) fn contradiction(&self, provenance: &[u8]) -> Option<usize> {
        let agrees = |kind: u8, coverage: u8, residual: u8| {
            let known = match coverage {
                CODE_GUTTER => Provenance::Gutter,
                CODE_UNSEEN => Provenance::Filled,
                CODE_SEEN..CODE_OBSERVED => Provenance::Weak,
                CODE_OBSERVED.. => Provenance::Observed,
            };
            let unseen = known == Provenance::Filled;
            kind == known as u8
                && (residual == CODE_GUTTER) == (coverage == CODE_GUTTER)
                && !(unseen && residual > CODE_UNSEEN)
        };
        let codes = self.coverage.iter().zip(&self.residual);
        provenance
            .iter()
            .zip(codes)
            .position(|(&kind, (&coverage, &residual))| !agrees(kind, coverage, residual))
    }
}

/// Code of a texel in a chart that `weight` pixels see.
pub fn coverage_code(weight: f32) -> u8 {
    if weight <= 0.0 {
        return CODE_UNSEEN;
    }
    let steps = (weight.log2() * CODES_PER_OCTAVE).floor();
    // Rounding of the logarithm must not cross the border at 1.
    let (least, most) = if weight < 1.0 {
        (CODE_SEEN, CODE_OBSERVED - 1)
    } else {
        (CODE_OBSERVED, u8::MAX)
    };
    (f32::from(CODE_OBSERVED) + steps).clamp(f32::from(least), f32::from(most)) as u8
}

/// Code of a texel in a chart whose pixels differ by `residual` from the result; `None` if no pixel counts.
pub fn residual_code(residual: Option<f32>) -> u8 {
    let Some(residual) = residual else {
        return CODE_UNSEEN;
    };
    let share = (residual / FULL_RESIDUAL).clamp(0.0, 1.0).sqrt();
    CODE_SEEN + (share * f32::from(u8::MAX - CODE_SEEN)).round() as u8
}

/// Least coverage of a code, in pixels.
pub fn coverage_of(code: u8) -> Option<f32> {
    (code >= CODE_SEEN)
        .then(|| ((f32::from(code) - f32::from(CODE_OBSERVED)) / CODES_PER_OCTAVE).exp2())
}

/// Residual in the middle of a code, in 0 to ¼.
pub fn residual_of(code: u8) -> Option<f32> {
    let steps = code.checked_sub(CODE_SEEN)?;
    Some(FULL_RESIDUAL * (f32::from(steps) / f32::from(u8::MAX - CODE_SEEN)).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coverage_lies_between_its_code_and_the_next() {
        for step in 0..6000 {
            let weight = (f32::from(step as i16) / 6000.0 * 15.8 - 4.0).exp2();
            let code = coverage_code(weight);
            let least = coverage_of(code).expect("seen");
            let next = least * (1.0 / CODES_PER_OCTAVE).exp2();
            assert!(
                least <= weight * 1.000_01 && weight < next * 1.000_01,
                "{weight} has code {code}, {least}"
            );
            assert_eq!(code >= CODE_OBSERVED, weight >= 1.0, "{weight}");
        }
        let codes = [0.0, 1e-30, 0.999_999_9, 1.0, 1e30].map(coverage_code);
        assert_eq!(
            codes,
            [
                CODE_UNSEEN,
                CODE_SEEN,
                CODE_OBSERVED - 1,
                CODE_OBSERVED,
                255
            ]
        );
        assert_eq!([0, 1].map(coverage_of), [None; 2]);
    }

    #[test]
    fn a_residual_is_within_half_a_step_of_its_code() {
        for step in 0..=2500u16 {
            let residual = f32::from(step) / 10_000.0;
            let code = residual_code(Some(residual));
            let root = (f32::from(code) - 2.0) / 506.0;
            assert!(
                (residual.sqrt() - root).abs() <= 0.5001 / 506.0,
                "{residual}"
            );
            let back = residual_of(code).expect("seen");
            assert!((back - root * root).abs() < 1e-6, "{residual}");
        }
        let codes = [None, Some(0.0), Some(0.25), Some(1.0), Some(f32::INFINITY)];
        assert_eq!(codes.map(residual_code), [1, 2, 255, 255, 255]);
        assert_eq!([0, 1].map(residual_of), [None; 2]);
    }
}
