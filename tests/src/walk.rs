//! Runs many cases at once, and tells all that is wrong with them.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

/// Runs `work` for each item, so many at once, and returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(
    at_once: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(at_once)
        .build()
        .expect("threads");
    // One by one, so that no thread is left with a share of slow ones.
    pool.install(|| items.par_iter().with_max_len(1).map(work).collect())
}

/// The number of processors.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The good results; a case is named as `name` says.
pub fn all_right<T, R>(
    items: &[T],
    results: Vec<Result<R, String>>,
    name: impl Fn(&T) -> String,
) -> Vec<R> {
    let (mut good, mut complaints) = (Vec::new(), Vec::new());
    for (item, result) in items.iter().zip(results) {
        match result {
            Ok(result) => good.push(result),
            Err(what) => complaints.push(format!("{}: {what}", name(item))),
        }
    }
    let (wrong, all) = (complaints.len(), items.len());
    assert!(wrong == 0, "{wrong} of {all}:\n{}", complaints.join("\n"));
    good
}

/// A complaint where something is not right.
///
/// # Errors
/// That complaint.
pub fn demand(right: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(what()) }
}

/// Tells figures, or what a machine cannot do.
#[expect(clippy::print_stderr, reason = "cargo shows it with a failure")]
pub fn said(what: &str) {
    eprintln!("{what}");
}
