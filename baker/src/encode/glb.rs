//! Mesh and PNG into a GLB: one mesh, one material, one picture, no extensions.
//!
//! ```text
//!  header 12 │ chunk JSON, padded by spaces │ chunk BIN, padded by zeros
//!                                             positions f32×3 | normals f32×3 | uvs f32×2 | indices u16 or u32 | PNG
//! ```
//!
//! What the common exporters of baked meshes get wrong and this one does not: `metallicFactor` is 0 (the default is 1, a
//! dark mirror), there are normals (without them viewers must shade flat) and a sampler (mipmapped, and clamped: the atlas
//! does not repeat). The material is double-sided: meshes of image-to-3D models have triangles of either winding, and no
//! view of the bake was culled either, so a culled one would be missing a surface that the pictures show.
//! Colours are in the texture alone; there is no `COLOR_0`.

use proto::table::Mesh;
use serde_json::{Value, json};

/// Why there is no GLB.
#[derive(Debug, thiserror::Error)]
pub enum GlbError {
    /// A GLB counts its bytes in 32 bits.
    #[error("a GLB of {0} bytes is longer than the format allows")]
    TooLong(u64),
    /// The mesh's arrays are not of one length.
    #[error("the mesh has {positions} positions, {normals} normals and {uvs} texture coordinates")]
    Uneven {
        /// Positions.
        positions: usize,
        /// Normals.
        normals: usize,
        /// Texture coordinates.
        uvs: usize,
    },
}

const ARRAY_BUFFER: u32 = 34962;
const ELEMENT_ARRAY_BUFFER: u32 = 34963;
const UNSIGNED_SHORT: u32 = 5123;
const UNSIGNED_INT: u32 = 5125;
const FLOAT: u32 = 5126;
const LINEAR: u32 = 9729;
const LINEAR_MIPMAP_LINEAR: u32 = 9987;
const CLAMP_TO_EDGE: u32 = 33071;

/// Writes the GLB.
///
/// # Errors
/// A mesh that is no mesh, or too large a result.
pub fn write(mesh: &Mesh, png: &[u8]) -> Result<Vec<u8>, GlbError> {
    let vertices = mesh.positions.len();
    if mesh.normals.len() != vertices || mesh.uvs.len() != vertices || vertices == 0 {
        return Err(GlbError::Uneven {
            positions: vertices,
            normals: mesh.normals.len(),
            uvs: mesh.uvs.len(),
        });
    }
    let mut binary = Binary::default();
    let positions = binary.view(bytemuck::cast_slice(&mesh.positions), Some(ARRAY_BUFFER));
    let normals: Vec<[f32; 3]> = mesh.normals.iter().map(|&normal| unit(normal)).collect();
    let normals = binary.view(bytemuck::cast_slice(&normals), Some(ARRAY_BUFFER));
    let uvs = binary.view(bytemuck::cast_slice(&mesh.uvs), Some(ARRAY_BUFFER));
    // 65535 restarts a strip, so it is no index of 16 bits.
    let (indices, index_type) = if vertices <= usize::from(u16::MAX) {
        let short: Vec<u16> = mesh
            .triangles
            .as_flattened()
            .iter()
            .map(|&index| index as u16)
            .collect();
        (
            binary.view(bytemuck::cast_slice(&short), Some(ELEMENT_ARRAY_BUFFER)),
            UNSIGNED_SHORT,
        )
    } else {
        (
            binary.view(
                bytemuck::cast_slice(&mesh.triangles),
                Some(ELEMENT_ARRAY_BUFFER),
            ),
            UNSIGNED_INT,
        )
    };
    let picture = binary.view(png, None);

    let (low, high) = bounds(&mesh.positions);
    let accessor = |view: usize, kind: &str| json!({"bufferView": view, "componentType": FLOAT, "count": vertices, "type": kind});
    let mut position = accessor(positions, "VEC3");
    position["min"] = json!(low);
    position["max"] = json!(high);
    let document = json!({
        "asset": {"version": "2.0", "generator": concat!("kiln ", env!("CARGO_PKG_VERSION"))},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{
            "attributes": {"POSITION": 0, "NORMAL": 1, "TEXCOORD_0": 2},
            "indices": 3,
            "material": 0,
        }]}],
        "materials": [{
            "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicFactor": 0, "roughnessFactor": 1},
            "doubleSided": true,
        }],
        "textures": [{"sampler": 0, "source": 0}],
        "samplers": [{
            "magFilter": LINEAR,
            "minFilter": LINEAR_MIPMAP_LINEAR,
            "wrapS": CLAMP_TO_EDGE,
            "wrapT": CLAMP_TO_EDGE,
        }],
        "images": [{"bufferView": picture, "mimeType": "image/png"}],
        "accessors": [position, accessor(normals, "VEC3"), accessor(uvs, "VEC2"), {
            "bufferView": indices,
            "componentType": index_type,
            "count": mesh.triangles.len() * 3,
            "type": "SCALAR",
        }],
        "bufferViews": binary.views,
        "buffers": [{"byteLength": binary.bytes.len()}],
    });
    container(document.to_string().into_bytes(), binary.bytes)
}

