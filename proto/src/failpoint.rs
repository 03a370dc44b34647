//! Fault injection: `KILN_FAILPOINTS` says what goes wrong, where, and when. Only with the feature `failpoints`; a
//! product build has none of it.
//!
//! ```text
//!  ROLE:SITE:NTH=[TIMES*]ACTION;…        bake:fit:3=segv    encode:png:1=1*exit(0)    supervisor:stage.sync:2=error(EIO)
//! ```
//!
//! The fault happens at the Nth passage (from 1) of a site, in a process of that role. With TIMES, only the first TIMES
//! processes of the role have it, so the next one passes. A worker's sites are its phases, where each count is a
//! passage, and the steps of the protocol. The supervisor's sites are named where they are. The `fail` crate has
//! neither Nth passages nor processes nor hardware faults, hence this module.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, raise};

use crate::role::Role;

/// Name of the environment variable.
pub const VARIABLE: &str = "KILN_FAILPOINTS";

/// What goes wrong. Hardware faults are real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write to address 0.
    Segv,
    /// A read beyond the end of a mapped file.
    Bus,
    /// An invalid instruction.
    Ill,
    /// A division by zero.
    Fpe,
    /// A breakpoint.
    Trap,
    /// `abort`.
    Abort,
    /// A panic.
    Panic,
    /// Endless recursion.
    Overflow,
    /// SIGKILL, sent by the process itself.
    Kill,
    /// SIGSTOP, sent by the process itself.
    Stop,
    /// The process exits with this code.
    Exit(i32),
    /// Sleeps for ever.
    Stall,
    /// A busy loop for ever.
    Spin,
    /// Allocates until it fails.
    Oom,
    /// A system call, by its number.
    Syscall(i64),
    /// Flips one bit of the next texture.
    Flip,
    /// Each passage from here on takes this much longer.
    Slow(Duration),
    /// A system call fails with this error.
    Error(Errno),
}

#[derive(Debug)]
struct Point {
    role: String,
    site: String,
    nth: u64,
    times: Option<u32>,
    action: Action,
    passed: AtomicU64,
}

/// Counts a passage, and returns the fault that happens there.
///
/// # Panics
/// If the variable cannot be parsed: a test that tests nothing must not pass.
pub fn hit(role: &str, site: &str) -> Option<Action> {
    static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
    let points = POINTS.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        parse(&text).unwrap_or_else(|error| panic!("{VARIABLE}: {error}"))
    });
    let mut found = None;
    for point in points {
        if point.role != role || point.site != site {
            continue;
        }
        let passage = point.passed.fetch_add(1, Ordering::Relaxed) + 1;
        let lasting = matches!(point.action, Action::Slow(_)) && passage > point.nth;
        if passage == point.nth || lasting {
            found = Some(point.action);
        }
    }
    found
}

/// The variable for the next process of `role`, without what is meant for earlier ones. Call it once per process.
///
/// # Panics
/// As [`hit`].
pub fn for_child(role: Role) -> Option<String> {
    static STARTED: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    let text = std::env::var(VARIABLE).ok()?;
    let before = STARTED[role as usize].fetch_add(1, Ordering::Relaxed);
    let left = left(&text, role, before);
    Some(left.unwrap_or_else(|error| panic!("{VARIABLE}: {error}")))
}

fn left(text: &str, role: Role, before: u32) -> Result<String, String> {
    let points = parse(text)?;
    let entries = text.split(';').filter(|entry| !entry.is_empty());
    let kept = entries.zip(&points).filter(|(_, point)| {
        point.role == role.name() && point.times.is_none_or(|times| before < times)
    });
    Ok(kept.map(|(entry, _)| entry).collect::<Vec<_>>().join(";"))
}

fn parse(text: &str) -> Result<Vec<Point>, String> {
    let entries = text.split(';').filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            point(entry).ok_or_else(|| format!("{entry:?} is not ROLE:SITE:NTH=[TIMES*]ACTION"))
        })
        .collect()
}

