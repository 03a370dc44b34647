//! Decides from packets, the flight recorder and the clock of one process whether it still works.
//!
//! Only *work done* counts: a count that grows, or a table that is asked for or filled. Log lines, warnings and
//! repeated counts do not. A worker may announce that a unit takes long; it is then allowed [`STALL_FACTOR`] times
//! that, up to its role's cap.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proto::limits::HELLO_DEADLINE_MS;
use proto::message::{Phase, Role};
use proto::recorder::State;

use crate::process::verdict::Kill;

/// How often the supervisor checks its clocks.
pub const TICK: Duration = Duration::from_millis(100);

/// Silence that a worker is allowed without an announcement: every unit of work takes well below a second.
pub const STALL_FLOOR: Duration = Duration::from_secs(2);
/// A worker is allowed this multiple of the time that it announced.
pub const STALL_FACTOR: u32 = 4;

/// The most silence that a role can gain by announcements.
pub fn stall_cap(role: Role) -> Duration {
    Duration::from_secs(match role {
        // One chart of a million triangles can take a minute on a slow machine.
        Role::Prepare => 180,
        // A cold driver compiles for several seconds; the longest pass of a software adapter takes about ten.
        Role::Bake => 120,
        // An 8192² PNG takes about 20 s.
        Role::Encode => 120,
    })
}

/// After the answer, or after the socket closed, the process must exit within this time or is killed.
const LINGER: Duration = Duration::from_secs(2);

/// However busy the machine, a tick counts for at least a tenth of its length, so nothing waits for ever.
const LEAST_SHARE: f64 = 0.1;

/// What is known of one phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseState {
    /// When the first report of it came.
    pub since: Instant,
    /// Largest count so far.
    pub done: u64,
    /// Latest total that is known; 0 where none is.
    pub total: u64,
}

impl PhaseState {
    /// The share that is done, in 0-1, where the total is known.
    pub fn fraction(&self) -> Option<f64> {
        (self.total > 0).then(|| (self.done as f64 / self.total as f64).min(1.0))
    }

    /// Time left if the rest goes as fast as what is done. Unknown for the first 2 % and where there is no total.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        let share = self.fraction().filter(|share| *share > 0.02)?;
        let elapsed = now.duration_since(self.since).as_secs_f64();
        Duration::try_from_secs_f64(elapsed * (1.0 - share) / share).ok()
    }
}

/// The state of one process's clock; see the head of this file.
#[derive(Debug)]
pub struct Watch {
    /// Silence allowed without an announcement.
    floor: Duration,
    /// Silence allowed with one, at most.
    cap: Duration,
    /// How long the current unit should take, as the worker announced.
    predicted: Duration,
    /// Units of work that the flight recorder has counted.
    work: u64,
    phases: HashMap<Phase, PhaseState>,
    phase: Phase,
    /// Silence so far, counted only while the supervisor itself was awake.
    silence: Duration,
    hello: bool,
    lingering: Option<Duration>,
    last_tick: Instant,
}

impl Watch {
    /// Starts the clock of a process that was spawned now.
    pub fn new(floor: Duration, cap: Duration, now: Instant) -> Self {
        Self {
            floor,
            cap,
            predicted: Duration::ZERO,
            work: 0,
            phases: HashMap::new(),
            phase: Phase::Start,
            silence: Duration::ZERO,
            hello: false,
            lingering: None,
            last_tick: now,
        }
    }

    /// A valid `Hello` came.
    pub fn hello(&mut self) {
        self.hello = true;
        self.silence = Duration::ZERO;
    }

    /// Whether `Hello` came.
    pub fn said_hello(&self) -> bool {
        self.hello
    }

    /// The latest phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes in what the flight recorder says.
    pub fn recorded(&mut self, state: &State) {
        if state.work > self.work {
            self.work = state.work;
            self.silence = Duration::ZERO;
        }
        self.predicted = Duration::from_millis(state.predicted_ms);
        if state.work > 0 {
            self.phase = state.phase();
        }
    }

    /// Silence that is allowed now.
    fn limit(&self) -> Duration {
        (self.predicted.min(self.cap) * STALL_FACTOR)
            .min(self.cap)
            .max(self.floor)
    }

