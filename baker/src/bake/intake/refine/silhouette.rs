//! Distance between the silhouettes of picture and mesh, and the normal equations of the camera's step.
//!
//! Both silhouettes are blurred, so that they overlap and have a slope. The residual is their difference, and the slope
//! the mean of both, as in efficient second-order minimisation (Benhimane and Malis, 2004). Each pixel of the band
//! around them has a Geman-McClure weight whose scale follows the residuals, since an occluder's outline is not the
//! object's.

use std::ops::Range;

use proto::table::Camera;

use crate::bake::intake::refine::blur::Plane;
use crate::bake::intake::refine::outline::Outline;
use crate::bake::intake::refine::pose::{Step, jacobian};
use crate::bake::intake::refine::solve::Square;

/// A pixel belongs to the band where the slope is at least this, divided by the blur.
const LEAST_SLOPE: f32 = 0.04;
/// Least scale of the residuals, in alpha: the error of sampling and 8 bits.
const SCALE_FLOOR: f32 = 0.02;
/// Scales at which a residual has lost most of its weight.
const SCALES: f32 = 3.0;
/// Depth is defined where the blurred rim is at least this.
const LEAST_RIM: f32 = 1e-5;

/// The band around two silhouettes at one blur.
#[derive(Clone, Debug)]
pub(super) struct SilhouetteBand {
    sigma: f64,
    width: usize,
    pixels: Vec<BandPixel>,
    /// Scale of the residuals.
    scale: f32,
}

/// Pixels of a row that are tested together.
const TOGETHER: usize = 16;

fn line(plane: &Plane, row: usize, width: usize) -> &[f32] {
    &plane.values[row * width..(row + 1) * width]
}

/// Whether these pixels of the middle one of three lines have no slope.
fn are_flat([above, own, below]: &[&[f32]; 3], columns: &Range<usize>) -> bool {
    let (from, to) = (columns.start, columns.end);
    let same = |one: &[f32], other: &[f32]| {
        (one.iter().zip(other)).fold(true, |all, (one, other)| all & (one == other))
    };
    same(&own[from - 1..to - 1], &own[from + 1..to + 1]) && same(&above[from..to], &below[from..to])
}

#[derive(Clone, Copy, Debug)]
struct BandPixel {
    at: usize,
    /// Alpha minus coverage.
    residual: f32,
    slope: [f32; 2],
}

/// Normal equations, divided by the sum of squared slopes: `a` is in squared pixels by which the silhouette moves.
#[derive(Clone, Debug)]
pub(super) struct Equations {
    pub(super) a: Square,
    pub(super) b: Step,
}

