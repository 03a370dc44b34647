//! The plan of a dry run as a table for people.

use std::time::Duration;

use proto::message::{PhaseTime, Role};
use proto::plan::BakePlan;

use super::Report;
use crate::words::{doing, size, span};

/// Longest time that is shown: a plan comes from a worker and is not trusted.
const LONGEST: f64 = 1e9;

impl Report {
    /// The lines of the table.
    pub fn plan_lines(&self, plan: &BakePlan) -> Vec<String> {
        let mut lines = vec![adapter(plan)];
        let mesh = self.prepare.as_ref().map(|prepare| {
            let (triangles, charts) = (prepare.triangles, prepare.charts);
            format!(", {triangles} triangles in {charts} charts")
        });
        let more = match plan.textures {
            0 | 1 => String::new(),
            count => format!(", {count} textures one after the other"),
        };
        let edge = plan.texture_size;
        lines.push(format!(
            "texture {edge}×{edge}{more}{}, {} views",
            mesh.unwrap_or_default(),
            plan.rows.views
        ));
        if !plan.buffers.is_empty() {
            lines.push("device memory".to_owned());
            for buffers in &plan.buffers {
                let (words, bytes) = (buffers.group.describe(), size(buffers.bytes));
                lines.push(format!("  {words:28} {bytes:>12}  {:>5}", buffers.count));
            }
            let peak = size(plan.peak_vram_kib.saturating_mul(1024));
            lines.push(format!("  {:28} {peak:>12}", "largest at once"));
        }
        lines.push(rows(plan));
        let rss = |kib: u64| size(kib.saturating_mul(1024));
        let prepare = self.peak.prepare_rss_kib.unwrap_or(0);
        lines.push(format!(
            "host memory: prepare {}, bake about {}, encode about {}",
            rss(prepare),
            rss(plan.bake_rss_kib),
            rss(plan.encode_rss_kib)
        ));
        lines.extend(self.seconds(plan));
        lines
    }

    /// Seconds of each stage and of the job. Bake opens its adapter while prepare works, and then waits for prepare.
    fn seconds(&self, plan: &BakePlan) -> Vec<String> {
        let of_prepare = |stage: &&super::Stage| stage.role == Role::Prepare;
        let prepared = (self.stages.iter()).filter(of_prepare);
        let prepared: f64 = prepared.map(|stage| stage.time.ms / 1e3).sum();
        let all = prepared + plan.seconds.iter().map(|time| time.seconds).sum::<f64>();
        let mut lines = vec![format!("time: about {} in all", rounded(all))];
        let measured = (self.stages.iter()).filter(of_prepare);
        lines.extend(measured.map(|stage| {
            let PhaseTime { phase, ms } = stage.time;
            format!("  {:28} {:>12}", doing(phase), rounded(ms / 1e3))
        }));
        lines.extend(plan.seconds.iter().map(|time| {
            let about = format!("about {}", rounded(time.seconds));
            format!("  {:28} {about:>12}", doing(time.phase))
        }));
        lines
    }
}

fn adapter(plan: &BakePlan) -> String {
    let info = &plan.adapter;
    let driver = match info.driver.as_str() {
        "" => String::new(),
        driver => format!(", {driver}"),
    };
    let mut line = format!("{} ({}{driver})", info.name, info.kind);
    if let Some(account) = plan.driver {
        let [free, used] = [account.free_kib, account.used_kib];
        let [free, used] = [free, used].map(|kib| size(kib.saturating_mul(1024)));
        line.push_str(&format!(
            ": {free} free by its driver, {used} in use before the bake"
        ));
    }
    if let Some(kib) = plan.budget_kib {
        let budget = size(kib.saturating_mul(1024));
        line.push_str(&format!("; the bake may use {budget}"));
    }
    line
}

fn rows(plan: &BakePlan) -> String {
    let rows = plan.rows;
    let counted = match plan.sampled_views {
        count if count >= rows.views => String::new(),
        count => format!(", by {count} of {} views", rows.views),
    };
    let left_out = match rows.left_out {
        0 => String::new(),
        pixels => format!(", and {pixels} pixels left out where many views show the same"),
    };
    let start = format!("rows: about {}{counted}{left_out}", rows.rows);
    let passes = plan.passes;
    let start = match rows.parts {
        0 => start,
        parts => format!("{start}, in {parts} parts of the texture, one after the other"),
    };
    if rows.views_redrawn == 0 {
        return format!("{start}; all stay");
    }
    let share = 100.0 * rows.kept as f64 / rows.rows.max(1) as f64;
    format!(
        "{start}; {share:.0} % stay, {} of {} views are drawn again for each of about {passes} passes",
        rows.views_redrawn, rows.views
    )
}

/// `0.4 s`; a number that is no time counts as the longest.
fn rounded(seconds: f64) -> String {
    let seconds = if seconds.is_finite() {
        seconds
    } else {
        LONGEST
    };
    span(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_says_of_times_does_no_harm() {
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert!(!rounded(seconds).is_empty(), "{seconds}");
        }
        assert_eq!(rounded(-3.0), "0.0 s");
        assert_eq!(rounded(0.44), "0.4 s");
    }
}
