//! Silhouettes of pictures on a coarse grid, and how well the mesh's own lie on them.

use kiln_raster::vector::{cross, sub};

use crate::prepare::transforms::{Distortion, Pose};

/// Cells along the longer edge of a grid.
const CELLS: usize = 64;
/// Least alpha of a pixel that makes its cell part of the silhouette.
const OPAQUE: u8 = 24;
/// A border whose pixels all but this share are of one colour, up to [`EVEN`] of 255, is a background.
const STRAY: f64 = 0.03;
const EVEN: i16 = 10;
/// A pixel that differs from it by more than this is none.
const OTHER: i16 = 24;
/// Least and largest share of the cells in a silhouette that says something.
const SHARES: [f64; 2] = [0.002, 0.97];
/// Largest share of the grid's border in a silhouette that says something: what fills the picture has no outline.
const BORDER: f64 = 0.3;

/// The silhouette of a picture, and the camera that took it.
#[derive(Clone, Debug)]
pub(crate) struct Silhouette {
    /// Row by row from the top.
    pub(super) cells: Vec<bool>,
    /// Columns and rows.
    pub(super) size: [usize; 2],
    /// Focal lengths and principal point, in cells.
    pub(super) focal: [f64; 2],
    pub(super) centre: [f64; 2],
    /// What was undone before the picture was a pinhole's, and how far from the axis it can be.
    pub(super) lens: Option<(Distortion, f64)>,
}

/// How the mesh and the picture overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Overlap {
    /// Cells of both, of the picture and of the mesh.
    pub(super) both: u32,
    pub(super) picture: u32,
    pub(super) mesh: u32,
}

impl Overlap {
    /// Intersection over union, 0 to 1.
    pub(crate) fn iou(&self) -> f64 {
        share(self.both, self.picture + self.mesh - self.both)
    }

    /// Share of the picture's silhouette that the mesh covers.
    pub(crate) fn covered(&self) -> f64 {
        share(self.both, self.picture)
    }

    /// Share of the mesh, as far as it lies in the picture, that is within the silhouette.
    pub(crate) fn within(&self) -> f64 {
        share(self.both, self.mesh)
    }
}

fn share(part: u32, whole: u32) -> f64 {
    f64::from(part) / f64::from(whole.max(1))
}

/// Place and size of a set of cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blob {
    pub(super) cells: u32,
    pub(super) middle: [f64; 2],
    /// It reaches the border of the grid.
    pub(super) cut: bool,
}

impl Silhouette {
    /// The silhouette of a picture by its alpha, or by an even background where it is opaque. None where neither tells.
    pub(crate) fn new(
        [width, height]: [u32; 2],
        pixels: &[[u8; 4]],
        has_alpha: bool,
        [focal, centre]: [[f64; 2]; 2],
        lens: Option<Distortion>,
    ) -> Option<Self> {
        let scale = (CELLS as f64 / f64::from(width.max(height))).min(1.0);
        let edge = |pixels: u32| ((f64::from(pixels) * scale).ceil() as usize).max(1);
        let size = [edge(width), edge(height)];
        let background = match has_alpha {
            true => None,
            false => Some(background([width as usize, height as usize], pixels)?),
        };
        let shown = |pixel: &[u8; 4]| match background {
            None => pixel[3] >= OPAQUE,
            Some(colour) => (0..3).any(|k| (i16::from(pixel[k]) - colour[k]).abs() > OTHER),
        };
        let cell = |at: usize| ((at as f64 + 0.5) * scale) as usize;
        let columns: Vec<usize> = (0..width as usize).map(cell).collect();
        let mut cells = vec![false; size[0] * size[1]];
        for (row, line) in pixels.chunks_exact(width as usize).enumerate() {
            let cells = &mut cells[cell(row) * size[0]..][..size[0]];
            for (pixel, &column) in line.iter().zip(&columns) {
                cells[column] |= shown(pixel);
            }
        }
        let filled = cells.iter().filter(|&&cell| cell).count() as f64 / cells.len() as f64;
        let at_border: Vec<bool> = border(size).map(|at| cells[at]).collect();
        let reaching = at_border.iter().filter(|&&cell| cell).count() as f64;
        let says = (SHARES[0]..=SHARES[1]).contains(&filled)
            && reaching <= BORDER * at_border.len() as f64;
        says.then(|| Self {
            cells,
            size,
            focal: focal.map(|x| x * scale),
            centre: centre.map(|x| x * scale),
            lens: lens.map(|lens| (lens, lens.limit())),
        })
    }

    /// The same on cells twice as large.
    pub(super) fn halved(&self) -> Self {
        let size = self.size.map(|edge| edge.div_ceil(2));
        let mut cells = vec![false; size[0] * size[1]];
        for (at, &cell) in self.cells.iter().enumerate() {
            cells[at / self.size[0] / 2 * size[0] + at % self.size[0] / 2] |= cell;
        }
        Self {
            cells,
            size,
            focal: self.focal.map(|x| x / 2.0),
            centre: self.centre.map(|x| x / 2.0),
            lens: self.lens,
        }
    }

    /// Its place and size.
    pub(super) fn blob(&self) -> Blob {
        blob(&self.cells, self.size)
    }

    /// The principal point, counted from the other side along the axes that are `mirrored`.
    pub(super) fn centre_of(&self, mirrored: [bool; 2]) -> [f64; 2] {
        [0, 1].map(|axis| match mirrored[axis] {
            true => self.size[axis] as f64 - self.centre[axis],
            false => self.centre[axis],
        })
    }

    /// Draws the points into `drawn`, which is resized.
    pub(super) fn draw(&self, pose: &Pose, points: &[[f64; 3]], drawn: &mut Vec<bool>) {
        self.draw_about((self.centre, None), pose, points, drawn);
    }

