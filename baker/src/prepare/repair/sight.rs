//! Visibility: how often each group of triangles is seen from all around or by given cameras, and from which side.
//!
//! TRELLIS draws 1000 perspective views of 1024² from a sphere. Here opposite orthographic views of 512² are drawn in
//! pairs, with directions on a Fibonacci half-sphere, as many as the bound on steps allows. The cost is counted
//! beforehand, so the same mesh gets the same views on every machine.

use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_raster::vector::{cross, unit};
use proto::message::Phase;
use proto::table::Camera;
use rayon::prelude::*;

use super::canvas::{Canvas, Corner, Seen};
use crate::worker::pace;
use crate::worker::progress::{self, Progress};

/// Edge of a picture in pixels.
pub(super) const EDGE: usize = 512;
/// Measured cost of a triangle that covers no pixel, in pixel tests.
const TRIANGLE_STEPS: u64 = 60;
/// Pictures in memory at once: one of 1024² takes 16 MiB.
const MOST_THREADS: usize = 16;
/// Pixel tests of all pictures of a step: some ten seconds on two cores.
const MAX_STEPS: u64 = 8_000_000_000;

/// All triangles, with their groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups<'a> {
    pub(super) positions: &'a [[f32; 3]],
    pub(super) triangles: &'a [[u32; 3]],
    /// The group of each triangle.
    pub(super) of: &'a [u32],
    pub(super) count: usize,
}

/// What was seen of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) views: u32,
    /// Number of views that show the group.
    pub(super) seen_in: Vec<u32>,
    /// Pixels that show its front and its back.
    pub(super) pixels: Vec<[u64; 2]>,
}

impl Sight {
    fn new(groups: usize) -> Self {
        Self {
            views: 0,
            seen_in: vec![0; groups],
            pixels: vec![[0; 2]; groups],
        }
    }

    /// Drops groups from number `from` on.
    pub(super) fn forget(&mut self, from: usize) {
        self.seen_in.truncate(from);
        self.pixels.truncate(from);
    }

    fn add(mut self, other: &Self) -> Self {
        self.views += other.views;
        for (sum, more) in self.seen_in.iter_mut().zip(&other.seen_in) {
            *sum += more;
        }
        for (sum, more) in self.pixels.iter_mut().zip(&other.pixels) {
            sum[0] += more[0];
            sum[1] += more[1];
        }
        self
    }

    /// Adds a view. `stamps` holds for each group the last view that saw it.
    fn enter(&mut self, mut seen: impl Iterator<Item = Seen>, stamps: &mut [u32]) {
        self.views += 1;
        let Some(mut last) = seen.next() else {
            return;
        };
        // Neighbouring pixels mostly show one group.
        let mut run = 1;
        for pixel in seen {
            if pixel == last {
                run += 1;
            } else {
                self.enter_run(last, run, stamps);
                (last, run) = (pixel, 1);
            }
        }
        self.enter_run(last, run, stamps);
    }

    fn enter_run(&mut self, seen: Seen, pixels: u64, stamps: &mut [u32]) {
        let group = seen.label as usize;
        self.pixels[group][usize::from(!seen.front)] += pixels;
        if stamps[group] != self.views {
            stamps[group] = self.views;
            self.seen_in[group] += 1;
        }
    }
}

/// A camera of the job, scaled to a small picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eye {
    pub(crate) camera: Camera,
    /// Of the picture, in pixels.
    pub(crate) size: [usize; 2],
}

impl Eye {
    fn halve(&mut self) {
        self.camera.focal = self.camera.focal.map(|x| x / 2.0);
        self.camera.centre = self.camera.centre.map(|x| x / 2.0);
        self.size = self.size.map(|edge| edge.div_ceil(2));
    }

    /// Cost in pixel tests.
    fn cost(&self, groups: Groups<'_>) -> u64 {
        cost(groups, &corners_before(groups, &self.camera), self.size)
    }
}

/// Draws `wanted` pairs of views, or as many as the bound on steps allows; none if those are fewer than `least`.
pub(super) fn from_all_around(
    groups: Groups<'_>,
    [wanted, least]: [usize; 2],
    progress: &dyn Progress,
) -> Option<Sight> {
    let frame = Frame::around(groups, EDGE);
    let probe = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let cost = probe.iter().map(|axis| frame.cost(groups, *axis)).max();
    let affordable = MAX_STEPS / cost.unwrap_or(0).max(1);
    let pairs = wanted.min(affordable as usize);
    (pairs >= least).then(|| drawn(groups, frame, pairs, progress))
}

/// Draws this many pairs of views.
fn drawn(groups: Groups<'_>, frame: Frame, pairs: usize, progress: &dyn Progress) -> Sight {
    each(groups, pairs, progress, |pair, sight, stamps| {
        let canvas = frame.draw(groups, direction(pair, pairs));
        sight.enter(canvas.seen(), stamps);
        sight.enter(canvas.seen_from_behind(), stamps);
    })
}

