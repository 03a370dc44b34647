//! Test harness: a [`Bench`] is a folder with inputs and a [`fault::Plan`]. A test runs the real `kiln` in it, gets an
//! [`Outcome`], and checks that no process or temporary file is left.
//!
//! `kiln` gets a saboteur instead of `kiln-baker`: a link in the test's own folder, with its plan beside it. Nothing
//! here sleeps to wait for something. Tests wait for a line, the end of a process, or the hang-up of a pipe.
//!
//! Every helper panics where something is not as it must be, which fails the test; none waits longer than [`DEADLINE`].

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
use serde_json::Value;
use tempfile::TempDir;

use crate::fault::Plan;

pub mod ball;
pub mod chance;
pub mod errand;
pub mod fault;
pub mod fleet;
pub mod glb;
pub mod hand;
pub mod history;
pub mod host;
pub mod made;
pub mod picture;
pub mod relay;
pub mod replay;
mod run;
pub mod shapes;
pub mod shim;
pub mod sidecar;
pub mod sphere;
pub mod splats;
pub mod stage;
pub mod verdict;
pub mod views;
pub mod vulkan;
pub mod walk;

pub use run::{Outcome, Run};

/// Bound of anything that must happen: it finds what hangs, no more.
pub const DEADLINE: Duration = Duration::from_secs(900);

/// Content of the saboteur's mesh file, which the saboteur checks.
pub const MESH_TEXT: &str = "a mesh";

/// Sorted names of the files in a folder.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The folder of the programs: that of the running one, or the one above that of a test.
fn builds() -> PathBuf {
    let here = std::env::current_exe().expect("a program has a path");
    let folder = here.parent().expect("a folder");
    match folder.ends_with("deps") {
        true => folder.parent().expect("a build folder").to_owned(),
        false => folder.to_owned(),
    }
}

/// Path of a program of the workspace.
pub fn program(name: &str) -> PathBuf {
    built(
        builds().join(name),
        "cargo build --release --workspace --lib --bins",
    )
}

/// Path of a program of the workspace that is built with the feature `failpoints`.
pub fn with_failpoints(name: &str) -> PathBuf {
    built(
        builds().with_file_name("failpoints").join(name),
        "./run.sh test builds it",
    )
}

fn built(path: PathBuf, how: &str) -> PathBuf {
    assert!(path.exists(), "{} is not there: {how}", path.display());
    path
}

/// The words of a text: `words("--device cpu")` for `["--device", "cpu"]`.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// A file of the sample set.
pub fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/spot")
        .join(name)
}

/// A file of the data that is too large, or too odd, to be kept in a repository.
///
/// # Panics
/// It is not there: no test is left out in silence.
pub fn data(name: &str) -> PathBuf {
    let folder = std::env::var_os("KILN_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    let file = folder.join(name);
    assert!(
        file.is_file(),
        "the data is missing: no {}; point KILN_DATA to the folder that holds {name}",
        file.display()
    );
    file
}

/// A number of a JSON document.
pub fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A JSON document.
pub fn read_json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A line of a process's or thread's status, without its name: `status_of("self", "VmRSS")`.
pub fn status_of(process: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.trim().to_owned())
}

