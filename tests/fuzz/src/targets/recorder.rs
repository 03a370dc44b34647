//! A flight recorder, written by a process or forged. What is read from it and reported of the death must be harmless
//! lines, and the stall clock must not wait for ever because of it.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use proto::message::{Code, Phase, Role};
use proto::recorder::{LABEL_BYTES, Note, Slot, State, read_note, read_state};
use supervisor::process::verdict::{Ending, Exit, Kill, LastWords, fault};
use supervisor::process::watch::{STALL_FACTOR, STALL_FLOOR, TICK, Watch, stall_cap};
use supervisor::words::printable_lines;

use super::harmless;

/// Where the five records begin, and their lengths with checksum.
const RECORDS: [(usize, usize); 5] = [
    (0, 192),
    (512, 192),
    (1024, 31 * 1024),
    (32 * 1024, 4 * 1024),
    (36 * 1024, 1024),
];
/// Signals, and other exits.
const EXITS: [Exit; 6] = [
    Exit::Code(0),
    Exit::Code(101),
    Exit::Signal(6),
    Exit::Signal(11),
    Exit::Signal(31),
    Exit::Signal(99),
];

/// Input: how the process ended, then five records, each a fifth of the bytes.
pub fn recorder(bytes: &[u8]) -> bool {
    let Some((&exit, records)) = bytes.split_first() else {
        return false;
    };
    let mut memory = Memory(vec![0; proto::recorder::RECORDER_BYTES as usize]);
    let share = records.len().div_ceil(RECORDS.len()).max(1);
    for ((start, room), record) in RECORDS.into_iter().zip(records.chunks(share)) {
        let size = record.len().min(room);
        memory.0[start..start + size].copy_from_slice(&record[..size]);
    }
    let plain = read(&memory, exit);
    repair(&mut memory.0);
    let repaired = read(&memory, exit);
    plain || repaired
}

/// Returns whether anything was read.
fn read(memory: &Memory, exit: u8) -> bool {
    let state = read_state(memory).expect("it can be read");
    let note = |slot| read_note(memory, slot).expect("it can be read");
    let [panic, signal, allocation] = [Slot::Panic, Slot::Signal, Slot::Memory].map(note);
    let any = state.is_some() || panic.is_some() || signal.is_some() || allocation.is_some();
    for note in [&panic, &signal, &allocation].into_iter().flatten() {
        text(note);
    }
    let mut label = String::new();
    if let Some(state) = &state {
        label = state.label();
        // Each invalid byte becomes three bytes of text.
        assert!(label.len() <= 3 * LABEL_BYTES, "{} bytes", label.len());
        waits(state);
    }
    let last = LastWords {
        label,
        panic,
        signal,
        memory: allocation,
    };
    for kill in [None, Some(Kill::Stall { ms: 2_000 })] {
        let phase = state.as_ref().map_or(Phase::Start, State::phase);
        let exit = EXITS[usize::from(exit) % EXITS.len()].clone();
        let ending = Ending {
            kill,
            last: last.clone(),
            ..Ending::new(Role::Bake, phase, exit)
        };
        let fault = fault(&ending);
        harmless(&fault.message);
        harmless(&fault.hint);
        assert!(fault.message.len() < 2_000, "{} bytes", fault.message.len());
        assert_ne!(fault.code, Code::Internal, "it is no fault of ours");
    }
    any
}

fn text(note: &Note) {
    let shown = printable_lines(&note.text, 1_000);
    assert!(shown.len() <= 1_000);
    shown.lines().for_each(harmless);
}

/// Asserts that a silent process is killed, not before the floor, however long it says its work takes.
fn waits(state: &State) {
    let start = Instant::now();
    let cap = stall_cap(Role::Bake);
    let mut watch = Watch::new(STALL_FLOOR, cap, start);
    watch.hello();
    watch.recorded(state);
    let mut now = start;
    let killed = (0..=cap.as_millis() / TICK.as_millis()).find_map(|_| {
        now += TICK;
        watch.recorded(state);
        watch.tick(now, false, 0.0).map(|_| now - start)
    });
    let killed = killed.expect("silence ends it");
    let allowed = Duration::from_millis(state.predicted_ms)
        .min(cap)
        .saturating_mul(STALL_FACTOR)
        .clamp(STALL_FLOOR, cap);
    assert!(
        killed >= allowed && killed <= allowed + TICK,
        "killed after {killed:?} where {allowed:?} are allowed"
    );
}

/// Corrects the checksums, as a malicious process would.
fn repair(memory: &mut [u8]) {
    for (start, size) in &RECORDS[..2] {
        let record = &mut memory[*start..start + size];
        let (body, sum) = record.split_at_mut(size - 8);
        sum.copy_from_slice(&fnv(body).to_le_bytes());
    }
    for (start, room) in &RECORDS[2..] {
        let record = &mut memory[*start..start + room];
        let (sum, body) = record.split_at_mut(8);
        let length = u32::from_le_bytes([body[12], body[13], body[14], body[15]]) as usize;
        if let Some(body) = body.get(..16 + length) {
            sum.copy_from_slice(&fnv(body).to_le_bytes());
        }
    }
}

/// The recorder's checksum.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Stands in for a memfd.
struct Memory(Vec<u8>);

impl FileExt for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let size = rest.len().min(buffer.len());
        buffer[..size].copy_from_slice(&rest[..size]);
        Ok(size)
    }

    fn write_at(&self, _buffer: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_recorder_is_read_once_its_sums_are_right() {
        let mut memory = Memory(vec![b'x'; 64 * 1024]);
        assert!(!read(&memory, 0), "no sum is right");
        repair(&mut memory.0);
        assert!(read_state(&memory).expect("readable").is_some());
        memory.0[1024 + 20..1024 + 24].copy_from_slice(&99_u32.to_le_bytes());
        repair(&mut memory.0);
        let note = read_note(&memory, Slot::Signal).expect("readable");
        assert_eq!(note.expect("a note").text, "x".repeat(99));
    }
}