    /// Whether the silence is long enough to check if the process gets processor time at all.
    pub fn suspicious(&self) -> bool {
        self.silence * 2 >= self.floor
    }

    /// Work other than a count was done: a table.
    pub fn alive(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// A count came. Returns the phase's state if it says anything new.
    pub fn progress(
        &mut self,
        phase: Phase,
        done: u64,
        total: u64,
        now: Instant,
    ) -> Option<PhaseState> {
        self.phase = phase;
        let mut grew = false;
        let state = self.phases.entry(phase).or_insert_with(|| {
            grew = true;
            PhaseState {
                since: now,
                done,
                total,
            }
        });
        if done > state.done {
            state.done = done;
            grew = true;
        }
        // Who counts further does not always repeat the total.
        let before = state.total;
        if total > 0 || state.done > state.total {
            state.total = total;
        }
        let new = grew || state.total != before;
        let state = *state;
        if grew {
            self.silence = Duration::ZERO;
        }
        new.then_some(state)
    }

    /// The answer was given, or the socket closed: from here on only the process's exit is awaited.
    pub fn linger(&mut self) {
        self.lingering.get_or_insert(Duration::ZERO);
    }

    /// The clock moved. Returns why the process must be killed, if it must. `owed`: the supervisor has not yet sent all
    /// that the child needs, so the silence may be our fault.
    ///
    /// A tick counts for at most three times its length. If the whole machine slept, or this process was stopped,
    /// nothing could be heard, and that is no child's fault. A tick counts for less if the process was `starved`: the
    /// share of its runnable time in which it waited for a processor.
    pub fn tick(&mut self, now: Instant, owed: bool, starved: f64) -> Option<Kill> {
        let passed = now.duration_since(self.last_tick).min(TICK * 3);
        let passed = passed.mul_f64((1.0 - starved).clamp(LEAST_SHARE, 1.0));
        self.last_tick = now;
        if let Some(lingering) = &mut self.lingering {
            *lingering += passed;
            return (*lingering >= LINGER).then_some(Kill::Lingering);
        }
        self.silence += passed;
        if !self.hello {
            let deadline = Duration::from_millis(HELLO_DEADLINE_MS);
            return (self.silence >= deadline).then_some(Kill::NoHello {
                seconds: deadline.as_secs(),
            });
        }
        if owed {
            self.silence = Duration::ZERO;
        }
        (self.silence >= self.limit()).then_some(Kill::Stall {
            ms: u64::try_from(self.silence.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks for `seconds` and returns the kill, if any.
    fn run(watch: &mut Watch, from: Instant, seconds: u64, owed: bool) -> Option<Kill> {
        (1..=seconds * 10)
            .find_map(|k| watch.tick(from + TICK * u32::try_from(k).expect("few"), owed, 0.0))
    }

    fn lively(limit: u64) -> (Watch, Instant) {
        let start = Instant::now();
        let mut watch = Watch::new(Duration::from_secs(limit), Duration::from_secs(60), start);
        watch.hello();
        (watch, start)
    }

    #[test]
    fn silence_is_a_stall_unless_input_is_owed() {
        let (mut watch, start) = lively(3);
        assert_eq!(run(&mut watch, start, 9, true), None);
        let later = start + Duration::from_secs(9);
        assert_eq!(run(&mut watch, later, 2, false), None);
        assert_eq!(
            run(&mut watch, later + Duration::from_secs(2), 2, false),
            Some(Kill::Stall { ms: 3000 })
        );
    }

    #[test]
    fn a_count_that_says_nothing_new_is_not_told() {
        let (mut watch, now) = lively(3);
        let mut told = |done, total| {
            let state = watch.progress(Phase::Refine, done, total, now);
            state.map(|state| (state.done, state.total))
        };
        assert_eq!(told(0, 0), Some((0, 0)));
        assert_eq!(told(14, 14), Some((14, 14)));
        assert_eq!(told(14, 14), None);
        assert_eq!(told(14, 0), None, "the total is known");
        assert_eq!(told(15, 0), Some((15, 0)), "it was another");
        assert_eq!(told(16, 16), Some((16, 16)));
    }

    #[test]
    fn only_growth_is_life() {
        let (mut watch, start) = lively(3);
        let mut killed = None;
        for k in 1..100 {
            let now = start + TICK * k;
            // Two phases alternate, and their counts never grow.
            watch.progress(
                if k % 2 == 0 {
                    Phase::Fit
                } else {
                    Phase::Raster
                },
                7,
                10,
                now,
            );
            killed = killed.or(watch.tick(now, false, 0.0));
        }
        assert_eq!(killed, Some(Kill::Stall { ms: 3000 }));

        let (mut watch, start) = lively(3);
        for k in 1..100 {
            let now = start + TICK * k;
            watch.progress(Phase::Fit, u64::from(k / 20), 10, now);
            assert_eq!(watch.tick(now, false, 0.0), None, "tick {k}");
        }
    }

    fn recorded(work: u64, predicted: Duration) -> State {
        let mut state = State::default();
        state.work = work;
        state.predicted_ms = u64::try_from(predicted.as_millis()).expect("short");
        state.set_phase(Phase::Fit);
        state
    }

    #[test]
    fn an_announced_unit_gets_four_times_its_time_within_the_cap() {
        for (predicted, allowed) in [(0, 2), (1, 4), (5, 20), (100, 60)] {
            let start = Instant::now();
            let cap = Duration::from_secs(60);
            let mut watch = Watch::new(STALL_FLOOR, cap, start);
            watch.hello();
            watch.recorded(&recorded(1, Duration::from_secs(predicted)));
            assert_eq!(run(&mut watch, start, allowed - 1, false), None);
            let later = start + Duration::from_secs(allowed - 1);
            let killed = run(&mut watch, later, 2, false);
            assert_eq!(killed, Some(Kill::Stall { ms: allowed * 1000 }));
        }
    }

    #[test]
    fn the_recorder_counts_as_life_only_while_it_grows() {
        let (mut watch, start) = lively(3);
        let mut killed = None;
        for k in 1..=100 {
            watch.recorded(&recorded(u64::from(k.min(50)), Duration::ZERO));
            let now = start + TICK * k;
            killed = killed.or(watch.tick(now, false, 0.0).map(|_| k));
        }
        assert_eq!(killed, Some(79));
        assert_eq!(watch.phase(), Phase::Fit);
    }

    #[test]
    fn a_starved_process_is_given_more_time_but_not_for_ever() {
        let ticks = |starved: f64| {
            let (mut watch, start) = lively(3);
            (1..1000).find(|k| watch.tick(start + TICK * *k, false, starved).is_some())
        };
        assert_eq!(ticks(0.0), Some(30));
        assert_eq!(ticks(0.5), Some(60));
        assert_eq!(ticks(1.0), Some(300));
    }

    #[test]
    fn a_stopped_supervisor_blames_nobody() {
        let (mut watch, start) = lively(3);
        assert_eq!(
            watch.tick(start + Duration::from_secs(3600), false, 0.0),
            None
        );
    }

    #[test]
    fn hello_has_a_deadline_and_an_answer_ends_the_conversation() {
        let start = Instant::now();
        let mut watch = Watch::new(Duration::from_secs(60), Duration::from_secs(60), start);
        assert_eq!(run(&mut watch, start, 4, true), None);
        assert!(matches!(
            run(&mut watch, start + Duration::from_secs(4), 2, true),
            Some(Kill::NoHello { seconds: 5 })
        ));
        let (mut watch, start) = lively(60);
        watch.linger();
        assert_eq!(run(&mut watch, start, 3, true), Some(Kill::Lingering));
    }

    #[test]
    fn time_left_follows_the_share_done() {
        let start = Instant::now();
        let state = PhaseState {
            since: start,
            done: 25,
            total: 100,
        };
        let left = state
            .time_left(start + Duration::from_secs(10))
            .expect("known");
        assert!((left.as_secs_f64() - 30.0).abs() < 1e-6);
        assert!(PhaseState { total: 0, ..state }.time_left(start).is_none());
    }
}
