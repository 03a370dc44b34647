//! Proves that a live process is in its sandbox. The process's own account comes from a program that reads untrusted
//! bytes; `/proc/PID/status` comes from the kernel.
//!
//! Call this before the process is reaped, so that its pid cannot belong to another process.

use proto::message::Role;
use proto::sandbox::{Level, Sandbox, Stage, filters};

use crate::process::reserve::{self, Shortage};
use crate::process::verdict::Kill;

/// What the kernel says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process gains no rights by running another program.
    pub no_new_privs: bool,
    /// Seccomp mode: 0 off, 1 strict, 2 filters.
    pub seccomp: u8,
    /// Number of filters in force; `None` on kernels before 5.9, which do not count them.
    pub seccomp_filters: Option<u32>,
    /// Effective capabilities, as bits.
    pub capabilities: u64,
}

/// Why a process does not count as sandboxed, as one line for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum Unsafe {
    /// The process itself reports too little.
    #[error("{role} is not fully sandboxed ({level}): {missing}", role = .role.name(), level = .level.name())]
    Level {
        role: Role,
        /// The level that it reached.
        level: Level,
        /// Its own words: untrusted text.
        missing: String,
    },
    /// The kernel contradicts the process.
    #[error("the kernel says that {role} has no sandbox: {missing}", role = .role.name())]
    Denied {
        role: Role,
        /// Every requirement that is not met.
        missing: String,
    },
    /// Out of descriptors, so nobody can tell.
    #[error("{role} cannot be seen to be in its sandbox: {why}", role = .role.name())]
    Short { role: Role, why: String },
    /// The status is missing or unreadable.
    #[error("the sandbox of {role} cannot be checked: /proc/{pid}/status {why}", role = .role.name())]
    Unreadable { role: Role, pid: u32, why: String },
}

impl Unsafe {
    /// The reason for killing the process.
    pub fn kill(&self) -> Kill {
        match self {
            Self::Short { .. } => Kill::Short(self.to_string()),
            Self::Level { .. } | Self::Denied { .. } | Self::Unreadable { .. } => {
                Kill::Unconfined(self.to_string())
            }
        }
    }
}

/// How the system's message for `EMFILE` ends, as a worker passes it on.
const NO_DESCRIPTOR: &str = "(os error 24)";

/// Compares a process's account with the kernel's.
///
/// # Errors
/// What is missing.
pub fn check(role: Role, stage: Stage, pid: u32, account: &Sandbox) -> Result<(), Unsafe> {
    if account.level != Level::Full && account.missing.contains(NO_DESCRIPTOR) {
        return Err(Unsafe::Short {
            role,
            why: account.missing.clone(),
        });
    }
    if !enough(account.level) {
        return Err(Unsafe::Level {
            role,
            level: account.level,
            missing: account.missing.clone(),
        });
    }
    let unreadable = |why: String| Unsafe::Unreadable { role, pid, why };
    let text = reserve::read(format!("/proc/{pid}/status")).map_err(|error| {
        let why = error.to_string();
        match error.of_descriptors() {
            true => Unsafe::Short { role, why },
            false => unreadable(why),
        }
    })?;
    let status = parse(&text).ok_or_else(|| unreadable("has no lines on seccomp".to_owned()))?;
    judge(role, stage, &status)
}

/// Whether a process at this level is given data.
pub fn enough(level: Level) -> bool {
    level >= Level::NoLandlock
}

/// The pure part of [`check`].
///
/// # Errors
/// [`Unsafe::Denied`].
pub fn judge(role: Role, stage: Stage, status: &Status) -> Result<(), Unsafe> {
    let mut missing = Vec::new();
    if !status.no_new_privs {
        missing.push("NoNewPrivs is 0, not 1".to_owned());
    }
    if status.seccomp != 2 {
        missing.push(format!("Seccomp is {}, not 2", status.seccomp));
    }
    let wanted = u32::from(filters(role, stage));
    if let Some(count) = status.seccomp_filters.filter(|count| *count < wanted) {
        missing.push(format!("Seccomp_filters is {count}, not {wanted} or more"));
    }
    if status.capabilities != 0 {
        missing.push(format!("CapEff is {:x}, not 0", status.capabilities));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Unsafe::Denied {
            role,
            missing: missing.join(", "),
        })
    }
}

