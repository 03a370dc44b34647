//! Rows of finished jobs as Markdown: a table of quality and one of cost.

use proto::message::{Phase, PhaseTime, UnwrapMethod};

use crate::chain;
use crate::job::{Finished, Job, Report, seconds};

/// The text of a cell; `None` if there is nothing to show.
type Cell = Option<String>;

/// A heading, and a row's cell beneath it. A column that is empty in every row is left out.
type Column = (&'static str, fn(&Report, &Finished) -> Cell);

const QUALITY: [Column; 10] = [
    ("PSNR dB held-out", |report, _| {
        decibel(report.encode.holdout_psnr_db)
    }),
    ("worst", |report, _| decibel(worst(report))),
    ("fit", |report, _| decibel(Some(report.bake.train_psnr_db))),
    ("seams 1/255", |report, _| {
        fixed(Some(f64::from(report.bake.seam_residual) * 255.0), 2)
    }),
    ("faces", |report, _| {
        Some(report.prepare.triangles.to_string())
    }),
    ("views fit", |report, _| {
        Some(report.prepare.views.to_string())
    }),
    ("out", |report, _| {
        Some(report.prepare.holdout_views.to_string())
    }),
    ("atlas by", |report, _| {
        Some(method(report.prepare.unwrap).to_owned())
    }),
    ("charts", |report, _| {
        Some(report.prepare.charts.to_string())
    }),
    ("used", |report, _| {
        Some(format!("{:.0} %", report.prepare.atlas_utilisation * 100.0))
    }),
];

const COST: [Column; 18] = [
    ("prepare s mesh", |report, _| {
        phases(&report.prepare.times, &[Phase::LoadMesh, Phase::Clean])
    }),
    ("simplify", |report, _| {
        phases(&report.prepare.times, &[Phase::Simplify])
    }),
    ("unwrap", |report, _| {
        phases(&report.prepare.times, &[Phase::Unwrap])
    }),
    ("views", |report, _| {
        phases(&report.prepare.times, &[Phase::DecodeViews])
    }),
    // The processor opens at once; a driver takes time.
    ("bake s open", |report, _| {
        phases(&report.bake.times, &[Phase::OpenDevice]).filter(|text| text != "0.0")
    }),
    ("raster", |report, _| {
        phases(&report.bake.times, &[Phase::Raster])
    }),
    ("refine", |report, _| {
        phases(&report.bake.times, &[Phase::Refine])
    }),
    ("init", |report, _| {
        phases(&report.bake.times, &[Phase::Init])
    }),
    ("fit", |report, _| phases(&report.bake.times, &[Phase::Fit])),
    ("gutter", |report, _| {
        phases(&report.bake.times, &[Phase::Gutter])
    }),
    ("encode s files", |report, _| {
        phases(&report.encode.times, &[Phase::Png, Phase::Glb])
    }),
    ("measure", |report, _| {
        phases(&report.encode.times, &[Phase::Measure])
    }),
    ("job s wall", |_, finished| {
        fixed(finished.wall_without_measure(), 1)
    }),
    ("peak MiB prepare", |report, _| {
        mib(report.prepare.peak_rss_kib)
    }),
    ("bake", |report, _| mib(report.bake.peak_rss_kib)),
    ("encode", |report, _| mib(report.encode.peak_rss_kib)),
    ("all", |_, finished| mib(finished.peak_kib)),
    ("GPU", |report, _| {
        mib(report.bake.peak_vram_kib).filter(|_| report.bake.peak_vram_kib > 0)
    }),
];

/// Explanations below the tables.
const LEGEND: &str = "\
PSNR in sRGB: mean and worst of the views that the fit did not see, rendered with 8×8 samples a pixel, and of the fit's own
pixels. Seams: mean difference across chart borders. Stages overlap where roles do, and views are decoded while the mesh is unwrapped. Wall: whole job, less measuring.
Peak of a role: its own memory; of all: everything resident at one moment, shared tables counted once.";

/// A row of the tables.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    /// Cells of quality and of cost, or why there are none.
    cells: Result<[Vec<Cell>; 2], String>,
    device: Option<String>,
    /// A line for the progress output.
    pub(crate) in_short: String,
}

