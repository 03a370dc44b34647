//! Makes charts with the `uvunwrap` crate: grown by normals, flattened conformally, then as rigidly as possible.
//!
//! It cuts in one thread. So it gets parts of the surface ([`crate::parts`]), side by side; charts that end at the border
//! of a part are merged across it later ([`crate::merge`]).
//!
//! Only its segmentation and parameterisation are used. It packs at a fixed density in one fast pass, and the places
//! are discarded. It runs on its own threads, since it can be stopped only between charts. If it does not stop it is
//! left running and ends with the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rayon::prelude::*;
use uvunwrap::{Density, MeshInput, Options, OutputMesh, Packing, Stage};

use super::effort::Effort;
use crate::input::Mesh;
use crate::piece::{Chart, Piece};
use crate::surface::surface_area;
use crate::work::{Listener, begin_thread, ticked, unit};

/// A way to cut: the largest angle between a chart's normals and their mean, in degrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    angle: f32,
}

/// Which one packs densest differs between meshes.
pub(super) const WAYS: [Way; 3] = [
    Way { angle: 70.0 },
    Way { angle: 88.0 },
    Way { angle: 80.0 },
];
/// Texels along the edge of a square as large as the surface. Only the discarded packing depends on it: at 1024 it takes
/// two fifths of the whole step. Coordinates are shares of the packed square, so they keep their precision until charts
/// of less than a texel fill it.
const TEXELS: f64 = 64.0;
/// Interval at which clock and progress are checked.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// It splits charts that do not flatten, one call deeper per split: peeling off one triangle at a time goes deep.
const STACK_BYTES: usize = 256 << 20;
/// Longest time for one chart, whatever the mesh.
const LONGEST_CHART: Duration = Duration::from_secs(150);
/// Time to obey a stop; after that it will not.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Share of open or non-manifold edges above which a mesh counts as loose triangles.
const MAX_OPEN_EDGES: f64 = 0.5;

/// Time that `uvunwrap` gets for this number of triangles: about five times what a sane mesh needs on two cores.
pub fn patience(triangles: usize) -> Duration {
    Duration::from_secs(3)
        + Duration::from_micros(80) * u32::try_from(triangles).unwrap_or(u32::MAX)
}

/// Triangles around one point from which on a mesh is taken for a fan: `uvunwrap` compares each of them with each.
const FAN: u32 = 4096;

/// Whether the triangles hang together well enough to be flattened in pieces of more than one, and in less than hours.
/// `neighbours` are as from [`crate::planar::neighbours`].
pub(super) fn is_sane(mesh: &Mesh<'_>, neighbours: &[[u32; 3]]) -> bool {
    let mut around = vec![0_u32; mesh.positions.len()];
    for &corner in ticked(mesh.triangles.as_flattened().iter()) {
        around[corner as usize] += 1;
    }
    if around.into_iter().any(|count| count >= FAN) {
        return false;
    }
    let sides = neighbours.as_flattened();
    let open = sides.iter().filter(|&&across| across == u32::MAX).count();
    // Two sides make an edge, but an open one is alone.
    let edges = (sides.len() + open) as f64 / 2.0;
    open as f64 <= MAX_OPEN_EDGES * edges || mesh.triangles.len() < 1000
}

