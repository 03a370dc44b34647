//! The mesh as adapters see it, moved and scaled to the unit ball.
//!
//! 32-bit arithmetic is then as good for a mesh of two centimetres a kilometre from the origin as for any other.
//! Cameras move with it.

use proto::table::{Camera, Mesh};

use crate::bake::model::vec3::{Vec3, dot, times};
use crate::bake::plan::window::Window;

/// Mesh in scene units, texture coordinates in texels.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Vertices within the unit ball.
    pub positions: Vec<[f32; 3]>,
    /// Smooth unit normals of the vertices.
    pub normals: Vec<[f32; 3]>,
    /// Position in texels: `uv · size`, so that texel (column i, row j) is centred on (i + ½, j + ½).
    pub texel_coords: Vec<[f32; 2]>,
    /// Vertices at one point of the surface share this number.
    pub surface_vertices: Vec<u32>,
    /// Vertex indices of each triangle.
    pub triangles: Vec<[u32; 3]>,
    /// Edge of the texture in texels.
    pub size: u32,
    /// The part of the texture that an adapter works on.
    pub window: Window,
    /// Where the unit ball is in the world.
    pub frame: Frame,
}

/// Position and size of the scene's unit ball in the world.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame {
    /// World position of the scene's origin.
    pub centre: [f64; 3],
    /// World units in one scene unit.
    pub radius: f64,
}

impl Frame {
    /// A ball around a surface: its bounding box's circumscribed ball. Vertices that no triangle uses do not count.
    pub fn around(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> Self {
        let mut low = [f64::INFINITY; 3];
        let mut high = [f64::NEG_INFINITY; 3];
        for corner in triangles.iter().flatten() {
            let position = positions[*corner as usize];
            for axis in 0..3 {
                low[axis] = low[axis].min(f64::from(position[axis]));
                high[axis] = high[axis].max(f64::from(position[axis]));
            }
        }
        let centre: [f64; 3] = std::array::from_fn(|axis| (low[axis] + high[axis]) / 2.0);
        let diagonal: f64 = (0..3)
            .map(|axis| (high[axis] - low[axis]).powi(2))
            .sum::<f64>()
            .sqrt();
        let radius = if diagonal > 0.0 { diagonal / 2.0 } else { 1.0 };
        Self { centre, radius }
    }

    /// Converts world positions to scene units.
    pub fn normalise(&self, positions: &[[f32; 3]]) -> Vec<[f32; 3]> {
        let into = |position: &[f32; 3]| {
            std::array::from_fn(|axis| {
                ((f64::from(position[axis]) - self.centre[axis]) / self.radius) as f32
            })
        };
        positions.iter().map(into).collect()
    }

    /// The camera that sees the scene as `camera` sees the world: `R (c + r x) + t = r (R x + (R c + t) / r)`, and a
    /// common factor of camera coordinates does not move a projection.
    pub fn camera(&self, camera: &Camera) -> Camera {
        let mut moved = *camera;
        for row in 0..3 {
            let rotated = dot(camera.rotation[row], self.centre);
            moved.translation[row] = (rotated + camera.translation[row]) / self.radius;
        }
        moved
    }
}

impl Scene {
    /// Scales a mesh to the ball around itself.
    pub fn new(mesh: &Mesh, size: u32) -> Self {
        let frame = Frame::around(&mesh.positions, &mesh.triangles);
        Self::framed(mesh, size, frame)
    }

    /// Scales a mesh to a given ball: its own, or that of the mesh before simplification.
    pub fn framed(mesh: &Mesh, size: u32, frame: Frame) -> Self {
        let texel_coords = mesh
            .uvs
            .iter()
            .map(|uv| [uv[0] * size as f32, uv[1] * size as f32])
            .collect();
        Self {
            positions: frame.normalise(&mesh.positions),
            normals: mesh.normals.clone(),
            texel_coords,
            surface_vertices: mesh.surface_vertices.clone(),
            triangles: mesh.triangles.clone(),
            size,
            window: Window::whole(size),
            frame,
        }
    }

    /// See [`Frame::camera`].
    pub fn camera(&self, camera: &Camera) -> Camera {
        self.frame.camera(camera)
    }

    /// The same scene with another window of its texture.
    pub fn within(&self, window: &Window) -> Self {
        Self {
            window: window.clone(),
            ..self.clone()
        }
    }

