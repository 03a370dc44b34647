//! Encodes observed weights and deviations of each texel as the codes of [`proto::table::maps`].

use crate::worker::progress::ticking;
use proto::table::Provenance;
use proto::table::maps::{CODE_GUTTER, Maps, coverage_code, residual_code};
use rayon::prelude::*;

/// Codes for texels of this provenance. `observed` is the weight with which pixels observe each, in pixels, and
/// `deviations` the result of [`crate::bake::solve::backend::Backend::deviations`].
pub(crate) fn encode(provenance: &[u8], observed: &[f32], deviations: &[f32]) -> Maps {
    let charted = |kind: u8| kind != Provenance::Gutter as u8;
    let coverage = ticking(provenance.par_iter())
        .zip(observed)
        .map(|(&kind, &weight)| {
            if charted(kind) {
                coverage_code(weight)
            } else {
                CODE_GUTTER
            }
        })
        .collect();
    let residual = ticking(provenance.par_iter())
        .zip(deviations)
        .map(|(&kind, &deviation)| {
            let seen = kind != Provenance::Filled as u8 && deviation >= 0.0;
            if charted(kind) {
                residual_code(seen.then_some(deviation))
            } else {
                CODE_GUTTER
            }
        })
        .collect();
    Maps { coverage, residual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_texel_has_its_codes() {
        // Gutter that lookups have fitted, filled, weak, observed, and observed by nothing that counts.
        let provenance = [0, 1, 2, 3, 3];
        let observed = [0.5, 0.0, 0.5, 4.0, 1.0];
        let deviations = [0.1, -1.0, 0.0, 0.0625, -1.0];
        let maps = encode(&provenance, &observed, &deviations);
        assert_eq!(maps.coverage, [0, 1, 50, 98, 66]);
        // √0.0625 = 0.25 is 126.5 of 506 steps.
        assert_eq!(maps.residual, [0, 1, 2, 129, 1]);
    }
}
