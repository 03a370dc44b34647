//! Finishes a texture from mended texels: rounds every texel to 8 bits of sRGB and records its provenance.

use proto::job::Blend;
use proto::table::{Provenance, Texture};
use rayon::prelude::*;

use crate::bake::model::atlas::Atlas;
use crate::bake::model::colour::{to_byte, to_display};
use crate::bake::model::raster::NOTHING;
#[cfg(test)]
use crate::bake::solve::pull_push::pull_push;
use crate::worker::progress::{ticked, ticking, unit};

/// Fills the gutter by a pull-push from all chart texels and those past a chart's border that bilinear lookups have
/// fitted, and finishes the texture. [`super::seams`] does this better.
#[cfg(test)]
pub(crate) fn gutter(
    mut texels: Vec<[f32; 4]>,
    observed: &[f32],
    atlas: &Atlas,
    size: u32,
    blend: Blend,
) -> Texture {
    texels
        .par_iter_mut()
        .enumerate()
        .for_each(|(index, texel)| {
            texel[3] = if atlas.triangles[index] != NOTHING || observed[index] > 0.0 {
                1.0
            } else {
                0.0
            };
        });
    unit();
    pull_push(&mut texels, size as usize);
    finish(&texels, observed, atlas, size, blend)
}

/// Finishes a texture whose gutter is filled. `observed` is the weight with which pixels observe each texel, in pixels.
pub fn finish(
    texels: &[[f32; 4]],
    observed: &[f32],
    atlas: &Atlas,
    size: u32,
    blend: Blend,
) -> Texture {
    let bytes = ticking(texels.par_iter())
        .map(|texel| {
            [
                to_byte(texel[0], blend),
                to_byte(texel[1], blend),
                to_byte(texel[2], blend),
                255,
            ]
        })
        .collect();
    unit();
    let provenance = ticking(observed.par_iter())
        .zip(&atlas.triangles)
        .map(|(&weight, &triangle)| {
            (match () {
                () if triangle == NOTHING => Provenance::Gutter,
                () if weight <= 0.0 => Provenance::Filled,
                () if weight < 1.0 => Provenance::Weak,
                () => Provenance::Observed,
            }) as u8
        })
        .collect();
    Texture {
        size,
        texels: bytes,
        provenance,
        maps: None,
    }
}

