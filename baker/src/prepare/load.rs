//! Reads a mesh file of any kind as a [`RawMesh`]: one triangle list in world coordinates, every number checked.
//!
//! The first bytes tell the kind, else the name. After [`read`] every corner names an existing vertex, and every vertex
//! that a triangle uses has finite coordinates within [`MAX_COORDINATE`]. Unused vertices may hold anything. Counts in
//! a file are checked against the file's length before memory is allocated by them. [`read_local`] keeps the precision
//! of a mesh far from the origin.

use proto::labels::Labels;
use proto::limits::{
    MAX_ARRAYS_FILE_BYTES, MAX_COORDINATE, MAX_MESH_FILE_BYTES, MAX_TRIANGLES, MAX_VERTICES,
};
use proto::message::{Code, Failure, Phase};

use crate::prepare::arrays;
use crate::prepare::foreign::{self, Class, Foreign};
use crate::worker::folder::{Folder, FolderError};
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

pub(in crate::prepare) mod gltf;

pub(in crate::prepare) mod accessor;
pub(in crate::prepare) mod buffers;
mod compressed;
mod glb;
pub(in crate::prepare) mod scene;

pub(in crate::prepare) mod ply;

mod obj;

mod off;

mod stl;

mod corners;
mod lines;
mod local;
mod raw;

pub use self::gltf::GltfError;
use self::gltf::painted::Shown;
pub(crate) use self::gltf::painted::{Picture, Pictures};
pub use self::obj::ObjError;
pub use self::off::OffError;
pub use self::ply::PlyError;
pub use self::raw::{NoUvs, Offset, RawMesh};
pub(crate) use self::raw::{Wanted, relative};
pub use self::stl::StlError;
pub use crate::prepare::arrays::{ArraysError, Problem as TensorProblem};