impl SilhouetteBand {
    /// `alpha` is the outline's alpha and `share` the mesh's coverage, both blurred by `sigma`.
    pub(super) fn new(outline: &Outline, alpha: &Plane, share: &Plane, sigma: f64) -> Self {
        let least = (LEAST_SLOPE / sigma as f32).powi(2);
        let [rows, columns] = outline.known((3.0 * sigma).ceil() as usize + 1);
        let width = alpha.width;
        let mut pixels = Vec::new();
        for row in rows[0]..rows[1] {
            let line = |plane, row| line(plane, row, width);
            let lines =
                [alpha, share].map(|plane| [row - 1, row, row + 1].map(|row| line(plane, row)));
            for from in (columns[0]..columns[1]).step_by(TOGETHER) {
                let columns = from..(from + TOGETHER).min(columns[1]);
                // Far from both silhouettes there is nothing to examine.
                if lines.iter().all(|lines| are_flat(lines, &columns)) {
                    continue;
                }
                for at in columns.map(|column| row * width + column) {
                    let (a, b) = (alpha.slope(at), share.slope(at));
                    let slope = [(a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0];
                    // Where they lie far apart each has its own slope.
                    let steepest = [a, b, slope].map(|of| of[0] * of[0] + of[1] * of[1]);
                    if steepest.into_iter().fold(0.0, f32::max) > least {
                        pixels.push(BandPixel {
                            at,
                            residual: alpha.values[at] - share.values[at],
                            slope,
                        });
                    }
                }
            }
        }
        let mut sizes: Vec<f32> = pixels.iter().map(|pixel| pixel.residual.abs()).collect();
        let middle = sizes.len() / 2;
        let median = if sizes.is_empty() {
            0.0
        } else {
            *sizes.select_nth_unstable_by(middle, f32::total_cmp).1
        };
        Self {
            sigma,
            width,
            pixels,
            scale: (1.4826 * median).max(SCALE_FLOOR),
        }
    }

    /// Approximate length of the silhouettes in pixels.
    pub(super) fn length(&self) -> f64 {
        // A straight edge is steep enough over some 3.5 times the blur.
        self.pixels.len() as f64 / (3.5 * self.sigma)
    }

    fn weight(&self, pixel: &BandPixel) -> f64 {
        let ratio = f64::from(pixel.residual / (SCALES * self.scale));
        (1.0 + ratio * ratio).powi(-2)
    }

    fn squared_slopes(&self) -> f64 {
        self.pixels
            .iter()
            .map(|pixel| {
                let [x, y] = pixel.slope.map(f64::from);
                self.weight(pixel) * (x * x + y * y)
            })
            .sum()
    }

    /// Root mean square distance of the silhouettes in pixels: a shift by δ makes a residual of δ times the slope.
    pub(super) fn distance(&self) -> f64 {
        let squares: f64 = self
            .pixels
            .iter()
            .map(|pixel| self.weight(pixel) * f64::from(pixel.residual).powi(2))
            .sum();
        let slopes = self.squared_slopes();
        if slopes > 0.0 {
            (squares / slopes).sqrt()
        } else {
            0.0
        }
    }

    /// By how many pixels the picture's silhouette lies outside of the mesh's, in the mean: a width δ makes a residual of
    /// δ times the slope's length. Negative where it lies inside.
    pub(super) fn width(&self) -> f64 {
        let along = self.pixels.iter().map(|pixel| {
            let [x, y] = pixel.slope.map(f64::from);
            self.weight(pixel) * f64::from(pixel.residual) * x.hypot(y)
        });
        along.sum::<f64>() / self.squared_slopes().max(f64::MIN_POSITIVE)
    }

    /// The step that moves the mesh's silhouette onto the picture's: coverage that moves by δ changes by `-slope · δ`.
    ///
    /// `rim` and `nearness` are the mesh's, blurred as the band is.
    pub(super) fn equations(&self, rim: &Plane, nearness: &Plane, camera: &Camera) -> Equations {
        let (mut a, mut b) = ([[0.0; 6]; 6], [0.0; 6]);
        for pixel in &self.pixels {
            if rim.values[pixel.at] < LEAST_RIM {
                continue;
            }
            let depth = f64::from(rim.values[pixel.at] / nearness.values[pixel.at]);
            let place = [pixel.at % self.width, pixel.at / self.width];
            let ray = |axis: usize| {
                (place[axis] as f64 + 0.5 - camera.centre[axis]) / camera.focal[axis] * depth
            };
            let by = jacobian(camera, [ray(0), ray(1), depth]);
            let [x, y] = pixel.slope.map(f64::from);
            let row: Step = std::array::from_fn(|k| -(x * by[0][k] + y * by[1][k]));
            let weight = self.weight(pixel);
            for k in 0..6 {
                let weighted = weight * row[k];
                b[k] += weighted * f64::from(pixel.residual);
                for l in 0..=k {
                    a[k][l] += weighted * row[l];
                }
            }
        }
        let slopes = self.squared_slopes().max(f64::MIN_POSITIVE);
        for k in 0..6 {
            b[k] /= slopes;
            for l in 0..=k {
                a[k][l] /= slopes;
                a[l][k] = a[k][l];
            }
        }
        Equations { a, b }
    }
}
