//! Why a glTF file is refused: which part of it, in words, and the code and hint that go with them.

use gltf::json;
use proto::message::Code;

use super::super::accessor::AccessorError;
use super::super::glb::GlbError;
use super::super::scene::SceneError;

/// Why a glTF file is refused.
#[derive(Debug, thiserror::Error)]
pub enum GltfError {
    /// The container is wrong.
    #[error(transparent)]
    Container(#[from] GlbError),
    /// The JSON is wrong.
    #[error("its JSON does not parse ({0})")]
    Json(#[source] json::Error),
    /// Not glTF 2.
    #[error("is glTF {0}; glTF 2 is read")]
    Version(String),
    /// `extensionsRequired` names something that is not done.
    #[error("requires the extension {0}, which is not supported")]
    Extension(String),
    /// The node tree is wrong.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// No node of the scene has a mesh.
    #[error("the scene contains no mesh")]
    NoMesh,
    /// A primitive lacks what it needs.
    #[error("mesh {mesh}, primitive {primitive} has no {what}")]
    Lacks {
        /// The mesh.
        mesh: usize,
        /// The primitive.
        primitive: usize,
        /// The attribute.
        what: &'static str,
    },
    /// An accessor of a primitive is wrong.
    #[error("mesh {mesh}, primitive {primitive}: {error}")]
    Accessor {
        /// The mesh.
        mesh: usize,
        /// The primitive.
        primitive: usize,
        /// Why.
        #[source]
        error: AccessorError,
    },
    /// A list of triangles that ends within one.
    #[error("mesh {mesh}, primitive {primitive} has {count} indices, no multiple of 3")]
    Remainder {
        /// The mesh.
        mesh: usize,
        /// The primitive.
        primitive: usize,
        /// Indices or vertices.
        count: usize,
    },
    /// An index that names no vertex.
    #[error(
        "mesh {mesh}, primitive {primitive}: index {vertex} names no vertex, there are {vertices}"
    )]
    Index {
        /// The mesh.
        mesh: usize,
        /// The primitive.
        primitive: usize,
        /// The index.
        vertex: u32,
        /// How many vertices there are.
        vertices: usize,
    },
    /// Only points and lines, or nothing at all.
    #[error("the file has no triangles ({skipped} primitives of points or lines)")]
    NoTriangles {
        /// Primitives of another kind.
        skipped: usize,
    },
    /// A picture that a material shows.
    #[error("image {image}: {what}")]
    Image {
        /// The image.
        image: usize,
        /// Why.
        what: String,
        /// The code under which a user is told.
        code: Code,
    },
    /// A texture or image that is not there.
    #[error("material {material} names no image that is there")]
    NoImage {
        /// The material.
        material: usize,
    },
    /// What is shown lies in the vertices.
    #[error("its colours are those of its vertices, and not in a texture")]
    VertexColours,
    /// Beyond the bound, counted over all instances.
    #[error("has more than the {limit} {what} that are taken")]
    TooLarge {
        /// Triangles or vertices.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

impl GltfError {
    /// The code under which a user is told.
    pub(in crate::prepare::load) fn code(&self) -> Code {
        match self {
            Self::Extension(_) | Self::Version(_) | Self::Container(GlbError::Version(_)) => {
                Code::UnsupportedFeature
            }
            Self::VertexColours => Code::UnsupportedFeature,
            Self::Image { code, .. } => *code,
            Self::TooLarge { .. } => Code::LimitExceeded,
            Self::Accessor {
                error: AccessorError::Bytes { error, .. },
                ..
            } => error.code(),
            Self::Container(_)
            | Self::Json(_)
            | Self::Scene(_)
            | Self::NoMesh
            | Self::Lacks { .. }
            | Self::Accessor { .. }
            | Self::Remainder { .. }
            | Self::Index { .. }
            | Self::NoImage { .. }
            | Self::NoTriangles { .. } => Code::InvalidAsset,
        }
    }

    /// How to mend it; may be empty.
    pub(in crate::prepare::load) fn hint(&self) -> String {
        match self {
            Self::Extension(name) if name == "KHR_draco_mesh_compression" => {
                "export without Draco compression, or decompress the file first".to_owned()
            }
            Self::TooLarge { .. } => "reduce the mesh before baking".to_owned(),
            _ => String::new(),
        }
    }
}
