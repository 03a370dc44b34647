//! What every reader of meshes is asked for, and gives: [`Wanted`], [`RawMesh`].

/// Where the local origin of a mesh lies in the coordinates of its file. All zero near the origin.
pub type Offset = [f64; 3];

/// What is read of a mesh, and at which offset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Texture coordinates.
    pub(crate) uvs: bool,
    /// Their set; none for the one that each material uses.
    pub(crate) set: Option<u32>,
    /// What positions are less.
    pub(crate) offset: Offset,
}

/// A coordinate, or several, of the file less an offset. f32 hold it from here on.
pub(crate) fn relative<const N: usize>(at: [f64; N], offset: &[f64; N]) -> [f32; N] {
    std::array::from_fn(|k| (at[k] - offset[k]) as f32)
}

/// The triangles of a file, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct RawMesh {
    /// World positions, less the offset at which they were read.
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
    /// The material transforms them, differently for each texture.
    #[error("the material transforms the texture coordinates (KHR_texture_transform)")]
    Transformed,
}
