//! Two activities of a role at the same time → one state for the supervisor: the last announcement, and the longer of
//! the two predicted durations. Once one ends, the state is the other's last one. A thread that ends the process leaves
//! the state of its own activity ([`own`]).
//!
//! A thread belongs to the first activity unless it was assigned to the second ([`Strand::take`]).

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

use proto::recorder::State;

use crate::worker::last_words;
use crate::worker::progress::note;

/// One of the two activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strand {
    /// The activity of the thread that starts both.
    First,
    /// The other activity.
    Second,
}

thread_local! {
    static STRAND: Cell<Strand> = const { Cell::new(Strand::First) };
}

/// The last state of each, while there are two.
static SAID: Mutex<Option<Said>> = Mutex::new(None);

/// By [`Strand`]; none once it has ended.
#[derive(Clone, Copy)]
struct Said([Option<State>; 2]);

impl Said {
    /// Records the state of a strand. Returns the longer of the two predicted durations.
    fn hear(&mut self, strand: Strand, state: &State) -> u64 {
        if let Some(last) = &mut self.0[strand as usize] {
            *last = *state;
        }
        self.predicted_ms()
    }

    /// Ends a strand. Returns the last state of the other.
    fn end(&mut self, strand: Strand) -> Option<State> {
        self.0[strand as usize] = None;
        self.0.iter().flatten().next().copied()
    }

    fn predicted_ms(&self) -> u64 {
        let predicted = self.0.iter().flatten().map(|state| state.predicted_ms);
        predicted.max().unwrap_or(0)
    }
}

impl Strand {
    /// Assigns this thread to the strand.
    pub(crate) fn take(self) {
        STRAND.set(self);
    }
}

/// Records what this thread has just announced, and merges both predictions into `state`.
pub(crate) fn said(state: &mut State) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(said) = said.as_mut() {
        state.predicted_ms = said.hear(STRAND.get(), state);
    }
}

/// The last state of this thread's activity; none while there is one activity. For the thread that has the record in
/// hand, and so waits for nobody.
pub(crate) fn own() -> Option<State> {
    let said = SAID.try_lock().ok()?;
    said.as_ref()?.0[STRAND.get() as usize]
}

/// Ends a strand when dropped, whatever its outcome.
struct Under(Strand);

impl Drop for Under {
    fn drop(&mut self) {
        let strand = self.0;
        note(|state| {
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(other) = said.as_mut().and_then(|said| said.end(strand)) {
                state.resume(&other);
            }
        });
    }
}

/// Runs both at the same time, `second` on a new thread with this name. At most once per process.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn both<A, B: Send>(
    name: &str,
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send,
) -> io::Result<(A, B)> {
    note(|state| {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        *said = Some(Said([Some(*state); 2]));
    });
    let done = thread::scope(|threads| {
        let beside = move || {
            Strand::Second.take();
            last_words::guard_thread();
            let _under = Under(Strand::Second);
            second()
        };
        let builder = thread::Builder::new().name(name.to_owned());
        let second = builder.spawn_scoped(threads, beside)?;
        let first = {
            let _under = Under(Strand::First);
            first()
        };
        let second = second.join();
        Ok((
            first,
            second.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        ))
    });
    *SAID.lock().unwrap_or_else(PoisonError::into_inner) = None;
    done
}

#[cfg(test)]
mod tests {
    use proto::message::Phase;

    use super::*;

    fn state(phase: Phase, label: &str, predicted_ms: u64) -> State {
        let mut state = State::default();
        state.set_phase(phase);
        state.set_label(label);
        state.predicted_ms = predicted_ms;
        state
    }

    #[test]
    fn the_longer_expectation_holds_and_who_is_left_has_the_account() {
        let mut said = Said([Some(State::default()); 2]);
        let packing = state(Phase::Unwrap, "packing", 3000);
        assert_eq!(said.hear(Strand::First, &packing), 3000);
        let picture = state(Phase::DecodeViews, "7.png", 100);
        assert_eq!(said.hear(Strand::Second, &picture), 3000, "of both");
        let mut shown = picture;
        let left = said.end(Strand::Second).expect("the first is at work");
        shown.resume(&left);
        assert_eq!(
            (shown.phase(), &shown.label()[..], shown.predicted_ms),
            (Phase::Unwrap, "packing", 3000)
        );
        // Late threads of an ended strand change nothing.
        assert_eq!(said.hear(Strand::Second, &picture), 3000);
        assert_eq!(said.end(Strand::First), None);
        assert_eq!(said.predicted_ms(), 0);
    }

    #[test]
    fn both_are_done_and_a_panic_of_either_is_passed_on() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let speaks = || STRAND.get();
        let first = || {
            (
                speaks(),
                receiver.recv().expect("the second works meanwhile"),
            )
        };
        let second = move || {
            sender.send(7).expect("the first listens");
            speaks()
        };
        let (first, second) = both("second", first, second).expect("a thread");
        assert_eq!((first, second), ((Strand::First, 7), Strand::Second));
        let fails = || both("second", || (), || panic!("it fails"));
        assert!(std::panic::catch_unwind(fails).is_err());
    }
}
