//! The file of a surface that the mesh was simplified from elsewhere → that surface, where the mesh lies.
//!
//! It is read as the mesh is and moved as the mesh is: to the same local origin, and with the same axis up. Repairs are the
//! mesh's alone. Both must lie together: shapes that are scaled or moved against each other have nothing to say of each
//! other, and a bake would find next to nothing.

use proto::job::{PrepareJob, Up};
use proto::message::{Code, Failure, Phase};

use super::Shaped;
use super::clean::{self, CleanMesh};
use super::load;
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{PhaseClock, Progress, each};

/// Share of the mesh's diagonal by which a side of the box around the original may lie elsewhere. Thin parts that
/// simplification takes leave less.
const APART: f32 = 0.25;

/// Reads the original of a mesh.
///
/// # Errors
/// The first problem of the file, or that it lies elsewhere.
pub(super) fn read(
    (folder, name): (&Folder<'_>, &str),
    job: &PrepareJob,
    shaped: &Shaped,
    progress: &dyn Progress,
    clock: &mut PhaseClock,
) -> Result<CleanMesh, Failure> {
    let up = job.repair.up;
    let mut raw = clock
        .time(Phase::LoadMesh, || {
            load::read_beside(folder, name, up.back(shaped.offset), progress)
        })
        .map_err(|error| error.failure(name))?;
    if up != Up::Y {
        let turn = |at: &mut [f32; 3]| *at = up.turned(*at);
        raw.positions.iter_mut().for_each(turn);
    }
    progress.expect("welding", each(raw.triangles.len(), pace::CLEAN_TRIANGLE));
    let cleaned = clock.time(Phase::Clean, || clean::clean(&raw));
    let original = cleaned.map_err(|error| error.failure(name))?;
    match apart(&shaped.surface, &original) {
        share if share > APART => Err(Failure {
            code: Code::InvalidAsset,
            message: format!(
                "{name}: its bounds lie {:.0} % of the mesh's diagonal beside those of {}: no original of it",
                100.0 * share,
                job.mesh_file
            ),
            hint: "give the surface that the mesh was simplified from, in the same place, size and axes"
                .to_owned(),
        }),
        _ => Ok(original),
    }
}

/// Largest distance between sides of the boxes around both, as a share of the mesh's diagonal.
fn apart(mesh: &CleanMesh, original: &CleanMesh) -> f32 {
    let sides = |mesh: &CleanMesh| {
        let nothing = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        (mesh.positions.iter()).fold(nothing, |(low, high), at| {
            let with = |of: [f32; 3], pick: fn(f32, f32) -> f32| {
                std::array::from_fn(|axis| pick(of[axis], at[axis]))
            };
            (with(low, f32::min), with(high, f32::max))
        })
    };
    let ((low, high), (their_low, their_high)) = (sides(mesh), sides(original));
    let off = |a: [f32; 3], b: [f32; 3]| {
        (0..3)
            .map(|axis| (a[axis] - b[axis]).abs())
            .fold(0.0, f32::max)
    };
    off(low, their_low).max(off(high, their_high)) / (2.0 * mesh.radius) as f32
}
