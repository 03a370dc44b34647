//! What all cells share: the programs, the asset, the layer, the driver's cache, and the result of an undisturbed bake.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vkfault::{ENABLE, FAULT, LAYER, LIBRARY, LOG, PROCESSES, STRUCK, manifest};

use super::asset;
use super::cell::Cell;
use crate::{Bench, Outcome, Run};

/// Silence in seconds that a hanging bake is allowed: several times what a stage takes to compile on a busy machine.
const STALL: &str = "4";
/// Options of every bake: no unwrap, which would take longer than everything else.
const OPTIONS: [&str; 5] = ["--keep-uvs", "--quality", "draft", "--texture-size", "256"];

/// The adapter that every machine has.
pub const LLVMPIPE: &str = "llvmpipe";

/// What a bake takes its views from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Pictures.
    Pictures,
    /// Splats, which the adapter draws.
    Splats,
}

impl Source {
    fn file(self) -> &'static str {
        match self {
            Self::Pictures => "transforms.json",
            Self::Splats => "splats.ply",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Pictures => &[],
            Self::Splats => &["--splat-views", "3", "--frame", "given"],
        }
    }
}

/// What prevents a walk.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A program is not built.
    #[error("{} is not there: cargo build --release --workspace", .0.display())]
    NotBuilt(PathBuf),
    /// A folder or file cannot be created or read.
    #[error("cannot prepare the walk")]
    Io(#[from] io::Error),
    /// The bake without a fault failed.
    #[error(
        "the bake without a fault failed; llvmpipe is Mesa's Vulkan driver: apt-get install libvulkan1 mesa-vulkan-drivers\n{0}"
    )]
    NoBake(String),
    /// The layer was not loaded.
    #[error("the layer wrote no log: the Vulkan loader did not load {}", .0.display())]
    NoLayer(PathBuf),
    /// Two bakes without a fault differ.
    #[error("two bakes without a fault gave different files")]
    NotRepeatable,
}

/// See the head of this file.
#[derive(Debug)]
pub struct World {
    folder: TempDir,
    /// What its bakes take views from.
    pub source: Source,
    /// A part of the adapter's name.
    pub device: String,
    /// The GLB of the undisturbed bake.
    pub golden: Vec<u8>,
    /// Its calls, as the layer logs them.
    pub log: Vec<String>,
}

/// How the workers are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walls {
    /// Not at all: the layer logs every call, knows the number of its process, and the driver keeps its cache.
    Open,
    /// As usual. A fault hits every process, and only the call that it hits is known.
    Sandbox,
}

/// A bake that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// The GLB, if there is one.
    pub glb: Option<Vec<u8>>,
    /// Other files in kiln's working folder, and processes that are left.
    pub left: Vec<String>,
    /// The calls of each bake process, in the order of their starts.
    pub logs: Vec<Vec<String>>,
    /// Wall time.
    pub time: Duration,
}

impl Finished {
    /// The call that the fault hit, if it was reached.
    pub fn struck(&self) -> Option<&str> {
        self.logs
            .iter()
            .flatten()
            .find_map(|call| call.strip_prefix('!'))
    }
}

impl World {
    /// Bakes twice without a fault on the adapter with that name.
    ///
    /// # Errors
    /// The walk would show nothing on this machine: see [`WorldError`].
    pub fn new(device: &str, source: Source) -> Result<Self, WorldError> {
        // Cargo leaves libraries that others depend on in `deps`.
        let library = crate::builds().join("deps").join(LIBRARY);
        for built in [&library, &crate::builds().join("kiln-baker")] {
            if !built.exists() {
                return Err(WorldError::NotBuilt(built.clone()));
            }
        }
        let folder = tempfile::Builder::new().prefix("kiln-vulkan-").tempdir()?;
        for name in ["layer", "cache"] {
            fs::create_dir(folder.path().join(name))?;
        }
        asset::write(folder.path())?;
        // Beside its manifest, where the sandbox allows reading.
        fs::copy(&library, folder.path().join("layer").join(LIBRARY))?;
        fs::write(
            folder.path().join("layer/vkfault.json"),
            manifest(&format!("./{LIBRARY}")),
        )?;
        let mut world = Self {
            folder,
            source,
            device: device.to_owned(),
            golden: Vec::new(),
            log: Vec::new(),
        };
        // The first bake fills the driver's cache of compiled shaders.
        let first = world.bake(None, Walls::Open)?;
        let Some(golden) = first.glb else {
            let Outcome { stdout, stderr, .. } = first.outcome;
            return Err(WorldError::NoBake(format!(
                "{}\n{stderr}",
                stdout.join("\n")
            )));
        };
        let mut second = world.bake(None, Walls::Open)?;
        if second.glb.as_ref() != Some(&golden) {
            return Err(WorldError::NotRepeatable);
        }
        if second.logs.len() != 1 || second.logs[0].is_empty() {
            return Err(WorldError::NoLayer(library));
        }
        world.golden = golden;
        world.log = second.logs.remove(0);
        Ok(world)
    }

