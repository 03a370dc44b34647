//! The role that reads untrusted files and turns a mesh and pictures into flat tables.
//!
//! ```text
//!   mesh file ─ load ─ clean ─ repair ─┬─ simplify ─┬─ unwrap ─► Mesh
//!   original ── load ─ clean ──────────┴─► Surface  └────────┐
//!   transforms.json, pictures ───────────────────────── views ─► View, View, …
//!   splats ──────────────────────────────────────────── views ─► Splats; View, View, … without pixels
//! ```
//!
//! A mesh far from the origin is moved to a local one as it is read, and the cameras with it ([`load::read_local`]).
//! Once the mesh is clean, silhouettes of some pictures tell whether it stands where the cameras look ([`frame`]).
//!
//! One safetensors file may hold mesh and views ([`arrays`]). Views may be a COLMAP model ([`colmap`]) or the cameras
//! of another program ([`programs`]).
//!
//! Tables go out in this order: first the splats that views are to be drawn of, and the surface that the views show, as it
//! is before simplification; then the mesh once it is unwrapped, and in parallel each view as soon as it is decoded. An
//! unwrap keeps few cores busy, and views need only the mesh's shape. The bake role reads the views meanwhile.
//!
//! This role uses no GPU, fetches nothing, and reads only files that the supervisor opens for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::job::{PrepareJob, Repair, Up};
use proto::labels::Labels;
use proto::message::{Code, Failure, MeshStep, Phase, PrepareSummary, Root, Table, TextureChoice};
use proto::table::{Simplified, Surface};

use crate::image::png;
use crate::worker::failure::{internal, no_thread};
use crate::worker::folder::Folder;
use crate::worker::memory::peak_rss_kib;
use crate::worker::pace;
use crate::worker::progress::{PhaseClock, Progress, both, each};
use crate::worker::session::Session;

mod arrays;

mod colmap;

pub mod load;

pub mod clean;

pub mod foreign;

mod original;

mod repair;

mod splat;

mod texels;

pub mod simplify;

pub mod unwrap;

pub(crate) mod transforms;

mod frame;

pub(crate) mod picture;

mod programs;

pub mod alone;

pub(crate) mod views;

use self::clean::{CleanMesh, Counts};
use self::load::{Offset, RawMesh};
use self::repair::Eye;
use self::texels::Lookout;
use self::unwrap::{Unwrapped, Wanted, kept};
use self::views::Views;

/// Finds how the mesh, which lies at an offset, stands among the views, and what eyes see it, once it is clean.
type Settle<'a> = dyn FnMut(&CleanMesh, Offset) -> Result<Vec<Eye>, Failure> + 'a;

/// The surface to bake.
struct Shaped {
    surface: CleanMesh,
    /// The surface before simplification.
    original: Option<CleanMesh>,
    simplify_error: Option<f32>,
    triangles_read: usize,
    counts: Counts,
    steps: Vec<MeshStep>,
    /// What the mesh's file calls itself.
    labels: Labels,
    /// Where the local origin lies, with y up.
    offset: Offset,
}

/// The mesh with its atlas.
struct LaidOut {
    unwrapped: Unwrapped,
    texture: Option<TextureChoice>,
}

