//! Computes from cameras and a surface the pixel density that the views resolve on each triangle, and the texture size
//! that holds it.
//!
//! Each place is shown largest by one view. That view's pixels per unit of area there are what a texture can hold. The
//! chosen size is the one at which half of the seen surface, by area, has no more texels than such pixels. A new atlas
//! spreads texels evenly over [`UTILISATION`] of its square, except for unseen parts. Kept coordinates spread them as
//! they are. With several pages the size is that of each page.
//!
//! Occlusion is found on small pictures, so triangles below their pixels may be missed; medians tolerate that.

use kiln_atlas::{EDGE, Views};
use proto::limits::MIN_TEXTURE_SIZE;
use proto::message::TextureChoice;
use proto::pages::Pages;
use rayon::prelude::*;

use super::clean::CleanMesh;
use super::repair::Eye;
use crate::bake::model::raster::{NOTHING, Projected, raster};
use crate::bake::model::scene::project;
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};

/// A visibility query (lookout): a small camera, and how many pixels of its picture one small pixel stands for, per
/// axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookout {
    pub(crate) eye: Eye,
    pub(crate) zoom: f64,
}

/// Utilisation of a new atlas: 0.48 to 0.75 on the six models measured.
const UTILISATION: f64 = 0.65;
/// Sizes are multiples of it.
const STEP: f64 = 64.0;
/// The default, where nothing is known.
const UNKNOWN: u32 = 1024;
/// Largest number of views drawn, spread evenly over all.
const VIEWS: usize = 128;
/// Above this number of triangles, views are drawn one after another: each takes a hundred bytes per triangle.
pub(crate) const MANY: usize = 400_000;

/// What views resolve, by triangle. Empty where nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    /// What views show of each triangle.
    pub(crate) shown: Views,
    views: u32,
}

impl Resolved {
    pub(crate) fn is_known(&self) -> bool {
        self.shown.best.iter().any(|&pixels| pixels > 0.0)
    }
}

fn areas(surface: &CleanMesh) -> Vec<f64> {
    let of = |t: &[u32; 3]| area(surface, *t);
    surface.triangles.iter().map(of).collect()
}

/// Draws the views and sums what they resolve.
pub(crate) fn resolved(
    surface: &CleanMesh,
    lookouts: &[Lookout],
    progress: &dyn Progress,
) -> Resolved {
    let step = lookouts.len().div_ceil(VIEWS).max(1);
    let asked: Vec<Lookout> = lookouts.iter().step_by(step).copied().collect();
    let mut resolved = sum(surface, &areas(surface), &asked, progress);
    // Each view drawn stands for this many.
    let share = lookouts.len() as f64 / asked.len().max(1) as f64;
    let shown = &mut resolved.shown;
    for sum in shown.exposure.iter_mut().chain(&mut shown.pixels) {
        *sum *= share;
    }
    resolved.views = lookouts.len() as u32;
    resolved
}

/// Chooses the size of each page, at most `most` texels.
pub(crate) fn choose(
    surface: &CleanMesh,
    resolved: &Resolved,
    (most, pages): (u32, Pages),
    progress: &dyn Progress,
) -> TextureChoice {
    let areas = areas(surface);
    let best = &resolved.shown.best;
    // Unseen parts get fewer texels ([`EDGE`]), wherever that leaves enough for a chart of their own.
    let weighed = |(&area, &best): (&f64, &f64)| if best > 0.0 { area } else { area * EDGE * EDGE };
    let all: f64 = areas.iter().zip(best).map(weighed).sum();

    // Per triangle: the size at which it has as many texels as pixels, its pixel density, and its area.
    let mut seen: Vec<(f64, f64, f64)> = Vec::new();
    for (triangle, (&density, &area)) in best.iter().zip(&areas).enumerate() {
        let share = match &surface.corner_uvs {
            Some(uvs) => area_of(uvs[triangle]),
            None => area / all * UTILISATION * f64::from(pages.count()),
        };
        let edge = (density * area / share).sqrt();
        if density > 0.0 && edge.is_finite() {
            seen.push((edge, density, area));
        }
    }
    let whole: f64 = areas.iter().sum();
    let of_seen: f64 = seen.iter().map(|(.., area)| area).sum();
    let edge = median(&mut seen, of_seen, |place| place.0);
    let density = median(&mut seen, of_seen, |place| place.1);
    let size = match edge {
        Some(edge) => {
            let rounded = (edge / STEP).round() * STEP;
            (rounded as u32).clamp(MIN_TEXTURE_SIZE, most.max(MIN_TEXTURE_SIZE))
        }
        None => {
            progress.warning("no view shows how large a texture should be: it has the usual size");
            UNKNOWN.min(most)
        }
    };
    TextureChoice {
        size,
        wanted: edge.unwrap_or(0.0) as f32,
        pixels: (density.unwrap_or(0.0).sqrt() * 2.0 * surface.radius) as f32,
        seen: if whole > 0.0 {
            (of_seen / whole) as f32
        } else {
            0.0
        },
        views: resolved.views,
    }
}

