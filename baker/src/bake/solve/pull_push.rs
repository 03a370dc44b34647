//! Pull-push: gives every texel a colour from weighted texels.
//!
//! Gortler et al., "The Lumigraph", 1996, section 3.4: pull averages by weight into ever coarser levels, push fills
//! what has no weight of its own from the level above, bilinearly. Weights saturate at 1, so a texel keeps its own
//! colour once it has one.

use rayon::prelude::*;

use crate::bake::solve::multilevel::beside;
use crate::worker::progress::{ticking, unit};

/// Fills every texel whose weight (fourth component) is below 1 from its surroundings. Colours of weight ≥ 1 stay, and
/// so do all weights. `width` · height = `texels.len()`.
pub fn pull_push(texels: &mut [[f32; 4]], width: usize) {
    let height = texels.len() / width.max(1);
    if width <= 1 && height <= 1 {
        return;
    }
    let mut coarse = pull(texels, width, height);
    unit();
    pull_push(&mut coarse, width.div_ceil(2));
    push(texels, width, &coarse);
    unit();
}

fn pull(fine: &[[f32; 4]], width: usize, height: usize) -> Vec<[f32; 4]> {
    let (coarse_width, coarse_height) = (width.div_ceil(2), height.div_ceil(2));
    ticking((0..coarse_width * coarse_height).into_par_iter())
        .map(|index| {
            let (column, row) = (index % coarse_width * 2, index / coarse_width * 2);
            let mut sum = [0.0; 4];
            for y in row..(row + 2).min(height) {
                for x in column..(column + 2).min(width) {
                    let texel = fine[y * width + x];
                    let weight = texel[3].min(1.0);
                    for channel in 0..3 {
                        sum[channel] += weight * texel[channel];
                    }
                    sum[3] += weight;
                }
            }
            if sum[3] > 0.0 {
                [sum[0] / sum[3], sum[1] / sum[3], sum[2] / sum[3], sum[3]]
            } else {
                [0.0; 4]
            }
        })
        .collect()
}

fn push(fine: &mut [[f32; 4]], width: usize, coarse: &[[f32; 4]]) {
    let coarse_width = width.div_ceil(2);
    let coarse_height = coarse.len() / coarse_width;
    ticking(fine.par_iter_mut())
        .enumerate()
        .for_each(|(index, texel)| {
            let own = texel[3].min(1.0);
            if own >= 1.0 {
                return;
            }
            let (column, row) = (index % width, index / width);
            // A fine texel's centre lies a quarter of a coarse texel from the centre of its parent.
            let side = |at: usize, count: usize| [(at / 2, 0.75), (beside(at, count), 0.25)];
            let mut above = [0.0; 3];
            for (y, wy) in side(row, coarse_height) {
                for (x, wx) in side(column, coarse_width) {
                    let parent = coarse[y * coarse_width + x];
                    for channel in 0..3 {
                        above[channel] += wx * wy * parent[channel];
                    }
                }
            }
            for channel in 0..3 {
                texel[channel] = own * texel[channel] + (1.0 - own) * above[channel];
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_between_two_colours_lies_between_them() {
        let mut texels = vec![[0.0; 4]; 64];
        texels[0] = [1.0, 0.0, 0.0, 1.0];
        texels[63] = [0.0, 1.0, 0.0, 1.0];
        pull_push(&mut texels, 8);
        for texel in &texels {
            assert!(
                (texel[0] + texel[1] - 1.0).abs() < 1e-5,
                "a convex mixture: {texel:?}"
            );
        }
        assert!(texels[9][0] > texels[54][0], "nearer to red on red's side");
    }

    #[test]
    fn every_shape_is_filled_from_its_one_colour() {
        for (width, height) in [
            (1, 1),
            (1, 2),
            (2, 1),
            (1, 9),
            (9, 1),
            (3, 3),
            (5, 17),
            (13, 7),
            (16, 1),
        ] {
            let count = width * height;
            for known in [0, count / 2, count - 1] {
                let mut texels = vec![[0.0; 4]; count];
                texels[known] = [0.3, 0.6, 0.9, 2.0];
                pull_push(&mut texels, width);
                for (index, texel) in texels.iter().enumerate() {
                    let near = |channel: usize, wanted: f32| (texel[channel] - wanted).abs() < 1e-6;
                    assert!(
                        near(0, 0.3) && near(1, 0.6) && near(2, 0.9),
                        "{width}×{height}, {index} from {known}: {texel:?}"
                    );
                    assert_eq!(texel[3], if index == known { 2.0 } else { 0.0 });
                }
            }
        }
    }

    #[test]
    fn where_nothing_is_known_nothing_is_made_up() {
        let mut texels = vec![[0.0; 4]; 35];
        pull_push(&mut texels, 5);
        assert!(texels.iter().all(|texel| *texel == [0.0; 4]));
        pull_push(&mut [], 0);
    }

    #[test]
    fn a_weak_texel_is_mixed_with_its_surroundings_by_its_weight() {
        let mut texels = vec![[0.0, 0.0, 0.0, 1.0]; 64 * 64];
        texels[32 * 64 + 32] = [1.0, 1.0, 1.0, 0.25];
        pull_push(&mut texels, 64);
        let value = texels[32 * 64 + 32][0];
        // A quarter of its own; the rest comes from a parent, of which it makes at most 0.25 of 3.25.
        assert!((0.25..0.25 + 0.75 * 0.08).contains(&value), "{value}");
    }

    #[test]
    fn a_ramp_with_holes_stays_a_ramp_between_its_ends() {
        let ramp = |x: usize| x as f32 / 30.0;
        let mut texels: Vec<[f32; 4]> = (0..31 * 5)
            .map(|k| {
                let weight = if k % 31 % 3 == 0 { 1.0 } else { 0.0 };
                [ramp(k % 31) * weight, 0.0, 0.0, weight]
            })
            .collect();
        pull_push(&mut texels, 31);
        for (k, texel) in texels.iter().enumerate() {
            // Three texels apart, so within two of the truth.
            assert!(
                (texel[0] - ramp(k % 31)).abs() < 2.0 / 30.0,
                "{k}: {texel:?}"
            );
        }
    }
}