/// With pictures of another size; TRELLIS uses 1024².
#[cfg(test)]
pub(super) fn with_edge(groups: Groups<'_>, edge: usize, pairs: usize) -> Sight {
    drawn(
        groups,
        Frame::around(groups, edge),
        pairs,
        &progress::Silent,
    )
}

/// What the job's own cameras see. Draws at most 128 of them, in smaller pictures where they would take too many steps.
pub(super) fn from_eyes(groups: Groups<'_>, eyes: &[Eye], progress: &dyn Progress) -> Sight {
    const MOST: usize = 128;
    const SMALLEST: usize = 128;
    let count = eyes.len().min(MOST);
    let mut eyes: Vec<Eye> = (0..count)
        .map(|nth| eyes[nth * eyes.len() / count])
        .collect();
    while eyes.iter().map(|eye| eye.cost(groups)).sum::<u64>() > MAX_STEPS
        && eyes
            .iter()
            .any(|eye| eye.size[0].max(eye.size[1]) > SMALLEST)
    {
        eyes.iter_mut().for_each(Eye::halve);
    }
    each(groups, count, progress, |nth, sight, stamps| {
        sight.enter(look(groups, &eyes[nth]).seen(), stamps);
    })
}

/// Runs `work` for each number below `count` on all threads. Sums are integers, so their order does not matter.
fn each(
    groups: Groups<'_>,
    count: usize,
    progress: &dyn Progress,
    work: impl Fn(usize, &mut Sight, &mut [u32]) + Sync,
) -> Sight {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let view = progress::each(groups.triangles.len(), pace::VIEW_TRIANGLE) + pace::REPAIR;
    let threads = rayon::current_num_threads()
        .clamp(1, MOST_THREADS)
        .min(count.max(1));
    (0..threads)
        .into_par_iter()
        .map(|_| {
            let mut sight = Sight::new(groups.count);
            let mut stamps = vec![0; groups.count];
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= count {
                    return sight;
                }
                work(nth, &mut sight, &mut stamps);
                progress::unit();
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                progress.progress(Phase::Repair, done as u64, count as u64);
                progress.expect("a view from all around", view);
            }
        })
        .reduce(|| Sight::new(groups.count), |sum, more| sum.add(&more))
}

/// Direction `nth` of `count`, evenly spread on a half-sphere.
fn direction(nth: usize, count: usize) -> [f64; 3] {
    // The golden angle, from the pole to the rim.
    const GOLDEN: f64 = 2.399_963_229_728_653;
    let z = 1.0 - (nth as f64 + 0.5) / count as f64;
    let (around, radius) = (nth as f64 * GOLDEN, (1.0 - z * z).sqrt());
    [radius * around.cos(), radius * around.sin(), z]
}

/// The bounding sphere of a surface, which fills each picture.
#[derive(Clone, Copy, Debug)]
struct Frame {
    centre: [f64; 3],
    radius: f64,
    /// Edge of the picture in pixels.
    edge: usize,
}

impl Frame {
    fn around(groups: Groups<'_>, edge: usize) -> Self {
        let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for position in groups.positions {
            for axis in 0..3 {
                low[axis] = low[axis].min(f64::from(position[axis]));
                high[axis] = high[axis].max(f64::from(position[axis]));
            }
        }
        let centre: [f64; 3] = std::array::from_fn(|axis| (low[axis] + high[axis]) / 2.0);
        let square = |position: &[f32; 3]| {
            (0..3)
                .map(|axis| (f64::from(position[axis]) - centre[axis]).powi(2))
                .sum::<f64>()
        };
        let largest = groups.positions.iter().map(square).fold(0.0, f64::max);
        Self {
            centre,
            radius: largest.sqrt(),
            edge,
        }
    }

    fn corners(&self, groups: Groups<'_>, along: [f64; 3]) -> Vec<Corner> {
        // Any axis not along the view serves as up.
        let up = match along[2].abs() < 0.9 {
            true => [0.0, 0.0, 1.0],
            false => [1.0, 0.0, 0.0],
        };
        let right = unit(cross(along, up)).unwrap_or([1.0, 0.0, 0.0]);
        let down = cross(along, right);
        let half = self.edge as f64 / 2.0;
        let scale = (half - 1.0) / self.radius;
        let corner = |position: &[f32; 3]| {
            let from: [f64; 3] =
                std::array::from_fn(|axis| f64::from(position[axis]) - self.centre[axis]);
            let dot = |axis: [f64; 3]| axis[0] * from[0] + axis[1] * from[1] + axis[2] * from[2];
            let depth = 0.5 + 0.499 * dot(along) / self.radius;
            Corner::new(half + scale * dot(right), half + scale * dot(down), depth)
        };
        groups.positions.iter().map(corner).collect()
    }

    fn draw(&self, groups: Groups<'_>, along: [f64; 3]) -> Canvas {
        draw(groups, &self.corners(groups, along), [self.edge; 2])
    }

    /// Cost in pixel tests.
    fn cost(&self, groups: Groups<'_>, along: [f64; 3]) -> u64 {
        cost(groups, &self.corners(groups, along), [self.edge; 2])
    }
}

