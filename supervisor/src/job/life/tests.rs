//! The invariants of `life.rs`, tested over every short order of events and over long random ones, plausible or not.

use proptest::prelude::*;
use proto::job::{Device, Memory, Product};

use crate::job::life::*;

/// Kinds of faults: code, class, exit, and the kind of adapter that was open.
const FAULTS: [(Code, RetryClass, Exit, Option<&str>); 9] = [
    (
        Code::WorkerCrashed,
        RetryClass::Ambiguous,
        Exit::Signal(11),
        Some("native"),
    ),
    (
        Code::WorkerCrashed,
        RetryClass::Ambiguous,
        Exit::Signal(11),
        Some("discrete"),
    ),
    (
        Code::WorkerStalled,
        RetryClass::Victim,
        Exit::Unkillable,
        None,
    ),
    (
        Code::OutOfHostMemory,
        RetryClass::Resource,
        Exit::Signal(9),
        Some("native"),
    ),
    (
        Code::OutOfDeviceMemory,
        RetryClass::Resource,
        Exit::Code(70),
        Some("discrete"),
    ),
    (
        Code::GpuDeviceLost,
        RetryClass::Ambiguous,
        Exit::Code(70),
        Some("discrete"),
    ),
    (
        Code::ShaderRejected,
        RetryClass::Input,
        Exit::Code(70),
        Some("discrete"),
    ),
    (Code::InvalidAsset, RetryClass::Input, Exit::Code(65), None),
    (
        Code::SpawnFailed,
        RetryClass::Transient,
        Exit::Code(1),
        None,
    ),
];

/// Every event there is, picked by `number`.
fn event(number: usize) -> JobEvent {
    let role = ROLES[number % 3];
    match number / 3 {
        0 => JobEvent::Due(role),
        1 => JobEvent::Fed(role),
        2 | 3 => JobEvent::Answered(role),
        kind @ 4..13 => ended(role, kind - 4),
        13 => match number % 3 {
            0 => JobEvent::Staged(Ok(())),
            1 => JobEvent::Staged(Err(error())),
            _ => JobEvent::Named(Ok(())),
        },
        14 => match number % 3 {
            0 => JobEvent::Named(Err(error())),
            1 => JobEvent::Stop(error()),
            _ => JobEvent::Drain,
        },
        _ if number == 46 => suspected(Role::Bake, 1),
        _ if number == 47 => suspected(Role::Bake, 5),
        _ => JobEvent::Begin,
    }
}

const EVENTS: usize = 48;

fn ended(role: Role, kind: usize) -> JobEvent {
    let (code, class, exit, adapter) = FAULTS[kind].clone();
    JobEvent::Ended {
        role,
        fault: Box::new(Fault {
            code,
            class,
            message: format!("{code:?}"),
            hint: String::new(),
        }),
        exit,
        adapter: adapter.map(|kind| AdapterInfo {
            name: kind.to_owned(),
            kind: kind.to_owned(),
            ..AdapterInfo::default()
        }),
        suspected: false,
    }
}

/// As `ended`, for a process that was given cached pipelines.
fn suspected(role: Role, kind: usize) -> JobEvent {
    let mut event = ended(role, kind);
    if let JobEvent::Ended { suspected, .. } = &mut event {
        *suspected = true;
    }
    event
}

fn error() -> Box<JobError> {
    JobError::own(Code::Cancelled, "ended", "")
}

fn job() -> Life {
    Life::new(Rung::default(), Policy::VertexColours)
}

/// Observes a life from outside and reports which invariant it breaks.
#[derive(Clone, Default)]
struct Witness {
    alive: [bool; 3],
    killed: [bool; 3],
    starts: [u32; 3],
    /// Encode answered in full while it was alive and wanted.
    answered: bool,
    asked_to_stage: bool,
    staged: bool,
    named: bool,
    stopped: bool,
    finished: bool,
}

