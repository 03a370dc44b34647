//! Ways to read the cameras and to lay the mesh among them, each tried on silhouettes.
//!
//! A candidate is a reading of the matrices (inverted, other axes, rolled), a turn of the mesh by right angles, mirrored
//! or not, and a scale and an offset. The turns are tried all; scale and offset are found from place and size of the
//! silhouettes, by a few steps of least squares.

use super::silhouette::{Overlap, Silhouette, blob};
use crate::prepare::transforms::Pose;

pub(super) type Matrix = [[f64; 3]; 3];

pub(super) const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// `x' = scale · turn · x + offset`, from the mesh's frame into that of the views.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Similarity {
    pub(crate) scale: f64,
    /// Orthogonal; mirrored where its determinant is negative.
    pub(crate) turn: Matrix,
    pub(crate) offset: [f64; 3],
}

/// How the file's matrices are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// They go the other way than the format says.
    pub(crate) inverted: bool,
    /// The inverse of a camera-to-world matrix with OpenGL axes, rather than of one with `OpenCV` axes.
    pub(crate) opengl: bool,
    /// Axes y and z of the camera point the other way.
    pub(crate) flipped: bool,
    /// Quarter turns about the viewing axis.
    pub(crate) roll: u8,
}

/// A reading and a place of the mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) reading: Reading,
    pub(crate) place: Similarity,
    /// The principal point's x, y are counted from the other side of the picture.
    pub(crate) mirrored: [bool; 2],
    /// The pictures are a pinhole's already: their lens was undone before.
    pub(crate) undone: bool,
}

pub(super) fn times(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|r| std::array::from_fn(|c| (0..3).map(|k| a[r][k] * b[k][c]).sum()))
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn onto(a: &Matrix, x: [f64; 3]) -> [f64; 3] {
    a.map(|row| dot(&row, &x))
}

pub(super) fn transposed(a: &Matrix) -> Matrix {
    std::array::from_fn(|r| std::array::from_fn(|c| a[c][r]))
}

pub(super) fn determinant(m: &Matrix) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

impl Similarity {
    pub(crate) const NONE: Self = Self {
        scale: 1.0,
        turn: IDENTITY,
        offset: [0.0; 3],
    };

    pub(super) fn is_mirrored(&self) -> bool {
        determinant(&self.turn) < 0.0
    }

    /// `x' = scale · turn · x + offset`.
    pub(crate) fn onto(&self, x: [f64; 3]) -> [f64; 3] {
        let turned = onto(&self.turn, x);
        std::array::from_fn(|k| self.scale * turned[k] + self.offset[k])
    }

    /// `x ↦ self(first(x))`.
    pub(crate) fn after(&self, first: &Self) -> Self {
        let moved = onto(&self.turn, first.offset);
        Self {
            scale: self.scale * first.scale,
            turn: times(&self.turn, &first.turn),
            offset: std::array::from_fn(|k| self.scale * moved[k] + self.offset[k]),
        }
    }

    /// The other way.
    pub(crate) fn inverse(&self) -> Self {
        let turn = transposed(&self.turn);
        let back = onto(&turn, self.offset);
        Self {
            scale: 1.0 / self.scale,
            turn,
            offset: back.map(|x| -x / self.scale),
        }
    }
}

impl Reading {
    /// The pose that is meant, where `pose` is what the file says by the rules of its format.
    pub(crate) fn pose(&self, pose: &Pose) -> Pose {
        let mut pose = *pose;
        if self.inverted {
            let mut back = transposed(&pose.rotation);
            let centre = onto(&back, pose.translation).map(|x| -x);
            if self.opengl {
                back = back.map(|row| [row[0], -row[1], -row[2]]);
            }
            pose = Pose {
                rotation: back,
                translation: centre,
            };
        }
        if self.flipped {
            for k in [1, 2] {
                pose.rotation[k] = pose.rotation[k].map(|x| -x);
                pose.translation[k] = -pose.translation[k];
            }
        }
        for _ in 0..self.roll {
            let ([x, y, z], t) = (pose.rotation, pose.translation);
            pose.rotation = [y.map(|x| -x), x, z];
            pose.translation = [-t[1], t[0], t[2]];
        }
        pose
    }

    /// All readings, likeliest first.
    pub(super) fn all(opengl: bool) -> impl Iterator<Item = Self> {
        let ways = [
            [false, false],
            [true, opengl],
            [false, true],
            [true, !opengl],
        ];
        [0, 1, 3, 2].into_iter().flat_map(move |roll| {
            ways.map(|[inverted, flipped]| Self {
                inverted,
                opengl: inverted && opengl,
                flipped,
                roll,
            })
        })
    }
}

impl Candidate {
    pub(crate) const GIVEN: Self = Self {
        reading: Reading {
            inverted: false,
            opengl: false,
            flipped: false,
            roll: 0,
        },
        place: Similarity::NONE,
        mirrored: [false; 2],
        undone: false,
    };

