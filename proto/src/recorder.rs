//! Flight recorder: what a child is doing, readable from outside while it lives and after it has died in any way.
//!
//! It is a memfd of [`RECORDER_BYTES`] that the supervisor creates, seals in size, and hands down as the child's
//! standard output. The child moves it away before anything can print. The child alone writes, by `pwrite`; the
//! supervisor reads, by `pread`. Neither maps what the other may change. A record that is torn by a death, or forged,
//! fails its checksum.
//!
//! ```text
//!      0  state, even writes     32768  panic     [Note]: the text of a panic and where it was
//!    512  state, odd writes      36864  memory    [Note]: an allocation that failed
//!   1024  signal                 [Note]: a deadly signal and the stacks of all threads
//! ```
//!
//! [`State::work`] counts work done, never time, so a live helper thread cannot hide a stuck one.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytemuck::{Pod, Zeroable};

use crate::role::Phase;

/// Size of the whole memory.
pub const RECORDER_BYTES: u64 = 64 * 1024;
/// Longest label in bytes.
pub const LABEL_BYTES: usize = 128;

const STATE_BYTES: u64 = 512;
/// Tries of [`Recorder::close`]. Another thread has the record in hand for one system call.
const CLOSE_TRIES: u32 = 1000;

/// A slot for a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A deadly signal: `number` is the signal's number. `value` is its address, or the system call's number for
    /// SIGSYS.
    Signal,
    /// A panic.
    Panic,
    /// An allocation that failed: `value` is its size in bytes.
    Memory,
}

impl Slot {
    /// Offset and size in bytes, including the header.
    const fn place(self) -> (u64, usize) {
        match self {
            Self::Signal => (1024, 31 * 1024),
            Self::Panic => (32 * 1024, 4 * 1024),
            Self::Memory => (36 * 1024, 1024),
        }
    }
}

/// The running record. The child writes all of its numbers, so none is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    /// Counts the writes, from 1.
    sequence: u64,
    /// Increases by one with each unit of work done.
    pub work: u64,
    /// Units of the current phase that are done.
    pub done: u64,
    /// Units in all, 0 where unknown.
    pub total: u64,
    /// How long the current unit should take, in milliseconds; 0 if nothing was announced.
    pub predicted_ms: u64,
    /// Peak resident memory in KiB.
    pub peak_rss_kib: u64,
    /// [`Phase::number`].
    phase: u32,
    label_bytes: u32,
    label: [u8; LABEL_BYTES],
    checksum: u64,
}

impl Default for State {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl State {
    /// The current phase.
    pub fn phase(&self) -> Phase {
        Phase::from_number(self.phase).unwrap_or(Phase::Start)
    }

    /// Enters a phase.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase.number();
    }

    /// The work under way within the phase: a GPU pass, a file, a chart. Untrusted text.
    pub fn label(&self) -> String {
        let bytes = self.label.get(..self.label_bytes as usize);
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }

    /// Sets the label, cut to [`LABEL_BYTES`].
    pub fn set_label(&mut self, label: &str) {
        let mut end = label.len().min(LABEL_BYTES);
        while !label.is_char_boundary(end) {
            end -= 1;
        }
        self.label[..end].copy_from_slice(&label.as_bytes()[..end]);
        self.label_bytes = u32::try_from(end).unwrap_or(0);
    }

    /// Restores phase, counts and label of `other`; work and memory keep their totals.
    pub fn resume(&mut self, other: &Self) {
        (self.done, self.total) = (other.done, other.total);
        self.predicted_ms = other.predicted_ms;
        self.phase = other.phase;
        (self.label, self.label_bytes) = (other.label, other.label_bytes);
    }

    fn sum(&self) -> u64 {
        let bytes = bytemuck::bytes_of(self);
        fnv(&[&bytes[..bytes.len() - size_of::<u64>()]])
    }
}

/// Header of a [`Note`], before its text.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct NoteHeader {
    checksum: u64,
    value: u64,
    number: u32,
    bytes: u32,
}

