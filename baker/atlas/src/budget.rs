//! Scales charts by what the views show of them, so that texels lie where somebody looks.
//!
//! A texel holds at most what the pixels say; more texels than that are made up. So a chart gets its share of the
//! texture, but at most one texel per [`PIXELS`] pixels of all views together. The others share what that frees. Where
//! the texture is finer than all views, that would bind everywhere, so only charts shown less than most are made
//! smaller.
//!
//! The pixels of a chart are a root mean square over its area: a chart shown well in one corner keeps more than the
//! mean would leave it. An unseen chart gets the least size, since it is filled with colours that hardly change between
//! texels.

use crate::input::Views;
use crate::piece::Piece;

/// Smallest scale of a chart's edge. 0.25 gains flighthelmet 0.1 dB more and costs the hemisphere 0.2 dB.
pub(crate) const EDGE: f64 = 1.0 / 3.0;
/// Charts with less than this share of the surface keep their size: the small pictures used to see them may miss them.
pub(super) const SMALLEST: f64 = 5e-4;
/// Pixels of all views together per texel. From 2 to 4 flighthelmet gains 0.1 dB, other sets nothing.
const PIXELS: f64 = 3.0;
/// Share of the seen surface, least shown first, that may be made smaller where the texture is finer than the views.
/// Seams between charts of different density agree less: with 0.5 the splat set has 0.3 steps of 255 more at mip 3, and
/// gains no dB.
const LESS_SHOWN: f64 = 0.3;
/// Approximate share of an atlas that charts cover.
const UTILISATION: f64 = 0.65;
/// Rounds in which the charts that keep their size grow into what the others leave.
const ROUNDS: u32 = 8;

/// A chart's area, and pixels of all views together per unit of area.
#[derive(Clone, Copy, Debug)]
struct Shown {
    area: f64,
    pixels: f64,
}

impl Shown {
    fn new(piece: &Piece, views: &Views) -> Self {
        let (mut area, mut squares, mut expected, mut counted) = (0.0, 0.0, 0.0, 0.0);
        for (triangle, &face) in (0..).zip(&piece.faces) {
            let of_triangle = piece.chart.area_of(triangle);
            let exposure = views.exposure[face as usize];
            area += of_triangle;
            squares += of_triangle * exposure * exposure;
            expected += of_triangle * exposure;
            counted += views.pixels[face as usize];
        }
        // Exposure counts a triangle as seen or not. It misses most triangles below a pixel, and counts partly occluded
        // ones in full.
        let pixels = if expected > 0.0 {
            counted / expected * (squares / area).sqrt()
        } else {
            0.0
        };
        Self { area, pixels }
    }

    /// The share of its area that is left, where a texel holds the pixels of `unit` per unit of area.
    fn left(&self, unit: f64) -> f64 {
        (self.pixels / unit).clamp(EDGE * EDGE, 1.0)
    }
}

/// Makes charts smaller of which views show less than an atlas of `texture_size`² texels would hold.
pub(super) fn shrink(pieces: &mut [Piece], views: &Views, texture_size: u32) {
    let charts: Vec<Shown> = (pieces.iter())
        .map(|piece| Shown::new(piece, views))
        .collect();
    let whole: f64 = charts.iter().map(|chart| chart.area).sum();
    let is_small = |chart: &Shown| chart.area < SMALLEST * whole;
    let least = less_shown(&charts);
    if least <= 0.0 {
        return;
    }
    let texels = UTILISATION * f64::from(texture_size).powi(2);
    // Pixels per unit of area from which on a chart keeps its size.
    let mut enough = (PIXELS * texels / whole).min(least);
    for _ in 0..ROUNDS {
        let left = |chart: &Shown| {
            if is_small(chart) {
                1.0
            } else {
                chart.left(enough)
            }
        };
        let area: f64 = charts.iter().map(|chart| chart.area * left(chart)).sum();
        enough = (PIXELS * texels / area).min(least);
    }
    for (piece, chart) in pieces.iter_mut().zip(&charts) {
        if !is_small(chart) {
            let edge = chart.left(enough).sqrt();
            piece
                .chart
                .uvs
                .iter_mut()
                .for_each(|uv| *uv = uv.map(|x| x * edge));
        }
    }
}