    /// The camera's pose in the mesh's frame. A mirror stays in its rotation.
    pub(crate) fn pose(&self, pose: &Pose) -> Pose {
        seen(&self.reading.pose(pose), &self.place)
    }
}

/// The pose of a camera in the frame of a mesh that lies at `place`.
fn seen(pose: &Pose, place: &Similarity) -> Pose {
    let moved = onto(&pose.rotation, place.offset);
    Pose {
        rotation: times(&pose.rotation, &place.turn),
        translation: std::array::from_fn(|k| (moved[k] + pose.translation[k]) / place.scale),
    }
}

/// The 24 turns by right angles, fewest first, and the same mirrored.
pub(super) fn turns() -> Vec<Matrix> {
    let mut all = Vec::new();
    for first in 0..3 {
        for second in (0..3).filter(|&k| k != first) {
            let axes = [first, second, 3 - first - second];
            for signs in 0..8_u8 {
                all.push(std::array::from_fn(|r| {
                    let sign = if signs >> r & 1 == 1 { -1.0 } else { 1.0 };
                    std::array::from_fn(|c| if axes[r] == c { sign } else { 0.0 })
                }));
            }
        }
    }
    let rank = |m: &Matrix| {
        let trace = m[0][0] + m[1][1] + m[2][2];
        // An upright axis stays before one that does not, and a turn about x is that of z-up files.
        (
            determinant(m) < 0.0,
            -trace as i32,
            m[1][1] != 1.0,
            m[0][0] != 1.0,
        )
    };
    all.sort_by_key(rank);
    all
}

/// What is compared: silhouettes, the poses that belong to them as the file says, and points of the mesh.
pub(super) struct Scene {
    pub(super) silhouettes: Vec<Silhouette>,
    pub(super) poses: Vec<Pose>,
    pub(super) points: Vec<[f64; 3]>,
    /// The matrices are camera-to-world with OpenGL axes by the rules of the file.
    pub(super) opengl: bool,
}

/// Steps of least squares for a scale and an offset.
const STEPS: usize = 4;

impl Scene {
    /// A smaller one: every `nth` view and point, on cells twice as large.
    pub(super) fn thinned(&self, views: usize, points: usize) -> Self {
        let step = self.silhouettes.len().div_ceil(views).max(1);
        let of_points = self.points.len().div_ceil(points).max(1);
        Self {
            silhouettes: self
                .silhouettes
                .iter()
                .step_by(step)
                .map(Silhouette::halved)
                .collect(),
            poses: self.poses.iter().step_by(step).copied().collect(),
            points: self.points.iter().step_by(of_points).copied().collect(),
            opengl: self.opengl,
        }
    }

    /// All views, and about that many points.
    pub(super) fn thinned_points(&self, points: usize) -> Self {
        let step = self.points.len().div_ceil(points).max(1);
        Self {
            silhouettes: self.silhouettes.clone(),
            poses: self.poses.clone(),
            points: self.points.iter().step_by(step).copied().collect(),
            opengl: self.opengl,
        }
    }

    pub(super) fn overlaps(&self, candidate: &Candidate) -> Vec<Overlap> {
        let mut drawn = Vec::new();
        let views = self.silhouettes.iter().zip(&self.poses);
        views
            .map(|(silhouette, pose)| {
                let centre = silhouette.centre_of(candidate.mirrored);
                let lens = silhouette.lens.as_ref().filter(|_| candidate.undone);
                let pose = candidate.pose(pose);
                silhouette.draw_about((centre, lens), &pose, &self.points, &mut drawn);
                silhouette.overlap(&drawn)
            })
            .collect()
    }

    pub(super) fn value(&self, candidate: &Candidate) -> f64 {
        value(&self.overlaps(candidate))
    }

    /// The mean place of the mesh's points, and their mean distance from it.
    pub(super) fn ball(&self) -> ([f64; 3], f64) {
        let count = self.points.len().max(1) as f64;
        let middle: [f64; 3] =
            std::array::from_fn(|k| self.points.iter().map(|p| p[k]).sum::<f64>() / count);
        let square = |p: &[f64; 3]| (0..3).map(|k| (p[k] - middle[k]).powi(2)).sum::<f64>();
        let mean = self.points.iter().map(square).sum::<f64>() / count;
        (middle, mean.sqrt())
    }

    /// The place that all silhouettes' middles look at, in the world of the views as `reading` has it.
    pub(super) fn focus(&self, reading: Reading) -> Option<[f64; 3]> {
        let mut equations = Equations::default();
        for (silhouette, pose) in self.silhouettes.iter().zip(&self.poses) {
            let pose = reading.pose(pose);
            let blob = silhouette.blob();
            let ray = [
                (blob.middle[0] - silhouette.centre[0]) / silhouette.focal[0],
                (blob.middle[1] - silhouette.centre[1]) / silhouette.focal[1],
                1.0,
            ];
            let back = transposed(&pose.rotation);
            let (at, along) = (onto(&back, pose.translation).map(|x| -x), onto(&back, ray));
            let length = along.iter().map(|x| x * x).sum::<f64>();
            for r in 0..3 {
                let across = [0, 1, 2].map(|c| IDENTITY[r][c] - along[r] * along[c] / length);
                equations.add(across, 1.0, dot(&across, &at));
            }
        }
        equations.solve()
    }

