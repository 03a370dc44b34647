//! What every reader of meshes gives: [`RawMesh`].

/// The triangles of a file, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct RawMesh {
    /// World positions.
    pub positions: Vec<[f32; 3]>,
    /// One texture coordinate per position, glTF convention (v down), or why there is none to use.
    pub uvs: Result<Vec<[f32; 2]>, NoUvs>,
    /// Corners as vertex indices.
    pub triangles: Vec<[u32; 3]>,
}

/// Why a file's texture coordinates cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUvs {
    /// They were not asked for.
    #[error("texture coordinates were not read")]
    NotAsked,
    /// The file has none.
    #[error("the mesh has no texture coordinates")]
    Absent,
    /// Some triangles have them, others do not.
    #[error("only a part of the mesh has texture coordinates")]
    PartlyAbsent,
    /// Some triangles lack the set that was asked for.
    #[error("not all of the mesh has texture coordinates of the set that --uv-set names")]
    NoSuchSet,
    /// Materials use different sets, made for different textures.
    #[error(
        "its materials use texture coordinates of different sets, {0} and {1}, and one texture has one"
    )]
    Sets(u32, u32),
}