/// Runs the role.
///
/// # Errors
/// The failure to report to the user.
pub fn run(session: &Session, job: &PrepareJob) -> Result<PrepareSummary, Failure> {
    unwrap::announce();
    let [mesh_folder, views_folder, original_folder] =
        [Root::Mesh, Root::Views, Root::Original].map(|root| Folder::new(session, root));
    let (mut clock, mut of_views) = (PhaseClock::default(), PhaseClock::default());
    let mut views = of_views.time(Phase::DecodeViews, || {
        Views::read(&views_folder, job, session)
    })?;
    let surface = match job.surface {
        true => clock.time(Phase::Surface, || views.surface(session)),
        false => None,
    };
    let surface = surface.transpose()?;
    let mut settle = |mesh: &CleanMesh, offset| {
        let surface = (mesh.positions.as_slice(), mesh.triangles.as_slice(), offset);
        of_views.time(Phase::DecodeViews, || views.settle(surface, session))?;
        Ok(match job.repair.remove_unseen {
            true => views.eyes(),
            false => Vec::new(),
        })
    };
    let mut shaped = shape(
        (&mesh_folder, surface),
        job,
        &mut settle,
        session,
        &mut clock,
    )?;
    if let Some(name) = &job.original_file {
        let from = (&original_folder, name.as_str());
        shaped.original = Some(original::read(from, job, &shaped, session, &mut clock)?);
    }
    let lookouts = match (job.texture_auto, job.keep_uvs) {
        (true, _) => views.lookouts()?,
        // Problems of the pictures are reported when they are delivered.
        (false, false) => views.lookouts().unwrap_or_default(),
        (false, true) => Vec::new(),
    };
    views.put_splats(session)?;
    put_surface(session, &mut shaped)?;
    let surface = &shaped.surface;
    let unwanted = AtomicBool::new(false);
    let mesh = || {
        let mesh = lay_out(surface, job, &lookouts, session, &mut clock).and_then(|laid_out| {
            put_mesh(session, job, &laid_out)?;
            Ok(laid_out)
        });
        unwanted.store(mesh.is_err(), Ordering::Relaxed);
        mesh
    };
    let positions = surface.positions.as_slice();
    let deliver = || {
        of_views.time(Phase::DecodeViews, || {
            views.deliver(session, positions, &unwanted)
        })
    };
    let (laid_out, delivered) =
        both("views", mesh, deliver).map_err(|error| no_thread("read views", &error))?;
    let LaidOut {
        unwrapped:
            Unwrapped {
                mesh,
                method,
                utilisation,
            },
        texture,
    } = laid_out?;
    let delivered = delivered?;
    if job.overview {
        let drawn = of_views.time(Phase::Preview, || views.overview(&mesh, session))?;
        let whole = |file: &[u8]| png::decode(file).map_err(|error| internal(&error));
        session.put_file(Table::Preview, drawn, whole)?;
    }
    clock.append(of_views);
    Ok(PrepareSummary {
        offset: shaped.offset,
        labels: shaped.labels,
        triangles_read: shaped.triangles_read as u64,
        triangles_degenerate: shaped.counts.degenerate,
        triangles: mesh.triangles.len() as u64,
        vertices: mesh.positions.len() as u64,
        nonmanifold_edges: shaped.counts.nonmanifold_edges,
        mesh: shaped.steps,
        simplify_error: shaped.simplify_error,
        unwrap: method,
        charts: u64::from(mesh.charts),
        atlas_utilisation: utilisation,
        texture,
        splats: delivered.splats,
        view_names: delivered.names,
        views: delivered.views,
        holdout_views: delivered.holdout_views,
        times: clock.into_times(),
        peak_rss_kib: peak_rss_kib(),
    })
}

/// Puts the surface that the views show, and the simplified mesh with it where there is one. Drops the original
/// afterwards.
fn put_surface(session: &Session, shaped: &mut Shaped) -> Result<(), Failure> {
    let original = shaped.original.take();
    let mesh = shaped.surface.clone();
    let surface = match original {
        Some(original) => Surface {
            positions: original.positions,
            triangles: original.triangles,
            simplified: Some(Simplified {
                positions: mesh.positions,
                triangles: mesh.triangles,
            }),
        },
        None => Surface {
            positions: mesh.positions,
            triangles: mesh.triangles,
            simplified: None,
        },
    };
    let put = session.put(Table::Surface, surface.byte_len(), |out| surface.write(out));
    put.map_err(|error| internal(&error))
}

/// Puts the mesh, after the texture size where it was chosen here.
fn put_mesh(session: &Session, job: &PrepareJob, laid_out: &LaidOut) -> Result<(), Failure> {
    if let Some(choice) = laid_out.texture {
        let told = session.choose(job.pages.atlas(choice.size));
        told.map_err(|error| internal(&error))?;
    }
    let mesh = &laid_out.unwrapped.mesh;
    let put = session.put(Table::Mesh, mesh.byte_len(), |out| mesh.write(out));
    put.map_err(|error| internal(&error))
}