    /// Number of texels of its window.
    pub fn texels(&self) -> usize {
        self.window.texels()
    }
}

/// The camera whose pixel centres are those of every `stride`-th column and row of `camera`, from `stride / 2` on.
pub(crate) fn every(camera: &Camera, stride: u32) -> Camera {
    let off = f64::from(stride / 2) + 0.5 - f64::from(stride) / 2.0;
    let mut sparse = *camera;
    for axis in 0..2 {
        sparse.focal[axis] /= f64::from(stride);
        sparse.centre[axis] = (camera.centre[axis] - off) / f64::from(stride);
    }
    sparse
}

/// A point in the camera's frame.
pub(crate) fn in_camera(camera: &Camera, point: [f32; 3]) -> Vec3 {
    let turned = times(&camera.rotation, point.map(f64::from));
    std::array::from_fn(|row| turned[row] + camera.translation[row])
}

/// Homogeneous pixel coordinates `(x·z, y·z, z)` of a point: its projection is `(x, y)`, its depth `z`.
pub fn project(camera: &Camera, point: [f32; 3]) -> [f64; 3] {
    let at = in_camera(camera, point);
    [
        camera.focal[0] * at[0] + camera.centre[0] * at[2],
        camera.focal[1] * at[1] + camera.centre[1] * at[2],
        at[2],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{Random, camera, cube};

    /// Largest distance in pixels between a vertex as the world's camera and as the scene's camera sees it, for a
    /// random mesh around `centre` of this radius.
    fn distance(centre: [f64; 3], radius: f64, moved: impl Fn(&Scene, &Camera) -> Camera) -> f64 {
        let mut random = Random(5);
        let mut mesh = cube();
        for position in &mut mesh.positions {
            *position = std::array::from_fn(|axis| {
                (centre[axis] + radius * random.within(-1.0, 1.0)) as f32
            });
        }
        let mut world = camera([1.1, 0.7, -2.9], 900.0, [640, 480], [3.0, -5.0]);
        for row in 0..3 {
            let centre = dot(world.rotation[row], centre);
            world.translation[row] = radius * world.translation[row] - centre;
        }
        let scene = Scene::new(&mesh, 64);
        for position in &scene.positions {
            let length = position.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!(length < 1.0 + 1e-6, "{length}");
        }
        let camera = moved(&scene, &world);
        let pixel = |h: [f64; 3]| [h[0] / h[2], h[1] / h[2]];
        mesh.positions
            .iter()
            .zip(&scene.positions)
            .map(|(&at, &in_scene)| {
                let (a, b) = (
                    pixel(project(&world, at)),
                    pixel(project(&camera, in_scene)),
                );
                (a[0] - b[0]).hypot(a[1] - b[1])
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn scene_and_camera_move_together() {
        for (centre, radius) in [
            ([0.0; 3], 1.0),
            ([1e5, -2e5, 3e4], 0.5),
            ([1e3, 0.0, -4e3], 0.02),
            ([0.1, 0.2, 0.3], 1e-7),
            ([5e9, 0.0, 1e9], 3e8),
            ([0.0; 3], 1e-15),
        ] {
            let error = distance(centre, radius, Scene::camera);
            // Scene positions have 24 bits: 2⁻²⁴ · 900 px / 1.9, far below a tenth of a sample's distance.
            assert!(
                error < 1e-3,
                "{error} px around {centre:?}, radius {radius}"
            );
        }
        let forgotten = distance([0.1, 0.2, 0.3], 1.0, |_, camera| *camera);
        assert!(
            forgotten > 1.0,
            "a camera that stays behind sees {forgotten} px off"
        );
    }

    #[test]
    fn vertices_that_no_triangle_uses_do_not_count() {
        let mut mesh = cube();
        mesh.positions.push([1e9; 3]);
        mesh.uvs.push([0.0; 2]);
        mesh.surface_vertices.push(24);
        let (with, without) = (Scene::new(&mesh, 8), Scene::new(&cube(), 8));
        assert_eq!(with.frame, without.frame);
        assert_eq!(with.texels(), 64);
    }

    #[test]
    fn a_mesh_of_one_place_has_a_scale() {
        let mut mesh = cube();
        mesh.positions.fill([3.0, 4.0, 5.0]);
        let scene = Scene::new(&mesh, 8);
        let frame = Frame {
            centre: [3.0, 4.0, 5.0],
            radius: 1.0,
        };
        assert_eq!(scene.frame, frame);
        assert!(scene.positions.iter().all(|at| *at == [0.0; 3]));
    }
}
