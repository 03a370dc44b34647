//! Measures one point with the real `kiln bake`: alone, alone with the device's clock, and as a later job of a list,
//! for which a spare process has the device open already.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use proto::message::{Phase, StageTime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::input::{FEWEST, Input};
use super::{Axis, Point};
use crate::args::Args;
use crate::chain;
use crate::job::{Finished, Report, run_kiln, seconds};

/// Jobs of a list whose throughput is measured; one for each two cores runs at once.
const JOBS: usize = 32;

/// The measurements of a point.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    /// Wall time of the whole process in seconds, without the measurement of held-out views.
    pub(super) whole_s: f64,
    /// The same of an earlier process, which found none of this benchmark's data in any cache.
    pub(super) first_s: f64,
    /// Wall time of the bake in seconds, from the handover of the mesh and its atlas to that of the texture. Views that
    /// have arrived are looked at before that.
    pub(super) bake_s: f64,
    /// The same of a bake for which a spare had the device open.
    pub(super) spare_bake_s: Option<f64>,
    /// Seconds of all stages together by the device's clock; `None` without such a clock.
    pub(super) gpu_s: Option<f64>,
    pub(super) uploaded_mib: u64,
    pub(super) read_back_mib: u64,
    pub(super) vram_mib: u64,
    /// As the driver reports it.
    pub(super) driver_vram_mib: Option<u64>,
    pub(super) rss_mib: u64,
    /// Mean over the held-out views in dB.
    pub(super) psnr_db: Option<f64>,
    /// Jobs an hour when many run at once.
    pub(super) jobs_an_hour: Option<f64>,
    /// Wall time by phase of each role, in milliseconds.
    pub(super) phases: Value,
    pub(super) gpu_stages: Vec<StageTime>,
    pub(super) host_steps: Vec<StageTime>,
    /// The adapter that baked.
    pub(super) adapter: String,
}

impl Measured {
    pub(super) fn heading() -> &'static str {
        "  job s   bake s  spare s    GPU s     up MiB  down MiB  VRAM MiB   RSS MiB  PSNR dB   jobs/h"
    }

    pub(super) fn line(&self) -> String {
        let some = |value: Option<f64>, digits| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        format!(
            "{:7.2} {:8.3} {:>8} {:>8} {:>10} {:>9} {:>9} {:>9} {:>8} {:>8}",
            self.whole_s,
            self.bake_s,
            some(self.spare_bake_s, 3),
            some(self.gpu_s, 3),
            self.uploaded_mib,
            self.read_back_mib,
            self.driver_vram_mib.unwrap_or(self.vram_mib),
            self.rss_mib,
            some(self.psnr_db, 2),
            some(self.jobs_an_hour, 0),
        )
    }
}

/// Runs the bakes of a point; GLB and report are kept under the name `keep`.
pub(super) fn measure(
    args: &Args,
    kiln: &Path,
    point: &Point,
    input: &Input,
    keep: Option<&Path>,
) -> Result<Measured, String> {
    let once = |more: &[&str], keep| -> Result<(Finished, Report), String> {
        let mut flags = flags(args, point);
        flags.extend(more.iter().map(|&flag| flag.to_owned()));
        let mut finished = run_kiln(kiln, &input.mesh, &input.views, &flags, keep);
        let taken = std::mem::replace(
            &mut finished.outcome,
            Err(crate::job::JobError::Refused(String::new())),
        );
        let report = taken.map_err(|error| chain(&error))?;
        // A user does not wait for the renders of held-out views.
        let measuring = seconds(&report.encode.times, &[Phase::Measure]).unwrap_or(0.0);
        finished.wall = finished
            .wall
            .saturating_sub(std::time::Duration::from_secs_f64(measuring));
        Ok((finished, report))
    };
    // A bake that takes minutes is run once.
    let (first, finished, report, gpu_stages) =
        if [Axis::Largest, Axis::Photographs].contains(&point.axis) {
            let (finished, report) = once(&["--gpu-times"], keep)?;
            let stages = report.bake.gpu_times.clone();
            (finished.wall, finished, report, stages)
        } else {
            let (first, _) = once(&[], None)?;
            let (finished, report) = once(&[], keep)?;
            let (_, timed) = once(&["--gpu-times"], None)?;
            (first.wall, finished, report, timed.bake.gpu_times)
        };
    let throughput = point.axis == Axis::Throughput;
    let many = (throughput || point.axis == Axis::Figures)
        .then(|| list(args, kiln, point, input, if throughput { JOBS } else { 3 }))
        .transpose()?;
    let scores = &report.encode.holdout;
    let sum: f64 = scores.iter().map(|score| f64::from(score.psnr_db)).sum();
    Ok(Measured {
        whole_s: finished.wall.as_secs_f64(),
        first_s: first.as_secs_f64(),
        bake_s: report.bake.from_mesh_ms / 1e3,
        spare_bake_s: many
            .as_ref()
            .filter(|_| !throughput)
            .map(|many| many.last_bake_s),
        gpu_s: (!gpu_stages.is_empty())
            .then(|| gpu_stages.iter().map(|stage| stage.ms).sum::<f64>() / 1e3),
        uploaded_mib: report.bake.uploaded_kib / 1024,
        read_back_mib: report.bake.read_back_kib / 1024,
        vram_mib: report.bake.peak_vram_kib / 1024,
        driver_vram_mib: report.bake.driver_vram_kib.map(|kib| kib / 1024),
        rss_mib: finished.peak_kib / 1024,
        psnr_db: (!scores.is_empty()).then(|| sum / scores.len() as f64),
        jobs_an_hour: many.filter(|_| throughput).map(|many| many.jobs_an_hour),
        phases: json!({
            "prepare": report.prepare.times,
            "bake": report.bake.times,
            "encode": report.encode.times,
        }),
        gpu_stages,
        host_steps: report.bake.host_times,
        adapter: report.device.name,
    })
}

