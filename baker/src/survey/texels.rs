//! Texture coordinates → the triangle whose inside holds each texel's centre.

use proto::table::Mesh;

use crate::render::Textures;

/// No triangle.
pub(crate) const NOTHING: u32 = u32::MAX;

/// The triangle of each texel of image `image`, row by row; of several the first.
#[must_use]
pub(crate) fn cover(mesh: &Mesh, textures: Textures<'_>, image: usize) -> Vec<u32> {
    let [width, height] = textures.images[image].size();
    let mut owners = vec![NOTHING; width * height];
    for (number, triangle) in mesh.triangles.iter().enumerate() {
        if textures.number(number) != image {
            continue;
        }
        let corners = triangle.map(|corner| {
            let [u, v] = mesh.uvs[corner as usize].map(f64::from);
            [u * width as f64, v * height as f64]
        });
        fill(corners, [width, height], |texel| {
            if owners[texel] == NOTHING {
                owners[texel] = number as u32;
            }
        });
    }
    owners
}

/// Names the texels whose centre lies in a triangle, its edges included.
fn fill(corners: [[f64; 2]; 3], [width, height]: [usize; 2], mut found: impl FnMut(usize)) {
    let [a, b, c] = corners;
    let edge = |p: [f64; 2], q: [f64; 2], at: [f64; 2]| {
        (q[0] - p[0]) * (at[1] - p[1]) - (q[1] - p[1]) * (at[0] - p[0])
    };
    let area = edge(a, b, c);
    if area == 0.0 || area.is_nan() {
        return;
    }
    let range = |axis: usize, size: usize| {
        let values = corners.map(|corner| corner[axis]);
        let low = values.into_iter().fold(f64::INFINITY, f64::min);
        let high = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let first = (low - 0.5).ceil().clamp(0.0, size as f64) as usize;
        let end = ((high - 0.5).floor() + 1.0).clamp(0.0, size as f64) as usize;
        first..end
    };
    for row in range(1, height) {
        for column in range(0, width) {
            let at = [column as f64 + 0.5, row as f64 + 0.5];
            let inside = [edge(a, b, at), edge(b, c, at), edge(c, a, at)];
            if inside.iter().all(|value| value * area.signum() >= 0.0) {
                found(row * width + column);
            }
        }
    }
}