/// Cost of a drawing in pixel tests.
fn cost(groups: Groups<'_>, corners: &[Corner], size: [usize; 2]) -> u64 {
    let of =
        |triangle: &[u32; 3]| Canvas::cost(size, &triangle.map(|point| corners[point as usize]));
    groups
        .triangles
        .par_iter()
        .map(|triangle| TRIANGLE_STEPS + of(triangle))
        .sum()
}

fn look(groups: Groups<'_>, eye: &Eye) -> Canvas {
    draw(groups, &corners_before(groups, &eye.camera), eye.size)
}

fn corners_before(groups: Groups<'_>, camera: &Camera) -> Vec<Corner> {
    let placed: Vec<[f64; 3]> = groups
        .positions
        .iter()
        .map(|position| {
            std::array::from_fn(|row| {
                let turned = (0..3).map(|k| camera.rotation[row][k] * f64::from(position[k]));
                turned.sum::<f64>() + camera.translation[row]
            })
        })
        .collect();
    // Anything nearer than a thousandth of the farthest is not drawn. It then occludes nothing, which errs towards more
    // being seen.
    let farthest = placed.iter().map(|at| at[2]).fold(0.0, f64::max);
    let nearest = farthest * 1e-3;
    let corner = |at: &[f64; 3]| {
        let [x, y] = [0, 1].map(|axis| camera.focal[axis] * at[axis] / at[2] + camera.centre[axis]);
        match at[2] > nearest {
            true => Corner::new(x, y, 1.0 - nearest / at[2]),
            false => Corner::NOWHERE,
        }
    };
    placed.iter().map(corner).collect()
}

fn draw(groups: Groups<'_>, corners: &[Corner], size: [usize; 2]) -> Canvas {
    let mut canvas = Canvas::new(size);
    for (triangle, &group) in groups.triangles.iter().zip(groups.of) {
        canvas.draw(&triangle.map(|point| corners[point as usize]), group);
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::unwrap::tests::icosphere;
    use crate::worker::progress::Silent;

    #[test]
    fn a_sphere_hides_what_is_within_and_shows_half_of_itself() {
        let outer = icosphere(3);
        let count = outer.triangles.len();
        let mut positions = outer.positions.clone();
        positions.extend(outer.positions.iter().map(|p| p.map(|x| x * 0.9)));
        let points = outer.positions.len() as u32;
        let within = outer
            .triangles
            .iter()
            .map(|t| t.map(|point| point + points));
        let triangles: Vec<[u32; 3]> = outer.triangles.iter().copied().chain(within).collect();
        let of: Vec<u32> = (0..triangles.len() as u32).collect();
        let groups = Groups {
            positions: &positions,
            triangles: &triangles,
            of: &of,
            count: triangles.len(),
        };
        let sight = from_all_around(groups, [64, 1], &Silent).unwrap();
        assert_eq!(sight.views, 128);
        for (group, (&seen, pixels)) in sight.seen_in.iter().zip(&sight.pixels).enumerate() {
            if group < count {
                let share = f64::from(seen) / 128.0;
                assert!((share - 0.5).abs() < 0.06, "{group}: {share}");
                assert!(pixels[0] > 0 && pixels[1] == 0, "{group}: {pixels:?}");
            } else {
                assert_eq!((seen, *pixels), (0, [0, 0]), "{group}");
            }
        }
        let again = from_all_around(groups, [64, 1], &Silent);
        assert_eq!(again, Some(sight));
    }

    #[test]
    fn what_costs_too_much_is_not_begun() {
        // A million sheets as large as the picture.
        let positions = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [0.0, 1.0, 0.2f32]];
        let triangles = vec![[0, 1, 2]; 1_000_000];
        let of = vec![0; triangles.len()];
        let groups = Groups {
            positions: &positions,
            triangles: &triangles,
            of: &of,
            count: 1,
        };
        assert!(from_all_around(groups, [64, 8], &Silent).is_none());
    }

    #[test]
    fn a_camera_sees_what_is_before_it() {
        let wall = |z: f32| [[-9.0, -9.0, z], [9.0, -9.0, z], [0.0, 18.0, z]];
        let positions = [wall(2.0), wall(1.0), wall(-1.0)].concat();
        let triangles = [[0, 1, 2], [3, 4, 5], [6, 7, 8]];
        let groups = Groups {
            positions: &positions,
            triangles: &triangles,
            of: &[0, 1, 2],
            count: 3,
        };
        let eye = Eye {
            camera: Camera {
                focal: [8.0; 2],
                centre: [4.0; 2],
                ..Camera::default()
            },
            size: [8, 8],
        };
        let sight = from_eyes(groups, &[eye, eye], &Silent);
        assert_eq!((sight.views, sight.seen_in), (2, vec![0, 2, 0]));
        assert_eq!(sight.pixels[1], [0, 128]);
        assert_eq!(from_eyes(groups, &[], &Silent).views, 0);
        // At half the size it sees the same on a quarter of the pixels.
        let mut half = eye;
        half.halve();
        let small = from_eyes(groups, &[half], &Silent);
        assert_eq!((&small.seen_in, small.pixels[1]), (&vec![0, 1, 0], [0, 16]));
    }
}