/// Mean absolute difference in sRGB, 0-1, between the two sides of the seams; 0 where there are none.
pub fn seam_residual(texels: &[[f32; 4]], atlas: &Atlas, blend: Blend) -> f32 {
    let seams = &atlas.seams;
    if seams.is_empty() {
        return 0.0;
    }
    let mut sum = 0.0;
    for row in ticked(0..seams.len()) {
        let (mut one, mut other) = ([0.0; 3], [0.0; 3]);
        for entry in seams.row(row) {
            let (side, weight) = if entry.weight > 0.0 {
                (&mut one, entry.weight)
            } else {
                (&mut other, -entry.weight)
            };
            for channel in 0..3 {
                side[channel] += weight * texels[entry.texel as usize][channel];
            }
        }
        for channel in 0..3 {
            sum += f64::from(
                (to_display(one[channel], blend) - to_display(other[channel], blend)).abs(),
            );
        }
    }
    (sum / (3.0 * seams.len() as f64)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::model::rows::Rows;

    #[test]
    fn the_gutter_continues_the_chart_and_is_called_gutter() {
        let size = 8u32;
        let inside = |index: usize| index % 8 < 3;
        let atlas = Atlas {
            triangles: (0..64)
                .map(|index| if inside(index) { 0 } else { NOTHING })
                .collect(),
            links: vec![0; 64],
            seams: Rows::default(),
            covered: 24,
        };
        let texels: Vec<[f32; 4]> = (0..64)
            .map(|index| {
                if inside(index) {
                    [0.5, 0.25, 1.0, 0.0]
                } else {
                    [0.0; 4]
                }
            })
            .collect();
        let observed: Vec<f32> = (0..64)
            .map(|index| if index % 8 == 0 { 2.0 } else { 0.0 })
            .collect();
        let texture = gutter(texels, &observed, &atlas, size, Blend::Srgb);
        assert!(
            texture
                .texels
                .iter()
                .all(|texel| *texel == [128, 64, 255, 255]),
            "{:?}",
            texture.texels
        );
        assert_eq!(texture.provenance[0], Provenance::Observed as u8);
        assert_eq!(texture.provenance[1], Provenance::Filled as u8);
        assert_eq!(texture.provenance[7], Provenance::Gutter as u8);
    }

    /// An atlas of one triangle over these texels.
    fn atlas(size: usize, inside: impl Fn(usize) -> bool) -> Atlas {
        Atlas {
            triangles: (0..size * size)
                .map(|index| if inside(index) { 0 } else { NOTHING })
                .collect(),
            links: vec![0; size * size],
            seams: Rows::default(),
            covered: (0..size * size).filter(|&index| inside(index)).count() as u64,
        }
    }

    #[test]
    fn every_texel_says_what_is_known_of_it() {
        for size in [1usize, 5, 9] {
            let atlas = atlas(size, |index| index != 3);
            let weight = |index: usize| [0.0, 0.5, 1.0, 0.9, 7.0][index % 5];
            let observed: Vec<f32> = (0..size * size).map(weight).collect();
            let texels = vec![[0.2; 4]; size * size];
            let texture = gutter(texels, &observed, &atlas, size as u32, Blend::Linear);
            for (index, &found) in texture.provenance.iter().enumerate() {
                let wanted = match (index, index % 5) {
                    (3, _) => Provenance::Gutter,
                    (_, 0) => Provenance::Filled,
                    (_, 1 | 3) => Provenance::Weak,
                    _ => Provenance::Observed,
                };
                assert_eq!(found, wanted as u8, "{index} of {size}²");
            }
        }
    }

    #[test]
    fn gutter_that_lookups_have_fitted_keeps_its_colour() {
        let atlas = atlas(6, |index| index % 6 < 2);
        let mut texels = vec![[0.0; 4]; 36];
        texels.iter_mut().for_each(|texel| texel[0] = 0.2);
        texels[2] = [1.0, 0.0, 0.0, 0.0];
        let mut observed = vec![0.0; 36];
        let of = |observed: &[f32]| gutter(texels.clone(), observed, &atlas, 6, Blend::Srgb).texels;
        assert_eq!(of(&observed)[2][0], 51);
        observed[2] = 0.01;
        assert_eq!(of(&observed)[2][0], 255);
    }

    #[test]
    fn seam_residual_is_the_mean_difference_of_the_sides() {
        use crate::bake::model::rows::Entry;
        let mut atlas = atlas(2, |_| true);
        let texels = [[0.2; 4], [0.4; 4], [0.9; 4], [0.5; 4]];
        assert_eq!(seam_residual(&texels, &atlas, Blend::Srgb), 0.0);
        let entry = |texel, weight| Entry { texel, weight };
        // (0.2 + 0.4) / 2 against 0.9, and 0.5 against itself through another texel.
        atlas.seams = Rows {
            starts: vec![0, 3, 5],
            entries: vec![
                entry(0, 0.5),
                entry(1, 0.5),
                entry(2, -1.0),
                entry(3, 1.0),
                entry(3, -1.0),
            ],
            colours: vec![[0; 4]; 2],
            pixels: vec![0; 2],
            ..Rows::default()
        };
        assert!((seam_residual(&texels, &atlas, Blend::Srgb) - 0.3).abs() < 1e-6);
        let in_linear = seam_residual(&texels, &atlas, Blend::Linear);
        assert!(
            (in_linear - 0.5 * (0.954_687 - 0.583_831)).abs() < 1e-4,
            "{in_linear}"
        );
    }
}
