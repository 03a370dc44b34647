//! Turns a finished job into the cells of its row, and defines the columns.

use proto::message::{Phase, UnwrapMethod};

use crate::chain;
use crate::job::{Finished, Job, Report, seconds};

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Name of the set, and the quality if there are several.
    pub(crate) name: String,
    /// One cell for each of [`COLUMNS`], or why there are none.
    pub(crate) cells: Result<Vec<Cell>, String>,
    /// The adapter that baked.
    pub(crate) device: Option<String>,
}

/// The text of a cell; `None` if there is nothing to show.
pub(crate) type Cell = Option<String>;

/// The table in which a column appears in Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The results.
    Quality,
    /// The costs.
    Cost,
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) part: Part,
    /// Heading over adjacent columns.
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
}

const fn quality(group: &'static str, name: &'static str) -> Column {
    Column {
        part: Part::Quality,
        group,
        name,
    }
}

const fn cost(group: &'static str, name: &'static str) -> Column {
    Column {
        part: Part::Cost,
        group,
        name,
    }
}

/// All columns after the name. A column that is empty in every row is left out.
pub(crate) const COLUMNS: [Column; 28] = [
    quality("PSNR dB", "held-out"),
    quality("PSNR dB", "worst"),
    quality("PSNR dB", "fit"),
    quality("seams", "1/255"),
    quality("mesh", "faces"),
    quality("views", "fit"),
    quality("views", "out"),
    quality("atlas", "by"),
    quality("atlas", "charts"),
    quality("atlas", "used"),
    cost("prepare s", "mesh"),
    cost("prepare s", "simplify"),
    cost("prepare s", "unwrap"),
    cost("prepare s", "views"),
    cost("bake s", "open"),
    cost("bake s", "raster"),
    cost("bake s", "refine"),
    cost("bake s", "init"),
    cost("bake s", "fit"),
    cost("bake s", "gutter"),
    cost("encode s", "files"),
    cost("encode s", "measure"),
    cost("job s", "wall"),
    cost("peak MiB", "prepare"),
    cost("peak MiB", "bake"),
    cost("peak MiB", "encode"),
    cost("peak MiB", "all"),
    cost("peak MiB", "GPU"),
];

/// Explanations below the table.
pub(crate) const LEGEND: &str = "\
PSNR in sRGB: mean and worst of the views that the fit did not see, rendered with 8×8 samples a pixel, and of the fit's own
pixels. Seams: mean difference across chart borders. Stages overlap where roles do, and views are decoded while the mesh is unwrapped. Wall: whole job, less measuring.
Peak of a role: its own memory; of all: everything resident at one moment, shared tables counted once.";

impl Row {
    /// `several`: other rows show the same set with other qualities.
    pub(crate) fn new(job: &Job<'_>, finished: &Finished, several: bool) -> Self {
        let mut name = job.set.name.clone();
        if several {
            name.push_str(&format!(", {}", job.quality));
        }
        if job.blend == "srgb" {
            name.push_str(" (srgb)");
        }
        let cells = match &finished.outcome {
            Ok(report) => Ok(cells(report, finished).into()),
            Err(error) => Err(chain(error)),
        };
        let device = finished.outcome.as_ref().ok();
        let device = device.map(|report| report.device.name.clone());
        Self {
            name,
            cells,
            device,
        }
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.cells.is_ok()
    }

    /// A short line for the progress output.
    pub(crate) fn in_short(&self) -> String {
        let cells = match &self.cells {
            Ok(cells) => cells,
            Err(message) => return message.clone(),
        };
        let find = |group, name| {
            let place = COLUMNS
                .iter()
                .position(|column| (column.group, column.name) == (group, name));
            let cell = place.and_then(|place| cells.get(place));
            cell.cloned().flatten().unwrap_or_else(|| "-".to_owned())
        };
        format!(
            "{} dB held out, {} s, {} MiB",
            find("PSNR dB", "held-out"),
            find("job s", "wall"),
            find("peak MiB", "all")
        )
    }
}

fn cells(report: &Report, finished: &Finished) -> [Cell; COLUMNS.len()] {
    let Report {
        prepare,
        bake,
        encode,
        ..
    } = report;
    let worst = encode
        .holdout
        .iter()
        .filter(|score| score.pixels > 0)
        .map(|score| score.psnr_db)
        .reduce(f32::min);
    let fixed = |value: Option<f64>, digits| value.map(|value| format!("{value:.digits$}"));
    let decibel = |value: Option<f32>| fixed(value.map(f64::from), 2);
    let prepared = |phases| fixed(seconds(&prepare.times, phases), 1);
    let baked = |phases| fixed(seconds(&bake.times, phases), 1);
    let encoded = |phases| fixed(seconds(&encode.times, phases), 1);
    let mib = |kib: u64| Some(kib.div_ceil(1024).to_string());
    [
        decibel(encode.holdout_psnr_db),
        decibel(worst),
        decibel(Some(bake.train_psnr_db)),
        fixed(Some(f64::from(bake.seam_residual) * 255.0), 2),
        Some(prepare.triangles.to_string()),
        Some(prepare.views.to_string()),
        Some(prepare.holdout_views.to_string()),
        Some(
            match prepare.unwrap {
                UnwrapMethod::Uvunwrap => "uvunwrap",
                UnwrapMethod::Fallback => "fallback",
                UnwrapMethod::Kept => "kept",
            }
            .to_owned(),
        ),
        Some(prepare.charts.to_string()),
        Some(format!("{:.0} %", prepare.atlas_utilisation * 100.0)),
        prepared(&[Phase::LoadMesh, Phase::Clean]),
        prepared(&[Phase::Simplify]),
        prepared(&[Phase::Unwrap]),
        prepared(&[Phase::DecodeViews]),
        // The processor opens at once; a driver takes time.
        baked(&[Phase::OpenDevice]).filter(|text| text != "0.0"),
        baked(&[Phase::Raster]),
        baked(&[Phase::Refine]),
        baked(&[Phase::Init]),
        baked(&[Phase::Fit]),
        baked(&[Phase::Gutter]),
        encoded(&[Phase::Png, Phase::Glb]),
        encoded(&[Phase::Measure]),
        fixed(finished.wall_without_measure(), 1),
        mib(prepare.peak_rss_kib),
        mib(bake.peak_rss_kib),
        mib(encode.peak_rss_kib),
        mib(finished.peak_kib),
        mib(bake.peak_vram_kib).filter(|_| bake.peak_vram_kib > 0),
    ]
}
