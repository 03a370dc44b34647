//! Counts work deep in a loop, on any thread, for a program that watches whether this one is stuck.

use std::sync::OnceLock;

/// Things between two counts of one thread.
const OWN: usize = 1 << 10;

static DID: OnceLock<fn(usize)> = OnceLock::new();

/// Sets what hears how many small things are done, some 100 ns each at most. The first call counts; without one, nothing
/// is counted.
pub fn install(did: fn(usize)) {
    DID.get_or_init(|| did);
}

/// So many things are done.
pub(crate) fn did(count: usize) {
    if let Some(did) = DID.get() {
        did(count);
    }
}

/// The same things, of which each is counted once it is taken up.
pub(crate) fn ticked<T>(things: &[T]) -> impl Iterator<Item = &T> {
    things.chunks(OWN).flat_map(|things| {
        did(things.len());
        things
    })
}