/// Why a mesh file is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum LoadError {
    /// The file itself cannot be read.
    #[error("{0}")]
    File(#[source] FolderError),
    /// Zero bytes.
    #[error("the file is empty")]
    Empty,
    /// Neither the first bytes nor the name tell the kind.
    #[error("is neither glTF, nor PLY, OBJ, STL, OFF or safetensors")]
    UnknownKind,
    /// A file of another kind.
    #[error("{0}, which is not read as a mesh")]
    Foreign(Foreign),
    /// A list of views.
    #[error("lists views, and is not a mesh")]
    Views,
    /// Not glTF, where textures are wanted.
    #[error("is no glTF: only of GLB and glTF files are textures read")]
    NotPainted,
    /// A glTF or GLB file is wrong.
    #[error(transparent)]
    Gltf(#[from] GltfError),
    /// A PLY file is wrong.
    #[error(transparent)]
    Ply(#[from] PlyError),
    /// An OBJ file is wrong.
    #[error(transparent)]
    Obj(#[from] ObjError),
    /// An STL file is wrong.
    #[error(transparent)]
    Stl(#[from] StlError),
    /// An OFF file is wrong.
    #[error(transparent)]
    Off(#[from] OffError),
    /// A safetensors file is wrong.
    #[error(transparent)]
    Arrays(#[from] ArraysError),
    /// Valid, but without triangles.
    #[error("the file has no triangles")]
    NoTriangles,
    /// Beyond the bound.
    #[error("has {count} {what}, more than the {limit} that are taken")]
    TooLarge {
        what: &'static str,
        count: u64,
        limit: usize,
    },
    /// A corner names a vertex that is not there.
    #[error("triangle {triangle} names vertex {vertex} of {vertices}")]
    Corner {
        triangle: usize,
        vertex: u32,
        vertices: usize,
    },
    /// A coordinate is not finite or out of range.
    #[error("vertex {vertex} has the coordinate {value}, and triangle {triangle} uses it")]
    Coordinate {
        vertex: u32,
        value: f32,
        /// The first triangle that uses it.
        triangle: usize,
    },
}

/// The kinds of files that are read.
const KINDS: &str = "give a .glb, .gltf, .ply, .obj, .stl, .off or .safetensors file";

impl LoadError {
    /// The failure to report for the file `name`.
    pub fn failure(&self, name: &str) -> Failure {
        let (code, hint) = match self {
            Self::File(error) => (error.code(), String::new()),
            Self::Gltf(error) => (error.code(), error.hint()),
            Self::Arrays(error) => (error.code(), error.hint().to_owned()),
            Self::TooLarge { .. } => (
                Code::LimitExceeded,
                "reduce the mesh before baking".to_owned(),
            ),
            Self::NotPainted => (
                Code::UnsupportedFeature,
                "give a .glb or .gltf file".to_owned(),
            ),
            Self::Foreign(Foreign { hint, class, .. }) => match class {
                Class::Other if !hint.is_empty() => (Code::InvalidAsset, (*hint).to_owned()),
                Class::Mesh if !hint.is_empty() => (Code::UnsupportedFeature, (*hint).to_owned()),
                _ => (Code::InvalidAsset, KINDS.to_owned()),
            },
            Self::Views => (
                Code::InvalidAsset,
                "mesh and views are swapped: kiln bake MESH --views VIEWS".to_owned(),
            ),
            Self::UnknownKind => (Code::InvalidAsset, KINDS.to_owned()),
            Self::Coordinate { value, .. } if value.is_finite() => {
                (Code::LimitExceeded, "scale the mesh down".to_owned())
            }
            Self::Ply(PlyError::NoFaces { .. }) => (
                Code::InvalidAsset,
                "a point cloud or Gaussian splat has no surface: mesh it first".to_owned(),
            ),
            Self::Obj(ObjError::Comma(_)) => (
                Code::InvalidAsset,
                "write numbers with points: 0.5, not 0,5".to_owned(),
            ),
            Self::Ply(_)
            | Self::Obj(_)
            | Self::Stl(_)
            | Self::Off(_)
            | Self::Empty
            | Self::NoTriangles
            | Self::Corner { .. }
            | Self::Coordinate { .. } => (Code::InvalidAsset, String::new()),
        };
        Failure {
            code,
            message: format!("{name}: {self}"),
            hint,
        }
    }
}

/// Reads the mesh file `name` of `folder`, with texture coordinates where `want_uvs`. Far from the origin f32 round its
/// positions.
///
/// # Errors
/// The first problem found.
pub fn read(
    folder: &Folder<'_>,
    name: &str,
    want_uvs: bool,
    progress: &dyn Progress,
) -> Result<RawMesh, LoadError> {
    let wanted = Wanted {
        uvs: want_uvs,
        ..Wanted::default()
    };
    read_at(folder, name, wanted, progress).map(|(mesh, _)| mesh)
}

/// Like [`read`], with texture coordinate set number `set`, and moved to a local origin where it lies far from its own.
/// Without a number the set is the one that each material uses. Returns what
/// the file calls itself and the local origin, too.
///
/// # Errors
/// As [`read`].
pub fn read_local(
    folder: &Folder<'_>,
    name: &str,
    (want_uvs, set): (bool, Option<u32>),
    progress: &dyn Progress,
) -> Result<(RawMesh, Labels, Offset), LoadError> {
    let (mesh, labels, offset) = local::settled(|offset| {
        let wanted = Wanted {
            uvs: want_uvs,
            set,
            offset,
        };
        read_at(folder, name, wanted, progress)
    })?;
    if offset != Offset::default()
        && let Some(text) = local::coarse(&mesh, &offset)
    {
        progress.warning(&format!("{name}: {text}"));
    }
    Ok((mesh, labels, offset))
}

/// Like [`read_local`], at the local origin of another mesh and without texture coordinates.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_beside(
    folder: &Folder<'_>,
    name: &str,
    offset: Offset,
    progress: &dyn Progress,
) -> Result<RawMesh, LoadError> {
    let wanted = Wanted {
        offset,
        ..Wanted::default()
    };
    read_at(folder, name, wanted, progress).map(|(mesh, _)| mesh)
}

fn read_at(
    folder: &Folder<'_>,
    name: &str,
    wanted: Wanted,
    progress: &dyn Progress,
) -> Result<(RawMesh, Labels), LoadError> {
    let file = folder
        .open(name, MAX_ARRAYS_FILE_BYTES)
        .map_err(LoadError::File)?;
    if arrays::are_in(&file, name).map_err(LoadError::File)? {
        let mesh = arrays::read_mesh(file, (wanted.uvs, &wanted.offset), progress)?;
        check(&mesh)?;
        return Ok((mesh, Labels::default()));
    }
    let bytes = file.read(MAX_MESH_FILE_BYTES).map_err(LoadError::File)?;
    drop(file);
    read_bytes(&bytes, name, folder, wanted, progress)
}

/// Like [`read`], from the bytes of the file `name`, which is no safetensors file. Returns what it calls itself, too.
pub(crate) fn read_bytes(
    bytes: &[u8],
    name: &str,
    folder: &Folder<'_>,
    wanted: Wanted,
    progress: &dyn Progress,
) -> Result<(RawMesh, Labels), LoadError> {
    let (want_uvs, offset) = (wanted.uvs, &wanted.offset);
    let total = bytes.len() as u64;
    progress.progress(Phase::LoadMesh, 0, total);
    progress.expect("the mesh file", each(bytes.len(), pace::PARSE_BYTE));
    let plain = |mesh| (mesh, Labels::default());
    let (mesh, labels) = match kind(bytes, name)? {
        kind @ (Kind::Glb | Kind::Gltf) => {
            gltf::read(bytes, kind == Kind::Glb, name, folder, wanted, progress)?
        }
        _ if wanted.set.is_some_and(|set| set > 0) => {
            let mut mesh = match kind(bytes, name)? {
                Kind::Ply => ply::read(bytes, false, offset)?,
                Kind::Stl => stl::read(bytes, offset)?,
                Kind::Off => off::read(bytes, offset)?,
                _ => obj::read(bytes, false, offset)?.0,
            };
            mesh.uvs = Err(NoUvs::NoSuchSet);
            plain(mesh)
        }
        Kind::Ply => plain(ply::read(bytes, want_uvs, offset)?),
        Kind::Obj => obj::read(bytes, want_uvs, offset)?,
        Kind::Stl => plain(stl::read(bytes, offset)?),
        Kind::Off => plain(off::read(bytes, offset)?),
    };
    check(&mesh)?;
    progress.progress(Phase::LoadMesh, total, total);
    Ok((mesh, labels))
}

/// Reads the glTF or GLB file `name` of `folder` with its base colour pictures: at this offset, or at the one that suits
/// it, which is returned.
///
/// # Errors
/// The first problem found.
pub(crate) fn read_painted(
    folder: &Folder<'_>,
    name: &str,
    offset: Option<Offset>,
    progress: &dyn Progress,
) -> Result<(RawMesh, Pictures, Offset), LoadError> {
    let bytes = folder
        .read(name, MAX_MESH_FILE_BYTES)
        .map_err(LoadError::File)?;
    let read = |offset| painted_bytes(&bytes, name, folder, &offset, progress);
    match offset {
        Some(offset) => read(offset).map(|(mesh, pictures)| (mesh, pictures, offset)),
        None => local::settled(read),
    }
}

/// Like [`read_painted`], at an offset and with normal maps in place of colours. A material without one has a flat texel.
///
/// # Errors
/// The first problem found.
pub(crate) fn read_relief(
    folder: &Folder<'_>,
    name: &str,
    offset: Offset,
    progress: &dyn Progress,
) -> Result<(RawMesh, Pictures), LoadError> {
    let bytes = folder
        .read(name, MAX_MESH_FILE_BYTES)
        .map_err(LoadError::File)?;
    shown_bytes((&bytes, name), folder, (&offset, Shown::Normals), progress)
}

/// Like [`read_painted`], from the bytes of the file `name`.
pub(crate) fn painted_bytes(
    bytes: &[u8],
    name: &str,
    folder: &Folder<'_>,
    offset: &Offset,
    progress: &dyn Progress,
) -> Result<(RawMesh, Pictures), LoadError> {
    shown_bytes((bytes, name), folder, (offset, Shown::Colours), progress)
}

fn shown_bytes(
    (bytes, name): (&[u8], &str),
    folder: &Folder<'_>,
    wanted: (&Offset, Shown),
    progress: &dyn Progress,
) -> Result<(RawMesh, Pictures), LoadError> {
    let total = bytes.len() as u64;
    progress.progress(Phase::LoadMesh, 0, total);
    progress.expect("the mesh file", each(bytes.len(), pace::PARSE_BYTE));
    let is_glb = match kind(bytes, name)? {
        Kind::Glb => true,
        Kind::Gltf => false,
        Kind::Ply | Kind::Obj | Kind::Stl | Kind::Off => return Err(LoadError::NotPainted),
    };
    let (mesh, pictures) = gltf::painted::read((bytes, is_glb), name, folder, wanted, progress)?;
    check(&mesh)?;
    progress.progress(Phase::LoadMesh, total, total);
    Ok((mesh, pictures))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Glb,
    Gltf,
    Ply,
    Obj,
    Stl,
    Off,
}

fn kind(bytes: &[u8], name: &str) -> Result<Kind, LoadError> {
    let text = bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(bytes)
        .trim_ascii_start();
    let extension = name
        .rsplit_once('.')
        .map(|(_, end)| end.to_ascii_lowercase());
    if bytes.is_empty() {
        Err(LoadError::Empty)
    } else if bytes.starts_with(b"glTF") {
        Ok(Kind::Glb)
    } else if bytes.starts_with(b"ply\n") || bytes.starts_with(b"ply\r") {
        Ok(Kind::Ply)
    } else if text.starts_with(b"{") {
        match lists_views(text) {
            true => Err(LoadError::Views),
            false => Ok(Kind::Gltf),
        }
    } else if let Some(foreign) = foreign::recognise(bytes) {
        match foreign.what {
            foreign::STL_MESH => Ok(Kind::Stl),
            foreign::OFF_MESH => Ok(Kind::Off),
            _ => Err(LoadError::Foreign(foreign)),
        }
    } else {
        match extension.as_deref() {
            // Named so but not begun so: the parser says what is missing.
            Some("glb") => Ok(Kind::Glb),
            Some("gltf") => Ok(Kind::Gltf),
            Some("ply") => Ok(Kind::Ply),
            Some("obj") => Ok(Kind::Obj),
            Some("stl") => Ok(Kind::Stl),
            Some("off") => Ok(Kind::Off),
            _ => Err(LoadError::UnknownKind),
        }
    }
}

/// Bytes in which a JSON file shows what it is.
const HEAD: usize = 1 << 20;

/// Whether JSON text is a `transforms.json`: it has frames, and not the asset that every glTF file has.
fn lists_views(text: &[u8]) -> bool {
    let text = &text[..text.len().min(HEAD)];
    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    has(b"\"frames\"") && !has(b"\"asset\"")
}

fn check(mesh: &RawMesh) -> Result<(), LoadError> {
    let bounds = [
        ("triangles", mesh.triangles.len(), MAX_TRIANGLES),
        ("vertices", mesh.positions.len(), MAX_VERTICES),
    ];
    for (what, count, limit) in bounds {
        if count > limit {
            return Err(LoadError::TooLarge {
                what,
                count: count as u64,
                limit,
            });
        }
    }
    if mesh.triangles.is_empty() {
        return Err(LoadError::NoTriangles);
    }
    let vertices = mesh.positions.len();
    for (triangle, corners) in mesh.triangles.iter().enumerate() {
        for &vertex in corners {
            let Some(position) = mesh.positions.get(vertex as usize) else {
                return Err(LoadError::Corner {
                    triangle,
                    vertex,
                    vertices,
                });
            };
            // NaN is in no range.
            let usable = -MAX_COORDINATE..=MAX_COORDINATE;
            if let Some(&value) = position.iter().find(|x| !usable.contains(*x)) {
                return Err(LoadError::Coordinate {
                    vertex,
                    value,
                    triangle,
                });
            }
        }
    }
    Ok(())
}

/// One square picture for all triangles.
#[cfg(test)]
pub(crate) fn painted_of(edge: usize, texels: Vec<[u8; 4]>) -> Pictures {
    let picture = Picture {
        width: edge,
        height: edge,
        texels,
    };
    Pictures {
        pictures: vec![picture],
        of_triangle: Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proto::message::Root;

    use super::*;
    use crate::worker::folder::Local;
    use crate::worker::progress::Silent;

    /// Writes the files into a fresh folder and reads the first one as a mesh.
    pub(crate) fn read_files(
        files: &[(&str, &[u8])],
        want_uvs: bool,
    ) -> Result<RawMesh, LoadError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let local = Local(dir.path().to_path_buf());
        let folder = Folder::new(&local, Root::Mesh);
        read(&folder, files[0].0, want_uvs, &Silent)
    }

    #[test]
    fn content_decides_before_the_name() {
        assert_eq!(kind(b"glTF....", "a.obj").unwrap(), Kind::Glb);
        assert_eq!(kind(b"ply\r\n", "a.glb").unwrap(), Kind::Ply);
        assert_eq!(kind(b" {}", "a").unwrap(), Kind::Gltf);
        assert_eq!(kind(b"# x", "A.OBJ").unwrap(), Kind::Obj);
        assert!(matches!(
            kind(b"\x89PNG", "a.png"),
            Err(LoadError::UnknownKind)
        ));
        assert!(matches!(kind(b"", "a.glb"), Err(LoadError::Empty)));
    }

    #[test]
    fn only_vertices_in_use_must_be_numbers() {
        let positions = vec![[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [f32::NAN; 3]];
        let mut mesh = RawMesh {
            positions,
            uvs: Err(NoUvs::Absent),
            triangles: vec![[0, 1, 2]],
        };
        check(&mesh).unwrap();
        mesh.triangles.push([0, 3, 1]);
        let error = check(&mesh).unwrap_err().failure("a.ply");
        assert_eq!(
            error.message,
            "a.ply: vertex 3 has the coordinate NaN, and triangle 1 uses it"
        );
        mesh.positions[3] = [0.0, 2e12, 0.0];
        assert_eq!(
            check(&mesh).unwrap_err().failure("a.ply").code,
            Code::LimitExceeded
        );
        mesh.triangles[1] = [0, 4, 1];
        assert_eq!(
            check(&mesh).unwrap_err().to_string(),
            "triangle 1 names vertex 4 of 4"
        );
    }
}
