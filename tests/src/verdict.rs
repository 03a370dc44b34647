//! Judges a run of `kiln bake -q` over odd input: it must give a valid GLB, or one clear line with exit code 65.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Bench, Run, glb};

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
            if !errors.is_empty() || outcome.stdout.len() != 1 {
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

/// Runs `work` for each item on one thread per core, and returns the results in the order of the items.
///
/// # Panics
/// If `work` panics.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed))
                    && let Some(item) = items.get(index)
                {
                    *results[index].lock().expect("no panic while held") = Some(work(item));
                }
            });
        }
    });
    let result = |slot: Mutex<Option<R>>| slot.into_inner().expect("no panic").expect("done");
    results.into_iter().map(result).collect()
}
