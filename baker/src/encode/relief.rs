//! World-space normals per texel → a tangent-space normal map (glTF: +X right, +Y up in the picture, +Z outwards).
//!
//! A texel's frame is what viewers compute from the vertices' normals and tangents: each is interpolated and
//! normalised, and so is the bitangent. The map is the exact inverse, so viewers show the fitted normals. Where nothing
//! was seen, the surface is as smooth as the mesh: filled normals fade into the mesh's own within some texels. A gutter
//! texel uses the frame of the nearest chart texel.
//!
//! A triangle wound against what its views show (materials are double-sided) is found by its texels. Viewers flip its
//! frame, so its normals are flipped too.

use std::collections::VecDeque;

use proto::table::{Mesh, unpack_normal};
use rayon::prelude::*;

use super::glb::unit;
use crate::image::render::{Image, Textures};
use crate::image::survey::{NOTHING, cover};
use crate::worker::progress::unit as work;

/// Distance in texels from the seen ones over which the fill fades to 1/e.
const FADE: f32 = 8.0;
/// Smallest z: the map has no normals that point inwards.
const LEAST_Z: f32 = 0.02;
/// A frame of less volume is nearly planar and cannot be inverted.
const FLATTEST: f32 = 0.05;

/// A normal map.
#[derive(Clone, Debug)]
pub struct Relief {
    /// `size²` texels.
    pub texels: Vec<[u8; 4]>,
    /// Mean cosine between the seen normals and the mesh's own; none where nothing was seen.
    pub agreement: Option<f32>,
}

/// Makes the map. `normals` are packed, see [`proto::table::pack_normal`].
pub fn relief(mesh: &Mesh, tangents: &[[f32; 4]], size: u32, normals: &[[u8; 4]]) -> Relief {
    let edge = size as usize;
    let owners = match Image::new(edge, edge, normals) {
        Some(image) => {
            let images = [image];
            let textures = Textures {
                images: &images,
                of_triangle: &[],
            };
            cover(mesh, textures, 0)
        }
        None => vec![NOTHING; normals.len()],
    };
    work();
    let frames = Frames {
        mesh,
        tangents,
        edge,
    };
    let inwards = inwards(&frames, &owners, normals);
    work();
    let charted = |texel: usize| owners[texel] != NOTHING;
    let (nearest, _) = spread(edge, charted, |_| true);
    work();
    let seen = |texel: usize| charted(texel) && unpack_normal(normals[texel]).1;
    let (_, unseen_for) = spread(edge, seen, charted);
    work();
    let texels = (0..normals.len()).into_par_iter().map(|texel| {
        let chart = nearest[texel] as usize;
        let Some(&owner) = owners.get(chart).filter(|&&owner| owner != NOTHING) else {
            return FLAT;
        };
        let frame = frames.at(owner as usize, chart);
        let (normal, _) = unpack_normal(normals[texel]);
        let turned = if inwards[owner as usize] { -1.0 } else { 1.0 };
        let share = match unseen_for[chart] {
            u32::MAX => 0.0,
            steps => (-(steps as f32) / FADE).exp(),
        };
        let mixed: [f32; 3] =
            std::array::from_fn(|k| share * turned * normal[k] + (1.0 - share) * frame[2][k]);
        encode(&frame, mixed, threshold(texel, edge))
    });
    let texels = texels.collect();
    work();
    Relief {
        texels,
        agreement: agreement(&frames, &owners, &inwards, normals),
    }
}

const FLAT: [u8; 4] = [128, 128, 255, 255];

type Frame = [[f32; 3]; 3];

struct Frames<'a> {
    mesh: &'a Mesh,
    tangents: &'a [[f32; 4]],
    edge: usize,
}

impl Frames<'_> {
    /// Tangent, bitangent and normal at the centre of a texel of a triangle.
    fn at(&self, triangle: usize, texel: usize) -> Frame {
        let corners = self.mesh.triangles[triangle].map(|corner| corner as usize);
        let weights = self.weights(corners, texel);
        let mut frame = [[0.0; 3]; 3];
        for (corner, weight) in corners.into_iter().zip(weights) {
            let normal = unit(self.mesh.normals[corner]);
            let [x, y, z, w] = self.tangents[corner];
            let bitangent = cross(normal, [x, y, z]).map(|value| value * w);
            for (axis, of_corner) in frame.iter_mut().zip([[x, y, z], bitangent, normal]) {
                for (sum, value) in axis.iter_mut().zip(of_corner) {
                    *sum += weight * value;
                }
            }
        }
        frame.map(unit)
    }

    /// Barycentric coordinates of the texel's centre.
    fn weights(&self, corners: [usize; 3], texel: usize) -> [f32; 3] {
        let edge = self.edge as f64;
        let [a, b, c] = corners.map(|corner| self.mesh.uvs[corner].map(|x| f64::from(x) * edge));
        let at = [
            (texel % self.edge) as f64 + 0.5,
            (texel / self.edge) as f64 + 0.5,
        ];
        let area = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
            (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
        };
        let all = area(a, b, c);
        if all == 0.0 {
            return [1.0 / 3.0; 3];
        }
        [area(b, c, at), area(c, a, at), area(a, b, at)].map(|part| (part / all) as f32)
    }

    /// The normal of a triangle's plane by its winding, not normalised.
    fn plane(&self, triangle: usize) -> [f32; 3] {
        let [a, b, c] =
            self.mesh.triangles[triangle].map(|corner| self.mesh.positions[corner as usize]);
        let side = |p: [f32; 3]| std::array::from_fn(|k| p[k] - a[k]);
        cross(side(b), side(c))
    }
}

