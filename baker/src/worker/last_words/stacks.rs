//! An interrupted thread → its frames → lines of text, first as `module+offset` and then with function names.
//!
//! Frames come from the C library's `backtrace`, which reads the unwind tables of C++ and Rust code. Code that a driver
//! compiled at run time has none and ends the stack. The `backtrace` crate finds the same frames but allocates and
//! locks to name them, and a minidump needs a second process. A dying process can be trusted with neither.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::OnceLock;

use nix::libc;

use crate::worker::last_words::symbols::{self, Named};
use crate::worker::last_words::text::Text;

/// Frames of one thread; deeper ones are cut.
const FRAMES: usize = 48;
/// Frames of the handler itself, including the signal's.
const OURS: usize = 8;
const NAME_BYTES: usize = 160;
/// This program, for which the loader has an empty name.
const PROGRAM: &str = "kiln-baker";

/// What the C library's loader reports about an address: a prefix that is the same on all machines, and room for the
/// rest.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    object: *const Object,
    rest: [u64; 12],
}

/// A loaded file, as in `<link.h>`.
#[repr(C)]
struct Object {
    bias: usize,
    name: *const libc::c_char,
}

type Find = unsafe extern "C" fn(*const c_void, *mut Found) -> libc::c_int;

/// `_dl_find_object`, documented as safe in signal handlers; since glibc 2.35.
static FIND: OnceLock<Option<Find>> = OnceLock::new();

/// Loads what the first use would load otherwise.
pub(super) fn load() {
    FIND.get_or_init(|| {
        #[expect(unsafe_code, reason = "a function that older C libraries lack")]
        // SAFETY: the name ends with a zero.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if address.is_null() {
            return None;
        }
        #[expect(unsafe_code, reason = "a function that older C libraries lack")]
        // SAFETY: the function of this name has this type.
        Some(unsafe { std::mem::transmute::<*mut c_void, Find>(address) })
    });
    let mut frames = [std::ptr::null_mut(); 2];
    unwind(&mut frames);
}

/// Fills `frames` from the caller outwards; returns their number.
fn unwind(frames: &mut [*mut c_void]) -> usize {
    #[cfg(target_env = "gnu")]
    {
        let room = i32::try_from(frames.len()).unwrap_or(i32::MAX);
        #[expect(unsafe_code, reason = "a function of the C library")]
        // SAFETY: it writes at most `room` frames.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), room) };
        usize::try_from(count).unwrap_or(0)
    }
    #[cfg(not(target_env = "gnu"))]
    {
        _ = frames;
        0
    }
}

/// The address at which a thread was interrupted.
///
/// # Safety
/// `context` comes from the kernel, as the argument of a signal handler.
#[expect(
    unsafe_code,
    reason = "a signal handler's third argument is an untyped pointer"
)]
unsafe fn interrupted(context: *const c_void) -> usize {
    // SAFETY: guaranteed by the caller.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let place = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let place = context.uc_mcontext.pc as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let place = {
        _ = context;
        0
    };
    place
}

/// The frames of one thread, innermost first. All but the first point into the call, not behind it.
#[derive(Clone, Copy)]
pub(super) struct Stack {
    thread: i32,
    count: usize,
    frames: [usize; FRAMES],
}

impl Stack {
    pub(super) const EMPTY: Self = Self {
        thread: 0,
        count: 0,
        frames: [0; FRAMES],
    };

    /// A thread that did not answer.
    pub(super) fn silent(thread: i32) -> Self {
        Self {
            thread,
            ..Self::EMPTY
        }
    }

