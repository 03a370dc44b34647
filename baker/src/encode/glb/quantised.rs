//! Mesh → the accessors of a small GLB: quantised (`KHR_mesh_quantization`) and compressed (`EXT_meshopt_compression`).
//!
//! | attribute | stored as | worst error |
//! |---|---|---|
//! | position | 3 × u16 over the bounding box's longest edge; the node's transform undoes it | 1/131,070 of it |
//! | normal | 3 × i8 | 0.3° |
//! | tangent | 4 × i8 | 0.3° |
//! | texture coordinate | 2 × u16 | 1/131,070: a sixteenth of a texel at 8192² |
//! | colour | 4 × u16, as uncompressed | none |
//!
//! Equal points stay equal, so no crack opens and the sides of a seam keep their end points. Triangles are first sorted
//! into the order that compresses and draws best, vertices into that of first use (`part::order`).

use meshopt::{encode_index_buffer, encode_vertex_buffer_level};
use proto::table::Mesh;
use serde_json::{Value, json};

use super::container::{
    ARRAY_BUFFER, Binary, ELEMENT_ARRAY_BUFFER, UNSIGNED_BYTE, UNSIGNED_INT, UNSIGNED_SHORT,
};
use super::leaf::{Dress, GlbError, Leaf, Parts, bounds, unit};

const BYTE: u32 = 5120;
/// Version of the vertex codec: the extension knows no other.
const CODEC: i32 = 0;
/// Effort of the vertex codec, 0-3: the highest that is fast.
const LEVEL: i32 = 2;
/// Index of the extension's uncompressed buffer, which need not exist.
const FALLBACK: usize = 1;

/// The largest error of a position's coordinate.
pub fn position_error(mesh: &Mesh) -> f32 {
    let (low, high) = bounds(&mesh.positions);
    let largest = low
        .iter()
        .chain(&high)
        .fold(0.0_f32, |most, x| most.max(x.abs()));
    // Rounding of the quantisation, and of the sum that undoes it.
    extent(low, high) / 65_535.0 * 0.51 + largest * 4.0 * f32::EPSILON
}

/// The largest error of a texture coordinate.
pub const UV_ERROR: f32 = 0.51 / 65_535.0 + 2.0 * f32::EPSILON;

/// Writes accessors, views and bytes. `low` and `high` bound the leaves of all pages, which share one node. `plain` is
/// the size of the fallback buffer so far.
pub(super) fn parts(
    leaf: &Leaf<'_>,
    (low, high): ([f32; 3], [f32; 3]),
    plain: usize,
    binary: &mut Binary,
) -> Result<Parts, GlbError> {
    let &Leaf {
        ref mesh,
        dress,
        tangents,
        ..
    } = leaf;
    let positions = steps(&mesh.positions, (low, high));
    let normal = |&normal: &[f32; 3]| {
        let [x, y, z] = unit(normal).map(|x| (x * 127.0).round() as i8);
        [x, y, z, 0]
    };
    let normals: Vec<[i8; 4]> = mesh.normals.iter().map(normal).collect();
    let mut out = Compressor {
        binary,
        fallback: plain,
        accessors: Vec::new(),
    };
    let ends = |pick: fn(u16, u16) -> u16| {
        let first = positions.first().copied().unwrap_or_default();
        let end = positions.iter().fold(first, |end, p| {
            std::array::from_fn(|axis| pick(end[axis], p[axis]))
        });
        [end[0], end[1], end[2]]
    };
    let (least, most) = (ends(u16::min), ends(u16::max));
    out.attribute(&positions, UNSIGNED_SHORT, "VEC3")?;
    if let Some(accessor) = out.accessors.last_mut() {
        accessor["min"] = json!(least);
        accessor["max"] = json!(most);
    }
    out.attribute(&normals, BYTE, "VEC3")?;
    let attribute = match dress {
        Dress::Texture(..) => {
            let step = |x: f32| (f64::from(x.clamp(0.0, 1.0)) * 65_535.0).round() as u16;
            let uvs: Vec<[u16; 2]> = mesh.uvs.iter().map(|uv| uv.map(step)).collect();
            out.attribute(&uvs, UNSIGNED_SHORT, "VEC2")?;
            "TEXCOORD_0"
        }
        Dress::Vertices(colours) => {
            out.attribute(colours, UNSIGNED_SHORT, "VEC4")?;
            "COLOR_0"
        }
    };
    out.indices(mesh.triangles.as_flattened(), mesh.positions.len())?;
    if let Some(tangents) = tangents {
        let step = |tangent: &[f32; 4]| tangent.map(|x| (x * 127.0).round() as i8);
        let tangents: Vec<[i8; 4]> = tangents.iter().map(step).collect();
        out.attribute(&tangents, BYTE, "VEC4")?;
    }
    let Compressor {
        fallback,
        accessors,
        ..
    } = out;
    let scale = extent(low, high);
    Ok(Parts {
        attribute,
        accessors,
        node: json!({"mesh": 0, "scale": [scale, scale, scale], "translation": low}),
        fallback: Some(fallback),
        extensions: &["KHR_mesh_quantization", "EXT_meshopt_compression"],
    })
}