/// Which triangles are seen from behind.
fn inwards(frames: &Frames<'_>, owners: &[u32], normals: &[[u8; 4]]) -> Vec<bool> {
    let mut sums = vec![[0.0_f32; 3]; frames.mesh.triangles.len()];
    for (&owner, &texel) in owners.iter().zip(normals) {
        if let (true, (normal, true)) = (owner != NOTHING, unpack_normal(texel)) {
            for (sum, value) in sums[owner as usize].iter_mut().zip(normal) {
                *sum += value;
            }
        }
    }
    sums.par_iter()
        .enumerate()
        .map(|(triangle, &sum)| dot(sum, frames.plane(triangle)) < 0.0)
        .collect()
}

fn agreement(
    frames: &Frames<'_>,
    owners: &[u32],
    inwards: &[bool],
    normals: &[[u8; 4]],
) -> Option<f32> {
    let (mut sum, mut count) = (0.0_f64, 0_u32);
    for (texel, (&owner, &packed)) in owners.iter().zip(normals).enumerate() {
        if let (true, (normal, true)) = (owner != NOTHING, unpack_normal(packed)) {
            let cosine = dot(normal, frames.at(owner as usize, texel)[2]);
            sum += f64::from(if inwards[owner as usize] {
                -cosine
            } else {
                cosine
            });
            count += 1;
        }
    }
    (count > 0).then(|| (sum / f64::from(count)) as f32)
}

/// Breadth-first search from the `source` texels over `open` ones. Returns for each texel the nearest source and the
/// number of steps to it, `u32::MAX` where none reaches.
fn spread(
    edge: usize,
    source: impl Fn(usize) -> bool,
    open: impl Fn(usize) -> bool,
) -> (Vec<u32>, Vec<u32>) {
    let count = edge * edge;
    let (mut nearest, mut steps) = (vec![u32::MAX; count], vec![u32::MAX; count]);
    let mut queue = VecDeque::new();
    for texel in (0..count).filter(|&texel| source(texel)) {
        (nearest[texel], steps[texel]) = (texel as u32, 0);
        queue.push_back(texel);
    }
    while let Some(texel) = queue.pop_front() {
        let (column, row) = (texel % edge, texel / edge);
        let sides = [
            (column > 0).then(|| texel - 1),
            (column + 1 < edge).then(|| texel + 1),
            (row > 0).then(|| texel - edge),
            (row + 1 < edge).then(|| texel + edge),
        ];
        for side in sides.into_iter().flatten() {
            if steps[side] == u32::MAX && open(side) {
                (nearest[side], steps[side]) = (nearest[texel], steps[texel] + 1);
                queue.push_back(side);
            }
        }
    }
    (nearest, steps)
}

/// What a texel's values are rounded by, 0 to 1: ordered dither of 8×8 texels (Bayer, 1973). Steps of 8 bits show as bands
/// where light glances off.
fn threshold(texel: usize, edge: usize) -> f32 {
    let (column, row) = (texel % edge, texel / edge);
    let bit = |k: usize| ((column ^ row) >> k & 1) << 1 | row >> k & 1;
    let place = bit(0) << 4 | bit(1) << 2 | bit(2);
    (place as f32 + 0.5) / 64.0
}

/// Encodes a world direction as bytes of the map.
fn encode(frame: &Frame, direction: [f32; 3], threshold: f32) -> [u8; 4] {
    let [t, b, n] = *frame;
    let volume = dot(t, cross(b, n));
    if volume.abs() < FLATTEST {
        return FLAT;
    }
    let [x, y, z] = unit(
        [
            dot(direction, cross(b, n)),
            dot(direction, cross(n, t)),
            dot(direction, cross(t, b)),
        ]
        .map(|value| value / volume),
    );
    let [x, y, z] = unit([x, y, z.max(LEAST_Z)]);
    // The mesh's own normal has no exact bytes: dither would cover plain surfaces with noise.
    if x.abs().max(y.abs()) < 0.5 / 255.0 {
        return FLAT;
    }
    let byte = |value: f32| ((value + 1.0) * 127.5 + threshold).clamp(0.0, 255.0) as u8;
    [byte(x), byte(y), byte(z), 255]
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    (0..3).map(|k| a[k] * b[k]).sum()
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
}

