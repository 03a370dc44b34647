//! The GPU stages against plain loops in double precision, on seeded random scenes. Without any adapter these tests
//! fail, unless `KILN_TEST_ADAPTER=none` says that this machine has none. Another value names the adapter to take.

mod deviation;
mod footprint;
mod layout;
mod memory;
mod reference;
mod row_bins;
mod solve;
mod splats;
mod subset;
mod visible;

use proto::job::{Blend, Device as Wanted, WarmJob};
use proto::table::{Camera, Mesh, View};

use super::Gpu;
use super::device::{Device, GpuError, open};
use super::fit::Fit;
use super::pipelines::Pipelines;
use super::raster::Way;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::{Backend, Ties};

/// An adapter for a test; none only where the environment says so.
#[expect(
    clippy::print_stderr,
    reason = "a test that did not run must not pass in silence"
)]
fn device() -> Option<Device> {
    let name = std::env::var("KILN_TEST_ADAPTER").unwrap_or_default();
    if name == "none" {
        eprintln!("NOT TESTED: KILN_TEST_ADAPTER=none, no GPU stage has run");
        return None;
    }
    let job = WarmJob {
        device: Wanted::Name(name),
        ..WarmJob::default()
    };
    Some(
        open(&job)
            .expect("a Vulkan driver; lavapipe will do")
            .expect("an adapter"),
    )
}

/// A job, and the options of its stages.
#[derive(Clone, Copy, Debug)]
struct Setup {
    taps: u32,
    blend: Blend,
    vram_budget: u64,
    binding_limit: Option<u64>,
    maps: bool,
    /// The raster; none for the better one that the device has.
    way: Option<Way>,
}

/// Begins a job on a device.
fn begin(device: Device, scene: Scene, ties: &Ties, options: &Setup) -> Result<Gpu, GpuError> {
    let job = super::Options {
        vram_budget: options.vram_budget,
        binding_limit: options.binding_limit,
        maps: options.maps,
        gpu_times: false,
    };
    let way = options.way.unwrap_or_else(|| Way::of(&device));
    Gpu::new(
        Pipelines::with(device, options.taps, options.blend, way)?,
        scene,
        ties,
        &job,
    )
}

/// The options of most tests: budgets and bindings as small as their scenes.
fn options() -> Setup {
    Setup {
        taps: 3,
        blend: Blend::Linear,
        vram_budget: 256 << 20,
        binding_limit: Some(8 << 20),
        maps: false,
        way: None,
    }
}

/// Small pools, and tiles of few blocks.
fn small() -> Setup {
    Setup {
        binding_limit: Some(300 << 10),
        ..options()
    }
}

/// A job without views; none where there is no adapter.
fn begun(scene: &Scene, ties: &Ties, options: &Setup) -> Option<Gpu> {
    Some(begin(device()?, scene.clone(), ties, options).expect("a job on the adapter"))
}

fn gpu(scene: &Scene, options: &Setup) -> Option<Gpu> {
    begun(scene, &Ties::default(), options)
}

fn fit(gpu: &Gpu) -> &Fit {
    gpu.fit.as_ref().expect("alive")
}

/// Gives it views one by one.
fn add(backend: &mut dyn Backend, views: &[View]) {
    for view in views {
        backend.add_view(view).expect("rows");
    }
}

fn no_rows() -> Rows {
    Rows {
        starts: vec![0],
        ..Rows::default()
    }
}

/// Appends a row with this colour and pixel.
fn push(rows: &mut Rows, entries: impl IntoIterator<Item = Entry>, colour: [u8; 4], pixel: u32) {
    rows.entries.extend(entries);
    rows.starts.push(rows.entries.len() as u32);
    rows.colours.push(colour);
    rows.pixels.push(pixel);
}

/// The links of a scene's atlas, without seam constraints.
fn links(scene: &Scene) -> Ties {
    Ties {
        links: Atlas::new(scene).links,
        seams: no_rows(),
    }
}

/// A scene of some triangles.
fn soup(
    positions: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    triangles: Vec<[u32; 3]>,
    size: u32,
) -> Scene {
    let mesh = Mesh {
        surface_vertices: (0..positions.len() as u32).collect(),
        positions,
        uvs,
        triangles,
        ..Mesh::default()
    };
    Scene::new(&mesh, size)
}

/// Marsaglia's xorshift: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// A bumpy ball of `rings` × `2·rings` quads, one chart.
fn ball(rings: u32, size: u32) -> Scene {
    let columns = 2 * rings;
    let (mut positions, mut uvs, mut triangles) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..=rings {
        for j in 0..=columns {
            let (v, u) = (i as f32 / rings as f32, j as f32 / columns as f32);
            let (theta, phi) = (v * std::f32::consts::PI, u * std::f32::consts::TAU);
            let radius = 1.0 + 0.1 * (5.0 * phi).sin() * (4.0 * theta).sin();
            positions.push([
                radius * theta.sin() * phi.cos(),
                radius * theta.cos(),
                radius * theta.sin() * phi.sin(),
            ]);
            uvs.push([0.02 + 0.96 * u, 0.02 + 0.96 * v]);
        }
    }
    for i in 0..rings {
        for j in 0..columns {
            let a = i * (columns + 1) + j;
            let b = a + columns + 1;
            triangles.extend([[a, b, a + 1], [a + 1, b, b + 1]]);
        }
    }
    soup(positions, uvs, triangles, size)
}

/// A camera at `distance` from the origin that sees the unit ball, `turn` radians around the vertical axis. Its pixels
/// are noise, opaque but for a few with an alpha on either side of the threshold.
pub(super) fn view(index: u32, width: u32, height: u32, distance: f64, turn: f64) -> View {
    let (sin, cos) = turn.sin_cos();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(index + 1));
    let pixels = (0..width * height)
        .map(|_| {
            let alpha = if random.next() < 0.04 {
                100 + (random.next() * 100.0) as u8
            } else {
                255
            };
            [
                (random.next() * 256.0) as u8,
                (random.next() * 256.0) as u8,
                (random.next() * 256.0) as u8,
                alpha,
            ]
        })
        .collect();
    View {
        index,
        width,
        height,
        has_alpha: true,
        camera: Camera {
            rotation: [[cos, 0.0, -sin], [0.0, -1.0, 0.0], [-sin, 0.0, -cos]],
            translation: [0.0, 0.0, distance],
            focal: [1.1 * f64::from(width), 1.1 * f64::from(width)],
            centre: [0.5 * f64::from(width) + 0.3, 0.5 * f64::from(height) - 0.2],
        },
        pixels,
        ..View::default()
    }
}
