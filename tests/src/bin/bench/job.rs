//! Runs one `kiln bake` of a set at one quality, and watches it from outside.

use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use kiln_tests::glb::Model;
use proto::message::{AdapterInfo, BakeSummary, EncodeSummary, Phase, PhaseTime, PrepareSummary};
use serde::Deserialize;
use serde_json::Value;

use crate::memory::{INTERVAL, Sampler};
use crate::set::{Set, SetError};

/// What to run.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) kiln: &'a Path,
    pub(crate) set: &'a Set,
    pub(crate) quality: &'a str,
    pub(crate) keep_uvs: bool,
    /// Further flags of `kiln bake`.
    pub(crate) more: &'a [String],
    /// Where GLB and report are kept.
    pub(crate) keep: Option<&'a Path>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// From start to end of the process.
    pub(crate) wall: Duration,
    /// Peak memory of all processes together.
    pub(crate) peak_kib: u64,
    /// The report as written; `null` without one.
    pub(crate) raw: Value,
    pub(crate) outcome: Result<Report, JobError>,
}

/// The part of `report.json` that the table shows.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) device: AdapterInfo,
    pub(crate) prepare: PrepareSummary,
    pub(crate) bake: BakeSummary,
    pub(crate) encode: EncodeSummary,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The set is not usable.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A folder, file or process failed.
    #[error("{}", path.display())]
    Os {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Kiln's own error message.
    #[error("{0}")]
    Refused(String),
    /// It ended without a message that could be understood.
    #[error("kiln ended with {0} and said {1:?}")]
    Wordless(ExitStatus, String),
    /// It reports success, but the file is broken.
    #[error("{0}")]
    Glb(String),
    /// The report has another shape than expected.
    #[error("the report")]
    Report(#[source] serde_json::Error),
}

impl Finished {
    fn failed(error: JobError) -> Self {
        Self {
            wall: Duration::ZERO,
            peak_kib: 0,
            raw: Value::Null,
            outcome: Err(error),
        }
    }

    /// Seconds that a user without held-out views waits. Measuring comes last, and nothing runs beside it.
    pub(crate) fn wall_without_measure(&self) -> Option<f64> {
        let report = self.outcome.as_ref().ok()?;
        let measure = seconds(&report.encode.times, &[Phase::Measure]).unwrap_or(0.0);
        Some(self.wall.as_secs_f64() - measure)
    }
}

/// Seconds of the phases together; `None` if there was none of them.
pub(crate) fn seconds(times: &[PhaseTime], phases: &[Phase]) -> Option<f64> {
    let found: Vec<f64> = times
        .iter()
        .filter(|time| phases.contains(&time.phase))
        .map(|time| time.ms / 1e3)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

impl Job<'_> {
    /// Set and quality.
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.set.name, self.quality)
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Finished {
        self.try_run().unwrap_or_else(Finished::failed)
    }

    fn try_run(&self) -> Result<Finished, JobError> {
        let folder = tempfile::Builder::new()
            .prefix("kiln-bench-")
            .tempdir()
            .map_err(at(&std::env::temp_dir()))?;
        let views = self.set.stage(folder.path())?;
        let named = ["--quality", self.quality, "--blend", self.set.blend];
        let mut flags: Vec<String> = named.map(str::to_owned).to_vec();
        if self.keep_uvs {
            flags.push("--keep-uvs".to_owned());
        }
        flags.extend(self.more.iter().cloned());
        let keep = self.keep.map(|folder| {
            let name = format!("{}-{}", self.set.name, self.quality);
            folder.join(name)
        });
        let mesh = self.set.mesh(self.keep_uvs);
        try_kiln(self.kiln, &mesh, &views, &flags, keep.as_deref())
    }
}

/// Runs one watched `kiln bake`. GLB and report are kept under the name `keep`, with their extensions.
pub(crate) fn run_kiln(
    kiln: &Path,
    mesh: &Path,
    views: &Path,
    flags: &[String],
    keep: Option<&Path>,
) -> Finished {
    try_kiln(kiln, mesh, views, flags, keep).unwrap_or_else(Finished::failed)
}

