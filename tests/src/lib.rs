//! Harness for processes against processes: a folder with inputs and a [`fault::Plan`] → the real `kiln` run over them →
//! an [`Outcome`], with no process or temporary file left over.
//!
//! `kiln` gets a saboteur in place of `kiln-baker`: a link in the test's own folder, beside which lies its plan. Nothing
//! here sleeps to wait for something: tests wait for a line, an end of a process, or the hang-up of a pipe.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;
use tempfile::TempDir;

use crate::fault::Plan;

pub mod fault;

/// For anything that must happen: far beyond what a loaded machine of two cores needs.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// What the saboteur's mesh file holds, and looks for.
pub const MESH_TEXT: &str = "a mesh";

/// A program of the workspace, beside this package's own. `saboteur` is `env!("CARGO_BIN_EXE_saboteur")`.
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

/// A folder of its own for one test: inputs, an output folder, and the worker under test.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
    kiln: PathBuf,
    baker: PathBuf,
}

impl Bench {
    /// With the saboteur as worker.
    ///
    /// # Panics
    /// If the folder cannot be made.
    #[must_use]
    pub fn new(saboteur: &str, plan: &Plan) -> Self {
        let mut bench = Self::bare(saboteur);
        let link = bench.path("kiln-baker");
        symlink(saboteur, &link).expect("a link to the saboteur");
        mkfifo(&bench.path("alive"), Mode::S_IRWXU).expect("a pipe");
        fs::write(bench.path("mesh.glb"), MESH_TEXT).expect("a mesh");
        fs::write(bench.path("transforms.json"), "{}").expect("views");
        bench.baker = link;
        bench.set_plan(plan);
        bench
    }

    /// With the real worker, and no inputs.
    ///
    /// # Panics
    /// If the folder cannot be made, or the programs are not built.
    #[must_use]
    pub fn real(saboteur: &str) -> Self {
        let mut bench = Self::bare(saboteur);
        bench.baker = program(saboteur, "kiln-baker");
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

    /// Changes what the saboteur will do.
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

    /// `kiln`, to be given arguments, within the test's folder.
    #[must_use]
    pub fn kiln(&self) -> Command {
        let mut command = Command::new(&self.kiln);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
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
            .args(["--texture-size", "256", "--baker"])
            .arg(&self.baker)
            .args(more);
        command
    }

    /// `kiln bake` with the real worker, on the processor: the same everywhere. `more` follows mesh and views.
    #[must_use]
    pub fn bake_for_real(&self, mesh: &Path, views: &Path, more: &[&str]) -> Command {
        let mut command = self.kiln();
        command.arg("bake").arg(mesh).arg("--views").arg(views);
        command
            .args(["-o", "out/out.glb", "--json", "--device", "cpu"])
            .args(more);
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
        let entries = fs::read_dir(self.path("out")).expect("the folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// The read end of the pipe that every saboteur holds open. Open it before the run: see [`wait_all_gone`].
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn alive(&self) -> fs::File {
        let flags = nix::libc::O_NONBLOCK;
        fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(self.path("alive"))
            .expect("the pipe")
    }

    /// Processes that run the bench's worker right now.
    ///
    /// # Panics
    /// If there is no `/proc`.
    #[must_use]
    pub fn workers(&self) -> Vec<String> {
        let needle = self.baker.to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").expect("/proc");
        entries
            .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
            .filter(|line| line.starts_with(&needle))
            .collect()
    }

    /// Asserts that the run left nothing: no worker, and in the output folder exactly `outputs`.
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

/// Waits until every process that held the write end has closed it, which only its end does.
///
/// # Panics
/// After the deadline.
pub fn wait_all_gone(alive: &fs::File) {
    let until = Instant::now() + DEADLINE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "a worker is still there");
        let mut polled = [PollFd::new(
            std::os::fd::AsFd::as_fd(alive),
            PollFlags::POLLIN,
        )];
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

/// A running `kiln`; killed when dropped.
#[derive(Debug)]
pub struct Run {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    outcome: Outcome,
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// Lines of standard output.
    pub stdout: Vec<String>,
    /// Standard error.
    pub stderr: String,
    /// Standard output as JSON, with `--json`.
    pub events: Vec<Value>,
}

impl Outcome {
    /// The events of one kind.
    #[must_use]
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.events
            .iter()
            .filter(|event| event["event"] == kind)
            .collect()
    }

    /// The one event of a kind.
    ///
    /// # Panics
    /// If there is none or more than one.
    #[must_use]
    pub fn one(&self, kind: &str) -> &Value {
        let found = self.all(kind);
        assert_eq!(
            found.len(),
            1,
            "{kind} events in {:#?}\n{}",
            self.stdout,
            self.stderr
        );
        found[0]
    }

    /// The attempts of a role as `(ended, class)`.
    ///
    /// # Panics
    /// If there is neither a report nor an error.
    #[must_use]
    pub fn attempts(&self, role: &str) -> Vec<(String, String)> {
        let last = self.events.last().expect("an event");
        let attempts = if last["event"] == "done" {
            &last["report"]["attempts"]
        } else {
            &last["attempts"]
        };
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let attempts = attempts.as_array().expect("attempts");
        let attempts = attempts.iter().filter(|attempt| attempt["role"] == role);
        attempts
            .map(|attempt| (text(&attempt["ended"]), text(&attempt["class"])))
            .collect()
    }
}

impl Run {
    /// Starts the command.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kiln starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("a pipe");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self {
            child,
            lines,
            errors: Some(errors),
            outcome: Outcome::default(),
        }
    }

    fn next(&mut self, until: Instant) -> Option<&Value> {
        match self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(line) => {
                let event = serde_json::from_str(&line).unwrap_or(Value::Null);
                self.outcome.stdout.push(line);
                self.outcome.events.push(event);
                self.outcome.events.last()
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let seen = std::mem::take(&mut self.outcome.stdout);
                self.send(Signal::SIGKILL);
                panic!("kiln did not come so far in time: {seen:#?}");
            }
        }
    }

