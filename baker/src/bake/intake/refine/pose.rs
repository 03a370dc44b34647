//! Six pose parameters → a moved camera, and the Jacobian of a point's pixel.
//!
//! The parameters are in the camera's frame, about the scene's origin, which is the object's centre. About the camera's
//! own place, a rotation and a translation would look alike.

use proto::table::Camera;

use crate::bake::model::scene::Frame;
use crate::bake::model::vec3::dot;

/// Rotation (radians about the camera's x, y, z) and translation (scene units along them).
pub(super) type Step = [f64; 6];

/// Derivative of a pixel by each parameter of a [`Step`]: x, then y.
pub(super) type Jacobian = [[f64; 6]; 2];

/// Jacobian of the pixel of the point `at`, given in the frame of `camera`, which sees the scene.
pub(super) fn jacobian(camera: &Camera, at: [f64; 3]) -> Jacobian {
    let [x, y, z] = at;
    let q: [f64; 3] = std::array::from_fn(|axis| at[axis] - camera.translation[axis]);
    // d(point)/d(step) is ω × q + v.
    let by = [
        [0.0, q[2], -q[1], 1.0, 0.0, 0.0],
        [-q[2], 0.0, q[0], 0.0, 1.0, 0.0],
        [q[1], -q[0], 0.0, 0.0, 0.0, 1.0],
    ];
    let row = |axis: usize, over: f64| {
        std::array::from_fn(|k| camera.focal[axis] * (by[axis][k] - over * by[2][k]) / z)
    };
    [row(0, x / z), row(1, y / z)]
}

pub(super) fn moved(camera: &Camera, step: &Step) -> Camera {
    let turn = rotation([step[0], step[1], step[2]]);
    let mut after = *camera;
    for row in 0..3 {
        for column in 0..3 {
            after.rotation[row][column] = (0..3)
                .map(|k| turn[row][k] * camera.rotation[k][column])
                .sum();
        }
        after.translation[row] += step[3 + row];
    }
    orthonormal(&mut after.rotation);
    after
}

/// Converts the pose of `seen`, a camera of the scene, back to `camera`, the same one of the world: inverse of
/// [`Frame::camera`].
pub(super) fn into_world(frame: &Frame, seen: &Camera, camera: &Camera) -> Camera {
    let mut world = *camera;
    world.rotation = seen.rotation;
    for row in 0..3 {
        let rotated = dot(seen.rotation[row], frame.centre);
        world.translation[row] = frame.radius * seen.translation[row] - rotated;
    }
    world
}

/// Rodrigues' formula.
fn rotation(turn: [f64; 3]) -> [[f64; 3]; 3] {
    let angle = turn.iter().map(|x| x * x).sum::<f64>().sqrt();
    let (a, b) = if angle < 1e-8 {
        (1.0, 0.5)
    } else {
        (angle.sin() / angle, (1.0 - angle.cos()) / (angle * angle))
    };
    let [x, y, z] = turn;
    let cross = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]];
    std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let twice: f64 = (0..3).map(|k| cross[row][k] * cross[k][column]).sum();
            let identity = if row == column { 1.0 } else { 0.0 };
            identity + a * cross[row][column] + b * twice
        })
    })
}

/// Removes rounding errors that add up over the steps (Gram-Schmidt).
fn orthonormal(rotation: &mut [[f64; 3]; 3]) {
    for row in 0..3 {
        for before in 0..row {
            let along = dot(rotation[row], rotation[before]);
            for k in 0..3 {
                rotation[row][k] -= along * rotation[before][k];
            }
        }
        let length = rotation[row].iter().map(|x| x * x).sum::<f64>().sqrt();
        rotation[row] = rotation[row].map(|x| x / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{Random, camera, cube};
    use crate::bake::model::scene::{Scene, in_camera, project};

    fn pixel(camera: &Camera, point: [f32; 3]) -> [f64; 2] {
        let h = project(camera, point);
        [h[0] / h[2], h[1] / h[2]]
    }

    #[test]
    fn the_jacobian_is_the_slope_of_the_projection() {
        let mut random = Random(11);
        let mut camera = camera([1.3, -0.4, 2.7], 640.0, [500, 400], [12.0, -7.0]);
        camera.focal[1] = 590.0;
        for _ in 0..50 {
            let point: [f32; 3] = std::array::from_fn(|_| random.within(-1.0, 1.0) as f32);
            let jacobian = jacobian(&camera, in_camera(&camera, point));
            for direction in 0..6 {
                let h = 1e-5;
                let mut step = [0.0; 6];
                step[direction] = h;
                let ahead = pixel(&moved(&camera, &step), point);
                step[direction] = -h;
                let behind = pixel(&moved(&camera, &step), point);
                for axis in 0..2 {
                    let slope = (ahead[axis] - behind[axis]) / (2.0 * h);
                    let found = jacobian[axis][direction];
                    assert!(
                        (slope - found).abs() < 1e-4 * (1.0 + slope.abs()),
                        "{axis} {direction}: {slope} {found}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_moved_camera_is_the_same_in_the_world() {
        let mut mesh = cube();
        for position in &mut mesh.positions {
            *position = [
                position[0] * 3.0 + 40.0,
                position[1] - 7.0,
                position[2] * 2.0,
            ];
        }
        let scene = Scene::new(&mesh, 16);
        let mut world = camera([0.5, 0.2, -5.0], 700.0, [640, 480], [3.0, -5.0]);
        for row in 0..3 {
            world.translation[row] -= dot(world.rotation[row], scene.frame.centre);
        }
        let seen = moved(
            &scene.camera(&world),
            &[0.01, -0.02, 0.03, 0.02, 0.01, -0.1],
        );
        let world = into_world(&scene.frame, &seen, &world);
        for (&at, &in_scene) in mesh.positions.iter().zip(&scene.positions) {
            let (a, b) = (pixel(&world, at), pixel(&seen, in_scene));
            assert!((a[0] - b[0]).hypot(a[1] - b[1]) < 1e-3, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_rotation_stays_one() {
        let mut camera = camera([1.3, -0.4, 2.7], 640.0, [500, 400], [0.0, 0.0]);
        for _ in 0..1000 {
            camera = moved(&camera, &[0.3, -0.2, 0.5, 0.0, 0.0, 0.0]);
        }
        for row in 0..3 {
            for other in 0..3 {
                let dot = dot(camera.rotation[row], camera.rotation[other]);
                let wanted = if row == other { 1.0 } else { 0.0 };
                assert!((dot - wanted).abs() < 1e-14, "{dot}");
            }
        }
    }
}
