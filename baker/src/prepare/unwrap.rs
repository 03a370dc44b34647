//! A surface → the mesh that is baked, with its atlas: new, by `kiln_atlas`, or the file's own ([`kept`]).

use std::io;
use std::time::Duration;

use kiln_atlas::{AtlasError, Listener, Method};
pub use kiln_atlas::{Pages, Wanted, Work};
use proto::job::Quality;
use proto::message::{Phase, UnwrapMethod};
use proto::table::Mesh;

use crate::bake::model::normals::point_normals;
use crate::prepare::clean::CleanMesh;
use crate::worker::progress::{self, Progress, Ticker, each};
use crate::worker::{last_words, pace};

pub mod kept;

/// The mesh with its atlas.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// The mesh to bake.
    pub mesh: Mesh,
    /// How the charts were made.
    pub method: UnwrapMethod,
    /// Share of the atlas that charts cover.
    pub utilisation: f32,
}

/// Has the work of the atlas maker counted as this process's own.
pub(crate) fn announce() {
    kiln_atlas::install(kiln_atlas::Hooks {
        unit: progress::unit,
        did: |count| Ticker::default().did(count),
        thread: last_words::guard_thread,
    });
}

/// Passes the stages of the atlas maker on.
struct Heard<'a>(&'a dyn Progress);

impl Listener for Heard<'_> {
    fn progress(&self, done: u64, total: u64) {
        self.0.progress(Phase::Unwrap, done, total);
    }

    fn expect(&self, label: &str, predicted: Duration) {
        self.0.expect(label, predicted);
    }

    fn note(&self, text: &str) {
        tracing::info!("{text}");
    }
}

/// Makes an atlas. The deadline bounds flattening, the better of the two ways to cut.
///
/// # Errors
///
/// The system gives no thread. The mesh may well be flattened, so another process can try.
pub fn unwrap<'a>(
    mesh: &CleanMesh,
    wanted: impl Into<Wanted<'a>>,
    (quality, deadline): (Quality, Duration),
    progress: &dyn Progress,
) -> io::Result<Unwrapped> {
    let limit = deadline.min(kiln_atlas::patience(mesh.triangles.len()));
    let work = match quality {
        Quality::Draft => Work::DRAFT,
        Quality::Standard | Quality::Best => Work::FULL,
    };
    unwrap_with(mesh, wanted, limit, work, progress)
}

/// Like [`unwrap`], with this much work. With a limit of zero, projections make the charts. Normals are those of the
/// surface's points, not of the split vertices, so no seam shows in the shading.
///
/// # Errors
///
/// As [`unwrap`].
pub fn unwrap_with<'a>(
    mesh: &CleanMesh,
    wanted: impl Into<Wanted<'a>>,
    limit: Duration,
    work: Work,
    progress: &dyn Progress,
) -> io::Result<Unwrapped> {
    let surface = kiln_atlas::Mesh {
        positions: &mesh.positions,
        triangles: &mesh.triangles,
    };
    let atlas = kiln_atlas::unwrap(&surface, wanted, limit, work, &Heard(progress));
    let atlas = atlas.map_err(|error| match error {
        AtlasError::NoThread(error) => error,
        AtlasError::Corner(_) => io::Error::other(error),
    })?;
    progress.expect("normals", each(mesh.triangles.len(), pace::TRIANGLE));
    let normals = point_normals(&mesh.positions, &mesh.triangles);
    let of_points = |of: &[[f32; 3]]| {
        let points = atlas.points.iter();
        points.map(|&point| of[point as usize]).collect()
    };
    Ok(Unwrapped {
        method: match atlas.method {
            Method::Flattened => UnwrapMethod::Uvunwrap,
            Method::Projected => UnwrapMethod::Fallback,
        },
        utilisation: atlas.utilisation,
        mesh: Mesh {
            positions: of_points(&mesh.positions),
            normals: of_points(&normals),
            uvs: atlas.uvs,
            surface_vertices: atlas.points,
            triangles: atlas.triangles,
            charts: atlas.charts,
        },
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::prepare::clean;
    use crate::prepare::load::{NoUvs, RawMesh};
    use crate::worker::progress::Silent;

    /// The unit sphere of 20 · 4^level triangles.
    pub(crate) fn icosphere(level: u32) -> CleanMesh {
        let (positions, triangles) = kiln_atlas::surface::icosphere(level);
        clean::clean(&RawMesh {
            positions,
            uvs: Err(NoUvs::NotAsked),
            triangles,
        })
        .unwrap()
    }

    #[test]
    fn a_sphere_is_laid_out_with_its_normals_and_is_a_valid_table() {
        let sphere = icosphere(3);
        let limit = (Quality::Draft, Duration::from_secs(60));
        let Unwrapped { mesh, method, .. } =
            unwrap(&sphere, (256, Pages::ONE), limit, &Silent).unwrap();
        assert_eq!(method, UnwrapMethod::Uvunwrap);
        let mut bytes = Vec::new();
        mesh.write(&mut bytes).unwrap();
        assert_eq!(Mesh::read(&mut bytes.as_slice()).unwrap(), mesh);
        for (corners, points) in mesh.triangles.iter().zip(&sphere.triangles) {
            assert_eq!(&corners.map(|k| mesh.surface_vertices[k as usize]), points);
        }
        for (k, &point) in mesh.surface_vertices.iter().enumerate() {
            let at = mesh.positions[k];
            assert_eq!(at, sphere.positions[point as usize]);
            let cosine: f32 = mesh.normals[k].iter().zip(at).map(|(a, b)| a * b).sum();
            assert!(cosine > 0.99, "{cosine}");
        }
    }
}