/// Sums what these views resolve.
fn sum(surface: &CleanMesh, areas: &[f64], asked: &[Lookout], progress: &dyn Progress) -> Resolved {
    let group = match surface.triangles.len() > MANY {
        true => 1,
        false => rayon::current_num_threads().max(1),
    };
    let triangles = each(surface.triangles.len(), pace::TRIANGLE);
    let [best, exposure, pixels] = [0; 3].map(|_| vec![0.0_f64; areas.len()]);
    let mut sums = Views {
        best,
        exposure,
        pixels,
    };
    for some in asked.chunks(group) {
        let count = u32::try_from(some.len()).unwrap_or(u32::MAX);
        progress.expect("what the views resolve", triangles * count * 2);
        let found = some
            .par_iter()
            .map(|lookout| densities(surface, areas, lookout));
        let found: Vec<(Vec<f64>, Vec<f64>)> = found.collect();
        for (densities, pixels) in found {
            for (triangle, (density, pixels)) in densities.into_iter().zip(pixels).enumerate() {
                sums.best[triangle] = sums.best[triangle].max(density);
                sums.exposure[triangle] += density;
                sums.pixels[triangle] += pixels;
            }
        }
        unit();
    }
    Resolved {
        shown: sums,
        views: 0,
    }
}

/// For each triangle the pixels per unit of area and the pixels that show it, in the full-size view.
fn densities(surface: &CleanMesh, areas: &[f64], lookout: &Lookout) -> (Vec<f64>, Vec<f64>) {
    const BAND: u32 = 32;
    let Lookout { eye, zoom } = lookout;
    let [width, height] = eye.size.map(|edge| edge as u32);
    let (positions, triangles) = (&surface.positions, &surface.triangles);
    let projected = Projected::new(positions, triangles, &eye.camera, width, height);
    let (mut densities, mut pixels) = (vec![0.0; areas.len()], vec![0.0; areas.len()]);
    for (band, of_band) in projected.bands(height, BAND).iter().enumerate() {
        let first = band as u32 * BAND;
        let end = (first + BAND).min(height);
        for triangle in raster(&projected, of_band, width, first, end, 1).triangles {
            if triangle == NOTHING {
                continue;
            }
            let number = triangle as usize;
            pixels[number] += zoom * zoom;
            if densities[number] > 0.0 {
                continue;
            }
            let corners =
                triangles[number].map(|corner| project(&eye.camera, positions[corner as usize]));
            if corners.iter().all(|corner| corner[2] > 0.0) && areas[number] > 0.0 {
                let flat = corners.map(|corner| [corner[0] / corner[2], corner[1] / corner[2]]);
                densities[number] = area_in(flat) * zoom * zoom / areas[number];
            }
        }
    }
    (densities, pixels)
}

/// The value below which half of the area lies.
fn median(
    places: &mut [(f64, f64, f64)],
    all: f64,
    value: impl Fn(&(f64, f64, f64)) -> f64,
) -> Option<f64> {
    places.sort_unstable_by(|a, b| value(a).total_cmp(&value(b)));
    let mut below = 0.0;
    let half = places.iter().find(|place| {
        below += place.2;
        below >= all / 2.0
    });
    half.map(value)
}

fn area(surface: &CleanMesh, triangle: [u32; 3]) -> f64 {
    let [a, b, c] = triangle.map(|corner| surface.positions[corner as usize].map(f64::from));
    let (p, q): ([f64; 3], [f64; 3]) = (
        std::array::from_fn(|k| b[k] - a[k]),
        std::array::from_fn(|k| c[k] - a[k]),
    );
    let cross: [f64; 3] =
        std::array::from_fn(|k| p[(k + 1) % 3] * q[(k + 2) % 3] - p[(k + 2) % 3] * q[(k + 1) % 3]);
    cross.iter().map(|x| x * x).sum::<f64>().sqrt() / 2.0
}

fn area_of(uvs: [[f32; 2]; 3]) -> f64 {
    area_in(uvs.map(|uv| uv.map(f64::from)))
}

fn area_in([a, b, c]: [[f64; 2]; 3]) -> f64 {
    ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])).abs() / 2.0
}

#[cfg(test)]
mod tests {
    use proto::table::Camera;

