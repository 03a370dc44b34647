//! An attribute that says how much of the surface around each vertex the views have shown.
//!
//! `_PROVENANCE` is a scalar, normalised unsigned byte: 1 (255) is observed, 0 inferred. It is a mean over the texels
//! of all triangles around the vertex's surface point, on both sides of a seam, weighted by the barycentric coordinate
//! of the vertex. A texel counts 1 if observed, ½ if weakly observed and 0 if filled in. A vertex whose triangles have
//! no texel takes the texel at its texture coordinate. Elements have a stride of four bytes, as the format demands.

use proto::table::{Mesh, Provenance, Texture};
use serde_json::Value;

use super::container::chunks;
use crate::image::render::Textures;
use crate::image::survey;

/// The attribute's name.
pub const NAME: &str = "_PROVENANCE";
/// No triangle owns the texel.
const NOBODY: u32 = u32::MAX;

/// The value of each vertex, see the head of this file.
pub fn shares(mesh: &Mesh, texture: &Texture) -> Vec<u8> {
    let size = texture.size as usize;
    let images = [texture.into()];
    let textures = Textures {
        images: &images,
        of_triangle: &[],
    };
    let owners = survey::cover(mesh, textures, 0);
    let mut sums = vec![[0.0_f64; 2]; mesh.positions.len()];
    for (texel, &owner) in owners.iter().enumerate() {
        let (false, Some(known)) = (owner == NOBODY, value(texture.provenance[texel])) else {
            continue;
        };
        let corners = mesh.triangles[owner as usize];
        let at = [texel % size, texel / size].map(|x| (x as f64 + 0.5) / size as f64);
        let uvs = corners.map(|corner| mesh.uvs[corner as usize].map(f64::from));
        for (corner, weight) in corners.into_iter().zip(barycentrics(uvs, at)) {
            let sum = &mut sums[mesh.surface_vertices[corner as usize] as usize];
            sum[0] += weight * known;
            sum[1] += weight;
        }
    }
    let of_vertex = |(uv, point): (&[f32; 2], &u32)| {
        let [sum, weight] = sums[*point as usize];
        let share = if weight > 1e-9 {
            sum / weight
        } else {
            let place = uv.map(|x| ((f64::from(x) * size as f64) as usize).min(size - 1));
            value(texture.provenance[place[1] * size + place[0]]).unwrap_or(0.0)
        };
        (share * 255.0).round() as u8
    };
    mesh.uvs
        .iter()
        .zip(&mesh.surface_vertices)
        .map(of_vertex)
        .collect()
}

/// The value of a texel; none outside every chart.
fn value(provenance: u8) -> Option<f64> {
    const KNOWN: [(Provenance, f64); 3] = [
        (Provenance::Filled, 0.0),
        (Provenance::Weak, 0.5),
        (Provenance::Observed, 1.0),
    ];
    let known = KNOWN.iter().find(|(kind, _)| *kind as u8 == provenance);
    known.map(|(_, value)| *value)
}

fn barycentrics([a, b, c]: [[f64; 2]; 3], at: [f64; 2]) -> [f64; 3] {
    let area = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
        (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
    };
    let all = area(a, b, c);
    if all == 0.0 {
        return [1.0 / 3.0; 3];
    }
    [area(at, b, c), area(a, at, c), area(a, b, at)].map(|part| (part / all).clamp(0.0, 1.0))
}

/// Reads the attribute of a GLB of [`super::write_leaves`], primitive after primitive.
pub fn read(file: &[u8]) -> Option<Vec<u8>> {
    let (document, binary) = chunks(file)?;
    let primitives = document["meshes"][0]["primitives"].as_array()?.iter();
    let all: Option<Vec<Vec<u8>>> = primitives
        .map(|primitive| read_of(&document, binary, primitive))
        .collect();
    Some(all?.concat())
}