fn try_kiln(
    kiln: &Path,
    mesh: &Path,
    views: &Path,
    flags: &[String],
    keep: Option<&Path>,
) -> Result<Finished, JobError> {
    let folder = tempfile::Builder::new()
        .prefix("kiln-bench-")
        .tempdir()
        .map_err(at(&std::env::temp_dir()))?;
    let [glb, report] = ["out.glb", "report.json"].map(|name| folder.path().join(name));
    let mut command = Command::new(kiln);
    command.arg("bake").arg(mesh).arg("--views").arg(views);
    command.arg("-o").arg(&glb).arg("--report").arg(&report);
    command.arg("--json").args(flags);

    let watched = Watched::start(command, kiln)?;
    let (wall, peak_kib, last, status) = watched.finish(kiln)?;
    let raw: Value = fs::read(&report)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let mut outcome = judge(&last, status, &raw);
    if outcome.is_ok() {
        // Kept before the check: a file that fails it is the one to look at.
        for (from, extension) in [(&glb, "glb"), (&report, "json")] {
            if let Some(keep) = keep {
                let to = keep.with_added_extension(extension);
                fs::copy(from, &to).map_err(at(&to))?;
            }
        }
        if let Err(error) = check_texture(&glb) {
            outcome = Err(JobError::Glb(error));
        }
    }
    Ok(Finished {
        wall,
        peak_kib,
        raw,
        outcome,
    })
}

/// Decodes the texture with a decoder that Kiln did not measure with, checksums included: good figures do not prove that
/// a viewer can show the file.
fn check_texture(path: &Path) -> Result<(), String> {
    let model = Model::read(path)?;
    let file = model.file("pbrMetallicRoughness/baseColorTexture");
    let file = file.ok_or("the GLB has no texture")?;
    let decoded = png::Decoder::new(Cursor::new(file))
        .read_info()
        .and_then(|mut reader| {
            while reader.next_row()?.is_some() {}
            reader.finish()
        });
    decoded.map_err(|error| format!("the texture in the GLB cannot be decoded: {error}"))
}

/// The last line says how it ended, and the report holds the measurements.
fn judge(last: &str, status: ExitStatus, raw: &Value) -> Result<Report, JobError> {
    let event: Value = serde_json::from_str(last).unwrap_or_default();
    match event["event"].as_str() {
        Some("done") if status.success() => Report::deserialize(raw).map_err(JobError::Report),
        Some("error") => Err(JobError::Refused(
            event["message"].as_str().unwrap_or_default().to_owned(),
        )),
        _ => Err(JobError::Wordless(status, last.to_owned())),
    }
}

/// A running `kiln`; dropping it kills it with its workers.
struct Watched {
    child: Child,
    started: Instant,
}

impl Watched {
    fn start(mut command: Command, kiln: &Path) -> Result<Self, JobError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let child = command.spawn().map_err(at(kiln))?;
        Ok(Self { child, started })
    }

    /// Wall time, peak memory, last line, and exit status.
    fn finish(mut self, kiln: &Path) -> Result<(Duration, u64, String, ExitStatus), JobError> {
        let (sender, lines) = channel();
        let stdout = self.child.stdout.take();
        std::thread::spawn(move || {
            let lines = stdout.map(|pipe| BufReader::new(pipe).lines());
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = self.child.stderr.take();
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stderr.map(|mut pipe| pipe.read_to_end(&mut bytes));
            drop(read);
            String::from_utf8_lossy(&bytes).into_owned()
        });

        let mut sampler = Sampler::new(self.child.id());
        let mut next = Instant::now();
        let mut last = String::new();
        loop {
            match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(pid) = started_worker(&line) {
                        sampler.worker(pid);
                    }
                    last = line;
                }
                Err(RecvTimeoutError::Timeout) => {
                    sampler.sample();
                    next = Instant::now() + INTERVAL;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().map_err(at(kiln))?;
        let wall = self.started.elapsed();
        let errors = errors.join().unwrap_or_default();
        if last.is_empty() {
            errors
                .lines()
                .last()
                .unwrap_or_default()
                .clone_into(&mut last);
        }
        Ok((wall, sampler.peak_kib(), last, status))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn started_worker(line: &str) -> Option<u32> {
    if !line.contains("\"started\"") {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    (event["event"] == "started")
        .then(|| u32::try_from(event["pid"].as_u64()?).ok())
        .flatten()
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> JobError {
    let path = path.to_path_buf();
    |source| JobError::Os { path, source }
}