    /// Waits for an event and gives it.
    ///
    /// # Panics
    /// If kiln ends without it.
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            match self.next(until) {
                Some(event) if wanted(event) => return event.clone(),
                Some(_) => {}
                None => panic!("kiln ended first: {:#?}", self.outcome.stdout),
            }
        }
    }

    /// Waits for the first progress of a role, and gives the process id of the worker.
    ///
    /// # Panics
    /// If there is none.
    pub fn wait_progress(&mut self, role: &str) -> i32 {
        self.wait_for(|event| event["event"] == "progress" && event["role"] == role);
        let started = self.outcome.events.iter().rev();
        let mut started =
            started.filter(|event| event["event"] == "started" && event["role"] == role);
        let pid = started
            .next()
            .and_then(|event| event["pid"].as_i64())
            .expect("a process id");
        i32::try_from(pid).expect("a process id")
    }

    /// Process id of `kiln`.
    ///
    /// # Panics
    /// Never on Linux.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends a signal to `kiln`.
    pub fn send(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If it does not come.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let until = Instant::now() + DEADLINE;
        while self.next(until).is_some() {}
        let status = self.child.wait().expect("reaped");
        let mut outcome = std::mem::take(&mut self.outcome);
        (outcome.code, outcome.signal) = (status.code(), status.signal());
        if let Some(errors) = self.errors.take() {
            outcome.stderr = errors.join().expect("read");
        }
        outcome
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {
            // It has ended, which is all that is wanted.
        }
    }
}

/// Sends a signal to a process of the test's own.
///
/// # Panics
/// If the process is not there.
pub fn signal_to(pid: i32, signal: Signal) {
    assert!(signal_if_there(pid, signal), "process {pid} is not there");
}

/// Sends a signal to a process that may have ended; tells whether it was there.
#[must_use]
pub fn signal_if_there(pid: i32, signal: Signal) -> bool {
    kill(Pid::from_raw(pid), signal).is_ok()
}
