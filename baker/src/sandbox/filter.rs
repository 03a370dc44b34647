//! Lists of system calls → seccomp filters → in force for this thread and those it starts, or for all at once.
//!
//! A filter of `seccompiler` knows one answer for what its list names and one for the rest, so a sandbox is a stack of them.
//! The kernel asks all and takes the sternest answer: kill, then trap, then an error, then yes.

use std::collections::{BTreeMap, BTreeSet};

use nix::libc;
use proto::message::Role;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, apply_filter_all_threads, sock_filter,
};

use super::calls::{self, Call, When};

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Our lists are wrong, or the machine's processor is one that nobody made a filter for.
    #[error("a system call filter does not compile: {0}")]
    Compile(#[source] seccompiler::BackendError),
    /// The kernel refuses.
    #[error("seccomp: {0}")]
    Apply(#[source] seccompiler::Error),
}

/// From the start of a process, in the order in which they come into force: an allow-list is the last, since it does not
/// allow another.
pub(super) fn start(role: Role) -> Result<Vec<BpfProgram>, FilterError> {
    match role {
        Role::Prepare | Role::Encode => work(),
        Role::Bake => {
            let refused = [calls::REFUSED_TO_BAKE, calls::old::REFUSED_TO_BAKE];
            Ok(vec![
                foreign_numbers(),
                absent(&[calls::ABSENT])?,
                answered(&refused, libc::EACCES)?,
                deadly()?,
            ])
        }
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

/// What bake adds once its adapter is open.
pub(super) fn seal() -> Result<Vec<BpfProgram>, FilterError> {
    let refused = [calls::REFUSED_AT_BAKE, calls::old::REFUSED_AT_BAKE];
    let answered_anyhow = [
        calls::ABSENT,
        calls::REFUSED_AT_BAKE,
        calls::old::REFUSED_AT_BAKE,
        calls::REFUSED_TO_BAKE,
        calls::old::REFUSED_TO_BAKE,
    ];
    Ok(vec![
        answered(&refused, libc::EACCES)?,
        allowed(&[calls::WORK, calls::DRIVER], &answered_anyhow)?,
    ])
}

/// How many system calls the role may make, once it works on data.
#[must_use]
pub fn allowed_calls(role: Role) -> u16 {
    let lists: &[&[Call]] = match role {
        Role::Prepare | Role::Encode => &[calls::WORK],
        Role::Bake => &[calls::WORK, calls::DRIVER],
    };
    let numbers: BTreeSet<i64> = lists.iter().copied().flatten().map(|c| c.number).collect();
    u16::try_from(numbers.len()).unwrap_or(u16::MAX)
}

/// Brings filters into force for this thread; gives how many are.
pub(super) fn bind(filters: &[BpfProgram]) -> Result<u8, FilterError> {
    each(filters, apply_filter)
}

/// Brings filters into force for every thread at once, those of a driver among them.
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
    // What another filter answers must pass this one, whatever its arguments, unless it is also allowed for some.
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
    compile(
        &[calls::DEADLY, calls::old::DEADLY],
        SeccompAction::KillProcess,
        SeccompAction::Allow,
    )
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
        // No rule at all means: whatever the arguments.
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
    // The kernel itself looks at the lower half of numbers of processes, commands and flags; a pointer has both.
    let length = match when {
        When::IsNot(..) => SeccompCmpArgLen::Qword,
        _ => SeccompCmpArgLen::Dword,
    };
    SeccompCondition::new(argument, length, comparison, value).map(Some)
}

/// x86-64 kernels may know each call by a second number, with bit 30 set (x32); a deny-list would let those through.
/// Everywhere else no call has a number so high, and the filter lets all pass.
fn foreign_numbers() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    vec![
        // The number lies first in seccomp_data.
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
        assert_eq!(seal().unwrap().len(), 2);
        assert!(allowed_calls(Role::Prepare) <= 30);
        assert!(
            allowed_calls(Role::Bake) <= 45,
            "{}",
            allowed_calls(Role::Bake)
        );
    }

    #[test]
    fn nothing_is_both_allowed_and_deadly() {
        let deadly = calls::DEADLY.iter().chain(calls::old::DEADLY);
        let deadly: BTreeSet<i64> = deadly
            .filter(|call| matches!(call.when, When::Always))
            .map(|call| call.number)
            .collect();
        let allowed = calls::WORK.iter().chain(calls::DRIVER);
        let both: Vec<i64> = allowed
            .map(|call| call.number)
            .filter(|number| deadly.contains(number))
            .collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