/// The pixels per unit of area that all but [`LESS_SHOWN`] of the seen area have; 0 where none is seen.
fn less_shown(charts: &[Shown]) -> f64 {
    let mut seen: Vec<Shown> = charts
        .iter()
        .copied()
        .filter(|chart| chart.pixels > 0.0)
        .collect();
    seen.sort_unstable_by(|a, b| a.pixels.total_cmp(&b.pixels));
    let all: f64 = seen.iter().map(|chart| chart.area).sum();
    let mut below = 0.0;
    let reached = seen.iter().find(|chart| {
        below += chart.area;
        below >= LESS_SHOWN * all
    });
    reached.map_or(0.0, |chart| chart.pixels)
}

#[cfg(test)]
mod tests {
    use super::super::planar::cut;
    use super::super::tests::{icosphere, views};
    use super::*;
    use crate::input::Mesh;

    /// The share of its area left to the first chart of a sphere that has this `exposure` and share of `pixels`, where
    /// all others have their full share.
    fn left(sphere: &Mesh<'_>, exposure: f64, pixels: f64, texture_size: u32) -> f64 {
        let before = cut(sphere);
        let mut views = views(sphere, |face| {
            if before[0].faces.contains(&(face as u32)) {
                exposure
            } else {
                1e4
            }
        });
        for &face in &before[0].faces {
            views.pixels[face as usize] *= pixels;
        }
        let mut after = before.clone();
        shrink(&mut after, &views, texture_size);
        let ratio = |(after, before): (&Piece, &Piece)| after.chart.area() / before.chart.area();
        for others in after.iter().zip(&before).skip(1) {
            assert!((ratio(others) - 1.0).abs() < 0.05, "{}", ratio(others));
        }
        ratio((&after[0], &before[0]))
    }

    #[test]
    fn a_chart_has_texels_for_the_pixels_that_show_it() {
        let sphere = icosphere(4);
        let near =
            |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.01, "{found} {wanted}");
        // A texture finer than all views: a quarter of the pixels, a quarter of the texels.
        near(left(&sphere, 1e4, 1.0, 4096), 1.0);
        near(left(&sphere, 2.5e3, 1.0, 4096), 0.25);
        // Two thirds of its triangles fell between the pixels of small pictures, or half is occluded.
        near(left(&sphere, 1e4, 0.3, 4096), 0.3);
        near(left(&sphere, 5e3, 0.5, 4096), 0.25);
        near(left(&sphere, 0.0, 1.0, 4096), EDGE * EDGE);
        near(left(&sphere, 1.0, 1.0, 4096), EDGE * EDGE);
        // A texture coarser than all views, and one between: 4π hold 64² · 0.65 texels with three pixels each.
        near(left(&sphere, 2.5e3, 1.0, 64), 1.0);
        let enough = PIXELS * UTILISATION * 64.0 * 64.0 / sphere_area(&sphere);
        assert!((600.0..700.0).contains(&enough), "{enough}");
        let found = left(&sphere, enough / 2.0, 1.0, 64);
        assert!(
            (0.45..0.5).contains(&found),
            "others grow into what it leaves: {found}"
        );
    }

    fn sphere_area(sphere: &Mesh<'_>) -> f64 {
        crate::surface::surface_area(sphere.positions, sphere.triangles)
    }

    #[test]
    fn a_corner_that_is_shown_well_keeps_more_than_the_mean() {
        let sphere = icosphere(4);
        let before = cut(&sphere);
        let mut views = views(&sphere, |_| 1e4);
        for &face in before[0].faces.iter().skip(before[0].faces.len() / 4) {
            views.exposure[face as usize] = 0.0;
            views.pixels[face as usize] = 0.0;
        }
        let mut after = before.clone();
        shrink(&mut after, &views, 4096);
        let ratio = after[0].chart.area() / before[0].chart.area();
        assert!((0.4..0.6).contains(&ratio), "{ratio}");
    }

    #[test]
    fn what_pictures_may_miss_and_what_nobody_knows_keeps_its_size() {
        // Twenty triangles of 5,120 would be a large enough chart.
        let sphere = icosphere(4);
        let crumb = |piece: &Piece| piece.part(|row| row == 0);
        let mut before = cut(&sphere);
        before.push(crumb(&before[0]));
        let count = before.len();
        let unseen = before[count - 1].faces[0] as usize;
        let mut after = before.clone();
        shrink(
            &mut after,
            &views(&sphere, |face| if face == unseen { 0.0 } else { 1e4 }),
            4096,
        );
        assert_eq!(after[count - 1], before[count - 1]);
        let mut after = before.clone();
        shrink(&mut after, &views(&sphere, |_| 0.0), 4096);
        assert_eq!(after, before);
    }
}