    /// Takes the stack of the calling thread.
    ///
    /// # Safety
    /// `context` comes from the kernel, as the argument of the signal handler that calls this.
    #[expect(
        unsafe_code,
        reason = "a signal handler's third argument is an untyped pointer"
    )]
    pub(super) unsafe fn take(&mut self, thread: i32, context: *const c_void) {
        (self.thread, self.count) = (thread, 0);
        // SAFETY: guaranteed by the caller.
        let place = unsafe { interrupted(context) };
        let mut frames = [std::ptr::null_mut(); FRAMES + OURS];
        let count = unwind(&mut frames);
        let frames = frames[..count].iter().map(|&frame| frame as usize);
        // The handler's own frames come first. If they do not lead to the place of the fault, that place has no unwind
        // table.
        let ours = frames.clone().position(|frame| frame == place);
        let outer = frames.skip(ours.map_or(count, |ours| ours + 1));
        let outer = outer.map(|frame| frame.wrapping_sub(1));
        for (slot, frame) in self
            .frames
            .iter_mut()
            .zip(std::iter::once(place).chain(outer))
        {
            *slot = frame;
            self.count += 1;
        }
    }

    /// Its thread's id.
    pub(super) fn thread(&self) -> i32 {
        self.thread
    }

    fn frames(&self) -> &[usize] {
        &self.frames[..self.count]
    }
}

/// The loaded file that contains an address: its name, and the address relative to its base.
fn locate(address: usize) -> Option<(&'static str, u64)> {
    let find = (*FIND.get()?)?;
    let mut found = Found {
        flags: 0,
        start: std::ptr::null(),
        end: std::ptr::null(),
        object: std::ptr::null(),
        rest: [0; 12],
    };
    #[expect(unsafe_code, reason = "a function of the C library")]
    // SAFETY: it looks the address up without reading there; `found` has room for more than it writes.
    let missing = unsafe { find(address as *const c_void, &raw mut found) } != 0;
    if missing || found.object.is_null() {
        return None;
    }
    #[expect(unsafe_code, reason = "a structure of the C library")]
    // SAFETY: files in use stay loaded.
    let object = unsafe { &*found.object };
    let offset = address.wrapping_sub(object.bias) as u64;
    if object.name.is_null() {
        return Some((PROGRAM, offset));
    }
    #[expect(unsafe_code, reason = "a structure of the C library")]
    // SAFETY: the loader's names end with a zero and live as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(object.name) }.to_str().ok()?;
    let name = Path::new(name).file_name().and_then(|name| name.to_str());
    Some((name.unwrap_or(PROGRAM), offset))
}

/// Finds function names for the frames of `stacks` that lie in this program. Returns how many of `room` are used.
pub(super) fn name(stacks: &[Stack], room: &mut [Named]) -> usize {
    let frames = stacks.iter().flat_map(Stack::frames);
    let ours = frames.filter_map(|&frame| match locate(frame) {
        Some((PROGRAM, address)) => Some(address),
        _ => None,
    });
    let mut count = 0;
    for (slot, address) in room.iter_mut().zip(ours) {
        *slot = Named::at(address);
        count += 1;
    }
    let named = &mut room[..count];
    named.sort_unstable_by_key(|named| named.address);
    symbols::find(named);
    count
}

/// Appends the stacks as text. `names` come from [`name`], or are empty.
pub(super) fn write<const N: usize>(text: &mut Text<N>, stacks: &[Stack], names: &[Named]) {
    for (index, stack) in stacks.iter().enumerate() {
        let thread = stack.thread;
        if stack.frames().is_empty() {
            text.add(format_args!("thread {thread}: no answer\n"));
            continue;
        }
        let twin = stacks[..index]
            .iter()
            .find(|other| other.frames() == stack.frames());
        if let Some(twin) = twin {
            text.add(format_args!("thread {thread}: as thread {}\n", twin.thread));
            continue;
        }
        text.add(format_args!("thread {thread}:\n"));
        for &frame in stack.frames() {
            write_frame(text, frame, names);
        }
    }
}

fn write_frame<const N: usize>(text: &mut Text<N>, frame: usize, names: &[Named]) {
    let Some((module, address)) = locate(frame) else {
        text.add(format_args!("  {frame:#x}\n"));
        return;
    };
    let function = (module == PROGRAM)
        .then(|| names.binary_search_by_key(&address, |named| named.address))
        .and_then(|found| names[found.ok()?].function());
    match function {
        None => text.add(format_args!("  {module}+{address:#x}\n")),
        Some((name, offset)) => {
            let mut short = Text::<NAME_BYTES>::new();
            short.add(format_args!("{:#}", rustc_demangle::demangle(name)));
            let short = str::from_utf8(short.bytes()).unwrap_or(name);
            text.add(format_args!(
                "  {module}+{address:#x} {short}+{offset:#x}\n"
            ));
        }
    }
}
