//! Measures how long a search has worked: elapsed time or processor time of this process, whichever is less. So a
//! deadline ends what is hard, not what has to wait, and a busy machine gives the same atlas as an idle one.

use std::time::{Duration, Instant};

use nix::time::ClockId;

/// The start of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    began: Instant,
    /// Processor time, where the system tells.
    used: Option<Duration>,
}

impl Effort {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            used: used(),
        }
    }

    pub(super) fn spent(self) -> Duration {
        let passed = self.began.elapsed();
        match (self.used, used()) {
            (Some(before), Some(now)) => passed.min(now.saturating_sub(before)),
            _ => passed,
        }
    }
}

/// Processor time of all threads.
fn used() -> Option<Duration> {
    let told = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    told.ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_effort_and_never_more_than_has_passed() {
        let begun = Instant::now();
        let effort = Effort::begin();
        // Other tests of this process run meanwhile. Their time counts, but no more than has elapsed.
        let (mut last, mut sum) = (effort.spent(), 0_u64);
        while effort.spent() < Duration::from_millis(20) {
            sum = sum.wrapping_mul(31).wrapping_add(7);
            assert!(effort.spent() >= last);
            last = effort.spent();
        }
        assert!(begun.elapsed() >= Duration::from_millis(20), "{sum}");
    }
}
