//! The flight recorder of a dead worker names its cause: signal and address, stacks with symbols, a panic, or the size
//! of a failed allocation. The wait status stays as it would be without the recorder.

#![expect(clippy::print_stdout, reason = "the time is what a report quotes")]

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use kiln_tests::hand::{Death, Hand};
use kiln_tests::{DEADLINE, program, signal_to, with_failpoints};
use nix::sys::signal::Signal;
use proto::message::{FromChild, Role};
use proto::recorder::Slot;

fn baker() -> PathBuf {
    program("kiln-baker")
}

/// Dies this way before its hello.
fn die(action: &str) -> Death {
    let points = format!("prepare:hello:1={action}");
    let baker = with_failpoints("kiln-baker");
    let variables = [("KILN_FAILPOINTS", points.as_str())];
    Hand::start(&baker, Role::Prepare, &variables).bury()
}

#[test]
fn a_fault_leaves_number_address_and_stack() {
    for (action, number, address, function) in [
        ("segv", 11, Some(64), "write_to_nothing"),
        ("bus", 7, None, "read_behind_the_end"),
        ("ill", 4, None, "no_instruction"),
        ("fpe", 8, None, "divide_by_zero"),
        ("trap", 5, None, "breakpoint"),
        ("abort", 6, Some(0), "proto::failpoint::act"),
    ] {
        let death = die(action);
        assert_eq!(death.signal, Some(number), "{action}: {}", death.stderr);
        let note = death.note(Slot::Signal).expect(action);
        assert_eq!(note.number, number.unsigned_abs(), "{action}");
        if let Some(address) = address {
            assert_eq!(note.value, address, "{action}");
        }
        for word in ["failpoint", "baker::run::run", "kiln-baker+0x"] {
            assert!(
                note.text.contains(word),
                "{action}: {word} is not in\n{}",
                note.text
            );
        }
        // The compiler may have inlined small functions.
        if !note.text.contains(function) {
            assert!(
                note.text.contains("baker::worker::failpoints::at"),
                "{action}:\n{}",
                note.text
            );
        }
        assert_eq!(death.note(Slot::Panic), None, "{action}");
        assert_eq!(death.note(Slot::Memory), None, "{action}");
    }
}

#[test]
fn a_panic_leaves_its_text_and_place() {
    let death = die("panic");
    assert_eq!(death.signal, Some(6));
    let note = death.note(Slot::Panic).expect("a panic");
    assert!(note.text.starts_with("a failpoint\nat "), "{}", note.text);
    assert!(note.text.contains("failpoint.rs:"), "{}", note.text);
    let stack = death.note(Slot::Signal).expect("a stack").text;
    assert!(stack.contains("panic"), "{stack}");
    assert!(death.stderr.contains("a failpoint"), "the log has it, too");
}

#[test]
fn an_overflow_of_the_stack_is_told_from_other_faults() {
    let death = die("overflow");
    // Rust's own handler recognises its guard page, reports it and aborts; any other fault keeps its signal.
    assert_eq!(death.signal, Some(6));
    assert!(
        death.stderr.contains("has overflowed its stack"),
        "{}",
        death.stderr
    );
    let note = death.note(Slot::Signal).expect("a note");
    assert_eq!(note.number, 11);
    assert!(note.text.contains("recurse"), "{}", note.text);
}

#[test]
fn memory_that_was_not_there_leaves_its_size() {
    let death = die("oom");
    assert_eq!(death.signal, Some(6));
    let note = death.note(Slot::Memory).expect("a note");
    assert!(note.value >= 1 << 30, "{note:?}");
    assert!(death.note(Slot::Signal).is_some());
}

/// Waits until a process has this many sleeping threads. After the hello, the main thread may not wait for an answer
/// yet, and other threads may not wait for work yet.
fn wait_until_all_sleep(pid: i32, threads: usize) {
    let until = Instant::now() + DEADLINE;
    let state = |task: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // After the name, which is in brackets and may contain some.
        stat.rsplit_once(") ")?.1.chars().next()
    };
    loop {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
        let states: Vec<char> = tasks.filter_map(state).collect();
        if states == vec!['S'; threads] {
            return;
        }
        assert!(Instant::now() < until, "{states:?}");
        std::thread::yield_now();
    }
}

#[test]
fn sigabrt_from_outside_tells_the_stacks_of_all_threads_in_time() {
    let tell = || {
        let hand = Hand::start(&baker(), Role::Prepare, &[("RAYON_NUM_THREADS", "3")]);
        assert!(matches!(hand.hear(), FromChild::Hello { .. }));
        wait_until_all_sleep(hand.pid(), 4);
        let asked = Instant::now();
        signal_to(hand.pid(), Signal::SIGABRT);
        let death = hand.bury();
        println!(
            "all stacks were told {} ms after SIGABRT",
            asked.elapsed().as_millis()
        );
        assert_eq!(death.signal, Some(6));
        let note = death.note(Slot::Signal).expect("a note");
        assert_eq!((note.number, note.value), (6, 0));
        note
    };
    // A thread has 20 ms to answer, which is short on a busy machine.
    let note = (0..20)
        .map(|_| tell())
        .find(|note| !note.text.contains("no answer"))
        .expect("one with all stacks");
    let threads = note.text.lines().filter(|line| line.starts_with("thread "));
    assert_eq!(threads.count(), 4, "{}", note.text);
    for word in ["receive_start", "rayon_core", "main"] {
        assert!(note.text.contains(word), "{word} is not in\n{}", note.text);
    }
}

#[test]
fn a_fault_sent_by_somebody_is_a_death_all_the_same() {
    for signal in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGSYS,
        Signal::SIGFPE,
    ] {
        let hand = Hand::start(&baker(), Role::Encode, &[("RAYON_NUM_THREADS", "1")]);
        assert!(matches!(hand.hear(), FromChild::Hello { .. }));
        signal_to(hand.pid(), signal);
        let death = hand.bury();
        assert_eq!(death.signal, Some(signal as i32));
        let note = death.note(Slot::Signal).expect("a note");
        assert_eq!((note.number, note.value), (signal as u32, 0));
    }
}