/// Positions as multiples of 1/65,535 of the bounding box's longest edge.
fn steps(positions: &[[f32; 3]], (low, high): ([f32; 3], [f32; 3])) -> Vec<[u16; 4]> {
    let scale = extent(low, high);
    let step = |x: f32, low: f32| (f64::from(x - low) / f64::from(scale) * 65_535.0).round() as u16;
    let of = |p: &[f32; 3]| {
        let [x, y, z] = std::array::from_fn(|axis| step(p[axis], low[axis]));
        [x, y, z, 0]
    };
    positions.iter().map(of).collect()
}

/// Writes a normalised byte per vertex, padded to four. `plain` is the size of the fallback buffer, which grows.
pub(super) fn scalars(
    elements: &[[u8; 4]],
    plain: &mut usize,
    binary: &mut Binary,
) -> Result<Value, GlbError> {
    let mut out = Compressor {
        binary,
        fallback: *plain,
        accessors: Vec::new(),
    };
    out.attribute(elements, UNSIGNED_BYTE, "SCALAR")?;
    *plain = out.fallback;
    out.accessors.pop().ok_or(GlbError::Provenance)
}

/// Never 0. A mesh is not a point, and for a point any scale would do.
fn extent(low: [f32; 3], high: [f32; 3]) -> f32 {
    let longest = (0..3).map(|k| high[k] - low[k]).fold(0.0, f32::max);
    if longest > 0.0 { longest } else { 1.0 }
}

/// Compressed views as they grow.
struct Compressor<'a> {
    binary: &'a mut Binary,
    /// Bytes of the fallback buffer.
    fallback: usize,
    accessors: Vec<Value>,
}

impl Compressor<'_> {
    /// Writes an attribute with elements of 4 or 8 bytes, all components normalised.
    fn attribute<T>(&mut self, elements: &[T], kind: u32, shape: &str) -> Result<(), GlbError> {
        let stride = size_of::<T>();
        let bytes = encode_vertex_buffer_level(elements, LEVEL, Some(CODEC))?;
        let mut view = self.view(&bytes, stride, elements.len(), "ATTRIBUTES", ARRAY_BUFFER);
        view["byteStride"] = json!(stride);
        self.accessor(view, kind, elements.len(), shape, true);
        Ok(())
    }

    fn indices(&mut self, indices: &[u32], vertices: usize) -> Result<(), GlbError> {
        // 65535 means primitive restart, so it is no valid 16-bit index.
        let (kind, stride) = if vertices <= usize::from(u16::MAX) {
            (UNSIGNED_SHORT, 2)
        } else {
            (UNSIGNED_INT, 4)
        };
        let bytes = encode_index_buffer(indices, vertices)?;
        let view = self.view(
            &bytes,
            stride,
            indices.len(),
            "TRIANGLES",
            ELEMENT_ARRAY_BUFFER,
        );
        self.accessor(view, kind, indices.len(), "SCALAR", false);
        Ok(())
    }

    fn view(
        &mut self,
        bytes: &[u8],
        stride: usize,
        count: usize,
        mode: &str,
        target: u32,
    ) -> Value {
        let (offset, length) = (self.binary.append(bytes), bytes.len());
        let plain = self.fallback;
        self.fallback = (plain + stride * count).next_multiple_of(4);
        json!({
            "buffer": FALLBACK,
            "byteOffset": plain,
            "byteLength": stride * count,
            "target": target,
            "extensions": {"EXT_meshopt_compression": {
                "buffer": 0,
                "byteOffset": offset,
                "byteLength": length,
                "byteStride": stride,
                "count": count,
                "mode": mode,
            }},
        })
    }

    fn accessor(&mut self, view: Value, kind: u32, count: usize, shape: &str, normalized: bool) {
        let mut accessor = json!({
            "bufferView": self.binary.views.len(),
            "componentType": kind,
            "count": count,
            "type": shape,
        });
        if normalized {
            accessor["normalized"] = json!(true);
        }
        self.binary.views.push(view);
        self.accessors.push(accessor);
    }
}