impl Witness {
    fn sees(&mut self, event: &JobEvent, actions: &[Action]) -> Result<(), String> {
        if self.finished && !actions.is_empty() {
            return Err("something was done after the end".to_owned());
        }
        match event {
            JobEvent::Ended { role, .. } => {
                let place = *role as usize;
                (self.alive[place], self.killed[place]) = (false, false);
            }
            JobEvent::Answered(Role::Encode) => {
                let place = Role::Encode as usize;
                self.answered |= self.alive[place] && !self.killed[place];
            }
            JobEvent::Staged(result) => self.staged |= self.asked_to_stage && result.is_ok(),
            JobEvent::Named(result) => self.named |= self.staged && result.is_ok(),
            JobEvent::Stop(_) | JobEvent::Drain => self.stopped = true,
            JobEvent::Begin | JobEvent::Due(_) | JobEvent::Fed(_) | JobEvent::Answered(_) => {}
        }
        for action in actions {
            self.obeys(action)?;
        }
        Ok(())
    }

    fn obeys(&mut self, action: &Action) -> Result<(), String> {
        if self.finished {
            return Err("something was done after the end".to_owned());
        }
        let fail = |what: &str| Err(what.to_owned());
        match action {
            Action::Spawn { role, .. } => {
                let place = *role as usize;
                self.starts[place] += 1;
                if std::mem::replace(&mut self.alive[place], true) {
                    return fail("a role has two processes");
                }
                if self.starts[place] > MAX_STARTS {
                    return fail("a role was started too often");
                }
                if self.stopped {
                    return fail("a stopped job starts a process");
                }
            }
            Action::Kill { role, .. } => {
                let place = *role as usize;
                if !self.alive[place] || std::mem::replace(&mut self.killed[place], true) {
                    return fail("a kill of nobody");
                }
            }
            Action::Stage => {
                if !self.answered || self.alive.contains(&true) || self.asked_to_stage {
                    return fail("staged too early or twice");
                }
                self.asked_to_stage = true;
            }
            Action::Name if !self.staged || self.stopped => {
                return fail("named what was not staged");
            }
            Action::Finish(outcome) => {
                self.finished = true;
                if self.alive.contains(&true) {
                    return fail("somebody is alive at the end");
                }
                if matches!(outcome, Outcome::Done) && !self.named {
                    return fail("success without a result in place");
                }
                if let Outcome::Failed(error, _) = outcome
                    && error.message.is_empty()
                {
                    return fail("a failure without words");
                }
            }
            Action::Wait { .. }
            | Action::Retry { .. }
            | Action::Discard(_)
            | Action::ReleaseInputs
            | Action::Name
            | Action::Unstage => {}
        }
        Ok(())
    }

    /// In a world that answers every request and kills every process left, the job must end soon.
    fn comes_to_an_end(mut self, mut life: Life) -> Result<(), String> {
        for _ in 0..60 {
            if self.finished {
                return Ok(());
            }
            let next = match self.alive.iter().position(|alive| *alive) {
                Some(place) => vec![ended(ROLES[place], 0)],
                None if self.asked_to_stage && !self.staged => vec![JobEvent::Staged(Ok(()))],
                None => vec![
                    JobEvent::Begin,
                    JobEvent::Due(Role::Prepare),
                    JobEvent::Due(Role::Bake),
                    JobEvent::Due(Role::Encode),
                    JobEvent::Staged(Ok(())),
                    JobEvent::Named(Ok(())),
                ],
            };
            for event in next {
                let actions = life.step(event.clone());
                self.sees(&event, &actions)?;
            }
        }
        Err(format!("it does not come to an end: {life:?}"))
    }
}

fn walk(life: &Life, witness: &Witness, depth: u32, orders: &mut u64) {
    for number in 0..EVENTS {
        let (mut life, mut witness) = (life.clone(), witness.clone());
        let event = event(number);
        let actions = life.step(event.clone());
        *orders += 1;
        if let Err(rule) = witness.sees(&event, &actions) {
            panic!("{rule}: {event:?} gave {actions:?} in {life:?}");
        }
        if depth > 1 && !witness.finished {
            walk(&life, &witness, depth - 1, orders);
        } else if let Err(rule) = witness.comes_to_an_end(life) {
            panic!("{rule} after {event:?}");
        }
    }
}

/// A job after these events.
fn after(events: &[JobEvent]) -> (Life, Witness) {
    let (mut life, mut witness) = (job(), Witness::default());
    for event in events {
        let actions = life.step(event.clone());
        witness
            .sees(event, &actions)
            .expect("a plain course of events");
    }
    (life, witness)
}