impl NoteHeader {
    fn sum(&self, text: &[u8]) -> u64 {
        fnv(&[&bytemuck::bytes_of(self)[size_of::<u64>()..], text])
    }
}

/// A message that a child leaves as it dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// See [`Slot`].
    pub number: u32,
    /// See [`Slot`].
    pub value: u64,
    /// Untrusted text of one or more lines.
    pub text: String,
}

/// The child's end of the recorder.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    state: Mutex<State>,
    closed: AtomicBool,
}

impl Recorder {
    /// Takes the descriptor that the supervisor handed down.
    pub fn new(memory: OwnedFd) -> Self {
        Self {
            file: File::from(memory),
            state: Mutex::new(State::zeroed()),
            closed: AtomicBool::new(false),
        }
    }

    /// Changes the record and writes it: one system call. Does nothing once the record is closed.
    pub fn note(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.closed.load(Ordering::Relaxed) {
            self.write(&mut state, change);
        }
    }

    /// Changes the record for the last time. Does not wait for long, allocates nothing and calls only `pwrite` and
    /// `sched_yield`, so it is safe in a signal handler. Does nothing where this thread itself has the record in hand.
    pub fn close(&self, change: impl FnOnce(&mut State)) {
        for _ in 0..CLOSE_TRIES {
            if let Ok(mut state) = self.state.try_lock() {
                if !self.closed.swap(true, Ordering::Relaxed) {
                    self.write(&mut state, change);
                }
                return;
            }
            thread::yield_now();
        }
    }

    fn write(&self, state: &mut State, change: impl FnOnce(&mut State)) {
        change(state);
        state.sequence += 1;
        state.checksum = state.sum();
        let offset = state.sequence % 2 * STATE_BYTES;
        // A recorder that cannot be written is no reason to fail a job.
        drop(self.file.write_all_at(bytemuck::bytes_of(state), offset));
    }

    /// Leaves a last message. Takes no lock, allocates nothing and calls only `pwrite`, so it is safe in a signal
    /// handler. `text` is cut to fit the slot.
    pub fn leave(&self, slot: Slot, number: u32, value: u64, text: &[u8]) {
        let (offset, room) = slot.place();
        let text = &text[..text.len().min(room - size_of::<NoteHeader>())];
        let mut header = NoteHeader {
            checksum: 0,
            value,
            number,
            bytes: text.len() as u32,
        };
        header.checksum = header.sum(text);
        let written = self
            .file
            .write_at(text, offset + size_of::<NoteHeader>() as u64);
        if written.is_ok() {
            drop(self.file.write_at(bytemuck::bytes_of(&header), offset));
        }
    }
}

/// Reads the newest valid record. This is the supervisor's end; `file` may be any file with a recorder's bytes.
///
/// # Errors
/// The file cannot be read. A record that is missing, torn or forged gives `None`.
pub fn read_state(file: &impl FileExt) -> io::Result<Option<State>> {
    let mut newest: Option<State> = None;
    for slot in 0..2 {
        let mut state = State::zeroed();
        file.read_exact_at(bytemuck::bytes_of_mut(&mut state), slot * STATE_BYTES)?;
        let newer = newest.is_none_or(|known| known.sequence < state.sequence);
        if state.sequence > 0 && state.checksum == state.sum() && newer {
            newest = Some(state);
        }
    }
    Ok(newest)
}

/// Reads a last message; `None` if there is none.
///
/// # Errors
/// The file cannot be read.
pub fn read_note(file: &impl FileExt, slot: Slot) -> io::Result<Option<Note>> {
    let (offset, room) = slot.place();
    let mut bytes = vec![0; room];
    file.read_exact_at(&mut bytes, offset)?;
    let (header, text) = bytes.split_at(size_of::<NoteHeader>());
    let header: NoteHeader = bytemuck::pod_read_unaligned(header);
    let Some(text) = text.get(..header.bytes as usize) else {
        return Ok(None);
    };
    if header.checksum == 0 || header.checksum != header.sum(text) {
        return Ok(None);
    }
    Ok(Some(Note {
        number: header.number,
        value: header.value,
        text: String::from_utf8_lossy(text).into_owned(),
    }))
}

