//! The nearest surface at the centre of each pixel, drawn by one thread. It is for meshes with as many triangles as the
//! picture has pixels, most of which lie behind others or between all samples.

use proto::table::Camera;

use crate::bake::model::raster::snapped::{Rect, SampleSink, Small, Snapped};
use crate::bake::model::raster::{Footing, NOTHING};

/// Triangles of up to so many samples are tested for being hidden.
const ASKED: usize = 8;

/// What a camera sees of a surface at the centre of each pixel.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// Pixels in a row.
    width: usize,
    /// The triangle, [`NOTHING`] where there is none; row by row.
    pub triangles: Vec<u32>,
    /// 1 / depth in scene units, 0 where there is none.
    pub inverse_depths: Vec<f32>,
}

/// Draws a whole picture; corners are rounded to the nearest thousandth of a pixel.
pub fn nearest(
    positions: &[[f32; 3]],
    triangles: &[[u32; 3]],
    camera: &Camera,
    [width, height]: [u32; 2],
) -> Nearest {
    let pixels = width as usize * height as usize;
    let mut found = Nearest {
        width: width as usize,
        triangles: vec![NOTHING; pixels],
        inverse_depths: vec![0.0; pixels],
    };
    Snapped::new(positions, camera, [width, height], 1).draw(triangles, &mut found);
    found
}

impl SampleSink for Nearest {
    fn hides(&self, [columns, rows]: &Rect, nearness: f32) -> bool {
        let nearer = |row: usize| {
            let line = &self.inverse_depths[row * self.width..][columns.clone()];
            line.iter().all(|&depth| depth >= nearness)
        };
        columns.len() * rows.len() <= ASKED && rows.clone().all(nearer)
    }

    fn enter_small(&mut self, triangle: u32, small: &Small) {
        for (row, columns, mut nearness) in small.rows() {
            let line = row * self.width;
            let hit = line + columns.start..line + columns.end;
            let depths = &mut self.inverse_depths[hit.clone()];
            for (depth, nearest) in depths.iter_mut().zip(&mut self.triangles[hit]) {
                if nearness > *depth {
                    (*depth, *nearest) = (nearness, triangle);
                }
                nearness += small.slope();
            }
        }
    }

    fn enter(&mut self, triangle: u32, footing: &Footing) {
        let height = self.triangles.len() / self.width.max(1);
        for span in footing.spans(1, [0, height as i32]) {
            let line = span.row * self.width;
            let line = line..line + self.width;
            let depths = &mut self.inverse_depths[line.clone()];
            span.enter(footing, triangle, depths, &mut self.triangles[line]);
        }
    }
}