#[test]
fn every_short_order_of_events_obeys_the_rules() {
    use JobEvent::{Answered, Begin, Fed};
    let courses: [&[JobEvent]; 4] = [
        &[],
        &[Begin, Fed(Role::Bake)],
        &[
            Begin,
            Fed(Role::Bake),
            Answered(Role::Prepare),
            Answered(Role::Bake),
        ],
        &[
            Begin,
            Answered(Role::Prepare),
            Answered(Role::Bake),
            Answered(Role::Encode),
            ended(Role::Prepare, 0),
            ended(Role::Bake, 0),
        ],
    ];
    let mut orders = 0;
    for (course, depth) in courses.into_iter().zip([3, 4, 3, 4]) {
        let (life, witness) = after(course);
        walk(&life, &witness, depth, &mut orders);
    }
    assert!(orders > 5_000_000, "{orders} orders");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn long_orders_of_events_obey_the_rules(numbers in prop::collection::vec(0..EVENTS, 0..60)) {
        let (mut life, mut witness) = after(&[JobEvent::Begin]);
        for number in numbers {
            let event = event(number);
            let actions = life.step(event.clone());
            prop_assert_eq!(witness.sees(&event, &actions), Ok(()));
        }
        prop_assert_eq!(witness.comes_to_an_end(life), Ok(()));
    }
}

/// Tests the oracle: for each invariant, a life that breaks it is reported.
#[test]
fn the_witness_sees_each_broken_rule() {
    let finish = || Action::Finish(Outcome::Done);
    let spawn = || Action::Spawn {
        role: Role::Bake,
        rung: Rung::default(),
    };
    let begin = JobEvent::Begin;
    let broken = |actions: &[Action]| Witness::default().sees(&begin, actions).is_err();
    assert!(broken(&[finish()]), "success without a result");
    assert!(broken(&[spawn(), spawn()]), "two processes");
    assert!(broken(&[Action::Stage]), "nothing to stage");
    assert!(broken(&[Action::Name]), "nothing to name");
    assert!(broken(&[Action::Kill {
        role: Role::Bake,
        why: Kill::JobOver
    }]));
    let failed = || Action::Finish(Outcome::Failed(error(), None));
    assert!(broken(&[failed(), failed()]), "two ends");
    assert!(broken(&[spawn(), failed()]), "somebody is left");
    assert!(!broken(&[spawn()]));
    let mut witness = Witness {
        stopped: true,
        ..Witness::default()
    };
    assert!(witness.sees(&begin, &[spawn()]).is_err());
    witness = Witness::default();
    assert!(witness.comes_to_an_end(job()).is_ok());
}

fn fate(life: &mut Life, role: Role, kind: usize) -> Vec<Action> {
    life.step(ended(role, kind))
}

fn outcome(actions: &[Action]) -> Option<&Outcome> {
    actions.iter().find_map(|action| match action {
        Action::Finish(outcome) => Some(outcome),
        _ => None,
    })
}

#[test]
fn a_clean_job_ends_with_its_files_in_place() {
    let (mut life, _) = after(&[
        JobEvent::Begin,
        JobEvent::Fed(Role::Bake),
        JobEvent::Answered(Role::Prepare),
        JobEvent::Answered(Role::Bake),
        JobEvent::Answered(Role::Encode),
    ]);
    for role in [Role::Prepare, Role::Bake] {
        assert!(fate(&mut life, role, 0).is_empty());
    }
    assert!(matches!(
        fate(&mut life, Role::Encode, 0)[..],
        [Action::Stage]
    ));
    assert!(matches!(
        life.step(JobEvent::Staged(Ok(())))[..],
        [Action::Name]
    ));
    let end = life.step(JobEvent::Named(Ok(())));
    assert!(matches!(outcome(&end), Some(Outcome::Done)));
}

#[test]
fn a_job_is_done_with_the_answer_of_its_last_role() {
    let (prepare, bake) = (Role::Prepare, Role::Bake);
    // A dry run and a comparison.
    for (last, events) in [
        (
            bake,
            &[
                JobEvent::Begin,
                JobEvent::Fed(bake),
                JobEvent::Answered(prepare),
                JobEvent::Answered(bake),
            ][..],
        ),
        (prepare, &[JobEvent::Begin, JobEvent::Answered(prepare)]),
    ] {
        let mut life = job().until(last);
        for event in events {
            life.step(event.clone());
        }
        for role in [bake, Role::Encode] {
            let wanted = u32::from(role as usize <= last as usize);
            assert_eq!(
                life.starts(role),
                wanted,
                "{role:?} of a job until {last:?}"
            );
        }
        if last != prepare {
            assert!(fate(&mut life, prepare, 0).is_empty());
        }
        assert!(matches!(fate(&mut life, last, 0)[..], [Action::Stage]));
        life.step(JobEvent::Staged(Ok(())));
        let end = life.step(JobEvent::Named(Ok(())));
        assert!(matches!(outcome(&end), Some(Outcome::Done)));
    }
}