/// FNV-1a, 64 bits: tells a torn record from a whole one, no more.
fn fnv(parts: &[&[u8]]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().copied().flatten() {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Blob;

    fn pair() -> (Recorder, File) {
        let blob = Blob::create("recorder", RECORDER_BYTES).expect("memory");
        let twin = || {
            File::from(
                std::os::fd::AsFd::as_fd(&blob)
                    .try_clone_to_owned()
                    .expect("fd"),
            )
        };
        (Recorder::new(twin().into()), twin())
    }

    #[test]
    fn the_newest_whole_state_is_read() {
        let (recorder, file) = pair();
        assert_eq!(read_state(&file).expect("readable"), None);
        for work in 1..=5 {
            recorder.note(|state| {
                state.work = work;
                state.set_phase(Phase::Fit);
                state.set_label("step");
            });
        }
        let state = read_state(&file).expect("readable").expect("written");
        assert_eq!((state.work, state.phase()), (5, Phase::Fit));
        assert_eq!(state.label(), "step");

        // The newest record is torn in its middle, so the one before counts.
        file.write_all_at(&[0xff; 8], 512 + 8).expect("writable");
        let state = read_state(&file).expect("readable").expect("written");
        assert_eq!(state.work, 4);
    }

    #[test]
    fn a_note_is_whole_or_none() {
        let (recorder, file) = pair();
        for slot in [Slot::Signal, Slot::Panic, Slot::Memory] {
            assert_eq!(read_note(&file, slot).expect("readable"), None);
        }
        let long = vec![b'x'; 100_000];
        recorder.leave(Slot::Memory, 0, 1 << 40, b"no");
        recorder.leave(Slot::Signal, 11, 0xdead, &long);
        recorder.leave(Slot::Panic, 0, 0, b"at a.rs:1");
        let read = |slot| read_note(&file, slot).expect("readable").expect("written");
        assert_eq!(read(Slot::Memory).value, 1 << 40);
        assert_eq!(read(Slot::Panic).text, "at a.rs:1");
        let signal = read(Slot::Signal);
        assert_eq!((signal.number, signal.value), (11, 0xdead));
        assert_eq!(signal.text.len(), 31 * 1024 - 24);

        file.write_all_at(b"y", 2000).expect("writable");
        assert_eq!(read_note(&file, Slot::Signal).expect("readable"), None);
        // A length beyond the slot reads nothing.
        file.write_all_at(&u32::MAX.to_le_bytes(), 1024 + 20)
            .expect("writable");
        assert_eq!(read_note(&file, Slot::Signal).expect("readable"), None);
    }

    #[test]
    fn a_closed_record_keeps_its_last_state() {
        let (recorder, file) = pair();
        recorder.note(|state| state.set_phase(Phase::DecodeViews));
        recorder.close(|state| state.set_phase(Phase::Unwrap));
        recorder.note(|state| state.set_phase(Phase::DecodeViews));
        recorder.close(|state| state.set_phase(Phase::Start));
        let state = read_state(&file).expect("readable").expect("written");
        assert_eq!(state.phase(), Phase::Unwrap);

        // A thread that dies with the record in hand does not wait for itself.
        let (recorder, file) = pair();
        recorder.note(|_| recorder.close(|state| state.set_phase(Phase::Unwrap)));
        let state = read_state(&file).expect("readable").expect("written");
        assert_eq!(state.phase(), Phase::Start);
    }

    #[test]
    fn labels_are_cut_at_a_character() {
        let mut state = State::zeroed();
        state.set_label(&"é".repeat(100));
        assert_eq!(state.label(), "é".repeat(64));
    }
}
