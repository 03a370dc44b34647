//! A circuit breaker for one cause: decides from failures in a row whether a process that would meet the cause may
//! start. Pure.
//!
//! ```text
//!            FAILURES in a row                rest is over
//!  closed ───────────────────────► open ───────────────────────► half-open: one probe at a time
//!    ▲                              ▲       the rest doubles           │            │
//!    │                              └──────────────────────────── it fails         │
//!    └──────────────────────────────────────────────────────────────────────── it succeeds
//! ```
//!
//! After Nygard, *Release It!* (2007), with exponential backoff.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Failures without a success between them that open a breaker. Fewer may come from a single bad job.
pub const FAILURES: usize = 5;
/// A failure is forgotten after this time: rare failures are no loop.
pub const MEMORY: Duration = Duration::from_secs(300);
/// The first rest.
pub const FIRST_REST: Duration = Duration::from_secs(2);
/// The longest rest.
pub const LONGEST_REST: Duration = Duration::from_secs(30);
/// A probe may die silently; after this time another one may start.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Until this instant.
    Open(Instant),
    /// A probe has run since this instant.
    HalfOpen(Instant),
}

/// A breaker's answer to a request to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Start.
    Free,
    /// Start, and report the outcome: others wait for it.
    Probe,
    /// Do not start before this instant.
    Rest(Instant),
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Breaker {
    failures: VecDeque<Instant>,
    state: State,
    rest: Duration,
    /// Failed probes in a row.
    probes: u32,
    last: String,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: VecDeque::new(),
            state: State::Closed,
            rest: FIRST_REST,
            probes: 0,
            last: String::new(),
        }
    }
}

impl Breaker {
    /// Until when nothing may start; `None` if [`Breaker::ask`] would let a process start.
    pub fn rests(&self, now: Instant) -> Option<Instant> {
        let until = match self.state {
            State::Closed => return None,
            State::Open(until) => until,
            State::HalfOpen(since) => since + PROBE_LIMIT,
        };
        (now < until).then_some(until)
    }

    /// Whether a process may start that would meet the cause. [`Word::Probe`] holds the others back.
    pub fn ask(&mut self, now: Instant) -> Word {
        if let Some(until) = self.rests(now) {
            return Word::Rest(until);
        }
        if self.state == State::Closed {
            return Word::Free;
        }
        self.state = State::HalfOpen(now);
        Word::Probe
    }

    /// A process met the cause and failed. Returns whether that opened the breaker.
    pub fn failed(&mut self, now: Instant, why: &str) -> bool {
        why.clone_into(&mut self.last);
        self.failures
            .retain(|time| now.saturating_duration_since(*time) < MEMORY);
        self.failures.push_back(now);
        match self.state {
            State::Closed if self.failures.len() >= FAILURES => self.open(now),
            State::HalfOpen(_) => {
                self.probes += 1;
                self.rest = (self.rest * 2).min(LONGEST_REST);
                self.open(now);
            }
            // It started before the breaker opened.
            State::Closed | State::Open(_) => return false,
        }
        true
    }

    /// As [`Breaker::failed`], for a cause that is sure to last; opens the breaker at once.
    pub fn broken(&mut self, now: Instant, why: &str) -> bool {
        self.failures.extend([now; FAILURES - 1]);
        self.failed(now, why)
    }

    fn open(&mut self, now: Instant) {
        self.state = State::Open(now + self.rest);
        self.failures.clear();
    }

    /// A process met the cause and succeeded. Returns whether that closed the breaker.
    pub fn succeeded(&mut self) -> bool {
        let was = self.state;
        *self = Self::default();
        was != State::Closed
    }

    /// A probe ended for another reason: another process may try.
    pub fn undecided(&mut self, now: Instant) {
        if matches!(self.state, State::HalfOpen(_)) {
            self.state = State::Open(now);
        }
    }

    /// Whether the breaker is open or half-open.
    pub fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// Failed probes in a row.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// The message of the latest failure.
    pub fn last(&self) -> &str {
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: Duration = Duration::from_millis(10);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for k in 1..=FAILURES {
            assert_eq!(breaker.ask(now), Word::Free);
            assert_eq!(breaker.failed(now, "it broke"), k == FAILURES);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_probe_decides() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.ask(now), Word::Rest(now + FIRST_REST));
        let later = now + FIRST_REST;
        assert_eq!(breaker.ask(later), Word::Probe);
        assert!(matches!(breaker.ask(later), Word::Rest(_)), "one at a time");
        assert!(breaker.failed(later, "again"));
        assert_eq!(breaker.ask(later), Word::Rest(later + FIRST_REST * 2));
        assert_eq!((breaker.probes(), breaker.last()), (1, "again"));
        let later = later + FIRST_REST * 2;
        assert_eq!(breaker.ask(later), Word::Probe);
        assert!(breaker.succeeded());
        assert_eq!(breaker.ask(later), Word::Free);
        assert_eq!(breaker.probes(), 0);
    }

    #[test]
    fn a_success_between_failures_and_old_failures_keep_it_closed() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for k in 0..100 {
            assert!(!breaker.failed(now + STEP * k, "now and then"));
            if k % 4 == 3 {
                breaker.succeeded();
            }
        }
        let mut breaker = Breaker::default();
        for k in 0..100 {
            assert!(!breaker.failed(now + MEMORY / 4 * k, "rare"));
        }
    }

    #[test]
    fn a_probe_that_decides_nothing_or_vanishes_lets_another_try() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + FIRST_REST;
        assert_eq!(breaker.ask(later), Word::Probe);
        breaker.undecided(later);
        assert_eq!(breaker.ask(later), Word::Probe);
        assert!(matches!(
            breaker.ask(later + PROBE_LIMIT - STEP),
            Word::Rest(_)
        ));
        assert_eq!(breaker.ask(later + PROBE_LIMIT), Word::Probe);
    }

    #[test]
    fn what_is_surely_broken_opens_it_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(breaker.broken(now, "off the bus"));
        assert!(breaker.is_open());
    }

    proptest! {
        /// A process that asks every 10 ms and always fails starts at most `FAILURES` times, and then ever less often:
        /// at most once in each rest.
        #[test]
        fn a_loop_is_slowed_down(seconds in 1_u32..600) {
            let start = Instant::now();
            let mut breaker = Breaker::default();
            let mut starts = Vec::new();
            for k in 0..seconds * 100 {
                let now = start + STEP * k;
                if !matches!(breaker.ask(now), Word::Rest(_)) {
                    starts.push(now);
                    breaker.failed(now, "always");
                }
            }
            let in_ten_seconds = starts.iter().map(|first| {
                starts.iter().filter(|time| **time >= *first && **time - *first < Duration::from_secs(10)).count()
            });
            prop_assert!(in_ten_seconds.max().unwrap_or(0) <= FAILURES + 2);
            let bound = FAILURES + 4 + seconds as usize / 30 + 1;
            prop_assert!(starts.len() <= bound, "{} starts in {seconds} s", starts.len());
        }
    }
}
