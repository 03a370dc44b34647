//! Planes whose silhouettes are compared. Of a view: its alpha with a border around it, and the camera of that plane.
//! Of a mesh seen by a camera: how much of each pixel it covers, and its depth there.

use proto::table::{Camera, View};

use crate::bake::intake::refine::blur::Plane;
use crate::bake::model::raster::footing;
use crate::bake::model::scene::project;
use crate::worker::progress::unit;

/// Border around the view, so that a mesh that is off by some pixels still lies within it, and blurs have room.
pub(super) const ROOM: usize = 20;
/// Larger views are averaged down to about this many pixels: a silhouette is found to a hundredth of a pixel.
const MOST_PIXELS: usize = 1 << 20;
/// s of s×s samples a pixel. 6 halve the error of 0.006 px that 3 leave, and cost 2.6 times as much.
pub(super) const SAMPLES: u32 = 3;
/// Alpha up to this counts as none, for lossy pictures.
const CLEAR: u8 = 2;
/// Weight of a pixel inside the silhouette for its depth, relative to one on the rim. A round body is nearer inside:
/// its silhouette would seem to move as it turns.
const WITHIN: f32 = 0.001;
/// Triangles between two progress reports.
const TRIANGLES_A_TICK: usize = 1 << 16;

/// The silhouette of a view.
#[derive(Clone, Debug)]
pub(super) struct Outline {
    /// Alpha, 0-1.
    pub(super) alpha: Plane,
    /// Edge of a pixel of the plane, in pixels of the view.
    pub(super) scale: f64,
    /// Part of the plane that the view covers: left, top, and past the last column and row.
    view: [usize; 4],
    /// Sides where the picture may continue beyond the view: left, top, right, bottom.
    cut: [bool; 4],
}

impl Outline {
    /// At the view's own size, or smaller where it is large.
    pub(super) fn new(view: &View) -> Self {
        Self::shrunk(view, shrink(view))
    }

    /// At half of that size.
    pub(super) fn coarse(view: &View) -> Self {
        Self::shrunk(view, 2 * shrink(view))
    }

    fn shrunk(view: &View, shrink: usize) -> Self {
        let (width, height) = (view.width as usize, view.height as usize);
        let size = [width.div_ceil(shrink), height.div_ceil(shrink)];
        let across = size[0] + 2 * ROOM;
        let mut values = vec![0.0; across * (size[1] + 2 * ROOM)];
        let share = 1.0 / (255 * shrink * shrink) as f32;
        let lines = values.chunks_exact_mut(across).skip(ROOM);
        let mut sums = vec![0u32; size[0]];
        for (line, rows) in lines.zip(view.pixels.chunks(width * shrink)) {
            sums.fill(0);
            for row in rows.chunks_exact(width) {
                add_alpha(&mut sums, row, shrink);
            }
            for (value, &sum) in line[ROOM..].iter_mut().zip(&sums) {
                *value = share * sum as f32;
            }
        }
        // The crop keeps what is opaque and some pixels more. So what it cut off is transparent where its border is.
        let opaque = |at: usize| view.pixels[at][3] > CLEAR;
        let column = |at: usize| (0..height).any(|row| opaque(row * width + at));
        let row = |at: usize| (0..width).any(|column| opaque(at * width + column));
        Self {
            alpha: Plane {
                width: across,
                values,
            },
            scale: shrink as f64,
            view: [ROOM, ROOM, ROOM + size[0], ROOM + size[1]],
            cut: [column(0), row(0), column(width - 1), row(height - 1)],
        }
    }

    /// Converts a camera of the view to one of the plane.
    pub(super) fn camera(&self, camera: &Camera) -> Camera {
        let mut of_plane = *camera;
        for axis in 0..2 {
            of_plane.focal[axis] /= self.scale;
            of_plane.centre[axis] = of_plane.centre[axis] / self.scale + ROOM as f64;
        }
        of_plane
    }