fn point(entry: &str) -> Option<Point> {
    let (place, what) = entry.split_once('=')?;
    let (role, place) = place.split_once(':')?;
    let (site, nth) = place.rsplit_once(':')?;
    let known = ["prepare", "bake", "encode", "supervisor"].contains(&role);
    let (times, action) = match what.split_once('*') {
        Some((times, action)) => (Some(times.parse().ok()?), action),
        None => (None, what),
    };
    known.then_some(Point {
        role: role.to_owned(),
        site: site.to_owned(),
        nth: nth.parse().ok().filter(|&nth| nth > 0)?,
        times,
        action: action_of(action)?,
        passed: AtomicU64::new(0),
    })
}

fn action_of(text: &str) -> Option<Action> {
    let (name, argument) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    Some(match (name, argument) {
        ("segv", None) => Action::Segv,
        ("bus", None) => Action::Bus,
        ("ill", None) => Action::Ill,
        ("fpe", None) => Action::Fpe,
        ("trap", None) => Action::Trap,
        ("abort", None) => Action::Abort,
        ("panic", None) => Action::Panic,
        ("overflow", None) => Action::Overflow,
        ("kill", None) => Action::Kill,
        ("stop", None) => Action::Stop,
        ("exit", Some(code)) => Action::Exit(code.parse().ok()?),
        ("stall", None) => Action::Stall,
        ("spin", None) => Action::Spin,
        ("oom", None) => Action::Oom,
        ("syscall", Some("ptrace")) => Action::Syscall(nix::libc::SYS_ptrace),
        ("syscall", Some(number)) => Action::Syscall(number.parse().ok()?),
        ("flip", None) => Action::Flip,
        ("slow", Some(ms)) => Action::Slow(Duration::from_millis(ms.parse().ok()?)),
        ("error", Some("ENOSPC")) => Action::Error(Errno::ENOSPC),
        ("error", Some("EIO")) => Action::Error(Errno::EIO),
        _ => return None,
    })
}

/// Carries out an action that needs neither a hardware fault nor the caller's help; returns any other.
///
/// # Panics
/// With [`Action::Panic`].
#[expect(
    clippy::exit,
    reason = "an exit at a place where none is meant to be is the fault"
)]
#[expect(clippy::infinite_loop, reason = "some faults are to last for ever")]
pub fn act(action: Action) -> Option<Action> {
    match action {
        Action::Abort => std::process::abort(),
        Action::Panic => panic!("a failpoint"),
        Action::Kill => drop(raise(Signal::SIGKILL)),
        Action::Stop => drop(raise(Signal::SIGSTOP)),
        Action::Exit(code) => std::process::exit(code),
        Action::Stall => loop {
            std::thread::park();
        },
        Action::Spin => loop {
            std::hint::spin_loop();
        },
        // Not `sleep`, whose system call a sandbox forbids.
        Action::Slow(time) => std::thread::park_timeout(time),
        rest => return Some(rest),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_for_one_passage_of_one_role() {
        let text = "bake:fit:3=segv;encode:png:1=2*exit(0);supervisor:stage.sync:2=error(EIO);";
        let points = parse(text).expect("well formed");
        let read: Vec<_> = points
            .iter()
            .map(|p| (p.role.as_str(), p.site.as_str(), p.nth, p.times, p.action))
            .collect();
        assert_eq!(
            read,
            [
                ("bake", "fit", 3, None, Action::Segv),
                ("encode", "png", 1, Some(2), Action::Exit(0)),
                (
                    "supervisor",
                    "stage.sync",
                    2,
                    None,
                    Action::Error(Errno::EIO)
                ),
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "bake",
            "bake:fit=segv",
            "bake:fit:0=segv",
            "cook:fit:1=segv",
            "bake:fit:1=cry",
            "bake:fit:1=exit",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_child_gets_what_is_for_it() {
        let text = "bake:fit:3=segv;bake:fit:1=1*kill;encode:png:1=2*exit(0)";
        let left = |role, before| left(text, role, before).expect("well formed");
        assert_eq!(left(Role::Bake, 0), "bake:fit:3=segv;bake:fit:1=1*kill");
        assert_eq!(left(Role::Bake, 1), "bake:fit:3=segv");
        assert_eq!(left(Role::Encode, 1), "encode:png:1=2*exit(0)");
        assert_eq!(left(Role::Encode, 2), "");
        assert_eq!(left(Role::Prepare, 0), "");
    }
}
