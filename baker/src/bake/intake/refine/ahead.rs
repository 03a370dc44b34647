//! Hands views to an adapter that works beside the processor, as they came, while they are refined: most stay so.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use proto::message::{Failure, Phase, StageTime};
use proto::table::View;

use crate::bake::intake::decimate::{Decimation, Decision};
use crate::bake::intake::refine::intake::Meanwhile;
use crate::worker::progress::Progress;
use crate::worker::step_times;

/// An adapter that works beside the processor. Calls fail with the adapter's error.
pub(crate) trait Ahead: Send {
    /// Takes views in as they came, without the decimated pixels.
    fn take(&mut self, views: &[&View], decimation: Option<&Decimation>) -> Result<(), Failure>;

    /// Expected duration of one pass.
    fn pass(&self) -> Duration;

    /// Drops all that it took, since some views changed.
    fn forget(&mut self) -> Result<(), Failure>;
}

/// What an adapter took ahead, and the decision on the rows.
pub(super) struct Took {
    /// So many of the first views.
    pub(super) views: usize,
    pub(super) decision: Decision,
    pub(super) steps: Vec<StageTime>,
}

/// Takes the views that are `handed` over, each at once as long as all stay whole, the others after the decision.
pub(super) fn take(
    ahead: &mut dyn Ahead,
    handed: mpsc::Receiver<Arc<View>>,
    meanwhile: &Meanwhile<'_>,
) -> Result<Took, Failure> {
    let whole = || meanwhile.whole && !meanwhile.moved.load(Ordering::Relaxed);
    let (mut views, mut taken) = (Vec::new(), 0);
    for view in handed {
        // All settled ones are taken at once.
        if whole() && !meanwhile.settled && meanwhile.all_stay() {
            ahead.take(&[&view], None)?;
            taken += 1;
        }
        views.push(view);
    }
    let decision = meanwhile.decide();
    if !matches!(decision, Decision::AllFit) && taken > 0 {
        ahead.forget()?;
        taken = 0;
    }
    if let Decision::TooMany(_) = decision {
        views.clear();
    }
    let left: Vec<&View> = views.iter().skip(taken).map(|view| &**view).collect();
    if whole() && !left.is_empty() {
        ahead.take(&left, decision.decimation())?;
        taken += left.len();
    }
    Ok(Took {
        views: taken,
        decision,
        steps: step_times::take(),
    })
}

/// Announces that the adapter is waited for from here on. The stall clock would otherwise keep the last expectation of
/// the views, and not notice a hang of the adapter.
pub(super) fn await_pass(progress: &dyn Progress, pass: Duration) {
    progress.progress(Phase::Raster, 0, 0);
    progress.expect("views that are drawn ahead", pass);
}