#[cfg(test)]
mod tests {
    use proto::table::pack_normal;

    use super::*;
    use crate::encode::tangents::tangents;

    const SIZE: u32 = 16;

    /// An upright square across the texture, except for a gutter of four texels, seen from +z.
    fn square() -> Mesh {
        let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
        Mesh {
            positions: corners.map(|[x, y]| [x, y, 0.0]).to_vec(),
            normals: vec![[0.0, 0.0, 1.0]; 4],
            uvs: corners
                .map(|[x, y]| [0.25 + 0.5 * x, 0.75 - 0.5 * y])
                .to_vec(),
            surface_vertices: vec![0, 1, 2, 3],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            charts: 1,
        }
    }

    fn of(mesh: &Mesh, normal: [f32; 3], observed: bool) -> Relief {
        let (mesh, tangents) = tangents(mesh);
        let normals = vec![pack_normal(normal, observed); (SIZE * SIZE) as usize];
        relief(&mesh, &tangents, SIZE, &normals)
    }

    #[test]
    fn red_is_right_green_is_up_in_the_picture() {
        let mesh = square();
        // A third to the right and two thirds up.
        let found = of(&mesh, [1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0], true);
        for texel in &found.texels {
            // (1 + 2/3) · 127.5 is 212.5.
            let wanted = [(170, 0), (212, 1), (212, 1), (255, 0)];
            let near = |(&byte, (least, more)): (&u8, (u8, u8))| byte.wrapping_sub(least) <= more;
            assert!(
                texel.iter().zip(wanted).all(near),
                "gutter and all: {texel:?}"
            );
        }
        assert!((found.agreement.expect("seen") - 2.0 / 3.0).abs() < 1e-3);
    }

    #[test]
    fn a_face_that_is_wound_inwards_gives_the_same_picture_from_behind() {
        let mut mesh = square();
        mesh.triangles = vec![[0, 2, 1], [0, 3, 2]];
        mesh.normals = vec![[0.0, 0.0, -1.0]; 4];
        let found = of(&mesh, [1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0], true);
        let (mesh, tangents) = tangents(&mesh);
        for &[r, g, b, _] in &found.texels {
            let [x, y, z] = [r, g, b].map(|byte| f32::from(byte) / 127.5 - 1.0);
            assert!(z > 0.0);
            // A viewer flips all axes of a frame that is seen from behind.
            let [tx, ty, tz, w] = tangents[0];
            let bitangent = cross(mesh.normals[0], [tx, ty, tz]).map(|value| value * w);
            let shown: [f32; 3] = std::array::from_fn(|k| {
                -(x * [tx, ty, tz][k] + y * bitangent[k] + z * mesh.normals[0][k])
            });
            for (shown, wanted) in shown.into_iter().zip([1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]) {
                assert!((shown - wanted).abs() < 0.01, "{shown} is not {wanted}");
            }
        }
        assert!(found.agreement.expect("seen") > 0.6);
    }

    #[test]
    fn what_was_not_seen_is_as_smooth_as_the_mesh() {
        let found = of(&square(), [0.6, 0.0, 0.8], false);
        assert!(found.texels.iter().all(|texel| *texel == FLAT));
        assert_eq!(found.agreement, None);
        // It fades from what was seen: only the left column of the chart is.
        let (mesh, tangents) = tangents(&square());
        let normals: Vec<[u8; 4]> = (0..SIZE * SIZE)
            .map(|k| pack_normal([0.6, 0.0, 0.8], k % SIZE == 4))
            .collect();
        let found = relief(&mesh, &tangents, SIZE, &normals);
        let row: Vec<u8> = (4..12).map(|x| found.texels[8 * 16 + x][0]).collect();
        assert_eq!(row[0], 204);
        assert!(row.is_sorted_by(|a, b| a > b) && row[7] < 170, "{row:?}");
    }

    #[test]
    fn normals_that_point_inwards_lie_flat_at_most() {
        let (mesh, tangents) = tangents(&square());
        // One texel of many: the face as a whole is seen from the front.
        let at = |k: u32| {
            if k == 8 * 16 + 8 {
                [0.8, 0.0, -0.6]
            } else {
                [0.0, 0.0, 1.0]
            }
        };
        let normals: Vec<[u8; 4]> = (0..SIZE * SIZE).map(|k| pack_normal(at(k), true)).collect();
        let found = relief(&mesh, &tangents, SIZE, &normals);
        // Rounded by the texel's place in the dither.
        let texel = found.texels[8 * 16 + 8];
        let near = |(&byte, wanted): (&u8, u8)| wanted - byte <= 1;
        assert!(
            texel.iter().zip([255, 128, 131, 255]).all(near),
            "{texel:?}"
        );
        assert_eq!(found.texels[8 * 16 + 7], FLAT);
    }
}
