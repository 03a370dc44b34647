//! Two things that a role does at the same time → one account of both: what was said last, and the longest that either was
//! expected to take. Once one of them is done, the account is the other's, as that one left it.
//!
//! A thread speaks for the first of them, unless it was told otherwise ([`Strand::take`]).

use std::cell::Cell;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use proto::recorder::State;

use super::note;
use crate::last_words;

/// One of the two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strand {
    /// What the thread does that begins both.
    First,
    /// What is done beside it.
    Second,
}

thread_local! {
    static STRAND: Cell<Strand> = const { Cell::new(Strand::First) };
}

/// What each of them said last, while there are two.
static SAID: Mutex<Option<Said>> = Mutex::new(None);

/// By [`Strand`]; none once it is done.
#[derive(Clone, Copy)]
struct Said([Option<State>; 2]);

impl Said {
    /// A strand says this; returns how long the unit under way may take of both.
    fn hear(&mut self, strand: Strand, state: &State) -> u64 {
        if let Some(last) = &mut self.0[strand as usize] {
            *last = *state;
        }
        self.predicted_ms()
    }

    /// A strand is done; returns what the other said last.
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
    /// From here on this thread speaks for it.
    pub(crate) fn take(self) {
        STRAND.set(self);
    }
}

/// Notes what this thread has just said, in `state`, and makes that the account of both.
pub(crate) fn said(state: &mut State) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(said) = said.as_mut() {
        state.predicted_ms = said.hear(STRAND.get(), state);
    }
}

/// Ends a strand when it goes, whatever came of it.
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

/// Does both at the same time, `second` on a thread of this name; once for a process.
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
        // Threads that come late for what is done change nothing.
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
