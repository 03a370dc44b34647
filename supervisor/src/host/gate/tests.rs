use std::time::Duration;

use crate::host::gate::breaker::{FAILURES, FIRST_REST, LONGEST_REST};
use crate::host::gate::*;

fn job(name: &str) -> JobName {
    name.into()
}

fn on(device: Device) -> Rung {
    Rung {
        device,
        ..Rung::default()
    }
}

fn gpu() -> AdapterInfo {
    AdapterInfo {
        name: "Big GPU 3000".to_owned(),
        backend: "vulkan".to_owned(),
        kind: "discrete".to_owned(),
        driver: String::new(),
    }
}

fn ending(role: Role, adapter: Option<AdapterInfo>, exit: Exit) -> Ending {
    Ending {
        adapter,
        ..Ending::new(role, Phase::Fit, exit)
    }
}

fn fault(code: Code) -> Fault {
    Fault {
        code,
        class: RetryClass::of(code),
        message: format!("{code:?}"),
        hint: String::new(),
    }
}

/// A bake of each job meets the fault on the GPU at once; returns the classes.
fn lose(gate: &mut Gate, jobs: &[&str], code: Code, now: Instant) -> Vec<RetryClass> {
    let lost = ending(Role::Bake, Some(gpu()), Exit::Code(0));
    jobs.iter()
        .map(|name| {
            let mut fault = fault(code);
            gate.failed(&job(name), &lost, &mut fault, now);
            fault.class
        })
        .collect()
}

fn enter(gate: &mut Gate, name: &str, device: Device, now: Instant) -> Admission {
    gate.enter(&job(name), Role::Bake, &on(device), now)
}

#[test]
fn a_bad_adapter_is_passed_over_where_the_choice_is_open_and_waited_for_where_not() {
    let now = Instant::now();
    let mut gate = Gate::default();
    lose(&mut gate, &["poison"; FAILURES], Code::ShaderRejected, now);
    match enter(&mut gate, "a", Device::Auto, now) {
        Admission::Go(rung, over) => {
            assert_eq!(rung.avoid, ["Big GPU 3000"]);
            assert!(over[0].contains("Big GPU 3000 is passed over"), "{over:?}");
        }
        other => panic!("{other:?}"),
    }
    for device in [Device::Gpu, Device::Name("big gpu".into())] {
        let Admission::Wait(why) = enter(&mut gate, "a", device, now) else {
            panic!("not held back");
        };
        assert!(why.contains("ShaderRejected"), "{why}");
    }
    for device in [Device::Cpu, Device::Name("other".into())] {
        let entry = enter(&mut gate, "a", device.clone(), now);
        assert!(matches!(entry, Admission::Go(rung, _) if rung == on(device)));
    }
    let prepare = gate.enter(&job("a"), Role::Prepare, &on(Device::Gpu), now);
    assert!(matches!(prepare, Admission::Go(..)));
    // The first job after the rest probes; its success lets the others in.
    let later = now + FIRST_REST;
    assert!(
        matches!(enter(&mut gate, "a", Device::Auto, later), Admission::Go(rung, _) if rung.avoid.is_empty())
    );
    assert!(matches!(
        enter(&mut gate, "b", Device::Gpu, later),
        Admission::Wait(_)
    ));
    gate.done(&job("a"), Role::Bake, Some(&gpu()), later);
    assert!(matches!(
        enter(&mut gate, "b", Device::Gpu, later),
        Admission::Go(..)
    ));
    assert_eq!(gate.resting(now), []);
}

#[test]
fn a_probe_that_is_cancelled_or_whose_job_ends_lets_the_next_one_try() {
    let now = Instant::now();
    let mut gate = Gate::default();
    lose(&mut gate, &["poison"; FAILURES], Code::ShaderRejected, now);
    let later = now + FIRST_REST;
    for end in [0, 1] {
        assert!(matches!(
            enter(&mut gate, "a", Device::Gpu, later),
            Admission::Go(..)
        ));
        assert!(matches!(
            enter(&mut gate, "b", Device::Gpu, later),
            Admission::Wait(_)
        ));
        if end == 0 {
            gate.over(&job("a"), later);
        } else {
            let mut cancelled = ending(Role::Bake, Some(gpu()), Exit::Signal(9));
            cancelled.kill = Some(Kill::JobOver);
            gate.failed(&job("a"), &cancelled, &mut fault(Code::Cancelled), later);
        }
        assert!(matches!(
            enter(&mut gate, "b", Device::Gpu, later),
            Admission::Go(..)
        ));
        gate.over(&job("b"), later);
    }
}