    /// Runs a bake with the cell's fault to its end.
    ///
    /// # Errors
    /// A folder cannot be created or read.
    pub fn run(&self, cell: &Cell, walls: Walls) -> io::Result<Finished> {
        self.bake(Some(cell), walls)
    }

    fn bake(&self, cell: Option<&Cell>, walls: Walls) -> io::Result<Finished> {
        let bench = Bench::real();
        let logs = bench.path("logs");
        fs::create_dir(&logs)?;
        let at = |name: &str| self.folder.path().join(name);
        let mut options = OPTIONS.to_vec();
        options.extend(["--device", &self.device]);
        options.extend(self.source.options());
        if walls == Walls::Open {
            options.push("--insecure-no-sandbox");
        }
        if cell.is_some_and(|cell| cell.fault.action == vkfault::Action::Hang) {
            options.extend(["--stall-timeout", STALL]);
        }
        let mut command = bench.bake_for_real(at("mesh.obj"), at(self.source.file()), &options);
        environment(&mut command, &at("layer"), &at("cache"));
        // Each bake has its own pipeline cache, so that all make the same calls.
        let kept = bench.path("state/pipelines");
        command.arg("--pipeline-cache").arg(kept);
        command.env("XDG_STATE_HOME", bench.path("state"));
        if self.device == LLVMPIPE {
            // The drivers of other GPUs would only add calls that are not the bake's.
            command.env("VK_LOADER_DRIVERS_SELECT", "*lvp*");
        }
        match walls {
            // The driver's cache of compiled shaders halves the time of a bake.
            Walls::Open => command
                .env(LOG, &logs)
                .env("MESA_SHADER_CACHE_DISABLE", "false"),
            // The layer's messages come with the worker's log lines.
            Walls::Sandbox => command.env("KILN_LOG", "warn,child=debug"),
        };
        if let Some(cell) = cell {
            command.env(FAULT, cell.fault.to_string());
            if let (Some(processes), Walls::Open) = (cell.processes(), walls) {
                command.env(PROCESSES, processes.to_string());
            }
        }
        let started = Instant::now();
        let outcome = Run::start(command).finish();
        let time = started.elapsed();
        let glb = bench.path("out/out.glb");
        let glb = glb.exists().then(|| fs::read(glb)).transpose()?;
        let mut left = bench.workers();
        left.extend(bench.outputs().into_iter().filter(|name| name != "out.glb"));
        for entry in fs::read_dir(bench.path("."))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !["kiln-baker", "out", "logs", "state"].contains(&name.as_str()) {
                left.push(name);
            }
        }
        let logs = match walls {
            Walls::Open => read_logs(&logs)?,
            Walls::Sandbox => vec![struck(&outcome.stderr)],
        };
        Ok(Finished {
            outcome,
            glb,
            left,
            logs,
            time,
        })
    }
}

fn environment(command: &mut Command, layer: &Path, cache: &Path) {
    let [path, layers] = ENABLE;
    command
        .env(path, layer)
        .env(layers, LAYER)
        .env("XDG_CACHE_HOME", cache)
        .env("XDG_RUNTIME_DIR", cache)
        // Cells run in parallel, so more threads per cell gain nothing.
        .env("LP_NUM_THREADS", "1");
}

/// The calls that the fault hit, from kiln's standard error.
fn struck(lines: &str) -> Vec<String> {
    let said = lines.split(STRUCK).skip(1);
    said.map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
        format!("!{}", &rest[..end.unwrap_or(rest.len())])
    })
    .collect()
}

fn read_logs(folder: &Path) -> io::Result<Vec<Vec<String>>> {
    let mut logs = Vec::new();
    for process in 1.. {
        let path = folder.join(process.to_string());
        if !path.exists() {
            break;
        }
        logs.push(
            fs::read_to_string(path)?
                .lines()
                .map(str::to_owned)
                .collect(),
        );
    }
    Ok(logs)
}
