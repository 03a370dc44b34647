//! Splats and a view → ellipses on the picture, and the colours that the view sees.
//!
//! The covariance of a splat is projected by the Jacobian of the perspective at its centre (Zwicker et al., "EWA Splatting",
//! 2002; Kerbl et al., 2023). x/z and y/z of the Jacobian are clamped to 1.3 times half the field of view, as there, so that
//! splats beside the picture do not grow without bound.

use std::ops::Range;

use rayon::prelude::*;

use crate::cloud::{Cloud, coefficients};
use crate::colour::shown;
use crate::ellipse::Ellipse;
use crate::lanes::{LANES, Lanes};
use crate::machine::{Kernel, Machine};
use crate::shape::{Camera, Shapes, Splats};
use crate::view::{Filter, View};
use crate::work::did;

/// Bits of an index that tell the place in its chunk.
const PLACE: u32 = 12;
/// Splats a chunk of work.
const CHUNK: usize = 1 << PLACE;

/// The splats that may show.
pub(crate) struct Seen {
    /// In the order of the cloud, [`CHUNK`] splats of it each.
    chunks: Vec<Vec<Ellipse>>,
}

impl Seen {
    /// Copies the ellipses of indices: one after the other, so that many are on their way from memory at once.
    #[inline(always)]
    pub(crate) fn copy(&self, indices: &[u32], to: &mut [Ellipse]) {
        for (&index, to) in indices.iter().zip(to) {
            *to = self.chunks[(index >> PLACE) as usize][index as usize % CHUNK];
        }
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Ellipses of a chunk with their indices, in the order of the cloud.
    pub(crate) fn chunk(&self, chunk: usize) -> impl Iterator<Item = (u32, &Ellipse)> {
        ((chunk as u32) << PLACE..).zip(&self.chunks[chunk])
    }
}

/// Projects the splats of a cloud.
pub(crate) fn project(
    cloud: &Cloud,
    view: &View,
    filter: Filter,
    degree: usize,
    machine: Machine,
) -> Seen {
    let camera = Camera::new(view, filter);
    let degree = degree.min(cloud.degree);
    let chunks = (0..cloud.len().div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| {
            machine.run(Chunk {
                cloud,
                camera: &camera,
                degree,
                range: chunk * CHUNK..cloud.len().min((chunk + 1) * CHUNK),
            })
        })
        .collect();
    Seen { chunks }
}

/// A stretch of the cloud.
struct Chunk<'a> {
    cloud: &'a Cloud,
    camera: &'a Camera,
    degree: usize,
    range: Range<usize>,
}

impl Kernel for Chunk<'_> {
    type Output = Vec<Ellipse>;

    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<Ellipse> {
        let Self { cloud, camera, .. } = self;
        let count = coefficients(cloud.degree);
        let mut seen = Vec::with_capacity(self.range.len());
        did(10 * self.range.len());
        let (mut splats, mut shapes) = (Splats::default(), Shapes::default());
        for first in self.range.clone().step_by(LANES) {
            let end = self.range.end.min(first + LANES);
            splats.load(cloud, first..end);
            shapes.project::<L>(&splats, camera);
            for index in first..end {
                let Some(mut ellipse) = shapes.ellipse(index - first) else {
                    continue;
                };
                let harmonics = &cloud.harmonics[index * count..][..count];
                // Without harmonics, no direction matters.
                let direction = match self.degree {
                    0 => [0.0; 3],
                    _ => direction(cloud.positions[index], camera.eye),
                };
                ellipse.colour = shown(cloud.constants[index], harmonics, self.degree, direction);
                seen.push(ellipse);
            }
        }
        seen
    }
}

/// The unit vector from the eye to a place.
fn direction(at: [f32; 3], eye: [f32; 3]) -> [f32; 3] {
    let along: [f32; 3] = std::array::from_fn(|k| at[k] - eye[k]);
    let length = along.iter().map(|x| x * x).sum::<f32>().sqrt();
    along.map(|x| x / length.max(f32::MIN_POSITIVE))
}