#[test]
fn workers_that_never_come_up_hold_everybody_back_and_then_refuse() {
    let mut now = Instant::now();
    let mut gate = Gate::default();
    let dead = ending(Role::Prepare, None, Exit::Code(3));
    let prepare =
        |gate: &mut Gate, now| gate.enter(&job("a"), Role::Prepare, &on(Device::Auto), now);
    let mut starts = 0;
    let mut refused = None;
    for _ in 0..1000 {
        match prepare(&mut gate, now) {
            Admission::Go(..) => {
                starts += 1;
                gate.failed(&job("a"), &dead, &mut fault(Code::SpawnFailed), now);
            }
            Admission::Wait(why) => assert!(why.starts_with("starting workers"), "{why}"),
            Admission::Refuse(error) => {
                refused.get_or_insert(error);
            }
        }
        now += Duration::from_millis(100);
    }
    let error = refused.expect("in the end");
    assert_eq!(
        (error.code, error.class),
        (Code::SpawnFailed, RetryClass::Transient)
    );
    assert!(starts <= FAILURES + 8, "{starts} starts in 100 s");
    now += LONGEST_REST;
    assert!(matches!(prepare(&mut gate, now), Admission::Go(..)));
    gate.greeted();
    assert!(matches!(prepare(&mut gate, now), Admission::Go(..)));
    assert_eq!(gate.resting(now), []);
}

#[test]
fn a_gpu_that_kills_who_opens_it_is_left_to_the_processor() {
    let now = Instant::now();
    let mut gate = Gate::default();
    let mut dead = ending(Role::Bake, None, Exit::Signal(11));
    dead.phase = Phase::OpenDevice;
    for _ in 0..FAILURES {
        gate.failed(&job("a"), &dead, &mut fault(Code::WorkerCrashed), now);
    }
    assert!(
        matches!(enter(&mut gate, "b", Device::Auto, now), Admission::Go(rung, _) if rung.device == Device::Cpu)
    );
    gate.opened(&gpu());
    assert!(
        matches!(enter(&mut gate, "b", Device::Auto, now), Admission::Go(rung, _) if rung.device == Device::Auto)
    );
}

#[test]
fn jobs_that_lose_their_device_together_are_victims_and_take_turns() {
    use RetryClass::{Ambiguous, Victim};
    let now = Instant::now();
    let mut gate = Gate::default();
    let classes = lose(&mut gate, &["a", "b", "c"], Code::GpuDeviceLost, now);
    assert_eq!(classes, [Ambiguous, Victim, Victim]);
    assert!(matches!(
        enter(&mut gate, "a", Device::Gpu, now),
        Admission::Go(..)
    ));
    assert!(matches!(
        enter(&mut gate, "b", Device::Auto, now),
        Admission::Wait(_)
    ));
    assert!(matches!(
        enter(&mut gate, "b", Device::Cpu, now),
        Admission::Go(..)
    ));
    // It was alone and lost the adapter again, so it is at fault.
    assert_eq!(
        lose(&mut gate, &["a"], Code::GpuDeviceLost, now),
        [Ambiguous]
    );
    for name in ["b", "c"] {
        assert!(matches!(
            enter(&mut gate, name, Device::Gpu, now),
            Admission::Go(..)
        ));
        gate.done(&job(name), Role::Bake, Some(&gpu()), now);
    }
    // Everything is as before.
    assert!(matches!(
        enter(&mut gate, "d", Device::Gpu, now),
        Admission::Go(..)
    ));
    assert!(matches!(
        enter(&mut gate, "e", Device::Gpu, now),
        Admission::Go(..)
    ));
}

#[test]
fn what_a_job_did_to_itself_is_no_evidence() {
    let now = Instant::now();
    let mut gate = Gate::default();
    for _ in 0..100 {
        let killed = ending(Role::Bake, Some(gpu()), Exit::Signal(9));
        gate.failed(&job("a"), &killed, &mut fault(Code::WorkerCrashed), now);
        let prepare = ending(Role::Prepare, None, Exit::Signal(11));
        gate.failed(&job("a"), &prepare, &mut fault(Code::WorkerCrashed), now);
        let mut native = gpu();
        native.kind = "native".to_owned();
        let native = ending(Role::Bake, Some(native), Exit::Signal(11));
        gate.failed(&job("a"), &native, &mut fault(Code::WorkerCrashed), now);
        let input = ending(Role::Bake, Some(gpu()), Exit::Code(65));
        gate.failed(&job("a"), &input, &mut fault(Code::InvalidAsset), now);
    }
    assert_eq!(gate.resting(now), []);
}

#[test]
fn a_process_that_cannot_be_killed_closes_its_adapter_at_once() {
    let now = Instant::now();
    let mut gate = Gate::default();
    let stuck = ending(Role::Bake, Some(gpu()), Exit::Unkillable);
    gate.failed(&job("a"), &stuck, &mut fault(Code::WorkerStalled), now);
    assert!(matches!(
        enter(&mut gate, "b", Device::Gpu, now),
        Admission::Wait(_)
    ));
}

#[test]
fn what_rests_is_told_and_a_reset_forgets_it() {
    let now = Instant::now();
    let mut gate = Gate::default();
    assert_eq!(gate.resting(now), []);
    lose(&mut gate, &["poison"; FAILURES], Code::ShaderRejected, now);
    let resting = gate.resting(now);
    assert_eq!(resting.len(), 1);
    assert_eq!(resting[0].what, "baking on Big GPU 3000");
    assert!(!resting[0].all, "the processor bakes");
    assert_eq!(resting[0].rests_s, FIRST_REST.as_secs_f32());
    gate.reset();
    assert_eq!(gate.resting(now), []);
    let entry = enter(&mut gate, "a", Device::Gpu, now);
    assert!(
        matches!(entry, Admission::Go(rung, over) if rung == on(Device::Gpu) && over.is_empty())
    );
}
