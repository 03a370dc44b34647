//! Test harness: a [`Bench`] is a folder with inputs and a [`fault::Plan`]. A test runs the real `kiln` in it, gets an
//! [`Outcome`], and checks that no process or temporary file is left.
//!
//! `kiln` gets a saboteur instead of `kiln-baker`: a link in the test's own folder, with its plan beside it. Nothing
//! here sleeps to wait for something. Tests wait for a line, the end of a process, or the hang-up of a pipe.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use rustix::process::PidfdFlags;
use tempfile::TempDir;

use crate::fault::Plan;

pub mod ball;
pub mod errand;
pub mod fault;
pub mod glb;
pub mod hand;
pub mod history;
pub mod host;
pub mod made;
pub mod relay;
pub mod replay;
pub mod shapes;
pub mod shim;
pub mod sidecar;
pub mod sphere;
pub mod stage;
pub mod verdict;
pub mod views;
pub mod vulkan;

mod run;

pub use run::{Outcome, Run};

/// Bound of anything that must happen: it finds what hangs, no more.
pub const DEADLINE: Duration = Duration::from_secs(900);

/// Content of the saboteur's mesh file, which the saboteur checks.
pub const MESH_TEXT: &str = "a mesh";

/// Sorted names of the files in a folder.
///
/// # Panics
/// If it cannot be listed.
#[must_use]
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Path of a program of the workspace, beside this package's own. `saboteur` is `env!("CARGO_BIN_EXE_saboteur")`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn program(saboteur: &str, name: &str) -> PathBuf {
    let path = Path::new(saboteur).with_file_name(name);
    assert!(
        path.exists(),
        "{} is not there: cargo build --release --workspace --bins",
        path.display()
    );
    path
}

/// Path of a program of the workspace that is built with the feature `failpoints`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn with_failpoints(saboteur: &str, name: &str) -> PathBuf {
    let builds = Path::new(saboteur).parent().and_then(Path::parent);
    let path = builds
        .expect("a build folder")
        .join("failpoints")
        .join(name);
    assert!(
        path.exists(),
        "{} is not there: ./run.sh test builds it",
        path.display()
    );
    path
}

/// A folder for one test: inputs, an output folder, and the worker under test.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
    kiln: PathBuf,
    baker: PathBuf,
}

