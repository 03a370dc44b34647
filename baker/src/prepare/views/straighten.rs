//! Undistorts a picture: resamples it as a pinhole camera of the same focal length would have taken it, or as six such
//! cameras, of a panorama.
//!
//! This happens once, when the picture is read. A triangle's edge is straight only to a pinhole, and all later stages
//! rasterise triangles, on processors and GPUs. Colours are interpolated by a cubic (Catmull and Rom) in linear light,
//! premultiplied by alpha. What no pixel of the original shows is transparent.

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEW_PIXELS};
use rayon::prelude::*;

use crate::image::render::srgb::{decode, encode};
use crate::prepare::picture::Picture;
use crate::prepare::transforms::{Distortion, Face};
use crate::worker::progress::Ticker;

/// Largest extent of the result beyond the original on each side, as a share of its size. Parts that a lens draws in
/// from farther outside are dropped.
const FARTHEST: f64 = 0.25;
/// Samples along each edge of the original to find its extent.
const PROBES: u32 = 256;
/// Steps of other loops that a pixel takes: where it lands, and the cubic of its neighbours.
const STEPS: usize = 4;

/// The meaning of a picture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// sRGB colours, interpolated in linear light.
    Srgb,
    /// Linear numbers.
    Plain,
}

/// Bytes of memory needed for a picture of this many pixels.
pub(super) fn bytes(pixels: usize) -> usize {
    // Its own 4-byte pixels, at most (1 + 2 · FARTHEST)² times as many.
    pixels * 9
}

/// The undistorted picture, and its principal point.
pub(super) fn straighten(
    picture: &Picture,
    focal: [f64; 2],
    centre: [f64; 2],
    lens: &Distortion,
    numbers: Numbers,
) -> (Picture, [f64; 2]) {
    let size = [f64::from(picture.width), f64::from(picture.height)];
    let limit = lens.limit();
    let [low, high] = reach(size, focal, centre, lens, limit);
    let (width, height) = ((high[0] - low[0]) as usize, (high[1] - low[1]) as usize);
    let taken = Taken::new(picture, numbers, false);
    let mut pixels = vec![[0; 4]; width * height];
    pixels
        .par_chunks_exact_mut(width)
        .enumerate()
        .for_each_init(Ticker::default, |ticker, (row, line)| {
            ticker.did(STEPS * line.len());
            for (column, pixel) in line.iter_mut().enumerate() {
                let ray = [
                    (low[0] + column as f64 + 0.5 - centre[0]) / focal[0],
                    (low[1] + row as f64 + 0.5 - centre[1]) / focal[1],
                ];
                if ray[0].hypot(ray[1]) > limit {
                    continue;
                }
                let lands = lens.distort(ray);
                let at = [0, 1].map(|axis| lands[axis] * focal[axis] + centre[axis]);
                if (0..2).all(|axis| (0.0..=size[axis]).contains(&at[axis])) {
                    *pixel = taken.at(at);
                }
            }
        });
    // The added border says nothing about the object.
    let straight = remade(picture, [width, height], pixels);
    (straight, [centre[0] - low[0], centre[1] - low[1]])
}

/// The face of a panorama of the whole sphere, as [`Face::lens`] says.
pub(super) fn face(picture: &Picture, face: Face, numbers: Numbers) -> Picture {
    let size = [f64::from(picture.width), f64::from(picture.height)];
    let (focal, edge) = Face::lens(picture.width);
    let (edge, middle) = (edge as usize, f64::from(edge) / 2.0);
    let taken = Taken::new(picture, numbers, true);
    let mut pixels = vec![[0; 4]; edge * edge];
    let rows = pixels.par_chunks_exact_mut(edge).enumerate();
    rows.for_each_init(Ticker::default, |ticker, (row, line)| {
        ticker.did(STEPS * line.len());
        for (column, pixel) in line.iter_mut().enumerate() {
            let ray = [column, row].map(|at| (at as f64 + 0.5 - middle) / focal);
            *pixel = taken.at(face.lands(ray, size));
        }
    });
    remade(picture, [edge; 2], pixels)
}

fn remade(picture: &Picture, [width, height]: [usize; 2], pixels: Vec<[u8; 4]>) -> Picture {
    Picture {
        width: width as u32,
        height: height as u32,
        pixels,
        has_alpha: picture.has_alpha,
        colours: picture.colours,
    }
}

