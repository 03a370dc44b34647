//! Report of a bake: residuals of the views, provenance of the texels → figures.

use proto::message::{AdapterInfo, BakeSummary, CameraFate, ProvenanceShares, ViewFit};
use proto::table::{Provenance, Texture};
use rayon::prelude::*;

use crate::bake::solve::backend::{ViewResiduals, quantile};
use crate::bake::solve::fit::Fitted;
use crate::worker::memory::peak_rss_kib;

/// dB given to a view that is reproduced exactly; 8-bit rounding ends near 59 dB.
const LARGEST_PSNR: f32 = 100.0;

/// PSNR in dB of a mean squared residual in sRGB, 0-1. NaN is as bad as black for white: 0 dB.
pub(crate) fn psnr(mean_square: f64) -> f32 {
    if mean_square.is_nan() {
        return 0.0;
    }
    ((-10.0 * mean_square.log10()) as f32).clamp(0.0, LARGEST_PSNR)
}

/// PSNR in dB over all pixels of some views, and the number of those pixels.
pub(crate) fn psnr_of(views: &[ViewResiduals]) -> (f32, u64) {
    let rows: u64 = views.iter().map(|view| view.rows).sum();
    let squares: f64 = views.iter().map(|view| view.sum_squares).sum();
    (psnr(squares / rows.max(1) as f64), rows)
}

/// Report of a texture, without times and memory.
pub(crate) fn summary(
    adapter: AdapterInfo,
    fitted: &Fitted,
    texture: &Texture,
    seam_residual: f32,
) -> BakeSummary {
    let known = counted(&texture.provenance);
    let (train_psnr_db, covered_pixels) = psnr_of(&fitted.residuals);
    BakeSummary {
        covered_pixels,
        iterations: fitted.iterations,
        train_psnr_db,
        seam_residual,
        views: fitted.residuals.iter().map(of_view).collect(),
        ..blank(adapter, known)
    }
}

/// Report of a bake that knows of nothing but its adapter, and the numbers of observed, weakly observed and filled
/// texels.
pub(crate) fn blank(adapter: AdapterInfo, known: [u64; 3]) -> BakeSummary {
    let [observed, weak, filled] = known;
    BakeSummary {
        adapter,
        chart_texels: observed + weak + filled,
        observed_texels: observed + weak,
        filled_texels: filled,
        provenance: shares(known),
        peak_rss_kib: peak_rss_kib(),
        ..BakeSummary::default()
    }
}

/// Report of a view whose camera and exposure are as given, and that nobody has compared.
pub(crate) fn blank_view(view: u32, pixels: u64) -> ViewFit {
    ViewFit {
        view,
        pixels: u32::try_from(pixels).unwrap_or(u32::MAX),
        psnr_db: 0.0,
        median_residual: 0.0,
        camera: CameraFate::Given,
        moved_px: 0.0,
        gain: 1.0,
        channel_gains: [1.0; 3],
        rejected: None,
    }
}

fn of_view(view: &ViewResiduals) -> ViewFit {
    let seen = view.rows > 0;
    ViewFit {
        psnr_db: match seen {
            true => psnr(view.sum_squares / view.rows as f64),
            false => 0.0,
        },
        median_residual: quantile([view], 0.5),
        ..blank_view(view.view, view.rows)
    }
}

/// Numbers of observed, weakly observed and filled texels.
fn counted(provenance: &[u8]) -> [u64; 3] {
    const KINDS: [Provenance; 3] = [Provenance::Observed, Provenance::Weak, Provenance::Filled];
    let of_block = |bytes: &[u8]| {
        KINDS.map(|kind| bytes.iter().filter(|&&byte| byte == kind as u8).count() as u64)
    };
    let sum = |a: [u64; 3], b: [u64; 3]| [0, 1, 2].map(|kind| a[kind] + b[kind]);
    let blocks = provenance.par_chunks(1 << 16);
    blocks.map(of_block).reduce(|| [0; 3], sum)
}

/// Turns counts of observed, weakly observed and filled texels into shares.
fn shares(counts: [u64; 3]) -> ProvenanceShares {
    let all = counts.iter().sum::<u64>().max(1);
    let [observed, weak, inferred] = counts.map(|count| (count as f64 / all as f64) as f32);
    ProvenanceShares {
        observed,
        weak,
        inferred,
    }
}

/// Warns where no view shows more than half of the texture: surroundings such as a sky take it, or one side lacks views.
pub(crate) fn unseen(shares: ProvenanceShares) -> Option<String> {
    const TOLD: f32 = 0.5;
    (shares.inferred > TOLD).then(|| {
        format!(
            "no view shows {:.0} % of the texture: its colours are inferred from around. Where that is sky or ground \
             about the object, crop the mesh to the object; where it lies within, --remove-unseen drops it; else add views",
            shares.inferred * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_texture_that_is_mostly_unseen_is_told() {
        let told = |counts| unseen(shares(counts));
        assert_eq!(told([2, 2, 4]), None);
        assert!(
            told([1, 2, 5])
                .unwrap()
                .starts_with("no view shows 62 % of the texture")
        );
    }

    #[test]
    fn psnr_is_best_for_nothing_and_worst_for_no_number() {
        assert_eq!(psnr(0.0), LARGEST_PSNR);
        assert_eq!(psnr(1e-30), LARGEST_PSNR);
        assert!((psnr(1e-4) - 40.0).abs() < 1e-4);
        for worst in [1.0, 4.0, f64::INFINITY, f64::NAN] {
            assert_eq!(psnr(worst), 0.0, "{worst}");
        }
    }

    #[test]
    fn shares_are_of_all_charted_texels() {
        assert_eq!(shares([0; 3]), ProvenanceShares::default());
        assert_eq!(shares([1, 2, 5]).inferred, 0.625);
    }
}
