//! The closing lines of a report, for people.

use std::time::Duration;

use proto::job::Product;
use proto::message::{
    BakeSummary, ExposureFate, LayerFit, MeshStep, PrepareSummary, StepFate, StepKind,
};
use proto::pages::Pages;
use proto::plan::RowsHeld;
use proto::sandbox::Level;

use super::Report;
use crate::words::{size, span};

impl Report {
    /// The closing lines.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.plan.is_some() {
            lines.extend(self.shared());
            return lines;
        }
        let choice = self.prepare.as_ref().and_then(|prepare| prepare.texture);
        let texture = choice.map_or(self.options.texture_size, |choice| choice.size);
        let mesh = self.prepare.as_ref().map(|prepare| {
            format!(
                ", {} triangles in {} charts",
                prepare.triangles, prepare.charts
            )
        });
        let bytes = self.files.first().map_or(0, |file| file.bytes);
        let product = match self.product {
            Product::Texture if self.options.pages == Pages::ONE => {
                format!("texture {texture}×{texture}")
            }
            Product::Texture => {
                format!(
                    "{} pages of {texture}×{texture}",
                    self.options.pages.count()
                )
            }
            Product::VertexColours => "vertex colours in place of a texture".to_owned(),
        };
        lines.push(format!(
            "{} ({}): {product}{}",
            self.options.output.display(),
            size(bytes),
            mesh.unwrap_or_default()
        ));
        lines.extend(self.shared());
        let train = self
            .psnr
            .train_db
            .map(|db| format!("PSNR {db:.1} dB on the views of the fit"));
        let count = self
            .encode
            .as_ref()
            .map_or(0, |encode| encode.holdout.len());
        let holdout = self
            .psnr
            .holdout_db
            .map(|db| format!("{db:.1} dB on {count} held-out views"));
        let psnr: Vec<String> = train.into_iter().chain(holdout).collect();
        if !psnr.is_empty() {
            lines.push(psnr.join(", "));
        }
        lines.extend(self.bake.as_ref().and_then(thinned));
        lines.extend(self.bake.as_ref().and_then(in_parts));
        lines.extend(self.prepare.as_ref().and_then(repaired));
        lines.extend(self.bake.as_ref().and_then(refined));
        lines.extend(self.bake.as_ref().and_then(layered));
        let roles: Vec<String> = self
            .roles
            .iter()
            .map(|entry| {
                format!(
                    "{} {}",
                    entry.role.name(),
                    span(Duration::from_secs_f64(entry.ms / 1e3))
                )
            })
            .collect();
        let device = self
            .device
            .as_ref()
            .map_or("unknown device", |device| device.name.as_str());
        let rss = [
            self.peak.prepare_rss_kib,
            self.peak.bake_rss_kib,
            self.peak.encode_rss_kib,
        ];
        let rss = rss.into_iter().flatten().max().unwrap_or(0);
        lines.push(format!(
            "{} on {device} ({}); largest process {}",
            span(Duration::from_secs_f64(self.ms / 1e3)),
            roles.join(", "),
            size(rss.saturating_mul(1024))
        ));
        lines.extend(
            self.files
                .iter()
                .filter(|file| !["glb", "ply", "obj"].contains(&&*file.kind))
                .map(|file| {
                    format!(
                        "{}: {} ({})",
                        file.kind,
                        file.path.display(),
                        size(file.bytes)
                    )
                }),
        );
        if self.warnings_dropped > 0 {
            lines.push(format!(
                "{} further warnings were not shown",
                self.warnings_dropped
            ));
        }
        lines
    }
}

impl Report {
    /// Lines for every job: about its sandbox, and about failures on the way.
    fn shared(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut sandboxes = self.sandbox.iter();
        if sandboxes.any(|role| role.sandbox.level != Level::Full) {
            lines.push("the workers ran without their full sandbox".to_owned());
        }
        if !self.ladder.is_empty() {
            let steps: Vec<&str> = self.ladder.iter().map(|step| step.words()).collect();
            lines.push(format!("baked again {}", steps.join(", then ")));
        }
        lines
    }
}

/// The share of pixels that decimation left out; `None` if it left out none.
fn thinned(bake: &BakeSummary) -> Option<String> {
    let RowsHeld { rows, left_out, .. } = bake.rows;
    let share = 100.0 * left_out as f64 / (left_out + rows).max(1) as f64;
    (left_out > 0).then(|| {
        format!("{share:.0} % of the pixels on the mesh left out, where many views show the same: not all fit the memory")
    })
}

/// The number of subdomains in which the texture was fitted; `None` if it was fitted at once.
fn in_parts(bake: &BakeSummary) -> Option<String> {
    let parts = bake.rows.parts;
    (parts > 0).then(|| {
        format!("the texture was fitted in {parts} parts, one after the other: not all rows fit the memory at once")
    })
}

/// How well the other channels reproduce the views; `None` without other channels.
fn layered(bake: &BakeSummary) -> Option<String> {
    let part = |fit: &LayerFit| format!("{} {:.1} dB", fit.name.name(), fit.psnr_db);
    let parts: Vec<String> = bake.channels.iter().map(part).collect();
    (!parts.is_empty()).then(|| format!("channels: {}", parts.join(", ")))
}

/// What was repaired of the mesh; `None` if nothing was.
fn repaired(prepare: &PrepareSummary) -> Option<String> {
    let part = |step: &MeshStep| {
        let counts = [step.before, step.after];
        let [before, after] = counts.map(|counts| counts.triangles);
        match (step.step, step.fate) {
            (_, StepFate::Unchanged | StepFate::Skipped | StepFate::Refused) => None,
            (StepKind::Weld, StepFate::Done) => Some(format!("{} points welded", step.changed)),
            (StepKind::Orient, StepFate::Done) => {
                Some(format!("{} triangles turned", step.changed))
            }
            (StepKind::RemoveUnseen, StepFate::Done) => Some(format!(
                "{} of {before} triangles removed that nobody sees",
                before.saturating_sub(after)
            )),
            (StepKind::FillHoles, StepFate::Done) => Some(format!("{} holes filled", step.changed)),
        }
    };
    let parts: Vec<String> = prepare.mesh.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What was done to cameras and exposures; `None` if nothing was.
fn refined(bake: &BakeSummary) -> Option<String> {
    let refinement = bake.refinement.as_ref()?;
    let mut parts = Vec::new();
    let (moved, refused) = (refinement.cameras_moved, refinement.cameras_refused);
    if moved > 0 {
        parts.push(format!(
            "{moved} of {} cameras moved, by {:.2} px at most",
            bake.views.len(),
            refinement.largest_move_px
        ));
    }
    if let (1.., Some(before), Some(after)) = (
        moved,
        refinement.silhouette_before_px,
        refinement.silhouette_after_px,
    ) {
        parts.push(format!(
            "silhouettes off by {before:.2} px before and {after:.2} after"
        ));
    }
    if refused > 0 {
        parts.push(format!(
            "{refused} not moved though their silhouettes are off"
        ));
    }
    if let (ExposureFate::Evened, Some(spread)) = (refinement.exposure, refinement.exposure_spread)
    {
        parts.push(format!("exposures evened out by ±{:.1} %", 100.0 * spread));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
