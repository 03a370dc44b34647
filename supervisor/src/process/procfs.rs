//! Reads `/proc`: whether a child runs, waits or is stopped, and what this process holds. The child must not be reaped
//! yet, so that its pid still belongs to it.

use std::fs;

use serde::Serialize;

use crate::process::reserve;

/// The state of a process in the kernel's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A signal or a debugger stopped it.
    Stopped,
    /// Any other live state, or there is no such process.
    Other,
}

/// The state of a process.
pub fn condition(pid: u32) -> Condition {
    let stat = reserve::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    match state(&stat) {
        Some('T' | 't') => Condition::Stopped,
        _ => Condition::Other,
    }
}

/// The letter after the name; the name may itself hold parentheses and blanks.
fn state(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Time that all threads of a process have run and have waited for a processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Time on a processor.
    pub ran: u64,
    /// Time runnable but waiting for a processor.
    pub waited: u64,
}

impl Share {
    /// Reads it now; zero where the kernel does not tell.
    pub fn of(pid: u32) -> Self {
        let Ok(threads) = reserve::lend(|| fs::read_dir(format!("/proc/{pid}/task"))) else {
            return Self::default();
        };
        threads
            .filter_map(|thread| reserve::read(thread.ok()?.path().join("schedstat")).ok())
            .filter_map(|text| parse(&text))
            .fold(Self::default(), |sum, one| Self {
                ran: sum.ran.saturating_add(one.ran),
                waited: sum.waited.saturating_add(one.waited),
            })
    }

    /// The share of its runnable time since `before` that it had to wait, 0-1. A process that sleeps, or is stuck in
    /// the kernel, is not starved.
    pub fn starved_since(&self, before: &Self) -> f64 {
        let waited = self.waited.saturating_sub(before.waited) as f64;
        let ran = self.ran.saturating_sub(before.ran) as f64;
        // A millisecond is not enough: every process waits that long now and then.
        if waited < 1e6 {
            return 0.0;
        }
        waited / (waited + ran)
    }
}

fn parse(schedstat: &str) -> Option<Share> {
    let mut numbers = schedstat.split_whitespace();
    let ran = numbers.next()?.parse().ok()?;
    let waited = numbers.next()?.parse().ok()?;
    Some(Share { ran, waited })
}

/// What this process holds. Equal before and after any number of jobs, unless something leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holdings {
    /// Open descriptors, except the one that counts them.
    pub open_fds: usize,
    /// How many of these are memory shared with workers.
    pub memfds: usize,
    /// Child processes that are not reaped, including dead ones.
    pub children: usize,
    /// Processes that could not be killed.
    pub parked: usize,
    /// Resident memory in KiB.
    pub rss_kib: u64,
}

impl Holdings {
    /// Counts everything now.
    pub fn count(parked: usize) -> Self {
        reserve::refill();
        let links: Vec<_> = fs::read_dir("/proc/self/fd")
            .map(|entries| {
                entries
                    .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
                    .collect()
            })
            .unwrap_or_default();
        let memfds = links
            .iter()
            .filter(|link| link.to_string_lossy().starts_with("/memfd:"))
            .count();
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        Self {
            open_fds: links.len().saturating_sub(1),
            memfds,
            children: children.split_whitespace().count(),
            parked,
            rss_kib: resident_kib(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        }
    }
}

fn resident_kib(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_last_parenthesis() {
        assert_eq!(state("12 (a) T) S 1 2"), Some('S'));
        assert_eq!(state("12 (kiln-baker) T 1"), Some('T'));
        assert_eq!(state(""), None);
        assert_eq!(condition(std::process::id()), Condition::Other);
    }

    #[test]
    fn starving_is_waiting_while_able_to_run() {
        let at = |ran, waited| Share { ran, waited };
        let before = at(5_000_000, 1_000_000);
        assert_eq!(at(5_000_000, 1_000_000).starved_since(&before), 0.0);
        assert_eq!(at(15_000_000, 1_500_000).starved_since(&before), 0.0);
        assert!((at(15_000_000, 31_000_000).starved_since(&before) - 0.75).abs() < 1e-9);
        assert_eq!(parse("12 34 5\n"), Some(at(12, 34)));
        assert_eq!(parse("x"), None);
    }

    #[test]
    fn what_is_opened_is_counted() {
        let before = Holdings::count(0);
        assert!(before.rss_kib > 100 && before.open_fds >= 3);
        let blobs = [(); 3].map(|()| proto::blob::Blob::create("counted", 10).expect("memory"));
        assert!(Holdings::count(0).memfds >= blobs.len());
    }

    #[test]
    fn our_own_share_grows() {
        let (mut least, mut sum) = (u64::MAX, 0_u64);
        loop {
            let now = Share::of(std::process::id()).ran;
            if now > least {
                break;
            }
            // A smaller count means that another test's thread has ended.
            least = now;
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
