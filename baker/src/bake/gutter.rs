//! Fitted texels → texture: the gutter is filled, every texel is rounded to 8 bits of sRGB and says what is known of it.
//!
//! The gutter is a pull-push from all chart texels (and those that bilinear lookups past a chart's border have fitted), so it
//! continues each chart's colours and reaches as deep as the mip chain, to its last level.

use proto::job::Blend;
use proto::table::{Provenance, Texture};
use rayon::prelude::*;

use super::atlas::Atlas;
use super::colour::to_byte;
use super::pull_push::pull_push;
use super::raster::NOTHING;

/// Finishes the texture. `observed` is the weight with which pixels observe each texel, in pixels.
#[must_use]
pub fn gutter(
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
    pull_push(&mut texels, size as usize);
    let bytes = texels
        .par_iter()
        .map(|texel| {
            [
                to_byte(texel[0], blend),
                to_byte(texel[1], blend),
                to_byte(texel[2], blend),
                255,
            ]
        })
        .collect();
    let provenance = observed
        .par_iter()
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
    }
}

/// Mean absolute difference in sRGB, 0-1, between the two sides of the seams; 0 where there are none.
#[must_use]
pub fn seam_residual(texels: &[[f32; 4]], atlas: &Atlas, blend: Blend) -> f32 {
    use super::colour::to_display;
    let seams = &atlas.seams;
    if seams.is_empty() {
        return 0.0;
    }
    let mut sum = 0.0;
    for row in 0..seams.len() {
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
    use crate::bake::rows::Rows;

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
}