#[test]
fn a_poison_job_crashes_twice_and_no_more() {
    for role in [Role::Prepare, Role::Bake] {
        let (mut life, _) = after(&[JobEvent::Begin]);
        let first = fate(&mut life, role, 0);
        assert!(
            matches!(
                first[..],
                [
                    Action::Discard(_),
                    Action::Retry { .. },
                    Action::Spawn { .. }
                ]
            ),
            "{first:?}"
        );
        let second = fate(&mut life, role, 0);
        assert!(
            matches!(
                second[..],
                [Action::Kill {
                    why: Kill::JobOver,
                    ..
                }]
            ),
            "{second:?}"
        );
        let other = if role == Role::Bake {
            Role::Prepare
        } else {
            Role::Bake
        };
        let end = fate(&mut life, other, 0);
        let Some(Outcome::Failed(error, Some(guilty))) = outcome(&end) else {
            panic!("{end:?}")
        };
        assert_eq!((*guilty, life.starts(role)), (role, 2));
        assert_eq!(error.message, "WorkerCrashed, twice");
    }
}

#[test]
fn memory_climbs_to_the_smaller_plan_and_then_to_vertex_colours() {
    let (mut life, _) = after(&[JobEvent::Begin]);
    assert!(!fate(&mut life, Role::Bake, 3).is_empty());
    assert_eq!(life.rung().memory, Memory::Small);
    assert!(outcome(&fate(&mut life, Role::Bake, 3)).is_none());
    assert_eq!(
        (life.rung().product, &life.rung().device),
        (Product::VertexColours, &Device::Cpu)
    );
    assert_eq!(life.tried(), [Step::SmallerPlan, Step::VertexColours]);
    let third = fate(&mut life, Role::Bake, 3);
    assert!(
        matches!(
            third[..],
            [Action::Kill {
                role: Role::Prepare,
                ..
            }]
        ),
        "{third:?}"
    );
}

#[test]
fn a_crash_with_kept_pipelines_is_repeated_without_them_and_costs_the_job_nothing() {
    let (mut life, _) = after(&[JobEvent::Begin]);
    assert!(!life.rung().unkept);
    let actions = life.step(suspected(Role::Bake, 1));
    assert!(outcome(&actions).is_none(), "{actions:?}");
    assert!(life.rung().unkept);
    assert_eq!(life.rung().device, Device::Auto, "on the same adapter");
    assert_eq!(life.tried(), [Step::FreshPipelines]);
    // From here on as usual.
    assert!(outcome(&fate(&mut life, Role::Bake, 1)).is_none());
    assert_eq!(life.rung().device, Device::Cpu);
    assert_eq!(life.tried(), [Step::FreshPipelines, Step::SoftwareAdapter]);
    // No process is given cached pipelines now, so there is nothing to suspect.
    let end = life.step(suspected(Role::Bake, 1));
    assert!(life.tried().len() == 2, "{end:?}");
}

#[test]
fn a_crash_on_a_gpu_is_repeated_on_the_processor() {
    let (mut life, _) = after(&[JobEvent::Begin]);
    assert!(outcome(&fate(&mut life, Role::Bake, 1)).is_none());
    assert_eq!(life.rung().device, Device::Cpu);
}

#[test]
fn a_lost_device_gets_a_fresh_process_then_another_adapter_then_none() {
    let (mut life, _) = after(&[JobEvent::Begin]);
    for step in [Step::SamePlan, Step::OtherAdapter, Step::SoftwareAdapter] {
        let actions = fate(&mut life, Role::Bake, 5);
        assert!(!actions.is_empty());
        assert_eq!(life.tried().last(), Some(&step));
    }
    assert_eq!(life.starts(Role::Bake), MAX_STARTS);
    assert_eq!(life.rung().avoid, ["discrete"]);
}