    /// Finds scale and offset for a turn, from a first guess at the views' focus.
    pub(super) fn laid(
        &self,
        reading: Reading,
        turn: &Matrix,
        focus: [f64; 3],
    ) -> Option<Similarity> {
        let poses: Vec<Pose> = self.poses.iter().map(|pose| reading.pose(pose)).collect();
        let (middle, radius) = self.ball();
        let mut sizes = Vec::new();
        for (silhouette, pose) in self.silhouettes.iter().zip(&poses) {
            let z = onto(&pose.rotation, focus)[2] + pose.translation[2];
            if z > 0.0 {
                let cells = f64::from(silhouette.blob().cells);
                sizes.push(cells.sqrt() / silhouette.focal[0] * z);
            }
        }
        if sizes.len() * 2 <= self.poses.len() {
            return None;
        }
        let scale = median(&mut sizes) / radius / 1.5;
        let mut place = Similarity {
            scale,
            turn: *turn,
            offset: [0.0; 3],
        };
        let moved = onto(turn, middle);
        place.offset = std::array::from_fn(|k| focus[k] - scale * moved[k]);
        for _ in 0..STEPS {
            self.step(&poses, &mut place, true)?;
        }
        Some(place)
    }

    /// One step of least squares towards the silhouettes' places and, where asked, sizes.
    pub(super) fn step(&self, poses: &[Pose], place: &mut Similarity, sized: bool) -> Option<()> {
        let (middle, _) = self.ball();
        let moved = onto(&place.turn, middle);
        let at: [f64; 3] = std::array::from_fn(|k| place.scale * moved[k] + place.offset[k]);
        let (mut equations, mut sizes) = (Equations::default(), Vec::new());
        let mut drawn = Vec::new();
        for (silhouette, pose) in self.silhouettes.iter().zip(poses) {
            silhouette.draw(&seen(pose, place), &self.points, &mut drawn);
            let (wanted, found) = (silhouette.blob(), blob(&drawn, silhouette.size));
            let z = onto(&pose.rotation, at)[2] + pose.translation[2];
            if found.cells == 0 || z <= 0.0 {
                continue;
            }
            let weight = if wanted.cut || found.cut { 0.1 } else { 1.0 };
            if !found.cut || !wanted.cut {
                sizes.push((f64::from(wanted.cells) / f64::from(found.cells)).sqrt());
            }
            for axis in 0..2 {
                let by = silhouette.focal[axis] / z;
                let row = pose.rotation[axis].map(|x| x * by);
                let off = wanted.middle[axis] - found.middle[axis];
                equations.add(row, weight, off);
            }
        }
        let by = equations.solve()?;
        let grown = match sized && !sizes.is_empty() {
            true => median(&mut sizes).clamp(0.3, 3.0),
            false => 1.0,
        };
        let scale = place.scale * grown;
        if !scale.is_normal() || by.iter().any(|x| !x.is_finite()) {
            return None;
        }
        *place = Similarity {
            scale,
            turn: place.turn,
            offset: std::array::from_fn(|k| at[k] + by[k] - scale * moved[k]),
        };
        Some(())
    }
}

/// Mean overlap of the better three quarters of the views.
pub(super) fn value(overlaps: &[Overlap]) -> f64 {
    let mut all: Vec<f64> = overlaps.iter().map(Overlap::iou).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    let count = (all.len() * 3).div_ceil(4).max(1);
    all.iter().take(count).sum::<f64>() / count as f64
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    match count {
        0 => 0.0,
        _ => (values[(count - 1) / 2] + values[count / 2]) / 2.0,
    }
}

/// Linear equations in three unknowns, for the least squares of all.
#[derive(Default)]
struct Equations {
    left: Matrix,
    right: [f64; 3],
}

impl Equations {
    /// `row · x = value`.
    fn add(&mut self, row: [f64; 3], weight: f64, value: f64) {
        let lines = self.left.iter_mut().zip(&mut self.right);
        for ((line, right), by) in lines.zip(row.map(|x| x * weight)) {
            *right += by * value;
            for (entry, x) in line.iter_mut().zip(row) {
                *entry += by * x;
            }
        }
    }

    fn solve(&self) -> Option<[f64; 3]> {
        let whole = determinant(&self.left);
        let entries = self.left.iter().flatten();
        let size = entries.fold(0.0, |size: f64, x| size.max(x.abs()));
        if whole.is_nan() || whole.abs() <= 1e-9 * size.powi(3) {
            return None;
        }
        Some(std::array::from_fn(|k| {
            let mut changed = self.left;
            for (line, right) in changed.iter_mut().zip(self.right) {
                line[k] = right;
            }
            determinant(&changed) / whole
        }))
    }
}
