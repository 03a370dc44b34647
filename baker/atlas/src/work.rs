//! Announcements of work, for a program that watches whether this one is stuck.
//!
//! Whoever asks for an atlas hears of its stages by a [`Listener`]. Work deep in a loop, on any thread, is counted by
//! the [`Hooks`] of the process, as the `log` crate does with messages: without them nothing is counted.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Hears of the stages of one atlas. Called from many threads.
pub trait Listener: Sync {
    /// `done` of `total` triangles are done; `total` is 0 where unknown.
    fn progress(&self, _done: u64, _total: u64) {}

    /// The next step takes at most about this long on a slow machine.
    fn expect(&self, _label: &str, _predicted: Duration) {}

    /// A step is done, and took so long. Steps of several cuts run at once.
    fn took(&self, _step: &'static str, _time: Duration) {}

    /// Something worth a line in a log.
    fn note(&self, _text: &str) {}
}

/// Does a step and tells how long it took.
pub(crate) fn step<T>(listener: &dyn Listener, name: &'static str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    listener.took(name, begun.elapsed());
    done
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {}

/// What is called from deep within, on any thread.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// A unit of work is done: some ten to a thousand a second.
    pub unit: fn(),
    /// So many small things are done, some 100 ns each at most.
    pub did: fn(usize),
    /// A thread of this crate begins.
    pub thread: fn(),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets the hooks of the process. The first call counts.
pub fn install(hooks: Hooks) {
    HOOKS.get_or_init(|| hooks);
}

pub(crate) fn unit() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.unit)();
    }
}

pub(crate) fn begin_thread() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.thread)();
    }
}

/// Things that a ticker counts by itself, so that threads do not share a counter for each of them.
const OWN: usize = 1 << 10;

/// Counts what one thread does.
#[derive(Debug, Default)]
pub(crate) struct Ticker {
    own: usize,
}

impl Ticker {
    /// So many things are done.
    pub(crate) fn did(&mut self, count: usize) {
        self.own += count;
        if self.own >= OWN {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let own = std::mem::take(&mut self.own);
        if let Some(hooks) = HOOKS.get() {
            (hooks.did)(own);
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.tell();
    }
}

/// The same things, of which each is counted once it is taken up.
pub(crate) fn ticked<I: Iterator>(things: I) -> impl Iterator<Item = I::Item> {
    let mut ticker = Ticker::default();
    things.inspect(move |_| ticker.did(1))
}
