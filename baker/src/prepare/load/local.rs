//! Moves a mesh that lies far from the origin, as georeferenced ones do, to a local origin before its coordinates become
//! f32.
//!
//! f32 hold 24 bits of a number. Up to [`FAR`] times its own size from the origin, a vertex is off by 2⁻¹⁸ of that size
//! at most: a thirtieth of a texel of the largest texture. Such a mesh stays as it is. Beyond, at UTM's millions of
//! metres the steps are half a metre, so the file is read again and an offset is taken from each f64 first. The offset
//! is a multiple of a power of two that is 1 at most: it is a short number in any file, and subtracting it is exact.

use proto::limits::MAX_COORDINATE;

use super::raw::{Offset, RawMesh};

/// Largest coordinate of a mesh that stays where it is, as a multiple of its longest edge.
const FAR: f64 = 64.0;
/// Largest coordinate of a mesh that is moved: cameras stay within [`MAX_COORDINATE`] as they come with it.
const MOST: f32 = MAX_COORDINATE / 16.0;
/// The first offset may come from a mesh whose f32 are all one point: the next one sees its size.
const TRIES: usize = 3;
/// Steps between stored coordinates that show in a texture, as a share of the longest edge.
const COARSE: f64 = 1e-4;

/// Reads a mesh, and what comes with it, at the offset that suits it.
pub(super) fn settled<T, E>(
    read: impl Fn(Offset) -> Result<(RawMesh, T), E>,
) -> Result<(RawMesh, T, Offset), E> {
    let mut offset = Offset::default();
    let (mut mesh, mut more) = read(offset)?;
    for _ in 1..TRIES {
        let Some(by) = far(&mesh) else {
            break;
        };
        offset = std::array::from_fn(|k| offset[k] + by[k]);
        drop((mesh, more));
        (mesh, more) = read(offset)?;
    }
    Ok((mesh, more, offset))
}

/// What to say of a far mesh whose file holds f32 already.
pub(super) fn coarse(mesh: &RawMesh, offset: &Offset) -> Option<String> {
    let extent = Extent::of(mesh);
    let largest = (0..3).fold(0.0_f64, |most, k| {
        most.max((extent.low[k] + offset[k]).abs())
            .max((extent.high[k] + offset[k]).abs())
    });
    let step = f64::from((largest as f32).next_up()) - f64::from(largest as f32);
    let single = |at: &[f32; 3]| {
        (0..3).all(|k| {
            let world = offset[k] + f64::from(at[k]);
            f64::from(world as f32) == world
        })
    };
    let found = step > COARSE * extent.edge() && used(mesh).all(single);
    found.then(|| {
        format!(
            "its coordinates, up to {largest:.0}, are stored with 32 bits, in steps of {step}, and its longest edge is {:.4}: the shape has lost its detail (export it with double precision, or near the origin)",
            extent.edge()
        )
    })
}

/// The offset that moves the mesh's middle near the origin; none where it need not move.
fn far(mesh: &RawMesh) -> Option<Offset> {
    let extent = Extent::of(mesh);
    let (low, high, edge) = (extent.low, extent.high, extent.edge());
    let largest = (low.iter().chain(&high)).fold(0.0_f64, |most, x| most.max(x.abs()));
    if largest <= FAR * edge || largest > f64::from(MOST) {
        return None;
    }
    let step = match edge > 0.0 {
        true => edge.log2().floor().exp2().min(1.0),
        false => 1.0,
    };
    let by: Offset = std::array::from_fn(|k| ((low[k] + high[k]) / 2.0 / step).round() * step);
    (by != Offset::default() && by.iter().all(|x| x.is_finite())).then_some(by)
}

/// Positions that triangles use: others may hold anything.
fn used(mesh: &RawMesh) -> impl Iterator<Item = &[f32; 3]> {
    let corners = mesh.triangles.as_flattened().iter();
    corners.map(|&vertex| &mesh.positions[vertex as usize])
}

