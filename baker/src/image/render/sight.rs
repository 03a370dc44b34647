//! Mesh and camera → whether a point of the surface is visible to the camera.
//!
//! The surface is drawn with one sample per pixel centre. A point is visible if one of the four samples around it hits
//! a triangle whose plane, at the point's own ray, is not nearer than the point. So sloped surfaces do not occlude
//! themselves. An occluder is missed only if it is within [`THIN`] of the point's depth.

use kiln_raster::vector::{cross, sub};
use kiln_raster::{Hits, NOTHING};
use proto::table::{Camera, Mesh};
use rayon::prelude::*;

use crate::image::render::clip::{project, scene};

/// Relative difference of depth below which two surfaces are one.
const THIN: f64 = 1e-3;
/// Rows drawn at a time.
const BAND: usize = 32;

/// The surface as one camera sees it.
#[derive(Debug)]
pub struct Sight<'a> {
    mesh: &'a Mesh,
    camera: &'a Camera,
    width: usize,
    height: usize,
    corners: Vec<[f64; 3]>,
    /// The triangle of each pixel, or [`NOTHING`].
    triangles: Vec<u32>,
}

impl<'a> Sight<'a> {
    /// Draws the mesh in front of the camera.
    pub fn new(mesh: &'a Mesh, camera: &'a Camera, [width, height]: [u32; 2]) -> Self {
        let (width, height) = (width as usize, height as usize);
        let scene = scene(mesh, camera, [width, height], 1);
        let mut triangles = vec![NOTHING; width * height];
        let bands = triangles.par_chunks_mut((BAND * width).max(1)).enumerate();
        bands.for_each(|(band, triangles)| {
            let (first, rows) = (band * BAND, triangles.len() / width);
            let mut hits = Hits::default();
            scene.draw(&scene.touching(first, rows), first, rows, &mut hits);
            triangles.copy_from_slice(&hits.triangles);
            crate::worker::progress::unit();
        });
        Self {
            mesh,
            camera,
            width,
            height,
            corners: scene.into_corners(),
            triangles,
        }
    }

    /// The pixel in which the point is visible; none where it is outside the picture or occluded.
    pub fn pixel(&self, point: [f32; 3]) -> Option<usize> {
        let [x, y, depth] = project(self.camera, point);
        if depth <= 0.0 {
            return None;
        }
        let (x, y) = (x / depth, y / depth);
        let inside =
            (0.0..self.width as f64).contains(&x) && (0.0..self.height as f64).contains(&y);
        if !inside {
            return None;
        }
        let near = |at: f64, edge: usize| {
            let low = (at - 0.5).floor().max(0.0) as usize;
            [low.min(edge - 1), (low + 1).min(edge - 1)]
        };
        let (columns, rows) = (near(x, self.width), near(y, self.height));
        let open = rows.into_iter().any(|row| {
            columns
                .into_iter()
                .any(|column| self.is_open(row * self.width + column, [x, y], depth))
        });
        open.then_some(y as usize * self.width + x as usize)
    }

    /// Whether the surface at the pixel, extended to `at`, is not nearer than `depth`.
    fn is_open(&self, pixel: usize, [x, y]: [f64; 2], depth: f64) -> bool {
        let triangle = self.triangles[pixel];
        if triangle == NOTHING {
            return false;
        }
        let corners = self.mesh.triangles[triangle as usize];
        let [p, q, r] = corners.map(|corner| self.corners[corner as usize]);
        let normal = cross(sub(q, p), sub(r, p));
        // Intersects the ray (x, y, 1) · depth with the plane of the projected corners, which are linear in the scene's
        // points.
        let along = normal[0] * x + normal[1] * y + normal[2];
        let plane = (normal[0] * p[0] + normal[1] * p[1] + normal[2] * p[2]) / along;
        // An edge-on plane or one behind the camera does not occlude.
        !plane.is_finite() || plane <= 0.0 || plane >= depth * (1.0 - THIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card of 2×2 at depth 4, and one half as wide at depth 2 in front of its left half.
    fn scene() -> (Mesh, Camera) {
        let card = |left: f32, right: f32, depth: f32| {
            [
                [left, -1.0, depth],
                [right, -1.0, depth],
                [right, 1.0, depth],
                [left, 1.0, depth],
            ]
        };
        let positions = [card(-1.0, 1.0, 4.0), card(-1.0, 0.0, 2.0)].concat();
        let mesh = Mesh {
            normals: vec![[0.0; 3]; 8],
            uvs: vec![[0.0; 2]; 8],
            surface_vertices: (0..8).collect(),
            triangles: vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]],
            charts: 1,
            positions,
        };
        let camera = Camera {
            focal: [40.0; 2],
            centre: [32.0; 2],
            ..Camera::default()
        };
        (mesh, camera)
    }

    #[test]
    fn what_lies_behind_or_outside_is_not_in_sight() {
        let (mesh, camera) = scene();
        let sight = Sight::new(&mesh, &camera, [64, 64]);
        // (0.5, 0) of the far card is at column 37, row 32.
        assert_eq!(sight.pixel([0.5, 0.0, 4.0]), Some(32 * 64 + 37));
        assert_eq!(sight.pixel([-0.5, 0.0, 2.0]), Some(32 * 64 + 22));
        assert_eq!(sight.pixel([-0.5, 0.0, 4.0]), None, "behind the near card");
        assert_eq!(sight.pixel([0.5, 0.0, -4.0]), None, "behind the camera");
        assert_eq!(sight.pixel([9.0, 0.0, 4.0]), None, "beside the picture");
        // Without the near card the rest is visible.
        let far = Mesh {
            triangles: mesh.triangles[..2].to_vec(),
            ..mesh
        };
        let sight = Sight::new(&far, &camera, [64, 64]);
        assert!(sight.pixel([-0.5, 0.0, 4.0]).is_some());
    }

    #[test]
    fn a_slope_hides_none_of_itself() {
        let (mut mesh, camera) = scene();
        mesh.triangles.truncate(2);
        // Almost edge-on: depth grows from 4 to 40 over the two units of its height.
        for (position, depth) in mesh.positions.iter_mut().zip([4.0, 4.0, 40.0, 40.0]) {
            position[2] = depth;
        }
        let sight = Sight::new(&mesh, &camera, [64, 64]);
        for k in 1..100_u8 {
            let share = f32::from(k) / 100.0;
            let point = [0.3, -1.0 + 2.0 * share, 4.0 + 36.0 * share];
            assert!(sight.pixel(point).is_some(), "{point:?}");
        }
    }
}
