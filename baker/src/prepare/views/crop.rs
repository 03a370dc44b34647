//! The rectangle of a picture that can matter: where the mesh may show and the picture is not transparent.

use std::collections::HashMap;

use proto::table::Camera;

use crate::image::render::{Projection, projected_bounds};
use crate::prepare::picture::Picture;

/// Pixels kept around that rectangle, because silhouettes are eroded and blurred by a few pixels later on.
const MARGIN: f64 = 4.0;

/// Pixels kept beyond the mesh where the picture is opaque, or that share of the picture. A camera that is off by as
/// much can still be refined against the silhouette.
const REACH: f64 = 16.0;
const REACH_SHARE: f64 = 0.03;

/// Left, top, width, height.
pub(super) type Crop = [u32; 4];

/// Points whose convex hull contains the mesh: all vertices of a small mesh, corners of boxes for a large one. The cost
/// per view is therefore bounded.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) points: Vec<[f32; 3]>,
    /// Everything opaque may matter, mesh or not.
    pub(super) whole: bool,
}

/// Up to this number the vertices themselves are projected.
const MAX_POINTS: usize = 1 << 15;
/// Cells along the longest edge of a large mesh. Only occupied cells count, and each is shrunk to its vertices.
const CELLS: f32 = 24.0;

impl Outline {
    /// The outline of a mesh with these vertices.
    pub(super) fn new(positions: &[[f32; 3]]) -> Self {
        if positions.len() <= MAX_POINTS {
            return Self {
                points: positions.to_vec(),
                whole: false,
            };
        }
        let [low, high] = bounds(positions);
        let edge = (0..3)
            .map(|axis| high[axis] - low[axis])
            .fold(0.0, f32::max)
            / CELLS;
        let mut cells: HashMap<[u32; 3], [[f32; 3]; 2]> = HashMap::new();
        for &point in positions {
            // A mesh without extent gets one cell, because casts of NaN and infinity saturate.
            let cell = std::array::from_fn(|axis| ((point[axis] - low[axis]) / edge) as u32);
            let [low, high] = cells.entry(cell).or_insert([point; 2]);
            for axis in 0..3 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
        let corners = |ends: [[f32; 3]; 2]| {
            (0..8_usize)
                .map(move |corner| std::array::from_fn(|axis| ends[corner >> axis & 1][axis]))
        };
        Self {
            points: cells.into_values().flat_map(corners).collect(),
            whole: false,
        }
    }

    /// No mesh: everything that is not transparent matters.
    pub(super) fn whole() -> Self {
        Self {
            points: Vec::new(),
            whole: true,
        }
    }

    /// Returns the rectangle that can matter; none where the mesh does not show or shows only transparent pixels.
    pub(super) fn crop(&self, camera: &Camera, picture: &Picture) -> Option<Crop> {
        let size = [picture.width, picture.height].map(f64::from);
        match picture.has_alpha {
            true => self.crop_within(camera, size, opaque_bounds(picture)?, true),
            false => self.crop_within(camera, size, [0.0, 0.0, size[0], size[1]], false),
        }
    }

    /// The same of a picture with alpha that nobody has drawn yet.
    pub(super) fn crop_undrawn(&self, camera: &Camera, size: [u32; 2]) -> Option<Crop> {
        let size = size.map(f64::from);
        self.crop_within(camera, size, [0.0, 0.0, size[0], size[1]], true)
    }

    fn crop_within(
        &self,
        camera: &Camera,
        size: [f64; 2],
        opaque: [f64; 4],
        has_alpha: bool,
    ) -> Option<Crop> {
        let [mut left, mut top, mut right, mut bottom] =
            match projected_bounds(camera, &self.points) {
                _ if self.whole => [0.0, 0.0, size[0], size[1]],
                Projection::Within(bounds) => bounds,
                // Part of the mesh is behind the camera: it may show anywhere.
                Projection::Across => [0.0, 0.0, size[0], size[1]],
                Projection::Behind => return None,
            };
        // Written so that NaN means nothing shows.
        if !(left.max(opaque[0]) < right.min(opaque[2])
            && top.max(opaque[1]) < bottom.min(opaque[3]))
        {
            return None;
        }
        let reach = match has_alpha {
            true => REACH.max(REACH_SHARE * size[0].max(size[1])),
            false => 0.0,
        };
        (left, top) = ((left - reach).max(opaque[0]), (top - reach).max(opaque[1]));
        (right, bottom) = (
            (right + reach).min(opaque[2]),
            (bottom + reach).min(opaque[3]),
        );
        let (left, top) = (
            (left - MARGIN).floor().max(0.0),
            (top - MARGIN).floor().max(0.0),
        );
        let (right, bottom) = (
            (right + MARGIN).ceil().min(size[0]),
            (bottom + MARGIN).ceil().min(size[1]),
        );
        Some([
            left as u32,
            top as u32,
            (right - left) as u32,
            (bottom - top) as u32,
        ])
    }
}

fn bounds(points: &[[f32; 3]]) -> [[f32; 3]; 2] {
    let mut ends = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    for point in points {
        for axis in 0..3 {
            ends[0][axis] = ends[0][axis].min(point[axis]);
            ends[1][axis] = ends[1][axis].max(point[axis]);
        }
    }
    ends
}

/// The bounding rectangle of all pixels that are not fully transparent.
fn opaque_bounds(picture: &Picture) -> Option<[f64; 4]> {
    let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
    for (row, line) in picture
        .pixels
        .chunks_exact(picture.width as usize)
        .enumerate()
    {
        let Some(first) = line.iter().position(|pixel| pixel[3] != 0) else {
            continue;
        };
        let last = line
            .iter()
            .rposition(|pixel| pixel[3] != 0)
            .unwrap_or(first);
        (left, right) = (left.min(first), right.max(last + 1));
        (top, bottom) = (top.min(row), row + 1);
    }
    (top < bottom).then_some([left as f64, top as f64, right as f64, bottom as f64])
}

/// Copies the pixels of the crop.
pub(super) fn cut(picture: &Picture, [left, top, width, height]: Crop) -> Vec<[u8; 4]> {
    if [width, height] == [picture.width, picture.height] {
        return picture.pixels.clone();
    }
    let (left, top, width, height) = (left as usize, top as usize, width as usize, height as usize);
    let mut pixels = Vec::with_capacity(width * height);
    for line in picture
        .pixels
        .chunks_exact(picture.width as usize)
        .skip(top)
        .take(height)
    {
        pixels.extend_from_slice(&line[left..left + width]);
    }
    pixels
}
