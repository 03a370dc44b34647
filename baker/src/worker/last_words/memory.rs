//! The system's allocator, with a note in the flight recorder of what it refuses. The abort that follows in Rust code
//! does not name memory as its cause.

use std::alloc::{GlobalAlloc, Layout, System};

use proto::recorder::Slot;

/// The system's allocator; notes the first request that it refuses.
#[derive(Debug)]
pub struct Noted;

/// Returns `memory`, after a note if it is null.
fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        crate::worker::last_words::leave(Slot::Memory, 0, bytes as u64, b"");
    }
    memory
}

#[expect(unsafe_code, reason = "an allocator's methods are unsafe to call")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` demands.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }
}