/// First and last corner of the result, in whole pixels of the original.
fn reach(
    size: [f64; 2],
    focal: [f64; 2],
    centre: [f64; 2],
    lens: &Distortion,
    limit: f64,
) -> [[f64; 2]; 2] {
    let (mut low, mut high) = (size, [0.0_f64; 2]);
    for probe in 0..=PROBES {
        let share = f64::from(probe) / f64::from(PROBES);
        let [x, y] = size.map(|edge| edge * share);
        for at in [[x, 0.0], [x, size[1]], [0.0, y], [size[0], y]] {
            let lands = [0, 1].map(|axis| (at[axis] - centre[axis]) / focal[axis]);
            // Where no ray lands, the picture extends as far as allowed.
            let ray = lens.undistort(lands, limit);
            for axis in 0..2 {
                let from = ray.map_or(
                    if at[axis] < centre[axis] {
                        f64::MIN
                    } else {
                        f64::MAX
                    },
                    |ray| ray[axis] * focal[axis] + centre[axis],
                );
                low[axis] = low[axis].min(from);
                high[axis] = high[axis].max(from);
            }
        }
    }
    let room = room(size);
    for axis in 0..2 {
        let most = (FARTHEST * size[axis]).min(room[axis]);
        // At least two pixels, unless the original with all around it has fewer.
        let middle = size[axis] / 2.0;
        low[axis] = low[axis].clamp(-most, (middle - 1.0).max(-most)).floor();
        let end = size[axis] + most;
        high[axis] = high[axis].clamp((middle + 1.0).min(end), end).ceil();
    }
    [low, high]
}

/// Whole pixels on each side by which a picture may grow and is still a view.
fn room(size: [f64; 2]) -> [f64; 2] {
    let growth = (MAX_VIEW_PIXELS as f64 / (size[0] * size[1])).sqrt();
    size.map(|edge| {
        let most = (edge * growth).min(f64::from(MAX_VIEW_EDGE));
        ((most - edge) / 2.0).floor().max(0.0)
    })
}

/// A picture that is asked for colours between its pixels.
struct Taken<'a> {
    picture: &'a Picture,
    numbers: Numbers,
    light: [f32; 256],
    /// Its right border continues at its left one.
    round: bool,
}

impl<'a> Taken<'a> {
    fn new(picture: &'a Picture, numbers: Numbers, round: bool) -> Self {
        let light = std::array::from_fn(|byte| match numbers {
            Numbers::Srgb => decode(byte as f32 / 255.0),
            Numbers::Plain => byte as f32 / 255.0,
        });
        Self {
            picture,
            numbers,
            light,
            round,
        }
    }

    /// The colour at a place in pixels, the border repeated.
    fn at(&self, at: [f64; 2]) -> [u8; 4] {
        let Self { picture, light, .. } = self;
        let [(x0, wx), (y0, wy)] = at.map(|at| {
            let first = (at - 0.5).floor();
            (first as i64, cubic((at - 0.5 - first) as f32))
        });
        let (last_x, last_y) = (i64::from(picture.width) - 1, i64::from(picture.height) - 1);
        let mut sum = [0.0; 4];
        for (j, &wy) in (-1..).zip(&wy) {
            let row = (y0 + j).clamp(0, last_y) as usize * picture.width as usize;
            for (i, &wx) in (-1..).zip(&wx) {
                let column = match self.round {
                    true => (x0 + i).rem_euclid(last_x + 1),
                    false => (x0 + i).clamp(0, last_x),
                };
                let [r, g, b, a] = picture.pixels[row + column as usize];
                let alpha = f32::from(a) / 255.0 * wx * wy;
                for (sum, byte) in sum.iter_mut().zip([r, g, b]) {
                    *sum += alpha * light[byte as usize];
                }
                sum[3] += alpha;
            }
        }
        let alpha = (sum[3].clamp(0.0, 1.0) * 255.0).round() as u8;
        if alpha == 0 {
            return [0; 4];
        }
        let [r, g, b] = [0, 1, 2].map(|k| {
            let value = sum[k] / sum[3];
            let encoded = match self.numbers {
                Numbers::Srgb => encode(value),
                Numbers::Plain => value.clamp(0.0, 1.0),
            };
            (encoded * 255.0).round() as u8
        });
        [r, g, b, alpha]
    }
}