/// Flags of `kiln bake`, each with its value. The user's flags come before the point's own, and those before the
/// defaults.
fn flags(args: &Args, point: &Point) -> Vec<String> {
    let mut flags = args.kiln.clone();
    let mut unless_given = |flag: &str, value: &str| {
        if !flags.iter().any(|given| given == flag) {
            flags.extend([flag.to_owned(), value.to_owned()]);
        }
    };
    unless_given("--texture-size", &point.texture.to_string());
    if point.sizes.level < 0 {
        unless_given("--target-faces", &FEWEST.to_string());
    }
    for pair in point.flags.chunks(2) {
        unless_given(&pair[0], &pair[1]);
    }
    if let [quality, ..] = args.quality.names() {
        unless_given("--quality", quality);
    }
    unless_given("--device", "gpu");
    flags
}

/// The measurements of a list of jobs.
struct Many {
    jobs_an_hour: f64,
    last_bake_s: f64,
}

/// The part of a report that is needed here.
#[derive(Debug, Deserialize)]
struct Baked {
    bake: proto::message::BakeSummary,
}

fn list(
    args: &Args,
    kiln: &Path,
    point: &Point,
    input: &Input,
    count: usize,
) -> Result<Many, String> {
    let said = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(said)?;
    let keys: serde_json::Map<String, Value> = flags(args, point)
        .chunks(2)
        .filter_map(|pair| match pair {
            [flag, value] => {
                let key = flag.trim_start_matches('-').to_owned();
                let number = value.parse::<u64>().map(Value::from);
                Some((key, number.unwrap_or_else(|_| value.as_str().into())))
            }
            _ => None,
        })
        .collect();
    let report = |job: usize| folder.path().join(format!("{job}.json"));
    let jobs: Vec<Value> = (0..count)
        .map(|job| {
            let mut job_keys = keys.clone();
            let mut set = |key: &str, value: &Path| {
                job_keys.insert(key.to_owned(), value.to_string_lossy().into());
            };
            set("mesh", &input.mesh);
            set("views", &input.views);
            set("output", &folder.path().join(format!("{job}.glb")));
            set("report", &report(job));
            Value::Object(job_keys)
        })
        .collect();
    let path = folder.path().join("jobs.json");
    fs::write(&path, Value::Array(jobs).to_string()).map_err(said)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = if count == JOBS { cores.div_ceil(2) } else { 1 };
    let started = Instant::now();
    let output = Command::new(kiln)
        .args(["bake", "--quiet", "--crash-folder", "none", "--jobs"])
        .arg(&path)
        .args(["--parallel", &at_once.to_string()])
        .output()
        .map_err(said)?;
    let took = started.elapsed().as_secs_f64();
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(words.lines().last().unwrap_or_default().to_owned());
    }
    let last = fs::read(report(count - 1)).map_err(said)?;
    let last: Baked = serde_json::from_slice(&last).map_err(|error| error.to_string())?;
    Ok(Many {
        jobs_an_hour: count as f64 / took * 3600.0,
        last_bake_s: last.bake.from_mesh_ms / 1e3,
    })
}
