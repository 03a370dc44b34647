//! Compiles lists of system calls to seccomp filters, and applies them to this thread or to all threads.
//!
//! A `seccompiler` filter has one action for listed calls and one for the rest, so a sandbox is a stack of filters. The
//! kernel runs all of them and takes the strictest action: kill, then trap, then error, then allow.

use std::collections::{BTreeMap, BTreeSet};

use nix::libc;
use proto::message::Role;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, apply_filter_all_threads, sock_filter,
};

use crate::worker::sandbox::calls::{self, Call, When};

/// Why a filter cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Our lists are wrong, or the processor is not supported.
    #[error("a system call filter does not compile: {0}")]
    Compile(#[source] seccompiler::BackendError),
    /// The kernel refuses.
    #[error("seccomp: {0}")]
    Apply(#[source] seccompiler::Error),
}

/// Calls that bake is refused from its start.
const REFUSED_TO_BAKE: [&[Call]; 4] = [
    calls::REFUSED_TO_BAKE,
    calls::new::REFUSED_TO_BAKE,
    calls::old::REFUSED_TO_BAKE,
    calls::old::UNNAMED,
];

/// Calls that bake may make until its adapter is open, less [`REFUSED_TO_BAKE`].
const START: [&[Call]; 5] = [
    calls::WORK,
    calls::DRIVER,
    calls::START,
    calls::new::START,
    calls::old::START,
];

/// Calls that kill in every role.
const DEADLY: [&[Call]; 3] = [calls::DEADLY, calls::new::DEADLY, calls::old::DEADLY];

/// The filters from a process's start, in the order of application. The strictest filter of prepare and encode comes
/// last, since it forbids adding another. Of two errors, the later filter's is returned.
pub(super) fn start(role: Role) -> Result<Vec<BpfProgram>, FilterError> {
    match role {
        Role::Prepare | Role::Encode => work(),
        Role::Bake => Ok(vec![
            foreign_numbers(),
            compile(
                &START,
                SeccompAction::Allow,
                SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
            )?,
            answered(&REFUSED_TO_BAKE, libc::EACCES)?,
            deadly()?,
        ]),
    }
}

fn work() -> Result<Vec<BpfProgram>, FilterError> {
    let absent_here = [calls::ABSENT, calls::ABSENT_AT_WORK];
    let refused = [calls::REFUSED_AT_WORK, calls::old::REFUSED_AT_WORK];
    let answered_anyhow: Vec<_> = absent_here.iter().chain(&refused).copied().collect();
    Ok(vec![
        absent(&absent_here)?,
        answered(&refused, libc::EACCES)?,
        deadly()?,
        allowed(&[calls::WORK], &answered_anyhow)?,
    ])
}

/// The filters that bake adds once its adapter is open; it then opens files only where Landlock says which.
pub(super) fn seal(landlocked: bool) -> Result<Vec<BpfProgram>, FilterError> {
    let opens: &[Call] = if landlocked { &[] } else { calls::OPENS };
    let refused = [calls::REFUSED_AT_BAKE, calls::old::REFUSED_AT_BAKE, opens];
    let answered_anyhow: Vec<_> = [calls::ABSENT]
        .iter()
        .chain(&refused)
        .chain(&REFUSED_TO_BAKE)
        .copied()
        .collect();
    Ok(vec![
        answered(&refused, libc::EACCES)?,
        allowed(&[calls::WORK, calls::DRIVER], &answered_anyhow)?,
    ])
}

/// How many system calls the role may make once it works on data.
pub fn allowed_calls(role: Role) -> u16 {
    let lists: &[&[Call]] = match role {
        Role::Prepare | Role::Encode => &[calls::WORK],
        Role::Bake => &[calls::WORK, calls::DRIVER],
    };
    let numbers: BTreeSet<i64> = lists.iter().copied().flatten().map(|c| c.number).collect();
    u16::try_from(numbers.len()).unwrap_or(u16::MAX)
}

/// Applies filters to this thread; returns their number.
pub(super) fn bind(filters: &[BpfProgram]) -> Result<u8, FilterError> {
    each(filters, apply_filter)
}

/// Applies filters to every thread at once, including a driver's.
pub(super) fn bind_all_threads(filters: &[BpfProgram]) -> Result<u8, FilterError> {
    each(filters, apply_filter_all_threads)
}

fn each(
    filters: &[BpfProgram],
    apply: impl Fn(&[sock_filter]) -> Result<(), seccompiler::Error>,
) -> Result<u8, FilterError> {
    for filter in filters {
        apply(filter).map_err(FilterError::Apply)?;
    }
    Ok(u8::try_from(filters.len()).unwrap_or(u8::MAX))
}

fn allowed(lists: &[&[Call]], answered_anyhow: &[&[Call]]) -> Result<BpfProgram, FilterError> {
    // Calls that another filter answers must pass this one, whatever their arguments, unless some are also allowed.
    let named: BTreeSet<i64> = lists.iter().copied().flatten().map(|c| c.number).collect();
    let answered: Vec<Call> = answered_anyhow
        .iter()
        .copied()
        .flatten()
        .filter(|call| !named.contains(&call.number))
        .copied()
        .collect();
    let all: Vec<&[Call]> = lists.iter().copied().chain([&answered[..]]).collect();
    compile(&all, SeccompAction::Allow, SeccompAction::Trap)
}

fn absent(lists: &[&[Call]]) -> Result<BpfProgram, FilterError> {
    answered(lists, libc::ENOSYS)
}

fn answered(lists: &[&[Call]], errno: i32) -> Result<BpfProgram, FilterError> {
    compile(
        lists,
        SeccompAction::Errno(errno.unsigned_abs()),
        SeccompAction::Allow,
    )
}

fn deadly() -> Result<BpfProgram, FilterError> {
    compile(&DEADLY, SeccompAction::KillProcess, SeccompAction::Allow)
}

fn compile(
    lists: &[&[Call]],
    named: SeccompAction,
    others: SeccompAction,
) -> Result<BpfProgram, FilterError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut whatever = BTreeSet::new();
    for call in lists.iter().copied().flatten() {
        let rules = rules.entry(call.number).or_default();
        match condition(call.when).map_err(FilterError::Compile)? {
            None => {
                whatever.insert(call.number);
            }
            Some(condition) => {
                rules.push(SeccompRule::new(vec![condition]).map_err(FilterError::Compile)?);
            }
        }
    }
    for number in whatever {
        // No rule means any arguments.
        rules.entry(number).or_default().clear();
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(FilterError::Compile)?;
    SeccompFilter::new(rules, others, named, arch)
        .and_then(BpfProgram::try_from)
        .map_err(FilterError::Compile)
}

fn condition(when: When) -> Result<Option<SeccompCondition>, seccompiler::BackendError> {
    let own = u64::from(std::process::id());
    let (argument, comparison, value) = match when {
        When::Always => return Ok(None),
        When::Is(argument, value) => (argument, SeccompCmpOp::Eq, value),
        When::IsNot(argument, value) => (argument, SeccompCmpOp::Ne, value),
        When::Has(argument, bits) => (argument, SeccompCmpOp::MaskedEq(bits), bits),
        When::Lacks(argument, bits) => (argument, SeccompCmpOp::MaskedEq(bits), 0),
        When::Masked(argument, mask, value) => (argument, SeccompCmpOp::MaskedEq(mask), value),
        When::Own(argument) => (argument, SeccompCmpOp::Eq, own),
        When::Foreign(argument) => (argument, SeccompCmpOp::Ne, own),
    };
    // The kernel reads only the lower half of pids, commands and flags; a pointer has both.
    let length = match when {
        When::IsNot(..) => SeccompCmpArgLen::Qword,
        _ => SeccompCmpArgLen::Dword,
    };
    SeccompCondition::new(argument, length, comparison, value).map(Some)
}

/// x86-64 kernels may accept each call under a second number, with bit 30 set (x32), which a deny-list would miss.
/// Elsewhere no call has so high a number, and this filter lets all pass.
fn foreign_numbers() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    vec![
        // The number is the first field of seccomp_data.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_KILL_PROCESS,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_compile_and_are_short() {
        assert_eq!(start(Role::Prepare).unwrap().len(), 4);
        assert_eq!(start(Role::Bake).unwrap().len(), 4);
        assert_eq!(seal(true).unwrap().len(), 2);
        assert!(allowed_calls(Role::Prepare) <= 30);
        assert!(
            allowed_calls(Role::Bake) <= 45,
            "{}",
            allowed_calls(Role::Bake)
        );
    }

    #[test]
    fn nothing_is_both_allowed_and_deadly() {
        let deadly = DEADLY.iter().copied().flatten();
        let deadly: BTreeSet<i64> = deadly
            .filter(|call| matches!(call.when, When::Always))
            .map(|call| call.number)
            .collect();
        let allowed = START.iter().copied().flatten();
        let both: Vec<i64> = allowed
            .map(|call| call.number)
            .filter(|number| deadly.contains(number))
            .collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn a_sealed_bake_without_landlock_opens_nothing() {
        let opens = [libc::SYS_openat, libc::SYS_open, libc::SYS_openat2];
        for (landlocked, open) in [(true, 1), (false, 0)] {
            let filters = [start(Role::Bake).unwrap(), seal(landlocked).unwrap()].concat();
            let allows = |number: &&i64| {
                let mut answers = filters.iter().map(|filter| answer(filter, **number));
                answers.all(|answer| answer == libc::SECCOMP_RET_ALLOW)
            };
            assert_eq!(opens.iter().filter(allows).count(), open, "{landlocked}");
        }
    }

    /// Each line of `kernel.txt`.
    #[cfg(target_arch = "x86_64")]
    fn kernel() -> Vec<(i64, &'static str)> {
        let lines = include_str!("kernel.txt").lines();
        let calls = lines.filter(|line| !line.starts_with('#'));
        calls
            .map(|line| {
                let (number, name) = line.split_once(' ').unwrap();
                (number.parse().unwrap(), name)
            })
            .collect()
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_call_of_the_kernel_is_in_a_list_of_bakes() {
        let lists = START.iter().chain(&REFUSED_TO_BAKE).chain(&DEADLY);
        let lists = lists.chain(std::iter::once(&calls::ABSENT));
        let listed: BTreeSet<i64> = lists.copied().flatten().map(|call| call.number).collect();
        let kernel = kernel();
        let forgotten: Vec<_> = kernel.iter().filter(|(n, _)| !listed.contains(n)).collect();
        assert!(forgotten.is_empty(), "{forgotten:?}");
        let known: BTreeSet<i64> = kernel.iter().map(|(number, _)| *number).collect();
        let unknown: Vec<_> = listed.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    /// A filter's action for a call whose arguments are all 0.
    fn answer(program: &[sock_filter], number: i64) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &program[at];
            let code = u32::from(step.code);
            at += 1;
            let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            accumulator = match code {
                // The number, the architecture (x86-64's), an argument.
                0x20 => match step.k {
                    0 => number as u32,
                    4 => 0xc000_003e,
                    _ => 0,
                },
                0x05 => {
                    at += step.k as usize;
                    accumulator
                }
                0x15 => {
                    at += jump(accumulator == step.k);
                    accumulator
                }
                0x25 => {
                    at += jump(accumulator > step.k);
                    accumulator
                }
                0x35 => {
                    at += jump(accumulator >= step.k);
                    accumulator
                }
                0x54 => accumulator & step.k,
                0x06 => return step.k,
                other => panic!("an instruction that seccompiler does not make: {other:#x}"),
            };
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn numbers_that_no_list_has_are_refused_before_the_seal_and_after_it() {
        let known: BTreeSet<i64> = kernel().iter().map(|(number, _)| *number).collect();
        let sealed = seal(true).unwrap();
        let start = start(Role::Bake).unwrap();
        let refused = |filters: &[BpfProgram], number| {
            let answers = filters.iter().map(|filter| answer(filter, number));
            answers.min_by_key(|answer| (answer & libc::SECCOMP_RET_ACTION_FULL).cast_signed())
        };
        assert_eq!(
            refused(&start, libc::SYS_read),
            Some(libc::SECCOMP_RET_ALLOW)
        );
        for number in (0..2048).filter(|number| !known.contains(number)) {
            let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
            assert_eq!(refused(&start, number), Some(absent), "{number}");
            let trap = libc::SECCOMP_RET_TRAP;
            assert_eq!(refused(&sealed, number), Some(trap), "{number}");
        }
    }
}