fn shape(
    (folder, surface): (&Folder<'_>, Option<RawMesh>),
    job: &PrepareJob,
    settle: &mut Settle<'_>,
    progress: &dyn Progress,
    clock: &mut PhaseClock,
) -> Result<Shaped, Failure> {
    let name = &job.mesh_file;
    let (mut raw, labels, mut offset) = match surface {
        Some(surface) => (surface, Labels::default(), Offset::default()),
        None => clock
            .time(Phase::LoadMesh, || {
                load::read_local(folder, name, (job.keep_uvs, job.uv_set), progress)
            })
            .map_err(|error| error.failure(name))?,
    };
    if job.repair.up != Up::Y {
        let turn = |at: &mut [f32; 3]| *at = job.repair.up.turned(*at);
        raw.positions.iter_mut().for_each(turn);
        offset = job.repair.up.turned(offset);
    }
    if let (true, Err(missing)) = (job.keep_uvs, &raw.uvs) {
        return Err(kept::KeptError::Missing(*missing).failure(name));
    }
    let triangles_read = raw.triangles.len();
    progress.progress(Phase::Clean, 0, 0);
    progress.expect("welding", each(triangles_read, pace::CLEAN_TRIANGLE));
    let cleaned = clock.time(Phase::Clean, || {
        let cleaned = clean::clean(&raw);
        drop(raw);
        cleaned
    });
    let cleaned = cleaned.map_err(|error| error.failure(name))?;
    let mut counts = cleaned.counts;
    if counts.duplicate > 0 {
        let flipped = match counts.flipped {
            0 => String::new(),
            count => format!(
                ", {count} of them facing the other way: both sides of such a sheet share one colour"
            ),
        };
        progress.warning(&format!(
            "{} triangles lay on others and were dropped{flipped}",
            counts.duplicate
        ));
    }

    let eyes = settle(&cleaned, offset)?;
    let (cleaned, steps) = if job.repair == Repair::default() {
        (cleaned, Vec::new())
    } else {
        clock.time(Phase::Repair, || {
            repair::repair(cleaned, &job.repair, &eyes, progress)
        })
    };
    counts.nonmanifold_edges = cleaned.counts.nonmanifold_edges;
    let target =
        simplify::target(job.simplify, cleaned.triangles.len()).map_err(|error| error.failure())?;
    let (surface, original, simplify_error) = match target {
        None => (cleaned, None, None),
        Some(target) => {
            progress.progress(Phase::Simplify, 0, 0);
            let predicted = each(cleaned.triangles.len(), pace::SIMPLIFY_TRIANGLE);
            progress.expect("simplifying", predicted);
            let simplified = clock.time(Phase::Simplify, || simplify::simplify(&cleaned, target));
            let simplified = simplified.map_err(|error| error.failure())?;
            if let Some(text) = &simplified.warning {
                progress.warning(text);
            }
            (simplified.mesh, Some(cleaned), Some(simplified.error))
        }
    };
    Ok(Shaped {
        surface,
        original,
        simplify_error,
        triangles_read,
        counts,
        steps,
        labels,
        offset,
    })
}

fn lay_out(
    surface: &CleanMesh,
    job: &PrepareJob,
    lookouts: &[Lookout],
    progress: &dyn Progress,
    clock: &mut PhaseClock,
) -> Result<LaidOut, Failure> {
    let asked = job.texture_auto || surface.triangles.len() <= texels::MANY;
    let lookouts = if asked { lookouts } else { &[] };
    let resolved = clock.time(Phase::Unwrap, || {
        texels::resolved(surface, lookouts, progress)
    });
    let texture = job.texture_auto.then(|| {
        let most = job.pages.page(job.texture_size);
        texels::choose(surface, &resolved, (most, job.pages), progress)
    });
    let wanted = Wanted {
        texture_size: texture.map_or(job.texture_size, |choice| job.pages.atlas(choice.size)),
        pages: unwrap::Pages::new(job.pages.side()),
        views: resolved.is_known().then_some(&resolved.shown),
    };
    let unwrapped = clock.time(Phase::Unwrap, || make_atlas(surface, job, wanted, progress))?;
    Ok(LaidOut { unwrapped, texture })
}

fn make_atlas(
    surface: &CleanMesh,
    job: &PrepareJob,
    wanted: Wanted<'_>,
    progress: &dyn Progress,
) -> Result<Unwrapped, Failure> {
    let texture_size = wanted.texture_size;
    if job.keep_uvs {
        return kept::keep(surface, (texture_size, job.pages), progress)
            .map_err(|error| error.failure(&job.mesh_file));
    }
    let deadline = Duration::from_millis(job.unwrap_deadline_ms);
    let unwrapped = unwrap::unwrap(surface, wanted, (job.quality, deadline), progress)
        .map_err(|error| no_thread("unwrap the mesh", &error))?;
    let texels = f64::from(texture_size).powi(2) * f64::from(unwrapped.utilisation);
    if texels < surface.triangles.len() as f64 {
        progress.warning(&format!(
            "a texture of {0} × {0} has less than a texel for each of the {1} triangles",
            texture_size,
            surface.triangles.len()
        ));
    }
    if unwrapped.utilisation <= 0.0 {
        return Err(Failure {
            code: Code::LimitExceeded,
            message: format!(
                "{}: no atlas of {} texels holds its charts",
                job.mesh_file, texture_size
            ),
            hint: "use a larger texture or fewer triangles".to_owned(),
        });
    }
    Ok(unwrapped)
}

#[cfg(test)]
mod tests {
    use proto::job::Simplify;
    use proto::message::UnwrapMethod;

    use super::*;
    use crate::worker::progress::Silent;

    /// A tent of four triangles over a square.
    const TENT: &str = "v 0 0 0\nv 2 0 0\nv 2 2 0\nv 0 2 0\nv 1 1 1\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt 0.5 0.5\n\
        f 1/1 2/2 5/5\nf 2/2 3/3 5/5\nf 3/3 4/4 5/5\nf 4/4 1/1 5/5\n";

    fn prepare(
        file: &str,
        change: impl FnOnce(&mut PrepareJob),
    ) -> Result<(Shaped, LaidOut, PhaseClock), Failure> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.obj"), file).unwrap();
        let mut job = job();
        change(&mut job);
        let files = crate::worker::folder::Local(dir.path().to_path_buf());
        let folder = Folder::new(&files, Root::Mesh);
        let mut clock = PhaseClock::default();
        let shaped = shape(
            (&folder, None),
            &job,
            &mut |_, _| Ok(Vec::new()),
            &Silent,
            &mut clock,
        )?;
        let laid_out = lay_out(&shaped.surface, &job, &[], &Silent, &mut clock)?;
        Ok((shaped, laid_out, clock))
    }

    fn job() -> PrepareJob {
        PrepareJob {
            mesh_file: "a.obj".to_owned(),
            texture_size: 256,
            unwrap_deadline_ms: 60_000,
            layers: true,
            ..PrepareJob::default()
        }
    }

    #[test]
    fn a_mesh_passes_all_stages() {
        let file = format!("{TENT}f 1 1 2\nf 5 1 2\n");
        let (shaped, laid_out, clock) = prepare(&file, |_| ()).unwrap();
        assert_eq!(shaped.triangles_read, 6);
        assert_eq!((shaped.counts.degenerate, shaped.counts.duplicate), (1, 1));
        assert_eq!(laid_out.unwrapped.mesh.triangles.len(), 4);
        assert!(shaped.original.is_none() && shaped.simplify_error.is_none());
        let phases: Vec<Phase> = clock.into_times().iter().map(|time| time.phase).collect();
        assert_eq!(phases, [Phase::LoadMesh, Phase::Clean, Phase::Unwrap]);
    }

    #[test]
    fn meshes_at_the_edges_of_numbers_are_laid_out_or_refused() {
        let faces = [
            "",
            "f 1/1 2/2 5/5\n",
            "f 1/1 2/2 5/5\nf 2/2 3/3 5/5\n",
            "f 1/1 2/2 5/5\nf 1/1 2/2 5/5\nf 2/2 1/1 5/5\n",
            "f 1/1 1/1 1/1\nf 1/1 2/2 2/2\n",
        ];
        let points = [
            [0.0, 0.0, 0.0],
            [2.0, 0.0, 0.0],
            [2.0, 2.0, 0.0],
            [0.0, 2.0, 0.0],
            [1.0; 3],
        ];
        let mut good = 0;
        for scale in [
            1e-45, 1e-38, 1e-20, 1e-11, 1e-5, 1.0, 1e5, 4e11, 1e12, 1.7e38,
        ] {
            for offset in [0.0, scale, -1e11, 1e30] {
                let point = |at: &[f64; 3]| {
                    let [x, y, z] = at.map(|x| x * scale + offset);
                    format!("v {x} {y} {z}\n")
                };
                let points: String = points.iter().map(point).collect();
                let uvs = "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt 0.5 0.5\n";
                for faces in faces {
                    let file = format!("{points}{uvs}{faces}");
                    for way in 0..3 {
                        let prepared = prepare(&file, |job| {
                            job.keep_uvs = way == 1;
                            if way == 2 {
                                job.simplify = Simplify::TargetFaces(1);
                                job.repair.fill_holes = Some(1.0);
                                job.repair.orient = true;
                            }
                        });
                        match prepared {
                            Ok((_, laid_out, _)) => {
                                let mesh = laid_out.unwrapped.mesh;
                                let mut table = Vec::new();
                                mesh.write(&mut table).expect("memory takes all");
                                let back = proto::table::Mesh::read(&mut table.as_slice());
                                assert_eq!(back.expect("a table that is taken"), mesh, "{file}");
                                good += 1;
                            }
                            Err(failure) => assert!(!failure.message.is_empty(), "{file}"),
                        }
                    }
                }
            }
        }
        assert!(good > 30, "{good} were laid out");
    }

    #[test]
    fn a_simplified_mesh_comes_with_its_original() {
        let simplify = |job: &mut PrepareJob| job.simplify = Simplify::TargetFaces(2);
        let (shaped, laid_out, _) = prepare(TENT, simplify).unwrap();
        assert!(laid_out.unwrapped.mesh.triangles.len() <= 2);
        assert_eq!(shaped.original.unwrap().triangles.len(), 4);
        assert!(shaped.simplify_error.unwrap() > 0.0);
    }

    #[test]
    fn an_original_lies_where_the_mesh_lies_or_is_refused() {
        let offset = 5_000_000.0;
        let tent = |by: f64, high: f64| {
            let x = |x: f64| x + offset + by;
            format!(
                "v {} 0 0\nv {} 0 0\nv {} 2 0\nv {} 2 0\nv {} 1 {high}\nf 1 2 5\nf 2 3 5\nf 3 4 5\nf 4 1 5\n",
                x(0.0),
                x(2.0),
                x(2.0),
                x(0.0),
                x(1.0)
            )
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a.obj", tent(0.0, 1.0)),
            ("near.obj", tent(0.125, 1.25)),
            ("far.obj", tent(1.0, 1.0)),
            ("large.obj", tent(0.0, 3.0)),
            ("empty.obj", "v 0 0 0\n".to_owned()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let files = crate::worker::folder::Local(folder.path().to_path_buf());
        let read = |name: &str| {
            let mut clock = PhaseClock::default();
            let (shaped, _, _) = prepare(&tent(0.0, 1.0), |job| job.repair.up = Up::Z).unwrap();
            let mut job = job();
            job.repair.up = Up::Z;
            let from = (&Folder::new(&files, Root::Original), name);
            original::read(from, &job, &shaped, &Silent, &mut clock).map(|read| (read, shaped))
        };
        let (near, shaped) = read("near.obj").unwrap();
        let off: [f32; 3] =
            std::array::from_fn(|axis| near.positions[2][axis] - shaped.surface.positions[2][axis]);
        // Its top is turned to y as the mesh's is.
        assert_eq!(off, [0.125, 0.25, 0.0]);
        for (name, words) in [
            (
                "far.obj",
                "far.obj: its bounds lie 33 % of the mesh's diagonal beside those of a.obj",
            ),
            ("large.obj", "large.obj: its bounds lie 67 %"),
            ("empty.obj", "empty.obj: the file has no triangles"),
            ("gone.obj", "gone.obj: no such file"),
        ] {
            let failure = read(name).err().expect(name);
            assert!(failure.message.starts_with(words), "{}", failure.message);
        }
    }

    #[test]
    fn what_is_mended_is_simplified_after_and_told() {
        // The tent with its floor's two triangles, one of them missing, and one of its walls flipped.
        let file = format!(
            "{}f 1 3 2\n",
            TENT.replace("f 2/2 3/3 5/5", "f 3/3 2/2 5/5")
        );
        let (shaped, _, clock) = prepare(&file, |job| {
            job.repair.orient = true;
            job.repair.fill_holes = Some(1.0);
            job.simplify = Simplify::TargetFaces(5);
        })
        .unwrap();
        assert_eq!(shaped.original.unwrap().triangles.len(), 6);
        let changed: Vec<u64> = shaped.steps.iter().map(|step| step.changed).collect();
        assert_eq!(changed, [1, 1]);
        let times = clock.into_times();
        assert!(times.iter().any(|time| time.phase == Phase::Repair));
    }

    #[test]
    fn a_mesh_is_turned_to_y_up() {
        let (_, given, _) = prepare(TENT, |job| job.keep_uvs = true).unwrap();
        for (up, axes, signs) in [
            (Up::Z, [0, 2, 1], [1.0, 1.0, -1.0]),
            (Up::Down, [0, 1, 2], [1.0, -1.0, -1.0]),
        ] {
            let (_, turned, _) = prepare(TENT, |job| {
                job.keep_uvs = true;
                job.repair.up = up;
            })
            .unwrap();
            let turn = |at: &[f32; 3]| [0, 1, 2].map(|k| signs[k] * at[axes[k]]);
            let given = given.unwrapped.mesh.positions.iter();
            let wanted: Vec<[f32; 3]> = given.map(turn).collect();
            assert_eq!(turned.unwrapped.mesh.positions, wanted);
        }
    }

    #[test]
    fn kept_coordinates_are_turned_to_our_convention() {
        let (_, laid_out, _) = prepare(TENT, |job| job.keep_uvs = true).unwrap();
        assert_eq!(laid_out.unwrapped.method, UnwrapMethod::Kept);
        assert_eq!(laid_out.unwrapped.mesh.uvs[0], [0.0, 1.0]);
        assert_eq!(laid_out.unwrapped.mesh.charts, 1);
    }

    #[test]
    fn failures_name_the_file_and_the_way_out() {
        let failure =
            |file: &str, change: fn(&mut PrepareJob)| prepare(file, change).err().unwrap();
        let absent = failure(TENT, |job| job.mesh_file = "b.obj".to_owned());
        assert_eq!(
            (absent.code, &absent.message[..]),
            (Code::MissingInput, "b.obj: no such file")
        );
        let no_uvs = failure("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3", |job| {
            job.keep_uvs = true;
        });
        assert_eq!(no_uvs.message, "a.obj: the mesh has no texture coordinates");
        assert!(no_uvs.hint.contains("--keep-uvs"));
        let target = failure(TENT, |job| job.simplify = Simplify::RemoveShare(1.5));
        assert_eq!(
            (target.code, &target.message[..]),
            (
                Code::InvalidSpec,
                "cannot simplify to a share of 1.5 removed"
            )
        );
        assert_eq!(
            failure("v 0 0 0\nf 1 1 1", |_| ()).message,
            "a.obj: all 1 triangles have zero area"
        );
    }
}