/// The BIN chunk as it grows, and its buffer views.
#[derive(Default)]
struct Binary {
    bytes: Vec<u8>,
    views: Vec<Value>,
}

impl Binary {
    /// Appends `bytes`, aligned to four, and returns the number of their view.
    fn view(&mut self, bytes: &[u8], target: Option<u32>) -> usize {
        let mut view =
            json!({"buffer": 0, "byteOffset": self.bytes.len(), "byteLength": bytes.len()});
        if let Some(target) = target {
            view["target"] = json!(target);
        }
        self.bytes.extend_from_slice(bytes);
        pad(&mut self.bytes, 0);
        self.views.push(view);
        self.views.len() - 1
    }
}

fn container(mut json: Vec<u8>, binary: Vec<u8>) -> Result<Vec<u8>, GlbError> {
    pad(&mut json, b' ');
    let total = 12 + 8 + json.len() + 8 + binary.len();
    let length = u32::try_from(total).map_err(|_too_long| GlbError::TooLong(total as u64))?;
    let mut file = Vec::with_capacity(total);
    file.extend_from_slice(b"glTF");
    file.extend_from_slice(&2_u32.to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
    for (kind, bytes) in [(b"JSON", json), (b"BIN\0", binary)] {
        // Below `length`, so it fits.
        file.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        file.extend_from_slice(kind);
        file.extend_from_slice(&bytes);
    }
    Ok(file)
}

fn pad(bytes: &mut Vec<u8>, with: u8) {
    bytes.resize(bytes.len().next_multiple_of(4), with);
}

/// Unit length, as the format demands; a normal that has none points up.
fn unit(normal: [f32; 3]) -> [f32; 3] {
    let length = normal
        .iter()
        .map(|&x| f64::from(x) * f64::from(x))
        .sum::<f64>()
        .sqrt();
    if length > 1e-6 {
        normal.map(|x| (f64::from(x) / length) as f32)
    } else {
        [0.0, 1.0, 0.0]
    }
}

fn bounds(points: &[[f32; 3]]) -> ([f32; 3], [f32; 3]) {
    points.iter().fold(
        ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]),
        |(low, high), point| {
            let pick = |ends: [f32; 3], pick: fn(f32, f32) -> f32| {
                std::array::from_fn(|k| pick(ends[k], point[k]))
            };
            (pick(low, f32::min), pick(high, f32::max))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(columns: u32) -> Mesh {
        // A strip of quads, slightly curved, normals not quite of unit length.
        let point = |k: u32| [k as f32 / 2.0, (k % 2) as f32, (k as f32).sin() / 3.0 - 7.0];
        let vertices = 2 * columns + 2;
        Mesh {
            positions: (0..vertices).map(point).collect(),
            normals: (0..vertices)
                .map(|k| [0.0, 0.003 * (k % 3) as f32, 1.004])
                .collect(),
            uvs: (0..vertices)
                .map(|k| [k as f32 / vertices as f32, (k % 2) as f32])
                .collect(),
            surface_vertices: (0..vertices).collect(),
            triangles: (0..2 * columns).map(|k| [k, k + 1, k + 2]).collect(),
            charts: 1,
        }
    }

    /// Read back by the `gltf` crate, which checks the container and every index in the JSON.
    fn check(mesh: &Mesh, file: &[u8], png: &[u8]) {
        let gltf::Gltf { document, blob } = gltf::Gltf::from_slice(file).expect("a GLB");
        let blob = blob.expect("a BIN chunk");
        assert_eq!(blob.len() % 4, 0);
        let primitive = document
            .meshes()
            .next()
            .expect("a mesh")
            .primitives()
            .next()
            .expect("a primitive");
        let reader = primitive.reader(|_| Some(&blob));
        assert!(
            reader
                .read_positions()
                .expect("positions")
                .eq(mesh.positions.iter().copied())
        );
        let uvs = reader.read_tex_coords(0).expect("coordinates").into_f32();
        assert!(uvs.eq(mesh.uvs.iter().copied()));
        let indices = reader.read_indices().expect("indices").into_u32();
        assert!(indices.eq(mesh.triangles.as_flattened().iter().copied()));
        for (normal, given) in reader.read_normals().expect("normals").zip(&mesh.normals) {
            let length = normal.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-6, "a normal of length {length}");
            assert!(
                (normal[1] / normal[2] - given[1] / given[2]).abs() < 1e-6,
                "another direction"
            );
        }
        let bounds = primitive.bounding_box();
        assert_eq!(bounds.min, super::bounds(&mesh.positions).0);
        assert_eq!(bounds.max, super::bounds(&mesh.positions).1);

        let material = primitive.material();
        let surface = material.pbr_metallic_roughness();
        assert_eq!(
            (
                surface.metallic_factor(),
                surface.roughness_factor(),
                material.double_sided()
            ),
            (0.0, 1.0, true)
        );
        let texture = surface.base_color_texture().expect("a texture").texture();
        assert_eq!(
            texture.sampler().wrap_s(),
            gltf::texture::WrappingMode::ClampToEdge
        );
        assert_eq!(
            texture.sampler().min_filter(),
            Some(gltf::texture::MinFilter::LinearMipmapLinear)
        );
        let gltf::image::Source::View { view, mime_type } = texture.source().source() else {
            panic!("not embedded")
        };
        assert_eq!(
            (
                mime_type,
                &blob[view.offset()..view.offset() + view.length()]
            ),
            ("image/png", png)
        );
        for view in document.views() {
            assert_eq!(view.offset() % 4, 0, "view {} is not aligned", view.index());
        }
    }

    #[test]
    fn everything_comes_back() {
        // Lengths of the picture of every remainder by four; an odd number of 16-bit indices.
        for (columns, length) in [(1, 0), (3, 1), (7, 2), (20, 3), (21, 100)] {
            let (mesh, png) = (mesh(columns), vec![0xAB; length + 1]);
            check(&mesh, &write(&mesh, &png).expect("writes"), &png);
        }
    }

    #[test]
    fn indices_are_as_wide_as_they_must_be() {
        for (columns, wanted) in [
            (32_765, UNSIGNED_SHORT),
            (32_766, UNSIGNED_SHORT),
            (32_767, UNSIGNED_INT),
            (40_000, UNSIGNED_INT),
        ] {
            let mesh = mesh(columns);
            let file = write(&mesh, b"png").expect("writes");
            check(&mesh, &file, b"png");
            let document = gltf::Gltf::from_slice(&file).expect("a GLB").document;
            let kind = document.accessors().nth(3).expect("indices").data_type();
            assert_eq!(
                kind.as_gl_enum(),
                wanted,
                "{} vertices",
                mesh.positions.len()
            );
        }
    }

    #[test]
    fn uneven_mesh_is_refused() {
        let mut uneven = mesh(2);
        uneven.normals.pop();
        assert!(matches!(
            write(&uneven, b""),
            Err(GlbError::Uneven { normals: 5, .. })
        ));
        assert!(write(&Mesh::default(), b"").is_err());
    }
}