impl Bench {
    /// A bench with the saboteur as worker.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn new(saboteur: &str, plan: &Plan) -> Self {
        let mut bench = Self::bare(saboteur);
        let link = bench.path("kiln-baker");
        symlink(saboteur, &link).expect("a link to the saboteur");
        for pipe in ["alive", "told"] {
            mkfifo(&bench.path(pipe), Mode::S_IRWXU).expect("a pipe");
        }
        fs::write(bench.path("mesh.glb"), MESH_TEXT).expect("a mesh");
        fs::write(bench.path("transforms.json"), "{}").expect("views");
        bench.baker = link;
        bench.set_plan(plan);
        bench
    }

    /// A bench with the real worker and no inputs.
    ///
    /// # Panics
    /// If the folder cannot be made, or the programs are not built.
    #[must_use]
    pub fn real(saboteur: &str) -> Self {
        let mut bench = Self::bare(saboteur);
        // A path of the bench's own distinguishes its workers from those of other tests.
        let link = bench.path("kiln-baker");
        symlink(program(saboteur, "kiln-baker"), &link).expect("a link to the worker");
        bench.baker = link;
        bench
    }

    /// A bench with the real programs, built so that `KILN_FAILPOINTS` makes them fail, and the inputs of [`sphere`].
    ///
    /// # Panics
    /// If the folder cannot be made, or the programs are not built.
    #[must_use]
    pub fn real_with_failpoints(saboteur: &str) -> Self {
        let mut bench = Self::bare(saboteur);
        let link = bench.path("kiln-baker");
        symlink(with_failpoints(saboteur, "kiln-baker"), &link).expect("a link to the worker");
        bench.kiln = with_failpoints(saboteur, "kiln");
        bench.baker = link;
        sphere::write(bench.folder.path());
        bench
    }

    fn bare(saboteur: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kiln-test-")
            .tempdir()
            .expect("a folder");
        fs::create_dir(folder.path().join("out")).expect("a folder");
        Self {
            folder,
            kiln: program(saboteur, "kiln"),
            baker: PathBuf::new(),
        }
    }

    /// The worker under test.
    #[must_use]
    pub fn baker(&self) -> &Path {
        &self.baker
    }

    /// Changes the saboteur's plan.
    ///
    /// # Panics
    /// If the plan cannot be written.
    pub fn set_plan(&self, plan: &Plan) {
        let text = serde_json::to_string(plan).expect("a plan is JSON");
        fs::write(self.path("kiln-baker.json"), text).expect("a plan");
    }

    /// A path in the test's folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `kiln` without arguments yet, in the test's folder.
    #[must_use]
    pub fn kiln(&self) -> Command {
        let mut command = Command::new(&self.kiln);
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            // Pipelines that a driver compiled for one test are of no use to another.
            .env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    /// `kiln bake` of a list of jobs with the bench's saboteurs, which keep nothing of crashes; arguments are to be added.
    #[must_use]
    pub fn kiln_with_saboteurs(&self) -> Command {
        let mut command = self.kiln();
        command
            .args(["bake", "--insecure-no-sandbox", "--crash-folder", "none"])
            .arg("--baker")
            .arg(&self.baker);
        command
    }

    /// `kiln bake` of the bench's own inputs with `--json`, and `more`.
    #[must_use]
    pub fn bake(&self, more: &[&str]) -> Command {
        let mut command = self.kiln();
        command.args([
            "bake",
            "mesh.glb",
            "--views",
            "transforms.json",
            "-o",
            "out/out.glb",
            "--json",
        ]);
        command
            .args(["--texture-size", "256", "--insecure-no-sandbox", "--baker"])
            .arg(&self.baker)
            .args(more);
        command
    }

    /// `kiln bake` with the real worker on the processor, which gives the same result everywhere. `more` follows mesh
    /// and views.
    #[must_use]
    pub fn bake_for_real(&self, mesh: &Path, views: &Path, more: &[&str]) -> Command {
        self.bake_for_people(mesh, views, &[&["--json"], more].concat())
    }

    /// As [`Self::bake_for_real`], with text instead of JSON.
    #[must_use]
    pub fn bake_for_people(&self, mesh: &Path, views: &Path, more: &[&str]) -> Command {
        let mut command = self.kiln();
        command.arg("bake").arg(mesh).arg("--views").arg(views);
        command
            .args(["-o", "out/out.glb"])
            .arg("--baker")
            .arg(&self.baker)
            .args(more);
        if !more.contains(&"--device") {
            command.args(["--device", "cpu"]);
        }
        command
    }

    /// Runs `kiln bake` with the saboteur to its end.
    #[must_use]
    pub fn run(&self, more: &[&str]) -> Outcome {
        Run::start(self.bake(more)).finish()
    }

    /// Starts `kiln bake` with the saboteur.
    #[must_use]
    pub fn start(&self, more: &[&str]) -> Run {
        Run::start(self.bake(more))
    }

    /// Names of the files in the output folder.
    ///
    /// # Panics
    /// If it cannot be listed.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        names_in(&self.path("out"))
    }

    /// The read end of the pipe that every saboteur holds open. Open it before the run: see [`wait_all_gone`].
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn alive(&self) -> fs::File {
        alive_in(self.folder.path())
    }

    /// Command lines of the processes that run the bench's worker now.
    ///
    /// # Panics
    /// If there is no `/proc`.
    #[must_use]
    pub fn workers(&self) -> Vec<String> {
        self.processes().into_iter().map(|(_, line)| line).collect()
    }

    /// Process ids and command lines of those processes.
    fn processes(&self) -> Vec<(i32, String)> {
        let needle = self.baker.to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").expect("/proc");
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let number = entry.file_name().to_str()?.parse().ok()?;
                let path = entry.path();
                let mut bytes = fs::read(path.join("cmdline")).ok()?;
                // It is empty while exec is under way, and after the process has ended.
                while bytes.is_empty() && is_starting(&path) {
                    bytes = fs::read(path.join("cmdline")).ok()?;
                }
                let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
                line.starts_with(&needle).then_some((number, line))
            })
            .collect()
    }

    /// Waits until none of [`Bench::workers`] is left. After the supervisor's death this includes workers that do not
    /// yet hold the pipe of [`wait_all_gone`]. They exit once they find their socket's other end closed.
    ///
    /// # Panics
    /// After the deadline.
    pub fn wait_workers_gone(&self) {
        for (number, line) in self.processes() {
            let pid = rustix::process::Pid::from_raw(number).expect("a process");
            let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
                // It has ended.
                continue;
            };
            let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(DEADLINE).expect("a quarter of an hour fits");
            assert_eq!(poll(&mut polled, timeout), Ok(1), "{line} is still there");
        }
    }

    /// Asserts that the run left no worker, and exactly `outputs` in the output folder.
    ///
    /// # Panics
    /// If it left something.
    pub fn assert_clean(&self, outputs: &[&str]) {
        assert_eq!(self.outputs(), outputs, "files left in the output folder");
        assert!(
            self.workers().is_empty(),
            "workers left: {:?}",
            self.workers()
        );
    }
}

/// The read end of the pipe `alive` in a folder of saboteurs.
///
/// # Panics
/// If it cannot be opened.
#[must_use]
pub fn alive_in(folder: &Path) -> fs::File {
    let path = folder.join("alive");
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(&path)
        .expect("the pipe");
    // Linux reports a hang-up to a reader only if there was a writer since it opened the pipe.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the pipe");
    reader
}

/// Waits until every process has closed the write end, which happens only when it ends.
///
/// # Panics
/// After the deadline.
pub fn wait_all_gone(alive: &fs::File) {
    let until = Instant::now() + DEADLINE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "a worker is still there");
        let mut polled = [PollFd::new(alive.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left).expect("two minutes fit");
        poll(&mut polled, timeout).expect("poll");
        if polled[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP))
        {
            return;
        }
    }
}

/// Sends a signal to one of the test's own processes.
///
/// # Panics
/// If the process is not there.
pub fn signal_to(pid: i32, signal: Signal) {
    assert!(signal_if_there(pid, signal), "process {pid} is not there");
}

/// Sends a signal to a process that may have ended; returns whether it was there.
#[must_use]
pub fn signal_if_there(pid: i32, signal: Signal) -> bool {
    kill(Pid::from_raw(pid), signal).is_ok()
}

/// Whether this is a live process, not a kernel thread: it has a program, or is about to have one.
fn is_starting(entry: &Path) -> bool {
    let Ok(stat) = fs::read_to_string(entry.join("stat")) else {
        return false;
    };
    let mut fields = stat
        .rsplit_once(") ")
        .map_or("", |(_, rest)| rest)
        .split(' ');
    let state = fields.next().unwrap_or_default();
    // Kernel threads have PF_KTHREAD among their flags.
    let flags: u32 = fields
        .nth(5)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    !matches!(state, "Z" | "X" | "") && flags & 0x0020_0000 == 0
}