#[test]
fn a_job_that_runs_out_of_adapters_names_what_the_last_one_did() {
    let rung = Rung {
        device: Device::Gpu,
        ..Rung::default()
    };
    let mut life = Life::new(rung, Policy::Adapters);
    life.step(JobEvent::Begin);
    assert!(outcome(&fate(&mut life, Role::Bake, 6)).is_none());
    assert_eq!(life.tried(), [Step::OtherAdapter]);
    let mut none_left = ended(Role::Bake, 6);
    if let JobEvent::Ended { fault, .. } = &mut none_left {
        fault.code = Code::NoAdapter;
        fault.message = "no adapter fits".to_owned();
    }
    life.step(none_left);
    // Prepare was at work and is told to exit.
    let actions = fate(&mut life, Role::Prepare, 0);
    let Some(Outcome::Failed(error, _)) = outcome(&actions) else {
        panic!("{actions:?}");
    };
    assert_eq!(error.code, Code::ShaderRejected);
    assert_eq!(
        error.message,
        "ShaderRejected, and there is no other adapter"
    );
}

#[test]
fn a_bake_fed_by_a_dead_prepare_starts_afresh_and_is_not_blamed() {
    let (mut life, _) = after(&[JobEvent::Begin, JobEvent::Fed(Role::Bake)]);
    let actions = fate(&mut life, Role::Prepare, 0);
    let superseded = actions.iter().any(|action| {
        matches!(
            action,
            Action::Kill {
                role: Role::Bake,
                why: Kill::Superseded
            }
        )
    });
    assert!(superseded, "{actions:?}");
    assert!(fate(&mut life, Role::Bake, 2).iter().any(|action| matches!(
        action,
        Action::Spawn {
            role: Role::Bake,
            ..
        }
    )));

    let (mut life, _) = after(&[JobEvent::Begin]);
    let actions = fate(&mut life, Role::Prepare, 0);
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::Kill { .. })),
        "who holds nothing of it goes on: {actions:?}"
    );
}

#[test]
fn a_cancel_counts_until_the_names_are_given() {
    let answered = [
        JobEvent::Begin,
        JobEvent::Answered(Role::Prepare),
        JobEvent::Answered(Role::Bake),
        JobEvent::Answered(Role::Encode),
    ];
    let staging = |life: &mut Life| {
        for role in ROLES {
            fate(life, role, 0);
        }
    };
    let (mut life, _) = after(&answered);
    staging(&mut life);
    assert!(
        life.step(JobEvent::Stop(error())).is_empty(),
        "the writer is waited for"
    );
    let end = life.step(JobEvent::Staged(Ok(())));
    assert!(
        matches!(
            end[..],
            [Action::Unstage, Action::Finish(Outcome::Failed(..))]
        ),
        "{end:?}"
    );

    let (mut life, _) = after(&answered);
    staging(&mut life);
    life.step(JobEvent::Staged(Ok(())));
    assert!(life.step(JobEvent::Stop(error())).is_empty());
    assert!(matches!(
        outcome(&life.step(JobEvent::Named(Ok(())))),
        Some(Outcome::Done)
    ));
}

#[test]
fn a_drained_job_is_unfinished_and_nobodys_fault() {
    let (mut life, _) = after(&[JobEvent::Begin]);
    let actions = life.step(JobEvent::Drain);
    assert_eq!(actions.len(), 2, "{actions:?}");
    fate(&mut life, Role::Prepare, 0);
    let end = fate(&mut life, Role::Bake, 0);
    assert!(matches!(outcome(&end), Some(Outcome::Unfinished)));
}

#[test]
fn encode_starts_once_prepare_and_bake_have_answered() {
    let answered = [Role::Prepare, Role::Bake].map(JobEvent::Answered);
    for [first, last] in [answered.clone(), [answered[1].clone(), answered[0].clone()]] {
        let mut life = job();
        life.step(JobEvent::Begin);
        let encode = |actions: Vec<Action>| {
            let starts = |action: &Action| {
                matches!(
                    action,
                    Action::Spawn {
                        role: Role::Encode,
                        ..
                    }
                )
            };
            actions.iter().any(starts)
        };
        assert!(!encode(life.step(first.clone())), "{first:?}");
        assert!(encode(life.step(last.clone())), "{last:?}");
        assert!(!encode(life.step(last)));
    }
}
