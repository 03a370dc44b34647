//! Counts each thread's heap memory, so that a target can bound the memory of a reader.

#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Needs no allocation and no drop, so the allocator may use it at any time of a thread's life.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[derive(Debug)]
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: isize) {
    // An ending thread frees memory after its counters are gone.
    let _ended = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to `System` with what the caller gave; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work` and asserts that this thread never held more than `limit` bytes more than before.
pub fn within<T>(limit: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let taken = PEAK.with(Cell::get) - before;
    assert!(
        taken <= limit as isize,
        "{what} took {taken} bytes, more than {limit}"
    );
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted_even_if_it_is_given_back() {
        within(4096, "a small box", || drop(vec![1_u8; 4000]));
        let caught = std::panic::catch_unwind(|| {
            within(4096, "a large box", || drop(vec![1_u8; 5000]));
        });
        assert!(caught.is_err(), "5000 bytes are more than 4096");
    }
}
