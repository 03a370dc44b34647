//! Measures the silences of a worker (time without a unit of work done) against the predictions made. Logs them at the
//! end of a role, to check whether units are short enough and predictions long enough.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use proto::message::Phase;
use proto::recorder::State;

#[derive(Debug)]
struct Meter {
    since: Instant,
    /// By phase and label: the longest silence and its prediction, in milliseconds.
    longest: BTreeMap<(u32, String), (u64, u64)>,
}

static METER: Mutex<Option<Meter>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Meter) -> T) -> T {
    let mut meter = METER.lock().unwrap_or_else(PoisonError::into_inner);
    work(meter.get_or_insert_with(|| Meter {
        since: Instant::now(),
        longest: BTreeMap::new(),
    }))
}

/// The count of work has changed.
pub(crate) fn heard(before: &State, after: &State) {
    if after.work == before.work {
        return;
    }
    with(|meter| {
        let ms = u64::try_from(meter.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        meter.since = Instant::now();
        let key = (before.phase().number(), before.label());
        let longest = meter.longest.entry(key).or_default();
        *longest = (*longest).max((ms, before.predicted_ms));
    });
}

/// The supervisor has answered; the wait does not count.
pub(crate) fn answered() {
    with(|meter| meter.since = Instant::now());
}

/// Logs the longest silences.
pub(crate) fn report() {
    with(|meter| {
        for ((phase, label), (ms, predicted)) in &meter.longest {
            let phase = Phase::from_number(*phase).unwrap_or(Phase::Start).name();
            tracing::info!(phase, label, ms, predicted, "silence");
        }
    });
}