/// Cuts and flattens the parts of a surface, side by side, until the effort reaches its limit, on a share of the
/// processors, since this many `ways` run at once. Returns none if it was not done by then or failed: the mesh is too
/// hard. A missing thread says nothing about the mesh and is an error, since another try may get one.
pub(super) fn flatten(
    (mesh, parts): (&Mesh<'_>, &[Vec<u32>]),
    way: &Way,
    ways: usize,
    within: (Effort, Duration),
    listener: &dyn Listener,
) -> io::Result<Option<Vec<Piece>>> {
    let parts = parts
        .par_iter()
        .map(|faces| Part::new(mesh, faces))
        .collect();
    let run = Run::start(parts, way, (rayon::current_num_threads() / ways).max(1))?;
    let result = run.watch(mesh.triangles.len(), within, listener);
    unit();
    Ok(match result {
        None => None,
        Some(Ok(pieces)) => Some(pieces),
        Some(Err(error)) => {
            listener.note(&format!("uvunwrap gave up: {error}"));
            None
        }
    })
}

/// A part of the surface as a mesh of its own.
struct Part {
    faces: Vec<u32>,
    /// The surface's point of each point.
    points: Vec<u32>,
    positions: Vec<[f32; 3]>,
    triangles: Vec<[u32; 3]>,
}

impl Part {
    fn new(mesh: &Mesh<'_>, faces: &[u32]) -> Self {
        let mut points: Vec<u32> = (faces.iter())
            .flat_map(|&face| mesh.triangles[face as usize])
            .collect();
        points.sort_unstable();
        points.dedup();
        let number = |point: u32| points.binary_search(&point).unwrap_or_default() as u32;
        let corners = |&face: &u32| mesh.triangles[face as usize].map(number);
        Self {
            faces: faces.to_vec(),
            positions: points
                .iter()
                .map(|&point| mesh.positions[point as usize])
                .collect(),
            triangles: faces.iter().map(corners).collect(),
            points,
        }
    }

    /// Cuts the part and flattens its charts. `report` hears of every step, and returns whether to go on.
    fn flatten(
        &self,
        way: &Way,
        report: impl Fn(uvunwrap::Progress) -> bool + Sync,
    ) -> Result<Vec<Piece>, uvunwrap::Error> {
        let area = surface_area(&self.positions, &self.triangles);
        let options = Options {
            max_chart_angle: way.angle,
            density: Density::Fixed {
                texels_per_unit: (TEXELS / area.sqrt()) as f32,
                page_size: None,
            },
            padding: 0,
            allow_rotation: false,
            packing: Packing::Fast,
            ..Options::default()
        };
        let input = [MeshInput::new(
            &self.positions,
            self.triangles.as_flattened(),
        )];
        let mut atlas = uvunwrap::generate_with_progress(&input, &options, report)?;
        let Some(output) = atlas.meshes.pop() else {
            return Ok(Vec::new());
        };
        let square = [f64::from(atlas.width), f64::from(atlas.height)]
            .map(|edge| edge / f64::from(atlas.texels_per_unit));
        let mut pieces = self.pieces(&output, square, atlas.chart_count as usize);
        for piece in &mut pieces {
            for face in &mut piece.faces {
                *face = self.faces[*face as usize];
            }
            for point in &mut piece.points {
                *point = self.points[*point as usize];
            }
        }
        unit();
        Ok(pieces)
    }

    /// Sorts the output by chart. Triangles that `uvunwrap` found too thin hang on a vertex of a chart without area;
    /// those that hang on none become pieces of their own.
    fn pieces(&self, output: &OutputMesh, unit: [f64; 2], charts: usize) -> Vec<Piece> {
        let mesh = Mesh {
            positions: &self.positions,
            triangles: &self.triangles,
        };
        let mut pieces = vec![Piece::default(); charts];
        let mut place = vec![u32::MAX; output.vertices.len()];
        for (face, corners) in output.indices.as_chunks::<3>().0.iter().enumerate() {
            let chart = corners.map(|corner| {
                output
                    .vertices
                    .get(corner as usize)
                    .and_then(|vertex| vertex.chart)
            });
            let piece = match chart {
                [Some(a), Some(b), Some(c)] if a == b && b == c => pieces.get_mut(a as usize),
                _ => None,
            };
            let Some(piece) = piece else {
                pieces.push(crate::planar::single(&mesh, face as u32));
                continue;
            };
            let triangle = corners.map(|corner| {
                let place = &mut place[corner as usize];
                if *place == u32::MAX {
                    *place = piece.points.len() as u32;
                    let vertex = &output.vertices[corner as usize];
                    piece.points.push(vertex.xref);
                    // Its v points up where triangles are counter-clockwise; ours points down.
                    piece.chart.uvs.push([
                        f64::from(vertex.uv[0]) * unit[0],
                        -f64::from(vertex.uv[1]) * unit[1],
                    ]);
                }
                *place
            });
            piece.chart.triangles.push(triangle);
            piece.faces.push(face as u32);
        }
        pieces.retain(|piece| !piece.faces.is_empty());
        for piece in &mut pieces {
            recentre(&mut piece.chart);
        }
        pieces
    }
}

/// `uvunwrap` at work on threads of its own.
struct Run {
    stop: Arc<AtomicBool>,
    /// Triangles in flat charts.
    done: Arc<AtomicU64>,
    /// Its reports so far.
    steps: Arc<AtomicU64>,
    receiver: Receiver<Flattened>,
}

/// The pieces of all parts, or why there are none.
type Flattened = Result<Vec<Piece>, uvunwrap::Error>;

impl Run {
    fn start(parts: Vec<Part>, way: &Way, threads: usize) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (done, steps) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (sender, receiver) = sync_channel(1);
        let worker = {
            let (stop, done, steps) = (Arc::clone(&stop), Arc::clone(&done), Arc::clone(&steps));
            let way = *way;
            move || {
                begin_thread();
                let flatten = |part: &Part| {
                    let before = AtomicU64::new(0);
                    part.flatten(&way, |state| {
                        steps.fetch_add(1, Ordering::Relaxed);
                        if state.stage == Stage::Parameterizing {
                            let now = state.done as u64;
                            done.fetch_add(
                                now - before.swap(now, Ordering::Relaxed),
                                Ordering::Relaxed,
                            );
                        }
                        !stop.load(Ordering::Relaxed)
                    })
                };
                let run = || -> Flattened {
                    let all = parts.par_iter().with_max_len(1).map(flatten);
                    let all: Vec<Vec<Piece>> = all.collect::<Result<_, _>>()?;
                    Ok(all.into_iter().flatten().collect())
                };
                let result = match rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .stack_size(STACK_BYTES)
                    .start_handler(|_| begin_thread())
                    .build()
                {
                    Ok(pool) => pool.install(run),
                    Err(_no_threads) => run(),
                };
                // Nobody receives if it came too late.
                sender.send(result).is_ok()
            }
        };
        std::thread::Builder::new()
            .name("unwrap".to_owned())
            .spawn(worker)?;
        Ok(Self {
            stop,
            done,
            steps,
            receiver,
        })
    }

    /// Waits for the result, and announces each step. Returns none where it takes too long, or ends without one.
    fn watch(
        self,
        triangles: usize,
        (effort, limit): (Effort, Duration),
        listener: &dyn Listener,
    ) -> Option<Flattened> {
        let total = triangles as u64;
        // One chart may be the whole mesh. What takes longer is given up here, before a watchdog gives up the process.
        let longest = patience(triangles).min(LONGEST_CHART);
        let predicted = longest / 3;
        listener.expect("flattening", predicted);
        let (mut told, mut since) = (0, Effort::begin());
        loop {
            match self.receiver.recv_timeout(WATCH_INTERVAL) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let steps = self.steps.load(Ordering::Relaxed);
            if steps > told {
                (told, since) = (steps, Effort::begin());
                // All are done only once they are laid out.
                let flat = self.done.load(Ordering::Relaxed);
                listener.progress(flat.min(total.saturating_sub(1)), total);
                listener.expect("flattening", predicted);
            }
            if effort.spent() >= limit || since.spent() >= longest {
                self.stop.store(true, Ordering::Relaxed);
                return self.receiver.recv_timeout(STOP_GRACE).ok();
            }
        }
    }
}

/// Moves a chart to the origin, where coordinates have full precision.
fn recentre(chart: &mut Chart) {
    let Some(&first) = chart.uvs.first() else {
        return;
    };
    for uv in &mut chart.uvs {
        *uv = [uv[0] - first[0], uv[1] - first[1]];
    }
}
