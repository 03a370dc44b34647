use crate::process::verdict::*;

fn died(exit: Exit) -> Ending {
    Ending::new(Role::Bake, Phase::Fit, exit)
}

fn note(text: &str, value: u64) -> Option<Note> {
    Some(Note {
        number: 0,
        value,
        text: text.to_owned(),
    })
}

fn adapter(kind: &str) -> Option<AdapterInfo> {
    Some(AdapterInfo {
        name: "a".to_owned(),
        kind: kind.to_owned(),
        ..AdapterInfo::default()
    })
}

#[test]
fn a_signal_is_named_with_its_phase_and_what_was_under_way() {
    let mut ending = died(Exit::Signal(11));
    assert_eq!(
        fault(&ending).message,
        "bake died by SIGSEGV while fitting the texture (phase fit)"
    );
    ending.last.label = "reweight".to_owned();
    assert_eq!(
        fault(&ending).message,
        "bake died by SIGSEGV while fitting the texture (phase fit, reweight)"
    );
}

#[test]
fn a_kill_for_memory_is_told_from_any_other() {
    let mut ending = died(Exit::Signal(9));
    assert_eq!(fault(&ending).code, Code::WorkerCrashed);
    ending.memory_kill = Some(MemoryKill {
        peak: 64 << 20,
        limit: Some(64 << 20),
        host: false,
    });
    let named = fault(&ending);
    assert_eq!(
        (named.code, named.class),
        (Code::OutOfHostMemory, RetryClass::Resource)
    );
    assert!(
        named.message.contains("64.0 MiB of 64.0 MiB"),
        "{}",
        named.message
    );

    let mut ending = died(Exit::Signal(6));
    ending.last.memory = note("", 3 << 30);
    let named = fault(&ending);
    assert_eq!(named.code, Code::OutOfHostMemory);
    assert!(named.message.contains("3.00 GiB more"), "{}", named.message);
}

#[test]
fn panics_and_forbidden_calls_are_told_with_their_words() {
    let mut ending = died(Exit::Signal(6));
    ending.last.panic = note("index out of bounds at a.rs:7\n\x1b[31m", 0);
    let named = fault(&ending);
    assert_eq!(named.code, Code::WorkerCrashed);
    assert!(named.message.contains("index out of bounds at a.rs:7"));
    assert!(!named.message.contains('\x1b'));

    let mut ending = died(Exit::Signal(31));
    ending.last.signal = note("", 101);
    let named = fault(&ending);
    assert_eq!(
        (named.code, named.class),
        (Code::SandboxViolation, RetryClass::Config)
    );
    assert!(named.message.ends_with("forbids system call 101"));
}

#[test]
fn silence_is_a_hang_of_the_gpu_only_where_a_driver_was_at_work() {
    let mut ending = Ending {
        kill: Some(Kill::Stall { ms: 2500 }),
        ..died(Exit::Signal(6))
    };
    for (kind, code) in [
        ("native", Code::WorkerStalled),
        ("discrete", Code::GpuHang),
        ("software", Code::GpuHang),
    ] {
        ending.adapter = adapter(kind);
        let named = fault(&ending);
        assert_eq!(named.code, code);
        assert!(
            named
                .message
                .contains("no progress for 2.5 s while fitting"),
            "{}",
            named.message
        );
    }
    ending.phase = Phase::OpenDevice;
    assert_eq!(fault(&ending).code, Code::GpuHang, "buffers and pipelines");
    ending.phase = Phase::Gutter;
    assert_eq!(fault(&ending).code, Code::WorkerStalled);
    (ending.phase, ending.adapter) = (Phase::OpenDevice, None);
    assert_eq!(fault(&ending).code, Code::WorkerStalled, "no adapter yet");
}

#[test]
fn what_others_did_is_a_victims_class() {
    for kill in [Kill::Superseded, Kill::JobOver, Kill::Frozen] {
        let ending = Ending {
            kill: Some(kill),
            ..died(Exit::Signal(9))
        };
        assert_eq!(fault(&ending).class, RetryClass::Victim);
    }
    assert_eq!(fault(&died(Exit::Unkillable)).class, RetryClass::Victim);
}

#[test]
fn a_missing_program_is_for_a_person_and_a_full_process_table_is_not() {
    let spawn = |transient| {
        fault(&died(Exit::NotSpawned {
            error: "no".into(),
            transient,
        }))
    };
    assert_eq!(spawn(false).class, RetryClass::Config);
    assert_eq!(spawn(true).class, RetryClass::Transient);
    let mismatch = Ending {
        hello: false,
        kill: Some(Kill::Mismatch("no".into())),
        ..died(Exit::Signal(9))
    };
    let named = fault(&mismatch);
    assert_eq!(
        (named.code, named.class),
        (Code::BinaryMismatch, RetryClass::Config)
    );
}

#[test]
fn a_workers_own_word_counts_unless_it_was_killed_for_another_reason() {
    let mut ending = Ending {
        failure: Some(Failure {
            code: Code::InvalidAsset,
            message: "no".into(),
            hint: "mend".into(),
        }),
        ..died(Exit::Code(65))
    };
    let named = fault(&ending);
    assert_eq!(
        (named.code, named.class, named.hint.as_str()),
        (Code::InvalidAsset, RetryClass::Input, "mend")
    );
    ending.kill = Some(Kill::Lingering);
    assert_eq!(fault(&ending).code, Code::InvalidAsset);
    ending.kill = Some(Kill::Violation("more".into()));
    assert_eq!(fault(&ending).code, Code::ProtocolViolation);
}

#[test]
fn no_fault_is_unknown() {
    let exits = [
        Exit::Code(0),
        Exit::Code(1),
        Exit::Signal(11),
        Exit::Signal(64),
        Exit::Unkillable,
    ];
    for exit in exits {
        for hello in [true, false] {
            let ending = Ending {
                hello,
                ..died(exit.clone())
            };
            let named = fault(&ending);
            assert!(!named.message.contains("unknown"), "{}", named.message);
            assert!(named.message.starts_with("bake "), "{}", named.message);
        }
    }
}
