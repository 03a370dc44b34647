//! Judges a run of `kiln bake -q` over odd input: it must give a valid GLB, or one clear line with exit code 65.

use std::time::{Duration, Instant};

use crate::{Bench, Run, glb};

/// What is said of views that cannot be of the mesh's own cameras, as noise is not, even with `-q`.
const DOUBT: &str = "kiln: warning: the texture explains the views with ";

/// How a run may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The GLB is in the bench's output folder.
    Baked,
    /// The line that says why not, without `kiln: error: `.
    Refused(String),
}

/// Runs `kiln bake` with `-q` to its end and judges it. The GLB is expected in `out/out.glb`.
///
/// # Errors
/// What happened that is neither a result nor a proper refusal.
pub fn judge(bench: &Bench, command: std::process::Command) -> Result<(Verdict, Duration), String> {
    let started = Instant::now();
    let outcome = Run::start(command).finish();
    let time = started.elapsed();
    let (code, errors) = (outcome.code, &outcome.stderr);
    let left = (bench.outputs(), bench.workers());
    let clean = |files: &[&str]| {
        if left.0 == files && left.1.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    };
    match code {
        Some(0) => {
            clean(&["out.glb"])?;
            let silent = errors.lines().all(|line| line.starts_with(DOUBT));
            if !silent || outcome.stdout.len() != 1 {
                return Err(format!("says {:?} and {errors:?}", outcome.stdout));
            }
            glb::read(&bench.path("out/out.glb"))?;
            Ok((Verdict::Baked, time))
        }
        Some(65) => {
            clean(&[])?;
            let mut lines = errors.lines();
            let first = lines.next().unwrap_or_default();
            let cause = first.strip_prefix("kiln: error: ");
            let hint = lines.next();
            let proper = hint.is_none_or(|hint| hint.starts_with("  hint: "))
                && lines.next().is_none()
                && outcome.stdout.is_empty()
                && !errors.chars().any(|c| c.is_control() && c != '\n');
            match cause {
                Some(cause) if proper => Ok((Verdict::Refused(cause.to_owned()), time)),
                _ => Err(format!("not one line and a hint: {errors:?}")),
            }
        }
        _ => Err(format!(
            "exit {code:?}, signal {:?}: {errors:?}",
            outcome.signal
        )),
    }
}