/// Catmull-Rom weights of four neighbours, for a point `at` of the way from the second to the third.
fn cubic(at: f32) -> [f32; 4] {
    let (x, x2, x3) = (at, at * at, at * at * at);
    [
        (-x3 + 2.0 * x2 - x) / 2.0,
        (3.0 * x3 - 5.0 * x2 + 2.0) / 2.0,
        (-3.0 * x3 + 4.0 * x2 + x) / 2.0,
        (x3 - x2) / 2.0,
    ]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use serde_json::json;

    use super::*;
    use crate::prepare::picture::Colours;
    use crate::prepare::transforms::{Curved, lens_of};

    /// A smooth scene, different at every place and in every channel, so that mirroring or rotation would show.
    fn scene([x, y]: [f64; 2]) -> [u8; 4] {
        let wave = |a: f64| ((0.5 + 0.35 * a.sin()) * 255.0).round() as u8;
        [
            wave(9.0 * x + 4.0 * y),
            wave(7.0 * y - 3.0 * x * x),
            wave(12.0 * x * y + x + 0.3),
            255,
        ]
    }

    /// The picture of the scene, through a lens or none.
    fn taken(
        [width, height]: [u32; 2],
        focal: [f64; 2],
        centre: [f64; 2],
        ray: impl Fn([f64; 2]) -> Option<[f64; 2]>,
    ) -> Picture {
        let pixel = |at: u32| {
            let place = [f64::from(at % width) + 0.5, f64::from(at / width) + 0.5];
            let lands = [0, 1].map(|axis| (place[axis] - centre[axis]) / focal[axis]);
            ray(lands).map_or([0; 4], scene)
        };
        Picture {
            width,
            height,
            pixels: (0..width * height).map(pixel).collect(),
            has_alpha: false,
            colours: Colours::default(),
        }
    }

    #[test]
    fn a_bent_picture_becomes_the_straight_one() {
        let (size, focal, centre) = ([320, 200], [300.0, 280.0], [150.0, 110.0]);
        let lenses = [
            json!({"k1": -0.2, "k2": 0.05, "p1": 0.004, "p2": -0.003}),
            json!({"k1": 0.25, "p1": -0.002, "p2": 0.006}),
            json!({"camera_model": "FULL_OPENCV", "k1": 0.2, "k4": 0.4}),
        ];
        let curved = [
            Curved::fisheye(&[0.05, -0.01]),
            Curved::Fov(0.7),
            Curved::Eucm([0.5, 1.2]),
        ];
        let lenses = lenses.map(|keys| lens_of(&keys).expect("distorted"));
        for lens in lenses.into_iter().chain(curved.map(Distortion::Curved)) {
            let limit = lens.limit();
            let bent = taken(size, focal, centre, |lands| lens.undistort(lands, limit));
            let (straight, middle) = straighten(&bent, focal, centre, &lens, Numbers::Srgb);
            let wanted = taken([straight.width, straight.height], focal, middle, Some);
            let (mut seen, mut squares) = (0, 0.0);
            for (found, wanted) in straight.pixels.iter().zip(&wanted.pixels) {
                if found[3] == 255 {
                    seen += 1;
                    for channel in 0..3 {
                        let off = f64::from(found[channel]) - f64::from(wanted[channel]);
                        squares += off * off / 3.0;
                    }
                }
            }
            let rms = (squares / f64::from(seen)).sqrt();
            assert!(rms < 0.6, "{lens:?}: off by {rms} of 255");
            // Everything that the original shows is there.
            let share = f64::from(seen) / f64::from(size[0] * size[1]);
            assert!(share > 0.85, "{lens:?}: {share}");
        }
    }

    #[test]
    fn faces_of_a_panorama_are_pictures_of_pinholes() {
        // A smooth scene about the camera.
        let scene = |[x, y, z]: [f64; 3]| -> [u8; 4] {
            let length = (x * x + y * y + z * z).sqrt();
            let wave = |a: f64| ((0.5 + 0.4 * (a / length).sin()) * 255.0).round() as u8;
            [
                wave(3.0 * x + y),
                wave(4.0 * y - 2.0 * z),
                wave(5.0 * z + x),
                255,
            ]
        };
        let (width, height) = (512_u32, 256_u32);
        let pixel = |at: u32| {
            let turn = (f64::from(at % width) + 0.5) / f64::from(width) * 2.0 * PI - PI;
            let rise = PI / 2.0 - (f64::from(at / width) + 0.5) / f64::from(height) * PI;
            scene([
                rise.cos() * turn.sin(),
                -rise.sin(),
                rise.cos() * turn.cos(),
            ])
        };
        let panorama = Picture {
            width,
            height,
            pixels: (0..width * height).map(pixel).collect(),
            has_alpha: false,
            colours: Colours::default(),
        };
        for part in Face::ALL {
            let found = face(&panorama, part, Numbers::Srgb);
            let (focal, edge) = Face::lens(width);
            assert_eq!([found.width, found.height], [edge; 2]);
            let axes = part.axes();
            let mut worst = 0;
            for (at, found) in (0..).zip(&found.pixels) {
                let ray = [at % edge, at / edge]
                    .map(|at| (f64::from(at) + 0.5 - f64::from(edge) / 2.0) / focal);
                let wanted = scene(
                    [0, 1, 2].map(|k| ray[0] * axes[0][k] + ray[1] * axes[1][k] + axes[2][k]),
                );
                worst = (0..4)
                    .map(|k| found[k].abs_diff(wanted[k]))
                    .fold(worst, u8::max);
            }
            assert!(worst <= 3, "{part:?}: off by {worst} of 255");
        }
    }

    #[test]
    fn alpha_goes_along_and_colours_do_not_bleed() {
        let size = [64, 64];
        let pixel = |at: u32| {
            if at % 64 < 45 {
                [250, 10, 20, 255]
            } else {
                [0, 255, 0, 0]
            }
        };
        let picture = Picture {
            width: 64,
            height: 64,
            pixels: (0..size[0] * size[1]).map(pixel).collect(),
            has_alpha: true,
            colours: Colours::Converted,
        };
        let lens = lens_of(&json!({"k1": 0.1})).expect("distorted");
        let (straight, _) = straighten(&picture, [60.0; 2], [32.0; 2], &lens, Numbers::Srgb);
        assert!(straight.has_alpha && straight.colours == Colours::Converted);
        let mut partly = 0;
        for pixel in &straight.pixels {
            partly += u32::from(!matches!(pixel[3], 0 | 255));
            assert!(
                pixel[3] == 0 || (pixel[0] >= 248 && pixel[1] <= 12),
                "{pixel:?}"
            );
        }
        assert!(partly > 20, "an edge between pixels");
    }

    #[test]
    fn a_lens_from_another_world_stays_within_bounds() {
        let picture = taken([50, 40], [10.0; 2], [25.0, 20.0], Some);
        for k1 in [-1e4, -5.0, 5.0, 1e4] {
            let lens = lens_of(&json!({ "k1": k1 })).expect("distorted");
            let (straight, _) = straighten(&picture, [10.0; 2], [25.0, 20.0], &lens, Numbers::Srgb);
            assert!(straight.width <= 76 && straight.height <= 61, "{k1}");
            assert!(straight.width >= 2 && straight.height >= 2, "{k1}");
        }
    }

    #[test]
    fn the_least_pictures_have_a_straight_one() {
        for size in [[1, 1], [1, 2], [2, 1], [3, 1], [1, 300]] {
            let picture = taken(size, [10.0; 2], [0.5; 2], Some);
            for k1 in [-1e4_f64, -0.2, 1e-9, 0.2, 1e4] {
                let lens = lens_of(&json!({ "k1": k1 })).expect("distorted");
                let (straight, centre) =
                    straighten(&picture, [10.0; 2], [0.5; 2], &lens, Numbers::Srgb);
                assert!(straight.width >= 2 && straight.height >= 2, "{size:?} {k1}");
                assert!(straight.pixels.iter().any(|pixel| pixel[3] > 0) || k1.abs() > 1.0);
                assert!(
                    centre.iter().all(|x| (0.5..=76.0).contains(x)),
                    "{centre:?}"
                );
            }
        }
    }

    #[test]
    fn a_straight_picture_is_no_larger_than_a_view() {
        let lens = lens_of(&json!({"k1": -0.3})).expect("distorted");
        for size in [[16_384.0, 16.0], [8192.0, 8192.0], [16.0, 13_000.0]] {
            let focal = [size[0] / 2.0; 2];
            let centre = size.map(|edge| edge / 2.0);
            let [low, high] = reach(size, focal, centre, &lens, lens.limit());
            let edges = [high[0] - low[0], high[1] - low[1]];
            assert!(
                edges.iter().all(|edge| *edge <= f64::from(MAX_VIEW_EDGE)),
                "{edges:?}"
            );
            assert!(edges[0] * edges[1] <= MAX_VIEW_PIXELS as f64, "{edges:?}");
            assert!(edges[0] >= size[0] && edges[1] >= size[1], "{edges:?}");
        }
    }

    #[test]
    fn plain_numbers_are_interpolated_as_they_are() {
        // Black beside white: the mean of the bytes is 128, that of the light 188.
        let pixel = |at: u32| {
            if at % 64 < 50 {
                [0, 0, 0, 255]
            } else {
                [255; 4]
            }
        };
        let picture = Picture {
            width: 64,
            height: 64,
            pixels: (0..64 * 64).map(pixel).collect(),
            has_alpha: false,
            colours: Colours::default(),
        };
        let lens = lens_of(&json!({"k1": 0.1})).expect("distorted");
        let mean = |numbers| {
            let (straight, _) = straighten(&picture, [60.0; 2], [32.3, 32.0], &lens, numbers);
            let edge = straight.pixels.iter().filter(|p| p[3] == 255);
            let edge: Vec<f64> = edge
                .map(|p| f64::from(p[0]))
                .filter(|x| (40.0..250.0).contains(x))
                .collect();
            edge.iter().sum::<f64>() / edge.len() as f64
        };
        let (plain, light) = (mean(Numbers::Plain), mean(Numbers::Srgb));
        assert!(light > plain + 25.0, "{light} and {plain}");
    }
}
