//! What goes into the file: pages of mesh with their colours; and the accessors that they become.

use std::borrow::Cow;

use proto::job::TextureFormat;
use proto::table::Mesh;
use serde_json::Value;

/// Why there is no GLB.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum GlbError {
    /// A GLB counts its bytes in 32 bits.
    #[error("a GLB of {0} bytes is longer than the format allows")]
    TooLong(u64),
    /// Not one colour per vertex.
    #[error("there are {colours} colours for {positions} vertices")]
    Colours { colours: usize, positions: usize },
    /// meshoptimizer's encoder failed.
    #[error("the mesh cannot be compressed")]
    Compress(#[from] meshopt::Error),
    /// The file does not read back as written.
    #[error("the file does not read back with its attribute _PROVENANCE")]
    Provenance,
    /// The mesh's arrays differ in length.
    #[error("the mesh has {positions} positions, {normals} normals and {uvs} texture coordinates")]
    Uneven {
        positions: usize,
        normals: usize,
        uvs: usize,
    },
}

/// Where the surface's colours are.
#[derive(Clone, Copy, Debug)]
pub enum Dress<'a> {
    /// In a picture file.
    Texture(&'a [u8], TextureFormat),
    /// Per vertex, in linear light; see [`super::light`].
    Vertices(&'a [[u16; 4]]),
}

/// A page of the texture with its part of the mesh.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    /// With page coordinates.
    pub mesh: Cow<'a, Mesh>,
    /// The same kind for each page.
    pub dress: Dress<'a>,
    /// One per vertex.
    pub tangents: Option<&'a [[f32; 4]]>,
    /// How much of the surface the views have shown, one per vertex; see [`super::provenance`].
    pub provenance: Option<&'a [u8]>,
    /// The tile in its names, where there are several pages.
    pub tile: Option<u32>,
}

impl Leaf<'_> {
    /// Checks that every list has one element per vertex.
    pub(super) fn check(&self) -> Result<(), GlbError> {
        let Self {
            mesh,
            dress,
            tangents,
            ..
        } = self;
        let vertices = mesh.positions.len();
        let even = tangents.is_none_or(|tangents| tangents.len() == vertices);
        if mesh.normals.len() != vertices || mesh.uvs.len() != vertices || vertices == 0 || !even {
            return Err(GlbError::Uneven {
                positions: vertices,
                normals: mesh.normals.len(),
                uvs: mesh.uvs.len(),
            });
        }
        if let Dress::Vertices(colours) = dress
            && colours.len() != vertices
        {
            return Err(GlbError::Colours {
                colours: colours.len(),
                positions: vertices,
            });
        }
        Ok(())
    }
}

/// The accessors of a page.
pub(super) struct Parts {
    /// Name of the third attribute.
    pub(super) attribute: &'static str,
    /// Accessors of positions, normals, the third attribute, indices, and tangents where there are any.
    pub(super) accessors: Vec<Value>,
    pub(super) node: Value,
    /// Bytes of the uncompressed fallback buffer.
    pub(super) fallback: Option<usize>,
    /// Required extensions.
    pub(super) extensions: &'static [&'static str],
}

/// Scales to unit length, as the format demands. A zero normal becomes +y.
pub(in crate::encode) fn unit(normal: [f32; 3]) -> [f32; 3] {
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

/// Least and greatest coordinates.
pub(super) fn bounds<'a>(points: impl IntoIterator<Item = &'a [f32; 3]>) -> ([f32; 3], [f32; 3]) {
    points.into_iter().fold(
        ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]),
        |(low, high), point| {
            let pick = |ends: [f32; 3], pick: fn(f32, f32) -> f32| {
                std::array::from_fn(|k| pick(ends[k], point[k]))
            };
            (pick(low, f32::min), pick(high, f32::max))
        },
    )
}