/// Reads the attribute of one primitive.
fn read_of(document: &Value, binary: &[u8], primitive: &Value) -> Option<Vec<u8>> {
    let number = |value: &Value| value.as_u64().and_then(|x| usize::try_from(x).ok());
    let accessor = number(&primitive["attributes"][NAME])?;
    let accessor = &document["accessors"][accessor];
    let count = number(&accessor["count"])?;
    let view = &document["bufferViews"][number(&accessor["bufferView"])?];
    let end = number(&view["byteOffset"])?.checked_add(number(&view["byteLength"])?)?;
    let buffer = &document["buffers"][number(&view["buffer"])?];
    if end > number(&buffer["byteLength"])? {
        return None;
    }
    let packed = &view["extensions"]["EXT_meshopt_compression"];
    let place = if packed.is_null() { view } else { packed };
    let start = number(&place["byteOffset"])?;
    let bytes = binary.get(start..start.checked_add(number(&place["byteLength"])?)?)?;
    let elements: Vec<[u8; 4]> = match packed.is_null() {
        true => bytes.as_chunks::<4>().0.to_vec(),
        false => meshopt::decode_vertex_buffer(bytes, count).ok()?,
    };
    let clean = elements.iter().all(|element| element[1..] == [0; 3]);
    (clean && elements.len() == count).then(|| elements.iter().map(|element| element[0]).collect())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proto::job::{Compress, Form, TextureFormat};

    use super::super::{Dress, Leaf, write_leaves};
    use super::*;
    use crate::encode::material::Material;
    use crate::encode::part::order;
    use crate::encode::picture;

    const SIZE: u32 = 256;

    /// Two squares side by side on the surface and apart in the texture, with a seam at x = 1. The left one's texels
    /// are observed, the right one's filled in, except for weak ones in its upper half.
    fn scene() -> (Mesh, Texture) {
        let mut mesh = Mesh {
            charts: 2,
            ..Mesh::default()
        };
        for square in 0..2_u32 {
            for corner in 0..4_u32 {
                let (x, y) = (corner % 2, corner / 2);
                mesh.positions.push([(square + x) as f32, y as f32, 0.0]);
                mesh.normals.push([0.0, 0.0, 1.0]);
                mesh.uvs.push([
                    0.1 + 0.5 * square as f32 + 0.3 * x as f32,
                    0.1 + 0.8 * y as f32,
                ]);
            }
            let k = 4 * square;
            mesh.triangles
                .extend([[k, k + 1, k + 3], [k, k + 3, k + 2]]);
        }
        mesh.surface_vertices = survey::weld(&mesh.positions);
        let provenance = (0..SIZE * SIZE).map(|texel| match (texel % SIZE, texel / SIZE) {
            (x, _) if x < SIZE / 2 => Provenance::Observed,
            (_, y) if y < SIZE / 2 => Provenance::Filled,
            _ => Provenance::Weak,
        });
        let texture = Texture {
            size: SIZE,
            texels: vec![[90, 80, 70, 255]; (SIZE * SIZE) as usize],
            provenance: provenance.map(|kind| kind as u8).collect(),
            maps: None,
        };
        (mesh, texture)
    }

    #[test]
    fn a_share_is_the_mean_around_the_point_weighed_by_nearness() {
        let (mesh, texture) = scene();
        let shares = shares(&mesh, &texture);
        assert_eq!([shares[0], shares[2]], [255; 2], "all around is observed");
        // Both sides of the seam are one point.
        assert_eq!([shares[1], shares[3]], [shares[4], shares[6]]);
        let middle =
            |share: u8, low: u8, high: u8| assert!((low..=high).contains(&share), "{shares:?}");
        // One triangle on the left meets two on the right, whose upper half is weak.
        middle(shares[1], 86, 127);
        // Far from the seam: filled in below, weak above, each mixed with the other half.
        middle(shares[5], 5, 64);
        middle(shares[7], 64, 123);
        // A vertex whose triangles have no texel takes the one at its place.
        let (mut thin, texture) = scene();
        thin.uvs.iter_mut().for_each(|uv| *uv = [0.7, 0.8]);
        assert_eq!(super::shares(&thin, &texture), [128; 8]);
    }

    #[test]
    fn it_reads_back_plain_and_compressed_and_the_mesh_is_the_same() {
        let (mesh, texture) = scene();
        let (mesh, _) = order(&mesh);
        let shares = shares(&mesh, &texture);
        let (png, _) =
            picture::encode(TextureFormat::Png, 90, SIZE, &texture.texels).expect("a picture");
        for compress in [Compress::None, Compress::Meshopt] {
            let write = |provenance| {
                let leaf = Leaf {
                    mesh: Cow::Borrowed(&mesh),
                    dress: Dress::Texture(&png, TextureFormat::Png),
                    tangents: None,
                    provenance,
                    tile: None,
                };
                let form = Form {
                    compress,
                    ..Form::default()
                };
                write_leaves(&[leaf], &Material::default(), &form).expect("a GLB")
            };
            let (file, made) = (write(None), write(Some(&shares[..])));
            assert_eq!(read(&file), None, "none yet");
            assert_eq!(read(&made).expect("there"), shares);
            let accessors = |file: &[u8]| chunks(file).expect("a GLB").0["accessors"].clone();
            let [with, without] = [&made, &file].map(|file| accessors(file));
            let without = without.as_array().expect("some").clone();
            assert_eq!(with.as_array().expect("some")[..4], without);
            let mut cut = made.clone();
            cut.truncate(made.len() - 8);
            assert_eq!(read(&cut), None);
        }
    }
}