    use super::*;
    use crate::prepare::clean::Counts;
    use crate::worker::progress::Silent;

    /// A square of edge 2 in the plane z = 0, and a smaller one behind its middle, hidden from the front.
    fn squares(uvs: bool) -> CleanMesh {
        let square = |edge: f32, z: f32| {
            [
                [-edge, -edge, z],
                [edge, -edge, z],
                [edge, edge, z],
                [-edge, edge, z],
            ]
        };
        let corner_uvs = [
            [[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]],
            [[0.0, 0.0], [0.5, 0.5], [0.0, 0.5]],
        ];
        CleanMesh {
            positions: [square(1.0, 0.0), square(0.5, -0.5)].concat(),
            triangles: vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]],
            corner_uvs: uvs.then(|| [corner_uvs, corner_uvs].concat()),
            radius: 2.0_f64.sqrt(),
            counts: Counts::default(),
        }
    }

    /// A view from the front at this distance; its picture is `zoom` times as large as the small one of 200 pixels.
    fn lookout(distance: f64, zoom: f64) -> Lookout {
        let camera = Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            translation: [0.0, 0.0, distance],
            focal: [200.0; 2],
            centre: [100.0; 2],
        };
        let size = [200; 2];
        Lookout {
            eye: Eye { camera, size },
            zoom,
        }
    }

    fn chosen(surface: &CleanMesh, lookouts: &[Lookout], most: u32) -> TextureChoice {
        let resolved = resolved(surface, lookouts, &Silent);
        choose(surface, &resolved, (most, Pages::ONE), &Silent)
    }

    #[test]
    fn the_edge_is_that_of_the_view_that_shows_most() {
        // At distance 4 the square is 100 small pixels wide, 1000 in the picture: 10⁶ pixels on four units of area. The
        // hidden square of one unit has fewer texels.
        let seen = [lookout(4.0, 10.0), lookout(8.0, 10.0)];
        let choice = chosen(&squares(false), &seen, 8192);
        let wanted = (250_000.0_f64 * (4.0 + EDGE * EDGE) / UTILISATION).sqrt();
        assert!(
            (f64::from(choice.wanted) / wanted - 1.0).abs() < 1e-6,
            "{choice:?}"
        );
        assert_eq!((choice.size, choice.views), (1280, 2));
        // Four pages have as many texels, each with half the edge.
        let four = Pages::try_from(4).unwrap();
        let found = resolved(&squares(false), &seen, &Silent);
        let shown = &found.shown;
        // Both views show the front, the farther one with a quarter of the pixels.
        for (triangle, (&best, &all)) in shown.best.iter().zip(&shown.exposure).enumerate() {
            assert!((all - 1.25 * best).abs() < 1e-6 && (best > 0.0) == (triangle < 2));
            // Two units of area: each triangle is half of the square, in small pixels.
            assert!(
                (shown.pixels[triangle] / (2.0 * all).max(1.0) - f64::from(triangle < 2)).abs()
                    < 0.02
            );
        }
        let paged = choose(&squares(false), &found, (4096, four), &Silent);
        assert!((paged.wanted * 2.0 - choice.wanted).abs() < 0.01);
        assert_eq!(paged.size, 640);
        assert!((choice.seen - 0.8).abs() < 1e-6);
        assert!((choice.pixels - 500.0 * 8.0_f32.sqrt()).abs() < 1.0);
        assert_eq!(chosen(&squares(false), &seen, 1024).size, 1024);
        assert_eq!(
            chosen(&squares(false), &[lookout(100.0, 1.0)], 1024).size,
            MIN_TEXTURE_SIZE
        );
    }

    #[test]
    fn kept_coordinates_say_themselves_how_they_spread_texels() {
        // A quarter of the texture for 10⁶ pixels.
        let choice = chosen(&squares(true), &[lookout(4.0, 10.0)], 8192);
        assert!((choice.wanted - 2000.0).abs() < 0.1, "{choice:?}");
        assert_eq!(choice.size, 1984);
        // The same for each tile, however many there are.
        let four = Pages::try_from(4).unwrap();
        let seen = resolved(&squares(true), &[lookout(4.0, 10.0)], &Silent);
        let paged = choose(&squares(true), &seen, (4096, four), &Silent);
        assert_eq!(paged.size, 1984);
    }

    #[test]
    fn without_a_view_it_has_the_usual_size() {
        for nothing in [&[][..], &[lookout(-4.0, 10.0)]] {
            let choice = chosen(&squares(false), nothing, 8192);
            assert_eq!((choice.size, choice.seen), (1024, 0.0));
        }
        assert_eq!(chosen(&squares(false), &[], 512).size, 512);
    }
}
