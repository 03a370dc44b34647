//! Chooses at random what goes wrong in one job, and derives how the job must end.

use kiln_tests::chance::Chance;
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::history::Expect;
use nix::sys::signal::Signal;
use proto::message::{Code, Role};

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];
/// Steps of every role at which a worker may die.
const STEPS: [Step; 6] = [
    Step::Spawn,
    Step::Hello,
    Step::Start,
    Step::Work,
    Step::HalfTable,
    Step::Filled,
];
const DEADLY: [i32; 9] = [4, 5, 6, 7, 8, 9, 11, 15, 24];

/// A signal sent from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    /// Goes to the first process of this role.
    pub(crate) role: Role,
    /// Is sent when the supervisor reports this event of it.
    pub(crate) when: &'static str,
    /// The signal.
    pub(crate) signal: Signal,
}

/// What goes wrong in one job.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) plan: Plan,
    pub(crate) shot: Option<Shot>,
    pub(crate) expect: Expect,
}

/// Trouble for a job of saboteurs.
pub(crate) fn saboteurs(chance: &mut Chance) -> Trouble {
    let mut trouble = Trouble {
        plan: Plan::healthy(),
        shot: None,
        expect: Expect::Done,
    };
    match chance.below(100) {
        0..8 => {}
        8..50 => {
            let role = chance.of(&ROLES);
            let (step, fault) = forgivable(role, chance);
            trouble.plan = Plan::once(role, step, fault);
        }
        50..62 => {
            // Each role is forgiven separately.
            for role in ROLES {
                let step = chance.of(&STEPS[1..]);
                let signal = Fault::Signal(chance.of(&DEADLY));
                trouble.plan = trouble.plan.with(role, step, signal, 1);
            }
        }
        62..80 => {
            let role = chance.of(&ROLES);
            let step = chance.of(&STEPS[1..]);
            let fault = chance.of(&[
                Fault::Signal(11),
                Fault::Signal(6),
                Fault::Exit(0),
                Fault::Garbage,
            ]);
            trouble.plan = Plan::always(role, step, fault);
            trouble.expect = Expect::Failed;
        }
        80..88 => {
            let role = chance.of(&ROLES);
            let step = chance.of(&[Step::Start, Step::Work]);
            let code = chance.of(&Code::ALL);
            trouble.plan = Plan::always(role, step, Fault::Fail(code));
            trouble.expect = Expect::Failed;
        }
        88..91 => {
            let role = chance.of(&ROLES);
            let fault = chance.of(&[
                Fault::Stall,
                Fault::Close,
                Fault::SameProgress,
                Fault::Signal(19),
            ]);
            trouble.plan = Plan::once(role, Step::Work, fault);
        }
        _ => trouble.shot = Some(shot(chance, &["started", "working", "progress"])),
    }
    trouble
}

/// Trouble for a job of real workers.
pub(crate) fn workers(chance: &mut Chance) -> Trouble {
    Trouble {
        plan: Plan::healthy(),
        shot: Some(shot(chance, &["working", "progress", "progress"])),
        expect: Expect::Done,
    }
}

/// For jobs whose supervisor is killed.
pub(crate) fn none() -> Trouble {
    Trouble {
        plan: Plan::healthy(),
        shot: None,
        expect: Expect::Either,
    }
}

fn shot(chance: &mut Chance, moments: &[&'static str]) -> Shot {
    Shot {
        role: chance.of(&ROLES),
        when: chance.of(moments),
        signal: chance.of(&[
            Signal::SIGKILL,
            Signal::SIGSEGV,
            Signal::SIGABRT,
            Signal::SIGBUS,
            Signal::SIGILL,
            Signal::SIGTERM,
        ]),
    }
}

/// A fault that one fresh process recovers from, at a step where it can be committed.
fn forgivable(role: Role, chance: &mut Chance) -> (Step, Fault) {
    match chance.below(20) {
        0..9 => (chance.of(&STEPS), Fault::Signal(chance.of(&DEADLY))),
        9 | 10 => (chance.of(&STEPS), Fault::Exit(chance.of(&[0, 1, 3, 70]))),
        11 => (chance.of(&STEPS[1..]), Fault::Garbage),
        12 => (chance.of(&STEPS[1..]), Fault::Oversized),
        13 => (chance.of(&STEPS[1..]), Fault::FdUpward),
        14 => (Step::Start, Fault::SecondHello),
        15 => (Step::Work, Fault::AllocateHuge),
        16 => (Step::Work, Fault::AllocateForeign),
        17 if role != Role::Prepare => (Step::Filled, Fault::FilledTwice),
        17 | 18 => (Step::Work, Fault::WrongSummary),
        _ => (chance.of(&[Step::Start, Step::Work]), Fault::EarlyDone),
    }
}