/// A number of KiB in the status of a process.
pub fn kib_of(process: i32, name: &str) -> Option<u64> {
    status_of(&process.to_string(), name)?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// The Vulkan adapter of the tests.
pub fn adapter() -> String {
    std::env::var("KILN_TEST_ADAPTER").unwrap_or_else(|_unset| "llvmpipe".to_owned())
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
    pub fn new(plan: &Plan) -> Self {
        let bench = Self::with(program("kiln"), &program("saboteur"));
        for pipe in ["alive", "told"] {
            mkfifo(&bench.path(pipe), Mode::S_IRWXU).expect("a pipe");
        }
        fs::write(bench.path("mesh.glb"), MESH_TEXT).expect("a mesh");
        fs::write(bench.path("transforms.json"), "{}").expect("views");
        bench.set_plan(plan);
        bench
    }

    /// A bench with the real worker and no inputs.
    pub fn real() -> Self {
        Self::with(program("kiln"), &program("kiln-baker"))
    }

    /// A bench with the real worker and the inputs of [`sphere`].
    pub fn sphere() -> Self {
        let bench = Self::real();
        sphere::write(bench.folder.path());
        bench
    }

    /// As [`Self::sphere`], with programs that `KILN_FAILPOINTS` makes fail.
    pub fn real_with_failpoints() -> Self {
        let bench = Self::with(with_failpoints("kiln"), &with_failpoints("kiln-baker"));
        sphere::write(bench.folder.path());
        bench
    }

    /// A link of the bench's own to the worker distinguishes its workers from those of other tests.
    fn with(kiln: PathBuf, worker: &Path) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kiln-test-")
            .tempdir()
            .expect("a folder");
        fs::create_dir(folder.path().join("out")).expect("a folder");
        let baker = folder.path().join("kiln-baker");
        symlink(worker, &baker).expect("a link to the worker");
        Self {
            folder,
            kiln,
            baker,
        }
    }

    /// The worker under test.
    pub fn baker(&self) -> &Path {
        &self.baker
    }

    /// Changes the saboteur's plan.
    pub fn set_plan(&self, plan: &Plan) {
        let text = serde_json::to_string(plan).expect("a plan is JSON");
        fs::write(self.path("kiln-baker.json"), text).expect("a plan");
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `kiln` without arguments yet, in the test's folder.
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
    pub fn kiln_with_saboteurs(&self) -> Command {
        self.command(&words("bake --insecure-no-sandbox --crash-folder none"))
    }

    /// `kiln bake` of the bench's own inputs with `--json`, and `more`.
    pub fn bake(&self, more: &[&str]) -> Command {
        let mut command = self.command(&words(
            "bake mesh.glb --views transforms.json -o out/out.glb --json",
        ));
        command
            .args(words("--texture-size 256 --insecure-no-sandbox"))
            .args(more);
        command
    }

    /// `kiln` with these arguments and the bench's worker.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.kiln();
        command.args(arguments).arg("--baker").arg(&self.baker);
        command
    }

    /// `kiln bake` with the real worker on the processor, which gives the same result everywhere. `more` follows mesh
    /// and views; it may name another output or device.
    pub fn bake_for_real(
        &self,
        mesh: impl AsRef<Path>,
        views: impl AsRef<Path>,
        more: &[&str],
    ) -> Command {
        self.bake_for_people(mesh, views, &[&["--json"], more].concat())
    }

    /// As [`Self::bake_for_real`], with text instead of JSON.
    pub fn bake_for_people(
        &self,
        mesh: impl AsRef<Path>,
        views: impl AsRef<Path>,
        more: &[&str],
    ) -> Command {
        let mut command = self.kiln();
        command
            .arg("bake")
            .arg(mesh.as_ref())
            .arg("--views")
            .arg(views.as_ref());
        command.arg("--baker").arg(&self.baker).args(more);
        for default in [["-o", "out/out.glb"], ["--device", "cpu"]] {
            if !more.contains(&default[0]) {
                command.args(default);
            }
        }
        command
    }

    /// Runs [`Self::bake_for_real`] to its end.
    pub fn baked(&self, mesh: impl AsRef<Path>, views: impl AsRef<Path>, more: &[&str]) -> Outcome {
        Run::start(self.bake_for_real(mesh, views, more)).finish()
    }

    /// Runs a bake of `mesh.obj` and `transforms.json`, as [`sphere`] writes them, at draft quality into 256² texels
    /// unless `more` says otherwise.
    pub fn draft(&self, more: &[&str]) -> Outcome {
        let mut all = words("--quality draft");
        if !more
            .iter()
            .any(|flag| ["--texture-size", "--vertex-colours"].contains(flag))
        {
            all.extend(["--texture-size", "256"]);
        }
        self.baked("mesh.obj", "transforms.json", &[&all, more].concat())
    }

    /// The figures of `kiln compare` for a mesh.
    pub fn compared(&self, mesh: impl AsRef<Path>, views: impl AsRef<Path>) -> Value {
        let mut command = self.command(&["compare", "--json"]);
        command
            .arg(mesh.as_ref())
            .arg("--views")
            .arg(views.as_ref());
        let outcome = Run::start(command).finish();
        outcome.assert_code(0);
        outcome.one("compared")["models"][0].clone()
    }

    /// The bytes of a file in the test's folder; none if it is not there.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    /// The pipe by which saboteurs hear and tell; opened for both directions, so that nobody waits for the other end.
    pub fn told(&self) -> fs::File {
        let mut options = fs::File::options();
        options.read(true).write(true);
        options.open(self.path("told")).expect("the pipe")
    }

    /// Runs `kiln bake` with the saboteur to its end.
    pub fn run(&self, more: &[&str]) -> Outcome {
        Run::start(self.bake(more)).finish()
    }

    /// Starts `kiln bake` with the saboteur.
    pub fn start(&self, more: &[&str]) -> Run {
        Run::start(self.bake(more))
    }

    /// Names of the files in the output folder.
    pub fn outputs(&self) -> Vec<String> {
        names_in(&self.path("out"))
    }

    /// The read end of the pipe that every saboteur holds open. Open it before the run: see [`wait_all_gone`].
    pub fn alive(&self) -> fs::File {
        alive_in(self.folder.path())
    }

    /// Command lines of the processes that run the bench's worker now.
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
pub fn signal_to(pid: i32, signal: Signal) {
    assert!(signal_if_there(pid, signal), "process {pid} is not there");
}

/// Sends a signal to a process that may have ended; returns whether it was there.
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