/// The bounding box of the positions in use.
struct Extent {
    low: [f64; 3],
    high: [f64; 3],
}

impl Extent {
    fn of(mesh: &RawMesh) -> Self {
        let ends = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        let (low, high) = used(mesh).fold(ends, |(low, high), at| {
            let at = at.map(f64::from);
            (
                std::array::from_fn(|k| low[k].min(at[k])),
                std::array::from_fn(|k| high[k].max(at[k])),
            )
        });
        Self { low, high }
    }

    fn edge(&self) -> f64 {
        (0..3).fold(0.0, |most, k| (self.high[k] - self.low[k]).max(most))
    }
}

#[cfg(test)]
mod tests {
    use proto::message::Root;

    use super::*;
    use crate::prepare::load::{NoUvs, read_local, relative};
    use crate::worker::folder::{Folder, Local};
    use crate::worker::progress::Silent;

    fn mesh(positions: [[f32; 3]; 3]) -> RawMesh {
        let mut positions = positions.to_vec();
        positions.push([f32::NAN; 3]);
        RawMesh {
            positions,
            uvs: Err(NoUvs::Absent),
            triangles: vec![[0, 1, 2]],
        }
    }

    #[test]
    fn only_what_lies_far_for_its_size_is_moved_by_a_short_number() {
        // Where a right angle lies, how long its sides are, and the offset.
        let cases = [
            ([0.0, 0.0, 0.0], 1.0, None),
            ([-63.0, 0.0, 0.0], 1.0, None),
            ([100.2, 0.0, -3.0], 1.0, Some([101.0, 1.0, -2.0])),
            ([1e4, -3e3, 0.0], 1e3, None),
            (
                [451_200.0, 96.5, -5_412_300.0],
                2.0,
                Some([451_201.0, 98.0, -5_412_299.0]),
            ),
            (
                [451_200.0, 0.0, 8.0],
                0.0625,
                Some([451_200.031_25, 0.0625, 8.0625]),
            ),
            // All in one point.
            ([5e6, 5e6, 5e6], 0.01, Some([5e6, 5e6, 5e6])),
        ];
        for ([x, y, z], side, wanted) in cases {
            let mesh = mesh([[x, y, z], [x + side, y, z], [x, y + side, z + side]]);
            let found = far(&mesh);
            assert_eq!(found.is_some(), wanted.is_some(), "{x} {y} {z}");
            for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
                assert!(
                    (found - wanted).abs() <= f64::from(side).max(0.1),
                    "{found} {wanted}"
                );
                assert_eq!((found * 32.0).fract(), 0.0, "{found} is short");
            }
        }
    }

    const PLACE: [f64; 3] = [451_200.123, 96.5, -5_412_300.75];
    const CORNERS: [[f64; 3]; 3] = [[0.0, 0.001, 0.0], [0.06, 0.0, 0.0], [0.0, 0.0, 0.05]];

    /// Files of one triangle far out, all numbers in full.
    fn files() -> Vec<(&'static str, Vec<u8>)> {
        let far: [[f64; 3]; 3] = CORNERS.map(|at| std::array::from_fn(|k| at[k] + PLACE[k]));
        let lines = |before: &str| {
            far.map(|[x, y, z]| format!("{before}{x} {y} {z}\n"))
                .concat()
        };
        let ply = "ply\nformat ascii 1.0\nelement vertex 3\nproperty double x\nproperty double y\nproperty double z\n\
            element face 1\nproperty list uchar int vertex_indices\nend_header\n";
        let [x, y, z] = PLACE;
        let gltf = |node: String| {
            format!(
                r#"{{"asset":{{"version":"2.0"}},"nodes":[{node},{{"mesh":0}}],"scene":0,"scenes":[{{"nodes":[0]}}],
                "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0}}}}]}}],
                "accessors":[{{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3"}}],
                "bufferViews":[{{"buffer":0,"byteLength":36}}],
                "buffers":[{{"byteLength":36,"uri":"a.bin"}}]}}"#
            )
        };
        let numbers = far.as_flattened().iter().flat_map(|x| x.to_le_bytes());
        let header = r#"{"faces":{"dtype":"U32","shape":[1,3],"data_offsets":[72,84]},"vertices":{"dtype":"F64","shape":[3,3],"data_offsets":[0,72]}}"#;
        let mut arrays = (header.len() as u64).to_le_bytes().to_vec();
        arrays.extend(header.bytes());
        arrays.extend(numbers);
        arrays.extend([0_u32, 1, 2].into_iter().flat_map(u32::to_le_bytes));
        let texts = [
            ("a.obj", format!("v 0 0 0\n{}f 2 3 4\n", lines("v "))),
            ("a.ply", format!("{ply}{}3 0 1 2\n", lines(""))),
            ("a.off", format!("OFF\n3 1 0\n{}3 0 1 2\n", lines(""))),
            (
                "a.stl",
                format!(
                    "solid a\nfacet normal 0 0 1\nouter loop\n{}endloop\nendfacet\nendsolid\n",
                    lines("vertex ")
                ),
            ),
            (
                "a.gltf",
                gltf(format!(r#"{{"children":[1],"translation":[{x},{y},{z}]}}"#)),
            ),
            (
                "b.gltf",
                gltf(format!(
                    r#"{{"children":[1],"matrix":[1,0,0,0,0,1,0,0,0,0,1,0,{x},{y},{z},1]}}"#
                )),
            ),
        ];
        let texts = texts.map(|(name, text)| (name, text.into_bytes()));
        texts
            .into_iter()
            .chain([("a.safetensors", arrays)])
            .collect()
    }

    #[test]
    fn every_format_keeps_six_centimetres_at_utm() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Local(dir.path().to_path_buf());
        let corners = CORNERS.as_flattened().iter();
        let corners: Vec<u8> = corners.flat_map(|&x| (x as f32).to_le_bytes()).collect();
        std::fs::write(dir.path().join("a.bin"), corners).expect("writes");
        for (name, bytes) in files() {
            std::fs::write(dir.path().join(name), bytes).expect("writes");
            let folder = Folder::new(&folder, Root::Mesh);
            let read = read_local(&folder, name, (false, None), &Silent);
            let (mesh, _, offset) = read.unwrap_or_else(|error| panic!("{name}: {error}"));
            for (&vertex, wanted) in mesh.triangles[0].iter().zip(CORNERS) {
                for k in 0..3 {
                    let found = offset[k] + f64::from(mesh.positions[vertex as usize][k]);
                    let off = (found - PLACE[k] - wanted[k]).abs();
                    assert!(off < 5e-8, "{name}: {found}, axis {k}");
                }
            }
            let largest = mesh.triangles[0].map(|vertex| mesh.positions[vertex as usize]);
            assert!(
                largest.as_flattened().iter().all(|x| x.abs() < 1.0),
                "{name}"
            );
            assert_eq!(coarse(&mesh, &offset), None, "{name}");
        }
    }

    #[test]
    fn stored_floats_are_named() {
        let rounded = |x: f64| f64::from(x as f32);
        let offset = [451_200.0, 0.0, 5_412_300.0];
        let at = |shift: f64| {
            let corner = |at: [f64; 3]| relative(at.map(|x| rounded(x + shift)), &offset);
            mesh(
                [[0.0, 0.0, 0.0], [2.5, 0.0, 0.0], [0.0, 2.0, 0.5]]
                    .map(|by| corner(std::array::from_fn(|k| offset[k] + by[k]))),
            )
        };
        let text = coarse(&at(0.0), &offset).expect("floats");
        assert!(text.contains("in steps of 0.5"), "{text}");
        let mut fine = at(0.0);
        fine.positions[1][0] += 0.01;
        assert_eq!(coarse(&fine, &offset), None);
    }
}