/// Parses `/proc/PID/status`; `None` if a line is missing that every kernel with seccomp has.
pub fn parse(text: &str) -> Option<Status> {
    // A process chooses its own name, the first line. The kernel escapes newlines in it.
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(':')).map(str::trim)
    };
    Some(Status {
        no_new_privs: field("NoNewPrivs")? == "1",
        seccomp: field("Seccomp")?.parse().ok()?,
        seccomp_filters: match field("Seccomp_filters") {
            None => None,
            Some(count) => Some(count.parse().ok()?),
        },
        capabilities: u64::from_str_radix(field("CapEff")?, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tkiln-baker\nUmask:\t0022\nCapInh:\t0000000000000000\nCapEff:\t0000000000000000\n\
        NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t4\nSpeculation_Store_Bypass:\tvulnerable\n";

    fn full() -> Sandbox {
        Sandbox {
            level: Level::Full,
            ..Sandbox::off()
        }
    }

    #[test]
    fn a_sandboxed_process_passes() {
        let status = parse(STATUS).expect("all lines");
        assert_eq!(
            status,
            Status {
                no_new_privs: true,
                seccomp: 2,
                seccomp_filters: Some(4),
                capabilities: 0,
            }
        );
        assert_eq!(judge(Role::Prepare, Stage::Entered, &status), Ok(()));
        assert_eq!(judge(Role::Bake, Stage::Entered, &status), Ok(()));
    }

    #[test]
    fn every_missing_layer_is_named() {
        let text = STATUS
            .replace("NoNewPrivs:\t1", "NoNewPrivs:\t0")
            .replace("Seccomp:\t2", "Seccomp:\t0")
            .replace("Seccomp_filters:\t4", "Seccomp_filters:\t0")
            .replace("CapEff:\t0000000000000000", "CapEff:\t000001fffeffffff");
        let status = parse(&text).expect("all lines");
        let refused = judge(Role::Encode, Stage::Entered, &status).expect_err("nothing is on");
        assert_eq!(
            refused.to_string(),
            "the kernel says that encode has no sandbox: NoNewPrivs is 0, not 1, Seccomp is 0, not 2, \
             Seccomp_filters is 0, not 4 or more, CapEff is 1fffeffffff, not 0"
        );
    }

    #[test]
    fn a_bake_that_did_not_seal_itself_is_seen() {
        let status = parse(STATUS).expect("all lines");
        let refused = judge(Role::Bake, Stage::Sealed, &status).expect_err("not sealed");
        assert!(
            refused
                .to_string()
                .contains("Seccomp_filters is 4, not 6 or more")
        );
    }

    #[test]
    fn a_process_gets_data_only_where_it_can_open_nothing_of_the_users() {
        let levels = [Level::Off, Level::Partial, Level::NoLandlock, Level::Full];
        assert_eq!(levels.map(enough), [false, false, true, true]);
    }

    #[test]
    fn a_want_of_descriptors_is_no_want_of_a_sandbox() {
        let error = std::io::Error::from_raw_os_error(nix::libc::EMFILE);
        let account = Sandbox {
            level: Level::Partial,
            missing: format!("Landlock: {error}"),
            ..full()
        };
        let pid = std::process::id();
        let short = check(Role::Bake, Stage::Entered, pid, &account).expect_err("short");
        let Kill::Short(why) = short.kill() else {
            panic!("{short}");
        };
        assert!(why.contains("Too many open files"), "{why}");
    }

    #[test]
    fn an_old_kernel_counts_no_filters_and_garbage_is_no_status() {
        let text = STATUS.replace("Seccomp_filters:\t4\n", "");
        let status = parse(&text).expect("all lines");
        assert_eq!(status.seccomp_filters, None);
        assert_eq!(judge(Role::Prepare, Stage::Entered, &status), Ok(()));
        assert_eq!(parse("Name:\tx\n"), None);
        assert_eq!(parse(&STATUS.replace("Seccomp:\t2", "Seccomp:\tyes")), None);
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        // A process may call itself "x\nSeccomp:\t2"; the kernel writes the newline as two characters.
        let text = STATUS
            .replace("kiln-baker", "x\\nSeccomp:\t2")
            .replace("\nSeccomp:\t2", "\nSeccomp:\t0");
        assert_eq!(parse(&text).map(|status| status.seccomp), Some(0));
    }

    #[test]
    fn this_test_is_not_sandboxed_and_says_so() {
        let pid = std::process::id();
        let refused = check(Role::Prepare, Stage::Entered, pid, &full()).expect_err("no sandbox");
        assert!(matches!(refused, Unsafe::Denied { .. }), "{refused}");
        let off = check(Role::Bake, Stage::Entered, pid, &Sandbox::off()).expect_err("off");
        assert!(
            off.to_string()
                .contains("(off): turned off by --no-sandbox"),
            "{off}"
        );
        // Larger than any pid of Linux.
        let gone = check(Role::Bake, Stage::Entered, 1 << 30, &full()).expect_err("nobody");
        assert!(matches!(gone, Unsafe::Unreadable { .. }), "{gone}");
    }
}
