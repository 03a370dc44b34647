//! Why a glTF file is refused, with code and hint.

use gltf::json;
use proto::message::Code;

use super::super::accessor::AccessorError;
use super::super::glb::GlbError;
use super::super::scene::SceneError;

/// Why a glTF file is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
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
    /// `extensionsRequired` names an unsupported extension.
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
        mesh: usize,
        primitive: usize,
        what: &'static str,
    },
    /// An accessor of a primitive is wrong.
    #[error("mesh {mesh}, primitive {primitive}: {error}")]
    Accessor {
        mesh: usize,
        primitive: usize,
        #[source]
        error: AccessorError,
    },
    /// An accessor of a skin is wrong.
    #[error("skin {skin}: {error}")]
    Skin {
        skin: usize,
        #[source]
        error: AccessorError,
    },
    /// A skin with fewer inverse bind matrices than joints.
    #[error("skin {skin} has {count} inverse bind matrices for {joints} joints")]
    Binds {
        skin: usize,
        count: usize,
        joints: usize,
    },
    /// A vertex follows a joint that its skin has not.
    #[error(
        "mesh {mesh}, primitive {primitive}: vertex {vertex} follows joint {joint} of a skin of {joints}"
    )]
    Joint {
        mesh: usize,
        primitive: usize,
        vertex: u32,
        /// The joint's number within the skin.
        joint: u32,
        joints: usize,
    },
    /// An attribute with fewer elements than vertices.
    #[error("mesh {mesh}, primitive {primitive} has {count} {what} for {vertices} vertices")]
    Fewer {
        mesh: usize,
        primitive: usize,
        what: &'static str,
        count: usize,
        vertices: usize,
    },
    /// `EXT_mesh_gpu_instancing` of a node is wrong.
    #[error("node {node}: {what} (EXT_mesh_gpu_instancing)")]
    Instances { node: usize, what: String },
    /// A triangle list whose length is no multiple of 3.
    #[error("mesh {mesh}, primitive {primitive} has {count} indices, no multiple of 3")]
    Remainder {
        mesh: usize,
        primitive: usize,
        count: usize,
    },
    /// An index out of range.
    #[error(
        "mesh {mesh}, primitive {primitive}: index {vertex} names no vertex, there are {vertices}"
    )]
    Index {
        mesh: usize,
        primitive: usize,
        vertex: u32,
        /// How many vertices there are.
        vertices: usize,
    },
    /// Only points and lines, or nothing at all.
    #[error("the file has no triangles ({skipped} primitives of points or lines)")]
    NoTriangles { skipped: usize },
    /// An image that a material uses is refused.
    #[error("image {image}: {what}")]
    Image {
        image: usize,
        what: String,
        /// The code reported to the user.
        code: Code,
    },
    /// A texture or image is missing.
    #[error("material {material} names no image that is there")]
    NoImage { material: usize },
    /// Its colours are in the vertices.
    #[error("its colours are those of its vertices, and not in a texture")]
    VertexColours,
    /// Beyond the bound, over all instances.
    #[error("has more than the {limit} {what} that are taken")]
    TooLarge { what: &'static str, limit: usize },
}

impl GltfError {
    /// The code reported to the user.
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
            }
            | Self::Skin {
                error: AccessorError::Bytes { error, .. },
                ..
            } => error.code(),
            Self::Container(_)
            | Self::Json(_)
            | Self::Scene(_)
            | Self::NoMesh
            | Self::Lacks { .. }
            | Self::Accessor { .. }
            | Self::Skin { .. }
            | Self::Binds { .. }
            | Self::Joint { .. }
            | Self::Fewer { .. }
            | Self::Instances { .. }
            | Self::Remainder { .. }
            | Self::Index { .. }
            | Self::NoImage { .. }
            | Self::NoTriangles { .. } => Code::InvalidAsset,
        }
    }

    /// How to fix it; may be empty.
    pub(in crate::prepare::load) fn hint(&self) -> String {
        match self {
            Self::Extension(name) if name == "KHR_draco_mesh_compression" => {
                "decompress it (npx @gltf-transform/cli cp in.glb out.glb), or export without Draco compression"
                    .to_owned()
            }
            Self::Extension(_) => {
                "export the mesh without this extension, or bake its parts into plain triangles first"
                    .to_owned()
            }
            Self::TooLarge { .. } => "reduce the mesh before baking".to_owned(),
            _ => String::new(),
        }
    }
}