    /// Rows, then columns, into which no unknown pixel has been blurred: first, and past the last.
    pub(super) fn known(&self, reach: usize) -> [[usize; 2]; 2] {
        let [left, top, right, bottom] = self.view;
        let [width, height] = [self.alpha.width, self.alpha.height()];
        let from = |cut: bool, edge: usize| if cut { edge + reach } else { 1 };
        let to = |cut: bool, edge: usize, end: usize| {
            if cut {
                edge.saturating_sub(reach)
            } else {
                end - 1
            }
        };
        [
            [from(self.cut[1], top), to(self.cut[3], bottom, height)],
            [from(self.cut[0], left), to(self.cut[2], right, width)],
        ]
    }
}

/// Adds up the alpha of each `few` pixels of a row.
fn add_alpha(sums: &mut [u32], row: &[[u8; 4]], few: usize) {
    let alpha = |&pixel: &[u8; 4]| u32::from_le_bytes(pixel) >> 24;
    // Most views are examined at half size; a count known at compile time lets the additions be vectorised.
    if few == 2 {
        let (pairs, rest) = row.as_chunks::<2>();
        for (sum, [one, other]) in sums.iter_mut().zip(pairs) {
            *sum += alpha(one) + alpha(other);
        }
        if let (Some(sum), [last]) = (sums.last_mut(), rest) {
            *sum += alpha(last);
        }
        return;
    }
    for (sum, few) in sums.iter_mut().zip(row.chunks(few)) {
        *sum += few.iter().map(alpha).sum::<u32>();
    }
}

/// Edge of a pixel of the plane, in pixels of the view.
fn shrink(view: &View) -> usize {
    let (width, height) = (view.width as usize, view.height as usize);
    let fits = |&shrink: &usize| (width / shrink) * (height / shrink) <= MOST_PIXELS;
    (1..).find(fits).unwrap_or(1)
}

/// What a camera sees of a mesh.
#[derive(Clone, Debug)]
pub(super) struct Cover {
    pub(super) share: Plane,
    /// Weight of each pixel for the silhouette's depth: the rim of partly covered pixels, and a little of the rest,
    /// where the rim lies between pixels.
    pub(super) rim: Plane,
    /// The same, times 1 / depth.
    pub(super) nearness: Plane,
}

impl Cover {
    /// Draws the mesh into a plane of this size. No triangle is stored, so memory depends on the picture alone.
    pub(super) fn new(
        positions: &[[f32; 3]],
        triangles: &[[u32; 3]],
        camera: &Camera,
        width: usize,
        height: usize,
    ) -> Self {
        let s = SAMPLES as usize;
        let mut nearest = vec![0.0_f32; width * s * height * s];
        for block in triangles.chunks(TRIANGLES_A_TICK) {
            for triangle in block {
                let corners = triangle.map(|corner| project(camera, positions[corner as usize]));
                draw(corners, &mut nearest, width, height);
            }
            unit();
        }
        let mut share: Vec<f32> = vec![0.0; width * height];
        let mut nearness: Vec<f32> = vec![0.0; width * height];
        let each = 1.0 / (SAMPLES * SAMPLES) as f32;
        for (row, line) in nearest.chunks_exact(width * s).enumerate() {
            let start = row / s * width;
            for (column, samples) in line.chunks_exact(s).enumerate() {
                for &sample in samples {
                    share[start + column] += if sample > 0.0 { each } else { 0.0 };
                    nearness[start + column] += each * sample;
                }
            }
        }
        let mut rim = share.clone();
        for (rim, nearness) in rim.iter_mut().zip(&mut nearness) {
            if *rim > 1.0 - each / 2.0 {
                *rim *= WITHIN;
                *nearness *= WITHIN;
            }
        }
        unit();
        let plane = |values| Plane { width, values };
        Self {
            share: plane(share),
            rim: plane(rim),
            nearness: plane(nearness),
        }
    }
}

