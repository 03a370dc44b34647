//! Loops over many like things → [`unit()`]s, by what was done and never by a clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::iter::IndexedParallelIterator;

use crate::worker::progress::unit;

/// Things between two units: of those that take longest, some 100 ns on a slow machine, there are ten units in a second and more.
const STRIDE: usize = 1 << 18;
/// Things that a ticker counts by itself, so that threads do not share a counter for each of them.
const OWN: usize = 1 << 10;

/// Things done by all threads since the process began.
static DONE: AtomicUsize = AtomicUsize::new(0);

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
        let before = DONE.fetch_add(own, Ordering::Relaxed);
        if before / STRIDE != before.wrapping_add(own) / STRIDE {
            unit();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.tell();
    }
}

/// The same things, of which each is counted once it is taken up.
pub(crate) fn ticking<I: IndexedParallelIterator>(
    things: I,
) -> impl IndexedParallelIterator<Item = I::Item> {
    things.map_init(Ticker::default, |ticker, thing| {
        ticker.did(1);
        thing
    })
}

/// The same, one after the other.
pub(crate) fn ticked<I: Iterator>(things: I) -> impl Iterator<Item = I::Item> {
    let mut ticker = Ticker::default();
    things.inspect(move |_| ticker.did(1))
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::worker::progress::heard::{Heard, during};

    #[test]
    fn loops_are_told_of_by_what_they_did() {
        let told = |work: &mut dyn FnMut()| {
            let (_, heard) = during(work);
            heard.iter().filter(|heard| **heard == Heard::Unit).count()
        };
        // Other tests count, too: one unit more or less.
        let sum = told(&mut || assert_eq!(ticked(0..10 * STRIDE).count(), 10 * STRIDE));
        assert!(sum > 0, "of ten strides some are this thread's");
        let mut ticker = Ticker::default();
        assert_eq!(told(&mut || (0..10).for_each(|_| ticker.did(STRIDE))), 10);
        let doubled: Vec<usize> = ticking((0..10_000_usize).into_par_iter())
            .map(|x| 2 * x)
            .collect();
        assert!(doubled.iter().copied().eq((0..20_000).step_by(2)));
    }
}
