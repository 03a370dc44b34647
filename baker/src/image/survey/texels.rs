//! Texture coordinates → the triangle that contains each texel's centre.

use std::ops::Range;

use proto::table::Mesh;
use rayon::prelude::*;

use crate::image::render::Textures;
use crate::worker::progress::{Ticker, ticking};

pub(crate) const NOTHING: u32 = u32::MAX;

/// Rows of texels per unit of work.
const BAND: usize = 64;

/// The triangle of each texel of image `image`, row-major; the first of several.
pub(crate) fn cover(mesh: &Mesh, textures: Textures<'_>, image: usize) -> Vec<u32> {
    let [width, height] = textures.images[image].size();
    let mut owners = vec![NOTHING; width * height];
    let corners = |number: usize| {
        mesh.triangles[number].map(|corner| {
            let [u, v] = mesh.uvs[corner as usize].map(f64::from);
            [u * width as f64, v * height as f64]
        })
    };
    let rows: Vec<Range<usize>> = ticking((0..mesh.triangles.len()).into_par_iter())
        .map(|number| match textures.number(number) == image {
            true => range(corners(number), 1, height),
            false => 0..0,
        })
        .collect();
    let bands = owners.par_chunks_mut((BAND * width).max(1)).enumerate();
    bands.for_each(|(band, owners)| {
        let first = band * BAND;
        let own = first..first + owners.len() / width;
        let mut ticker = Ticker::default();
        for (number, rows) in rows.iter().enumerate() {
            ticker.did(1);
            let rows = rows.start.max(own.start)..rows.end.min(own.end);
            if rows.is_empty() {
                continue;
            }
            let asked = fill(corners(number), rows, width, |column, row| {
                let owner = &mut owners[(row - first) * width + column];
                if *owner == NOTHING {
                    *owner = number as u32;
                }
            });
            ticker.did(asked);
        }
    });
    owners
}

/// Columns (axis 0) or rows (axis 1) of texels, below `size`, whose centres lie between the smallest and largest
/// corner.
fn range(corners: [[f64; 2]; 3], axis: usize, size: usize) -> Range<usize> {
    let values = corners.map(|corner| corner[axis]);
    let low = values.into_iter().fold(f64::INFINITY, f64::min);
    let high = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let first = (low - 0.5).ceil().clamp(0.0, size as f64) as usize;
    let end = ((high - 0.5).floor() + 1.0).clamp(0.0, size as f64) as usize;
    first..end
}

/// Calls `found` with column and row of the texels of these rows whose centre lies in a triangle, edges included.
fn fill(
    corners: [[f64; 2]; 3],
    rows: Range<usize>,
    width: usize,
    mut found: impl FnMut(usize, usize),
) -> usize {
    let [a, b, c] = corners;
    let edge = |p: [f64; 2], q: [f64; 2], at: [f64; 2]| {
        (q[0] - p[0]) * (at[1] - p[1]) - (q[1] - p[1]) * (at[0] - p[0])
    };
    let area = edge(a, b, c);
    if area == 0.0 || area.is_nan() {
        return 0;
    }
    let mut asked = 0;
    let columns = range(corners, 0, width);
    for row in rows {
        let columns = kiln_raster::columns(&corners, row, columns.clone());
        asked += 1 + columns.len();
        for column in columns {
            let at = [column as f64 + 0.5, row as f64 + 0.5];
            let inside = [edge(a, b, at), edge(b, c, at), edge(c, a, at)];
            if inside.iter().all(|value| value * area.signum() >= 0.0) {
                found(column, row);
            }
        }
    }
    asked
}
