//! The closing lines of a report, for people.

use std::time::Duration;

use proto::job::Product;
use proto::message::{
    BakeSummary, ExposureFate, LayerFit, MeshStep, PrepareSummary, StepFate, StepKind,
};
use proto::pages::Pages;
use proto::plan::RowsHeld;
use proto::sandbox::Level;

use super::{FileEntry, Report};
use crate::words::{size, span};

/// PSNR that hardly any texture stays below whose views and mesh belong together: mean colours alone reach 10 to 15 dB.
const SOUND_DB: f32 = 16.0;

impl Report {
    /// The closing lines.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.plan.is_some() {
            lines.extend(self.shared());
            return lines;
        }
        lines.push(self.headline());
        lines.extend(self.shared());
        lines.extend(self.likeness());
        lines.extend(self.advice());
        lines.extend(self.bake.as_ref().and_then(thinned));
        lines.extend(self.bake.as_ref().and_then(in_parts));
        lines.extend(self.prepare.as_ref().and_then(drawn));
        lines.extend(self.prepare.as_ref().and_then(moved));
        lines.extend(self.prepare.as_ref().and_then(repaired));
        lines.extend(self.bake.as_ref().and_then(refined));
        lines.extend(self.bake.as_ref().and_then(layered));
        lines.extend(self.bake.as_ref().and_then(detailed));
        lines.push(self.effort());
        let more = |file: &&FileEntry| !["glb", "ply", "obj"].contains(&&*file.kind);
        lines.extend(self.files.iter().filter(more).map(|file| {
            let (kind, path) = (&file.kind, file.path.display());
            format!("{kind}: {path} ({})", size(file.bytes))
        }));
        if self.warnings_dropped > 0 {
            lines.push(format!(
                "{} further warnings were not shown",
                self.warnings_dropped
            ));
        }
        lines
    }

    /// What was made.
    fn headline(&self) -> String {
        let choice = self.prepare.as_ref().and_then(|prepare| prepare.texture);
        let texture = choice.map_or(self.options.texture_size, |choice| choice.size);
        let pages = self.options.pages;
        let product = match self.product {
            Product::Texture if pages == Pages::ONE => format!("texture {texture}×{texture}"),
            Product::Texture => format!("{} pages of {texture}×{texture}", pages.count()),
            Product::VertexColours => "vertex colours in place of a texture".to_owned(),
        };
        let mesh = self.prepare.as_ref().map(|prepare| {
            let PrepareSummary {
                triangles, charts, ..
            } = prepare;
            format!(", {triangles} triangles in {charts} charts")
        });
        let bytes = self.files.first().map_or(0, |file| file.bytes);
        format!(
            "{} ({}): {product}{}",
            self.options.output.display(),
            size(bytes),
            mesh.unwrap_or_default()
        )
    }

    /// Why the texture is probably not what was wanted, if it is not.
    pub fn doubt(&self) -> Option<String> {
        let psnr = self.psnr.train_db.filter(|psnr| *psnr < SOUND_DB)?;
        Some(format!(
            "the texture explains the views with {psnr:.1} dB only, where those of the mesh's own cameras give 20 and \
             more: compare --preview with the views, and check that mesh, cameras and pictures are of one scene \
             (--min-psnr makes an error of it)"
        ))
    }

    /// How well the views are reproduced, if that was measured.
    fn likeness(&self) -> Option<String> {
        let train = self.psnr.train_db;
        let train = train.map(|db| format!("PSNR {db:.1} dB on the views of the fit"));
        let encode = self.encode.as_ref();
        let count = encode.map_or(0, |encode| encode.holdout.len());
        let holdout = self.psnr.holdout_db;
        let holdout = holdout.map(|db| format!("{db:.1} dB on {count} held-out views"));
        let psnr: Vec<String> = train.into_iter().chain(holdout).collect();
        (!psnr.is_empty()).then(|| psnr.join(", "))
    }

    /// What can be done about places that the views show coarsely or not; nothing of vertex colours, which are as fine as
    /// the mesh.
    fn advice(&self) -> Vec<String> {
        let side = self.encode.as_ref().and_then(|encode| encode.unseen_side);
        let bake = self
            .bake
            .as_ref()
            .filter(|_| self.product == Product::Texture);
        bake.map_or_else(Vec::new, |bake| bake.provenance.advice(side))
    }

    /// Time and memory.
    fn effort(&self) -> String {
        let time = |ms: f64| span(Duration::from_secs_f64(ms / 1e3));
        let roles = self.roles.iter();
        let roles: Vec<String> = roles
            .map(|entry| format!("{} {}", entry.role.name(), time(entry.ms)))
            .collect();
        let device = self.device.as_ref();
        let device = device.map_or("unknown device", |device| device.name.as_str());
        let peak = self.peak;
        let rss = [peak.prepare_rss_kib, peak.bake_rss_kib, peak.encode_rss_kib];
        let rss = rss.into_iter().flatten().max().unwrap_or(0);
        format!(
            "{} on {device} ({}); largest process {}",
            time(self.ms),
            roles.join(", "),
            size(rss.saturating_mul(1024))
        )
    }

    /// Lines for every job: about its sandbox, and about failures on the way.
    fn shared(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let levels = self.sandbox.iter().map(|role| role.sandbox.level);
        match levels.min() {
            Some(Level::Off | Level::Partial) => {
                lines.push("the workers ran without their full sandbox".to_owned());
            }
            Some(Level::NoLandlock) => lines.push(
                "there is no Landlock here: the bake could open any file before it had data, and none after".to_owned(),
            ),
            Some(Level::Full) | None => {}
        }
        if !self.ladder.is_empty() {
            let steps: Vec<&str> = self.ladder.iter().map(|step| step.describe()).collect();
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
        format!("{share:.0} % of the pixels on the mesh left out, where others show the same: a draft needs no more, or not all fit the memory")
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

/// What was made of the surface before simplification; `None` if nothing was.
fn detailed(bake: &BakeSummary) -> Option<String> {
    let detail = bake.detail.as_ref()?;
    let layers: Vec<&str> = detail.layers.iter().map(|layer| layer.name()).collect();
    Some(format!(
        "{} of {} triangles, whose normals differ from the mesh's by {:.1}° on average",
        layers.join(" and "),
        detail.triangles,
        detail.angle_deg
    ))
}

/// What views of splats were drawn from, and how.
fn drawn(prepare: &PrepareSummary) -> Option<String> {
    let splats = prepare.splats.as_ref()?;
    let left_out = match splats.dropped {
        0 => String::new(),
        dropped => format!(" ({dropped} without a meaning left out)"),
    };
    Some(format!(
        "{} views of {edge}×{edge} drawn from {} splats{left_out} with the filter {}: {}",
        prepare.views + prepare.holdout_views,
        splats.splats,
        splats.filter,
        splats.reason,
        edge = splats.edge
    ))
}

/// Where the mesh's local origin lies; `None` if it is that of the file.
fn moved(prepare: &PrepareSummary) -> Option<String> {
    let [x, y, z] = prepare.offset;
    (prepare.offset != [0.0; 3]).then(|| {
        format!("far from the origin: baked about a local one at ({x}, {y}, {z}), which a GLB's node carries and PLY and OBJ add")
    })
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
