//! Wall time of the host's steps within a phase, for the report.
//!
//! Each thread has its own list. Work on other threads counts as long as the thread that runs the role waits for it.

use std::cell::RefCell;
use std::time::Instant;

use proto::message::StageTime;

thread_local! {
    static LAPS: RefCell<Vec<StageTime>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` and adds its wall time to the step called `step`.
pub(crate) fn timed<T>(step: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    enter(step, begun.elapsed().as_secs_f64() * 1e3, 1);
    done
}

fn enter(step: &str, ms: f64, count: u32) {
    LAPS.with_borrow_mut(|laps| match laps.iter_mut().find(|lap| lap.stage == step) {
        Some(lap) => {
            lap.ms += ms;
            lap.count += count;
        }
        None => laps.push(StageTime {
            stage: step.to_owned(),
            ms,
            count,
        }),
    });
}

/// Adds what another thread has timed to this thread's list.
pub(crate) fn add(steps: Vec<StageTime>) {
    for StageTime { stage, ms, count } in steps {
        enter(&stage, ms, count);
    }
}

/// Like [`timed`], on a thread of the pool. Work made of many short parallel steps then need not wake the pool for
/// each.
pub(crate) fn timed_in_pool<T: Send>(step: &str, work: impl FnOnce() -> T + Send) -> T {
    timed(step, || rayon::scope(|_| work()))
}

/// Takes this thread's step times since the last call, in the order in which the steps first ran.
pub(crate) fn take() -> Vec<StageTime> {
    LAPS.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_name_are_one_and_are_told_once() {
        take();
        let sum = timed("one", || 1) + timed("two", || 2) + timed("one", || 4);
        assert_eq!(sum, 7);
        let laps = take();
        let counts: Vec<(&str, u32)> = laps.iter().map(|l| (l.stage.as_str(), l.count)).collect();
        assert_eq!(counts, [("one", 2), ("two", 1)]);
        assert!(laps.iter().all(|lap| lap.ms >= 0.0));
        add(laps);
        timed("two", || ());
        let counts: Vec<u32> = take().iter().map(|lap| lap.count).collect();
        assert_eq!(counts, [2, 2]);
        assert!(take().is_empty());
    }
}