/// Draws one triangle's samples: 1 / depth where it is the nearest.
fn draw(corners: [[f64; 3]; 3], nearest: &mut [f32], width: usize, height: usize) {
    let footing = footing(corners, width as f64, height as f64);
    for span in footing.spans(SAMPLES, [0, height as i32]) {
        let line = span.row * width * SAMPLES as usize;
        for column in span.columns.clone() {
            if let Some(inverse_depth) = span.inverse_depth(&footing, column) {
                let sample = &mut nearest[line + column];
                *sample = sample.max(inverse_depth as f32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{around, blank_view, camera, cube};
    use crate::bake::model::raster::{Projected, raster};

    #[test]
    fn coverage_is_that_of_the_rasteriser() {
        let mesh = cube();
        let (width, height) = (61_u32, 47_u32);
        for k in 0..4 {
            let camera = camera(around(k, 4, 2.4), 50.0, [width, height], [3.0, -2.0]);
            let cover = Cover::new(
                &mesh.positions,
                &mesh.triangles,
                &camera,
                width as usize,
                height as usize,
            );
            let projected =
                Projected::new(&mesh.positions, &mesh.triangles, &camera, width, height);
            let all: Vec<u32> = (0..mesh.triangles.len() as u32).collect();
            let samples = raster(&projected, &all, width, 0, height, SAMPLES);
            for pixel in 0..(width * height) as usize {
                let (x, y) = (pixel % width as usize, pixel / width as usize);
                let mut sums = [0.0, 0.0];
                for (i, j) in (0..9).map(|k| (k % 3, k / 3)) {
                    let near = samples.inverse_depths[(3 * y + j) * samples.row_length + 3 * x + i];
                    sums[0] += if near > 0.0 { 1.0 / 9.0 } else { 0.0 };
                    sums[1] += near / 9.0;
                }
                let counts = if sums[0] > 0.95 {
                    f64::from(WITHIN)
                } else {
                    1.0
                };
                for (plane, wanted) in [
                    (&cover.share, sums[0]),
                    (&cover.rim, counts * sums[0]),
                    (&cover.nearness, counts * sums[1]),
                ] {
                    let found = f64::from(plane.values[pixel]);
                    assert!((found - wanted).abs() < 1e-5, "{k} {pixel}");
                }
            }
        }
    }

    #[test]
    fn pairs_of_pixels_are_added_as_any_few_are_and_the_last_alone() {
        for width in [1_usize, 2, 7, 10] {
            let row: Vec<[u8; 4]> = (0..width)
                .map(|k| [200, 3, 9, (31 * k + 5) as u8])
                .collect();
            let mut sums = vec![1; width.div_ceil(2)];
            add_alpha(&mut sums, &row, 2);
            let few =
                |few: &[[u8; 4]]| 1 + few.iter().map(|pixel| u32::from(pixel[3])).sum::<u32>();
            assert!(sums.iter().copied().eq(row.chunks(2).map(few)), "{width}");
        }
    }

    #[test]
    fn a_large_view_is_averaged_down() {
        let size = [1300_u32, 1701];
        let pixels = (0..size[0] * size[1])
            .map(|at| [0, 0, 0, if at % size[0] < 131 { 255 } else { 0 }])
            .collect();
        let camera = camera([0.0, 0.0, 3.0], 900.0, size, [10.0, 20.0]);
        let view = blank_view(0, camera, size, pixels);
        let outline = Outline::new(&view);
        assert_eq!(outline.scale, 2.0);
        assert_eq!(outline.alpha.width, 650 + 2 * ROOM);
        assert_eq!(outline.alpha.height(), 851 + 2 * ROOM);
        let row = &outline.alpha.values[(ROOM + 9) * outline.alpha.width..][..outline.alpha.width];
        assert_eq!((row[ROOM - 1], row[ROOM], row[ROOM + 64]), (0.0, 1.0, 1.0));
        assert!((row[ROOM + 65] - 0.5).abs() < 1e-6, "half of 130 and 131");
        // Opaque up to three of its sides: what is beyond them is not known.
        assert_eq!(outline.cut, [true, true, false, true]);
        let small = outline.camera(&camera);
        assert_eq!(small.focal, [450.0, 450.0]);
        assert_eq!(small.centre[0], camera.centre[0] / 2.0 + ROOM as f64);
        let height = outline.alpha.height();
        assert_eq!(
            outline.known(4),
            [
                [ROOM + 4, height - ROOM - 4],
                [ROOM + 4, outline.alpha.width - 1]
            ]
        );
    }
}