    /// Draws the points as a camera with another principal point sees them, or where the lens is undone a second time.
    pub(super) fn draw_about(
        &self,
        (centre, lens): ([f64; 2], Option<&(Distortion, f64)>),
        pose: &Pose,
        points: &[[f64; 3]],
        drawn: &mut Vec<bool>,
    ) {
        drawn.clear();
        drawn.resize(self.cells.len(), false);
        let [columns, rows] = self.size;
        let [r0, r1, r2] = pose.rotation;
        let t = pose.translation;
        for p in points {
            let z = r2[0] * p[0] + r2[1] * p[1] + r2[2] * p[2] + t[2];
            if z <= 0.0 {
                continue;
            }
            let x = (r0[0] * p[0] + r0[1] * p[1] + r0[2] * p[2] + t[0]) / z;
            let y = (r1[0] * p[0] + r1[1] * p[1] + r1[2] * p[2] + t[1]) / z;
            let mut ray = [x, y];
            if let Some((lens, limit)) = lens {
                let Some(undone) = lens.undistort(ray, *limit) else {
                    continue;
                };
                ray = undone;
            }
            let [x, y] = [0, 1].map(|axis| ray[axis] * self.focal[axis] + centre[axis]);
            if x >= 0.0 && y >= 0.0 && x < columns as f64 && y < rows as f64 {
                drawn[y as usize * columns + x as usize] = true;
            }
        }
    }

    /// How the cells of the mesh lie on it.
    pub(super) fn overlap(&self, drawn: &[bool]) -> Overlap {
        let mut overlap = Overlap::default();
        for (&picture, &mesh) in self.cells.iter().zip(drawn) {
            overlap.both += u32::from(picture && mesh);
            overlap.picture += u32::from(picture);
            overlap.mesh += u32::from(mesh);
        }
        overlap
    }
}

pub(super) fn blob(cells: &[bool], [columns, rows]: [usize; 2]) -> Blob {
    let mut blob = Blob::default();
    let mut sum = [0.0; 2];
    for (at, _) in cells.iter().enumerate().filter(|(_, cell)| **cell) {
        let (x, y) = (at % columns, at / columns);
        blob.cells += 1;
        sum = [sum[0] + x as f64 + 0.5, sum[1] + y as f64 + 0.5];
        blob.cut |= x == 0 || y == 0 || x + 1 == columns || y + 1 == rows;
    }
    blob.middle = sum.map(|x| x / f64::from(blob.cells.max(1)));
    blob
}

/// Indices of a grid's border, none twice.
fn border([width, height]: [usize; 2]) -> impl Iterator<Item = usize> {
    let rows = move |y: usize| match y == 0 || y + 1 == height {
        true => (0..width).step_by(1),
        false => (0..width).step_by((width - 1).max(1)),
    };
    (0..height).flat_map(move |y| rows(y).map(move |x| y * width + x))
}

/// The colour of a picture's border, where it has one.
fn background(size: [usize; 2], pixels: &[[u8; 4]]) -> Option<[i16; 3]> {
    let border: Vec<[u8; 4]> = border(size).map(|at| pixels[at]).collect();
    // An undistorted picture has none there.
    if border.iter().any(|pixel| pixel[3] != 255) {
        return None;
    }
    let colour: [i16; 3] = std::array::from_fn(|k| {
        let mut values: Vec<u8> = border.iter().map(|pixel| pixel[k]).collect();
        values.sort_unstable();
        i16::from(values[values.len() / 2])
    });
    let differs = |pixel: &&[u8; 4]| (0..3).any(|k| (i16::from(pixel[k]) - colour[k]).abs() > EVEN);
    let stray = border.iter().filter(differs).count();
    (stray as f64 <= STRAY * border.len() as f64).then_some(colour)
}

/// Points on a surface, the same each time: half of them spread evenly over its area, half over its triangles, so that
/// neither a large ground nor a fine part goes without. Empty where it has no area.
pub(crate) fn spread(
    positions: &[[f32; 3]],
    triangles: &[[u32; 3]],
    count: usize,
) -> Vec<[f64; 3]> {
    let area = |corners: &[[f64; 3]; 3]| {
        let &[a, b, c] = corners;
        let normal = cross(sub(b, a), sub(c, a));
        normal.iter().map(|x| x * x).sum::<f64>().sqrt()
    };
    let corners = |t: &[u32; 3]| t.map(|v| positions[v as usize].map(f64::from));
    let total: f64 = triangles.iter().map(|t| area(&corners(t))).sum();
    let mut points = Vec::with_capacity(count);
    // Written so that NaN is no area.
    if !(total > 0.0 && total.is_finite()) {
        return points;
    }
    let each = 1.0 / triangles.len() as f64;
    let mut sum = 0.0;
    for triangle in triangles {
        let corners = corners(triangle);
        sum += (area(&corners) / total + each) / 2.0;
        while (points.len() as f64 + 0.5) < sum * count as f64 {
            points.push(within(&corners, points.len()));
        }
    }
    points
}

/// The `number`th point of a triangle. Multiples of the plastic number's powers fill a square evenly (Roberts, 2018).
fn within([a, b, c]: &[[f64; 3]; 3], number: usize) -> [f64; 3] {
    let steps = [0.754_877_666_246_692_8, 0.569_840_290_998_053_2];
    let [mut u, mut v] = steps.map(|step: f64| (step * (number as f64 + 1.0)).fract());
    if u + v > 1.0 {
        (u, v) = (1.0 - u, 1.0 - v);
    }
    std::array::from_fn(|k| a[k] + u * (b[k] - a[k]) + v * (c[k] - a[k]))
}
