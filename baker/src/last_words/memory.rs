//! The system's allocator, and a note in the flight recorder of what it refuses: the abort that follows in Rust code does not
//! say that it was for memory.

use std::alloc::{GlobalAlloc, Layout, System};

use proto::recorder::Slot;

/// The system's allocator, with a note of the first request that it refused.
#[derive(Debug)]
pub struct Noted;

/// Passes `memory` on, after a note if there is none.
fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        super::leave(Slot::Memory, 0, bytes as u64, b"");
    }
    memory
}

#[expect(unsafe_code, reason = "an allocator's methods are unsafe to call")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
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
