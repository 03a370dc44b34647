//! A mesh file of each kind: refused with an error, or triangles that fulfil [`mod@load`]'s guarantees and pass
//! cleaning.

use baker::prepare::clean::{self, CleanMesh};
use baker::prepare::load::{self, Offset, RawMesh};
use baker::prepare::unwrap::kept;
use baker::worker::folder::Folder;
use baker::worker::progress::Silent;
use proto::limits::MAX_COORDINATE;
use proto::message::{Failure, Root};
use proto::pages::Pages;
use proto::table::Mesh;

use crate::files::One;
use crate::heap;

/// Memory per input byte: a compressed glTF may expand a thousandfold and is copied. The rest covers memory that does
/// not depend on the file.
const BYTES_FOR_A_BYTE: usize = 4096;
const LOADING_BYTES: usize = 4 << 20;
/// Larger meshes are loaded and cleaned, but their UVs are not checked, to save time.
const JUDGED_TRIANGLES: usize = 2_000;

/// Input: a GLB or a glTF.
pub fn gltf(bytes: &[u8]) -> bool {
    mesh(bytes, "mesh.gltf")
}

/// Input: a PLY.
pub fn ply(bytes: &[u8]) -> bool {
    mesh(bytes, "mesh.ply")
}

/// Input: an OBJ.
pub fn obj(bytes: &[u8]) -> bool {
    mesh(bytes, "mesh.obj")
}

pub(super) fn mesh(bytes: &[u8], name: &str) -> bool {
    match load(bytes, name) {
        Ok((raw, _)) => {
            check(&raw);
            if let Ok(clean) = clean::clean(&raw) {
                surface(&clean);
                judge(&clean);
            }
            true
        }
        Err(failure) => {
            assert!(
                failure.message.starts_with(name),
                "the line names the file: {}",
                failure.message
            );
            false
        }
    }
}

/// Reads `bytes` as the file `name`, with its local origin; every other file is full of zeros.
pub(crate) fn load(bytes: &[u8], name: &str) -> Result<(RawMesh, Offset), Failure> {
    // Quadratic, since nodes of a glTF may show a mesh many times.
    let limit = LOADING_BYTES + (BYTES_FOR_A_BYTE + bytes.len()) * bytes.len();
    heap::within(limit, "loading a mesh", || {
        let files = One { name, bytes };
        load::read_local(
            &Folder::new(&files, Root::Mesh),
            name,
            (true, None),
            &Silent,
        )
        .map(|(mesh, _, offset)| (mesh, offset))
        .map_err(|error| error.failure(name))
    })
}

fn check(raw: &RawMesh) {
    assert!(!raw.triangles.is_empty(), "a mesh has triangles");
    for &vertex in raw.triangles.iter().flatten() {
        let position = raw.positions[vertex as usize];
        assert!(
            position.iter().all(|x| x.abs() <= MAX_COORDINATE),
            "vertex {vertex} at {position:?}"
        );
    }
    if let Ok(uvs) = &raw.uvs {
        assert_eq!(uvs.len(), raw.positions.len(), "one for each position");
    }
}

/// Asserts the guarantees of cleaning: triangles of three distinct points, no unused point, one UV per corner.
fn surface(clean: &CleanMesh) {
    assert!(!clean.triangles.is_empty(), "something has area");
    let mut used = vec![false; clean.positions.len()];
    for corners in &clean.triangles {
        let [a, b, c] = *corners;
        assert!(a != b && b != c && c != a, "{corners:?}");
        for corner in corners {
            used[*corner as usize] = true;
        }
    }
    assert!(used.iter().all(|used| *used), "a point is left over");
    if let Some(uvs) = &clean.corner_uvs {
        assert_eq!(uvs.len(), clean.triangles.len());
    }
}

/// Checks a mesh with UVs: refused, or a table that the next process accepts.
fn judge(clean: &CleanMesh) {
    if clean.corner_uvs.is_none() || clean.triangles.len() > JUDGED_TRIANGLES {
        return;
    }
    for count in [1, 4] {
        let pages = Pages::try_from(count).expect("a square");
        if let Ok(unwrapped) = kept::keep(clean, (512, pages), &Silent) {
            passes(&unwrapped.mesh);
        }
    }
}

/// Asserts that the next process accepts the mesh unchanged.
pub(super) fn passes(mesh: &Mesh) {
    let mut bytes = Vec::new();
    mesh.write(&mut bytes).expect("memory takes all");
    let read = Mesh::read(&mut bytes.as_slice()).expect("prepare's table passes bake's checks");
    assert_eq!(&read, mesh, "and holds the same");
}