impl Row {
    /// `several`: other rows show the same set with other qualities.
    pub(crate) fn new(job: &Job<'_>, finished: &Finished, several: bool) -> Self {
        let mut name = job.set.name.clone();
        if several {
            name.push_str(&format!(", {}", job.quality));
        }
        if job.set.blend == "srgb" {
            name.push_str(" (srgb)");
        }
        let (cells, in_short) = match &finished.outcome {
            Ok(report) => {
                let of = |columns: &[Column]| {
                    columns
                        .iter()
                        .map(|(_, cell)| cell(report, finished))
                        .collect()
                };
                let in_short = format!(
                    "{} dB held out, {} s, {} MiB",
                    decibel(report.encode.holdout_psnr_db).unwrap_or_default(),
                    fixed(finished.wall_without_measure(), 1).unwrap_or_default(),
                    mib(finished.peak_kib).unwrap_or_default()
                );
                (Ok([of(&QUALITY), of(&COST)]), in_short)
            }
            Err(error) => (Err(chain(error)), chain(error)),
        };
        let device = finished
            .outcome
            .as_ref()
            .ok()
            .map(|report| report.device.name.clone());
        Self {
            name,
            cells,
            device,
            in_short,
        }
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.cells.is_ok()
    }
}

/// Both tables, with a legend and the machine of the measurement.
pub(crate) fn render(rows: &[Row], machine: &str) -> String {
    let mut devices: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.device.as_deref())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    let baked = match devices.as_slice() {
        [] => String::new(),
        devices => format!("Baked on {}. ", devices.join(" and ")),
    };
    let tables = [table(rows, 0, &QUALITY), table(rows, 1, &COST)].join("\n");
    format!("{tables}\n{LEGEND}\n{baked}{machine}.\n")
}

fn table(rows: &[Row], which: usize, columns: &[Column]) -> String {
    let cell = |row: &Row, column: usize| {
        row.cells
            .as_ref()
            .ok()
            .and_then(|cells| cells[which][column].clone())
    };
    let shown = |column: &usize| rows.iter().any(|row| cell(row, *column).is_some());
    let shown: Vec<usize> = (0..columns.len()).filter(shown).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(
        ["set".to_owned()]
            .into_iter()
            .chain(shown.iter().map(|&column| columns[column].0.to_owned()))
            .collect(),
    );
    out.push_str(&format!("|---|{}\n", "--:|".repeat(shown.len())));
    for row in rows {
        let mut cells = vec![row.name.clone()];
        match &row.cells {
            Ok(_) => cells.extend(
                shown
                    .iter()
                    .map(|&column| cell(row, column).unwrap_or_else(|| "-".to_owned())),
            ),
            // A bar in the message would end the cell.
            Err(message) => cells.push(format!("failed: {}", message.replace('|', "\\|"))),
        }
        out.push_str(&line(cells));
    }
    out
}

fn fixed(value: Option<f64>, digits: usize) -> Cell {
    value.map(|value| format!("{value:.digits$}"))
}

fn decibel(value: Option<f32>) -> Cell {
    fixed(value.map(f64::from), 2)
}

fn phases(times: &[PhaseTime], phases: &[Phase]) -> Cell {
    fixed(seconds(times, phases), 1)
}

fn mib(kib: u64) -> Cell {
    Some(kib.div_ceil(1024).to_string())
}

fn worst(report: &Report) -> Option<f32> {
    let scores = report
        .encode
        .holdout
        .iter()
        .filter(|score| score.pixels > 0);
    scores.map(|score| score.psnr_db).reduce(f32::min)
}

fn method(unwrap: UnwrapMethod) -> &'static str {
    match unwrap {
        UnwrapMethod::Uvunwrap => "uvunwrap",
        UnwrapMethod::Fallback => "fallback",
        UnwrapMethod::Kept => "kept",
    }
}
