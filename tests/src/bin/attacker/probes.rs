//! The attempts, with the required outcome of each in prepare and encode, in a bake before it is sealed, and in a
//! sealed one.
//!
//! Every attempt is harmless if it succeeds, since they also run without a sandbox: their arguments leave the machine
//! unchanged.

use std::ffi::{CStr, CString};
use std::fmt;
use std::path::PathBuf;

use nix::libc;
use proto::message::Role;
use proto::sandbox::Stage;

use crate::sys::call;

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The call failed with this error.
    Errno(i32),
    /// The filter trapped this call (`SIGSYS`, with a handler).
    Trapped(i64),
    /// This signal killed the process. SIGSYS without a handler's report comes from the filter.
    Signal(i32),
    /// It succeeded.
    Success,
    /// Anything else.
    Odd(String),
}

impl Got {
    pub(crate) fn parse(text: &str) -> Self {
        let number = text.get(1..).and_then(|number| number.parse::<i64>().ok());
        match (text.as_bytes().first(), number) {
            (Some(b'o'), Some(_)) => Self::Success,
            (Some(b'e'), Some(errno)) => Self::Errno(errno as i32),
            (Some(b't'), Some(number)) => Self::Trapped(number),
            _ => Self::Odd(text.to_owned()),
        }
    }
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{:?}", nix::errno::Errno::from_raw(*errno)),
            Self::Trapped(number) => write!(f, "trapped call {number}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(signal) => write!(f, "killed by {signal}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
            Self::Success => f.write_str("success"),
            Self::Odd(text) => f.write_str(text),
        }
    }
}

/// The required outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Must {
    /// Fails with this error.
    Fail(i32),
    /// One of two errors.
    FailEither(i32, i32),
    /// Trapped as this call.
    Trap(i64),
    /// Killed by the filter.
    Die,
    /// Killed by this signal.
    Signal(i32),
    /// Succeeds: an honest worker does it.
    Work,
    /// Not tried in this role.
    NotAsked,
}

/// What is on descriptor 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stdin {
    /// Writable memory.
    Open,
    /// Sealed memory, as a table is handed down.
    Frozen,
}

/// An attempt.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    /// Outcome in prepare and encode.
    work: Must,
    /// Outcome in a sealed bake.
    bake: Must,
    /// Outcome in a bake before it is sealed.
    start: Must,
    pub(crate) stdin: Stdin,
    /// Counts as an escape; other attempts show that honest work is possible.
    pub(crate) escape: bool,
    pub(crate) act: fn(&Place) -> Result<i64, i32>,
}

/// The outcome before the seal: calls that a sealed bake traps fail with an error instead.
const fn unsealed(sealed: Must) -> Must {
    match sealed {
        Trap(_) => Fail(EACCES),
        other => other,
    }
}

impl Probe {
    fn must(&self, role: Role, stage: Stage) -> Must {
        match (role, stage) {
            (Role::Prepare | Role::Encode, _) => self.work,
            (Role::Bake, Stage::Entered) => self.start,
            (Role::Bake, Stage::Sealed) => self.bake,
        }
    }

    pub(crate) fn meant_for(&self, role: Role, stage: Stage) -> bool {
        !matches!(self.must(role, stage), NotAsked)
    }

    pub(crate) fn expected(&self, role: Role, stage: Stage) -> Vec<Got> {
        match self.must(role, stage) {
            Fail(errno) => vec![Got::Errno(errno)],
            FailEither(one, other) => vec![Got::Errno(one), Got::Errno(other)],
            Trap(number) => vec![Got::Trapped(number)],
            Die => vec![Got::Signal(libc::SIGSYS)],
            Must::Signal(signal) => vec![Got::Signal(signal)],
            Must::Work => vec![Got::Success],
            NotAsked => Vec::new(),
        }
    }
}

/// The attacker's surroundings.
#[derive(Debug)]
pub(crate) struct Place {
    /// Pid of its parent, in place of a supervisor.
    parent: u64,
    /// A name that does not exist.
    fresh: CString,
    /// The parent's System V memory, semaphore and queue.
    shared: [u64; 3],
    /// A user's file beside the manifest that `VK_DRIVER_FILES` names.
    beside_manifest: CString,
    /// A user's file in the first folder of `LD_LIBRARY_PATH`.
    beside_library: CString,
}

impl Place {
    pub(crate) fn new() -> Self {
        let parent = u64::from(std::process::id());
        let fresh = CString::new(format!("/tmp/kiln-attacker-{parent}")).expect("no NUL");
        let make = |number, arguments: &[u64]| call(number, arguments).expect("System V") as u64;
        let shared = [
            make(libc::SYS_shmget, &[0, 4096, 0o600]),
            make(libc::SYS_semget, &[0, 1, 0o600]),
            make(libc::SYS_msgget, &[0, 0o600]),
        ];
        let secret = |folder: Option<PathBuf>| {
            let path = folder.unwrap_or_default().join("secret");
            CString::new(path.into_os_string().into_encoded_bytes()).expect("no NUL")
        };
        let first = |name| std::env::split_paths(&std::env::var_os(name)?).next();
        let manifest = first("VK_DRIVER_FILES");
        Self {
            parent,
            fresh,
            shared,
            beside_manifest: secret(manifest.and_then(|path| Some(path.parent()?.to_path_buf()))),
            beside_library: secret(first("LD_LIBRARY_PATH")),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let [memory, semaphore, queue] = self.shared;
        let remove = libc::IPC_RMID as u64;
        call(libc::SYS_shmctl, &[memory, remove, 0]).expect("removed");
        call(libc::SYS_semctl, &[semaphore, 0, remove, 0]).expect("removed");
        call(libc::SYS_msgctl, &[queue, remove, 0]).expect("removed");
        let path = self.fresh.to_str().expect("ascii");
        // Removes what an attempt without a sandbox created.
        if std::fs::remove_file(path)
            .or_else(|_| std::fs::remove_dir(path))
            .is_err()
        {
            // Nothing did.
        }
    }
}

const AT_FDCWD: u64 = libc::AT_FDCWD as u64;
const RDONLY: u64 = libc::O_RDONLY as u64;
const RDWR: u64 = libc::O_RDWR as u64;
const NOBODY: u64 = u64::MAX;

fn text(text: &'static CStr) -> u64 {
    text.as_ptr() as u64
}

fn open(path: &CStr, flags: u64) -> Result<i64, i32> {
    let path = path.as_ptr() as u64;
    call(libc::SYS_openat, &[AT_FDCWD, path, flags, 0o600])
}

/// Calls without a name in `libc`; their numbers are the same on every machine.
const FCHMODAT2: i64 = 452;
const LISTMOUNT: i64 = 458;
const LSM_LIST_MODULES: i64 = 461;
const SETXATTRAT: i64 = 463;
const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_GETATTR: i64 = 468;
const FILE_SETATTR: i64 = 469;
/// Commands of `fcntl` and `ioctl`.
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// An argument of a call as the kernel takes it.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($from:ty),*) => {$(
        impl Word for $from {
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}
words!(i32, u32, i64, u64);

impl<T> Word for *const T {
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Word for *mut T {
    fn word(self) -> u64 {
        self as u64
    }
}

fn word(argument: impl Word) -> u64 {
    argument.word()
}

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => { call($number, &[$(word($argument)),*]) };
}

macro_rules! given {
    (, $default:expr) => {
        $default
    };
    ($given:expr, $default:expr) => {
        $given
    };
}

/// A row each: name, what must come of it in prepare and encode, in a sealed bake, in a bake before that where it is not
/// [`unsealed`], what lies on descriptor 0 where it matters, and the attempt.
macro_rules! probes {
    ($escape:literal, $place:ident; $(
        $(#[$only:meta])* $name:literal, $work:expr, $bake:expr
            $(, before: $start:expr)? $(, on: $stdin:ident)? => $act:expr;
    )*) => {
        &[$($(#[$only])* Probe {
            name: $name,
            work: $work,
            bake: $bake,
            start: given!($($start)?, unsealed($bake)),
            stdin: given!($(Stdin::$stdin)?, Stdin::Open),
            escape: $escape,
            act: |$place| {
                _ = $place;
                $act
            },
        }),*]
    };
}

use Must::{Die, Fail, FailEither, NotAsked, Trap};
use libc::{EACCES, ENOMEM, ENOSYS, EPERM};

/// What an honest worker does goes on.
pub(crate) const HONEST: &[Probe] = probes! { false, place;
    "start a thread", Must::Work, Must::Work => std::thread::spawn(|| 1).join().map_err(|_| 0);
    "take 64 MiB", Must::Work, Must::Work => Ok(i64::from(std::hint::black_box(vec![1_u8; 64 << 20])[5]));
    "read memory that was handed down", Must::Work, Must::Work => {
        let mut byte = 0_u8; call!(libc::SYS_pread64, 0, &raw mut byte, 1, 0)
    };
    "abort", Must::Signal(libc::SIGABRT), Must::Signal(libc::SIGABRT) => std::process::abort();
    "read its own maps", NotAsked, Must::Work => open(c"/proc/self/maps", RDONLY);
};

pub(crate) const ESCAPES: &[Probe] = probes! { true, place;
    // Files.
    "read /etc/passwd", Fail(EACCES), Fail(EACCES) => open(c"/etc/passwd", RDONLY);
    "read /etc/passwd by openat2", Fail(ENOSYS), Fail(ENOSYS) => {
        let how = [RDONLY, 0, 0]; call!(libc::SYS_openat2, AT_FDCWD, text(c"/etc/passwd"), how.as_ptr(), 24)
    };
    "look into a home folder", Fail(EACCES), Fail(EACCES) => open(c"/root", word(libc::O_RDONLY | libc::O_DIRECTORY));
    "list the root folder", Fail(EACCES), Fail(EACCES) => open(c"/", word(libc::O_RDONLY | libc::O_DIRECTORY));
    "read the environment of process 1", Fail(EACCES), Fail(EACCES) => open(c"/proc/1/environ", RDONLY);
    "write the memory of the parent", Fail(EACCES), Fail(EACCES) => {
        let path = CString::new(format!("/proc/{}/mem", place.parent)).expect("no NUL");
        call!(libc::SYS_openat, AT_FDCWD, path.as_ptr(), RDWR, 0)
    };
    "write its own memory as a file", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/mem", RDWR);
    "open a kernel device", Fail(EACCES), Fail(EACCES) => open(c"/dev/kmsg", RDONLY);
    "open the folder of GPUs", Fail(EACCES), NotAsked => open(c"/dev/dri", RDONLY);
    "make a file", Fail(EACCES), Fail(EACCES) => {
        let flags = (libc::O_CREAT | libc::O_WRONLY) as u64;
        call!(libc::SYS_openat, AT_FDCWD, place.fresh.as_ptr(), flags, 0o600)
    };
    "empty a file while opening it to read", Fail(EACCES), Fail(EACCES) =>
        // The null device takes it and stays what it is.
        open(c"/dev/null", word(libc::O_RDONLY | libc::O_TRUNC));
    "make a folder", Trap(libc::SYS_mkdirat), Fail(EACCES) =>
        call!(libc::SYS_mkdirat, AT_FDCWD, place.fresh.as_ptr(), 0o700);
    "remove a name", Trap(libc::SYS_unlinkat), Fail(EACCES) =>
        call!(libc::SYS_unlinkat, AT_FDCWD, place.fresh.as_ptr(), 0);
    "make a link", Trap(libc::SYS_symlinkat), Fail(EACCES) =>
        call!(libc::SYS_symlinkat, text(c"/etc"), AT_FDCWD, place.fresh.as_ptr());
    "change the mode of a file", Trap(libc::SYS_fchmodat), Fail(EACCES) =>
        call!(libc::SYS_fchmodat, AT_FDCWD, text(c"/dev/null"), 0o666);
    "change the times of a file", Trap(libc::SYS_utimensat), Fail(EACCES) =>
        call!(libc::SYS_utimensat, AT_FDCWD, text(c"/dev/null"), 0, 0);
    "ask whether a file is there", Fail(EACCES), NotAsked => {
        let mut buffer = [0_u64; 32];
        call!(libc::SYS_newfstatat, AT_FDCWD, text(c"/etc/passwd"), buffer.as_mut_ptr(), 0)
    };
    "watch files", Trap(libc::SYS_inotify_init1), Fail(EACCES) => call!(libc::SYS_inotify_init1);
    "list the sockets of the machine", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/net/unix", RDONLY);
    "list the mounts", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/mountinfo", RDONLY);
    "list the mounts by the old file", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/mounts", RDONLY);
    "read its environment as a file", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/environ", RDONLY);
    "list its threads as files", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/task", RDONLY);
    "read its control group", Fail(EACCES), Fail(EACCES) => open(c"/proc/self/cgroup", RDONLY);
    "list the connections of the machine", Fail(EACCES), Fail(EACCES) => open(c"/proc/net/tcp", RDONLY);
    "read what lies beside a driver's manifest", NotAsked, Fail(EACCES) => open(&place.beside_manifest, RDONLY);
    "read what lies in a folder of libraries", Fail(EACCES), Fail(EACCES) => open(&place.beside_library, RDONLY);
    "list the mounts by their own call", Trap(LISTMOUNT), Fail(EACCES) => {
        // mnt_id_req: its size, then the root of all mounts.
        let request = [24_u64, u64::MAX, 0]; let mut found = [0_u64; 8];
        call!(LISTMOUNT, request.as_ptr(), found.as_mut_ptr(), 8, 0)
    };
    "list the security modules", Trap(LSM_LIST_MODULES), Fail(EACCES) => {
        let mut found = [0_u64; 16]; let mut size = 128_u32;
        call!(LSM_LIST_MODULES, found.as_mut_ptr(), &raw mut size, 0)
    };
    "change the mode of a file by the new call", Trap(FCHMODAT2), Fail(EACCES) =>
        call!(FCHMODAT2, AT_FDCWD, text(c"/dev/null"), 0o666, 0);
    "set an attribute of a file by the new call", Trap(SETXATTRAT), Fail(EACCES) =>
        call!(SETXATTRAT, AT_FDCWD, text(c"/dev/null"), 0, text(c"user.x"), NOBODY, 0);
    "read an attribute of a file by the new call", Trap(GETXATTRAT), Fail(EACCES) =>
        call!(GETXATTRAT, AT_FDCWD, text(c"/"), 0, text(c"user.x"), NOBODY, 0);
    "list the attributes of a file by the new call", Trap(LISTXATTRAT), Fail(EACCES) =>
        call!(LISTXATTRAT, AT_FDCWD, text(c"/"), 0, 0, 0);
    "remove an attribute of a file by the new call", Trap(REMOVEXATTRAT), Fail(EACCES) =>
        call!(REMOVEXATTRAT, AT_FDCWD, text(c"/dev/null"), 0, text(c"user.x"));
    "list the attributes of a file", Trap(libc::SYS_listxattr), Fail(EACCES) =>
        call!(libc::SYS_listxattr, text(c"/"), 0, 0);
    "read the flags of a file", Trap(FILE_GETATTR), Fail(EACCES) => {
        let mut found = [0_u64; 4]; call!(FILE_GETATTR, AT_FDCWD, text(c"/"), found.as_mut_ptr(), 24, 0)
    };
    "set the flags of a file", Trap(FILE_SETATTR), Fail(EACCES) =>
        call!(FILE_SETATTR, AT_FDCWD, text(c"/dev/null"), 0, 0, 0);
    "work from another folder", Trap(libc::SYS_chdir), Fail(EACCES) => call!(libc::SYS_chdir, text(c"/"));
    "wait until its files are on disk", Trap(libc::SYS_fdatasync), Fail(EACCES) => call!(libc::SYS_fdatasync, 0);
    "open a file by its handle", Die, Die => call!(libc::SYS_open_by_handle_at, NOBODY, 0, 0);
    "get the handle of a file", Die, Die => call!(libc::SYS_name_to_handle_at, AT_FDCWD, text(c"/"), 0, 0, 0);
    // Memory that was handed down.
    "reopen frozen memory and write it", Fail(EACCES), FailEither(EACCES, EPERM), on: Frozen => {
        let number = open(c"/proc/self/fd/0", RDWR)?; call!(libc::SYS_pwrite64, number, text(c"x"), 1, 0)
    };
    "shrink frozen memory", Trap(libc::SYS_ftruncate), Fail(EPERM), on: Frozen => call!(libc::SYS_ftruncate, 0, 1);
    "seal memory that is not its own", Trap(libc::SYS_fcntl), Fail(EPERM), on: Frozen =>
        call!(libc::SYS_fcntl, 0, libc::F_ADD_SEALS, libc::F_SEAL_SEAL);
    "write frozen memory", Fail(EPERM), Fail(EPERM), on: Frozen => call!(libc::SYS_pwrite64, 0, text(c"x"), 1, 0);
    "write a terabyte into memory", Must::Signal(libc::SIGXFSZ), Must::Signal(libc::SIGXFSZ) =>
        call!(libc::SYS_pwrite64, 0, text(c"x"), 1, 1_u64 << 40);
    "set aside more addresses than allowed", Fail(ENOMEM), NotAsked => {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        call!(libc::SYS_mmap, 0, 8_u64 << 30, libc::PROT_READ, flags, NOBODY, 0)
    };
    // Code.
    "map memory to run it", Trap(libc::SYS_mmap), NotAsked => {
        let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        call!(libc::SYS_mmap, 0, 4096, rights, flags, NOBODY, 0)
    };
    "make memory runnable", Trap(libc::SYS_mprotect), NotAsked => {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let page = call!(libc::SYS_mmap, 0, 4096, 1, flags, NOBODY, 0)?;
        call!(libc::SYS_mprotect, page, 4096, libc::PROT_READ | libc::PROT_EXEC)
    };
    "make a file in memory", Trap(libc::SYS_memfd_create), NotAsked => call!(libc::SYS_memfd_create, text(c"x"), 0);
    "run a program", Die, Die => {
        let none = [0_u64]; call!(libc::SYS_execve, text(c"/bin/absent"), none.as_ptr(), none.as_ptr())
    };
    "run a program from memory", Die, Die => {
        let none = [0_u64]; call!(libc::SYS_execveat, 0, text(c""), none.as_ptr(), none.as_ptr(), libc::AT_EMPTY_PATH)
    };
    // Processes.
    "fork", Die, Die => call!(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
    "clone3", Fail(ENOSYS), Fail(ENOSYS) => call!(libc::SYS_clone3, 0, 0);
    "fork into a user namespace", Die, Die => {
        let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as u64; call!(libc::SYS_clone, flags, 0, 0, 0, 0)
    };
    "ask whether the parent can be signalled", Trap(libc::SYS_kill), Fail(EACCES) =>
        call!(libc::SYS_kill, place.parent, 0);
    "signal everybody", Trap(libc::SYS_kill), Fail(EACCES) => call!(libc::SYS_kill, NOBODY, 0);
    "signal a thread of the parent", Trap(libc::SYS_tgkill), Trap(libc::SYS_tgkill) =>
        call!(libc::SYS_tgkill, place.parent, place.parent, 0);
    "signal the parent with a value", Trap(libc::SYS_rt_sigqueueinfo), Fail(EACCES) =>
        call!(libc::SYS_rt_sigqueueinfo, place.parent, 0, 0);
    "trace the parent", Die, Die => call!(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, place.parent, 0, 0);
    "read the parent's memory", Die, Die => call!(libc::SYS_process_vm_readv, place.parent, 0, 0, 0, 0, 0);
    "write the parent's memory", Die, Die => call!(libc::SYS_process_vm_writev, place.parent, 0, 0, 0, 0, 0);
    "advise on the parent's memory", Die, Die => call!(libc::SYS_process_madvise, NOBODY, 0, 0, 0, 0);
    "hold the parent by a descriptor", Die, Die => call!(libc::SYS_pidfd_open, place.parent, 0);
    "take a descriptor of the parent", Die, Die => call!(libc::SYS_pidfd_getfd, NOBODY, 0, 0);
    "signal by a descriptor", Die, Die => call!(libc::SYS_pidfd_send_signal, NOBODY, 0, 0, 0);
    "compare with the parent", Die, Die => call!(libc::SYS_kcmp, place.parent, place.parent, 1, 0, 0);
    "say which processors the parent may have", Trap(libc::SYS_sched_setaffinity), Fail(EACCES), before: Fail(ENOSYS) => {
        // All that there are, which changes nothing.
        let all = [u64::MAX; 16]; let size = size_of_val(&all) as u64;
        call!(libc::SYS_sched_setaffinity, place.parent, size, all.as_ptr())
    };
    "have signals of a file sent to the parent", Trap(libc::SYS_fcntl), Trap(libc::SYS_fcntl) =>
        call!(libc::SYS_fcntl, 0, libc::F_SETOWN, place.parent);
    "have signals of a file sent to a thread of the parent", Trap(libc::SYS_fcntl), Trap(libc::SYS_fcntl) => {
        // F_OWNER_TID, and the thread.
        let owner = [0_i32, place.parent as i32]; call!(libc::SYS_fcntl, 0, F_SETOWN_EX, owner.as_ptr())
    };
    "have signals of a file sent to the parent by ioctl", Trap(libc::SYS_ioctl), Trap(libc::SYS_ioctl) => {
        let owner = place.parent as i32; call!(libc::SYS_ioctl, 0, FIOSETOWN, &raw const owner)
    };
    "take signals from a descriptor", Trap(libc::SYS_signalfd4), Fail(EACCES) => {
        let none = 0_u64; call!(libc::SYS_signalfd4, NOBODY, &raw const none, 8, 0)
    };
    "outlive the thread that started it", Fail(ENOSYS), Trap(libc::SYS_prctl) =>
        call!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, 0);
    "leave its session", Trap(libc::SYS_setsid), Fail(EACCES) => call!(libc::SYS_setsid);
    "set how it is scheduled", Trap(libc::SYS_sched_setattr), Fail(EACCES) => {
        // sched_attr: its size and SCHED_OTHER; no flags, nice 0.
        let attributes = [48_u64, 0, 0, 0, 0, 0]; call!(libc::SYS_sched_setattr, 0, attributes.as_ptr(), 0)
    };
    "set how it is scheduled by the old call", Trap(libc::SYS_sched_setparam), Fail(EACCES) => {
        let priority = 0_i32; call!(libc::SYS_sched_setparam, 0, &raw const priority)
    };
    "set how it reads and writes", Trap(libc::SYS_ioprio_set), Fail(EACCES) =>
        // Best effort, the middle of it: what everybody has.
        call!(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, (2 << 13) | 4);
    "move pages", Trap(libc::SYS_move_pages), Fail(EACCES) => call!(libc::SYS_move_pages, 0, 0, 0, 0, 0, 0);
    "move to another node", Trap(libc::SYS_migrate_pages), Fail(EACCES) => {
        let nodes = 1_u64; call!(libc::SYS_migrate_pages, 0, 64, &raw const nodes, &raw const nodes)
    };
    // The network and other ways out.
    "TCP", Fail(EACCES), Fail(EACCES) => call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0);
    "UDP", Fail(EACCES), Fail(EACCES) => call!(libc::SYS_socket, libc::AF_INET6, libc::SOCK_DGRAM, 0);
    "Unix socket", Fail(EACCES), Fail(EACCES) => call!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0);
    "netlink", Fail(EACCES), Fail(EACCES) => call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0);
    "socket pair", Trap(libc::SYS_socketpair), Fail(EACCES) => {
        let mut pair = [0_i32; 2]; call!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr())
    };
    "connect", Trap(libc::SYS_connect), Fail(EACCES) => {
        let address: [u8; 16] = [2, 0, 0, 22, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        call!(libc::SYS_connect, 0, address.as_ptr(), 16)
    };
    "shared memory of System V", Trap(libc::SYS_shmget), Fail(EACCES) => call!(libc::SYS_shmget, 1, 4096, 0);
    "shared memory of the parent", Trap(libc::SYS_shmat), Fail(EACCES) => call!(libc::SYS_shmat, place.shared[0], 0, 0);
    "who has shared memory", Trap(libc::SYS_shmctl), Fail(EACCES) => {
        let mut found = [0_u64; 32]; call!(libc::SYS_shmctl, place.shared[0], libc::IPC_STAT, found.as_mut_ptr())
    };
    "let shared memory go", Trap(libc::SYS_shmdt), Fail(EACCES) => call!(libc::SYS_shmdt, 4096);
    "semaphores of System V", Trap(libc::SYS_semget), Fail(EACCES) => call!(libc::SYS_semget, 1, 1, 0);
    "semaphore of the parent by semop", Trap(libc::SYS_semop), Fail(EACCES) => {
        // sembuf: the first semaphore, one more, no flags.
        let more = [0_u16, 1, 0]; call!(libc::SYS_semop, place.shared[1], more.as_ptr(), 1)
    };
    "semaphore of the parent by semtimedop", Trap(libc::SYS_semtimedop), Fail(EACCES) => {
        // sembuf: the first semaphore, one more, no flags.
        let more = [0_u16, 1, 0]; call!(libc::SYS_semtimedop, place.shared[1], more.as_ptr(), 1, 0)
    };
    "value of a semaphore", Trap(libc::SYS_semctl), Fail(EACCES) =>
        call!(libc::SYS_semctl, place.shared[1], 0, libc::GETVAL, 0);
    "queues of System V", Trap(libc::SYS_msgget), Fail(EACCES) => call!(libc::SYS_msgget, 1, 0);
    "message to the parent", Trap(libc::SYS_msgsnd), Fail(EACCES) => {
        // msgbuf: a kind, and eight bytes.
        let message = [1_u64, 0]; let flags = libc::IPC_NOWAIT as u64;
        call!(libc::SYS_msgsnd, place.shared[2], message.as_ptr(), 8, flags)
    };
    "message from the parent", Trap(libc::SYS_msgrcv), Fail(EACCES) => {
        let mut message = [0_u64; 2]; let flags = libc::IPC_NOWAIT as u64;
        call!(libc::SYS_msgrcv, place.shared[2], message.as_mut_ptr(), 8, 0, flags)
    };
    "who has a queue", Trap(libc::SYS_msgctl), Fail(EACCES) => {
        let mut found = [0_u64; 32]; call!(libc::SYS_msgctl, place.shared[2], libc::IPC_STAT, found.as_mut_ptr())
    };
    "remove a message queue", Trap(libc::SYS_mq_unlink), Fail(EACCES) => call!(libc::SYS_mq_unlink, text(c"absent"));
    "mq_timedsend", Trap(libc::SYS_mq_timedsend), Fail(EACCES) => call!(libc::SYS_mq_timedsend, NOBODY, 0, 0, 0, 0);
    "mq_timedreceive", Trap(libc::SYS_mq_timedreceive), Fail(EACCES) =>
        call!(libc::SYS_mq_timedreceive, NOBODY, 0, 0, 0, 0);
    "mq_notify", Trap(libc::SYS_mq_notify), Fail(EACCES) => call!(libc::SYS_mq_notify, NOBODY, 0, 0);
    "mq_getsetattr", Trap(libc::SYS_mq_getsetattr), Fail(EACCES) => call!(libc::SYS_mq_getsetattr, NOBODY, 0, 0);
    "bytes to anybody", Trap(libc::SYS_sendto), Fail(EACCES) => call!(libc::SYS_sendto, 0, text(c"x"), 1, 0, 0, 0);
    "copy within the kernel", Trap(libc::SYS_copy_file_range), Fail(EACCES) => {
        let (from, to) = (0_u64, 2048_u64); let (from, to) = ((&raw const from) as u64, (&raw const to) as u64);
        call!(libc::SYS_copy_file_range, 0, from, 0, to, 1, 0)
    };
    "message queue", Trap(libc::SYS_mq_open), Fail(EACCES) => call!(libc::SYS_mq_open, text(c"absent"), RDONLY, 0, 0);
    "type into the terminal", Trap(libc::SYS_ioctl), Trap(libc::SYS_ioctl) =>
        call!(libc::SYS_ioctl, 0, libc::TIOCSTI, text(c"x"));
    // More rights.
    "user namespace", Die, Die => call!(libc::SYS_unshare, libc::CLONE_NEWUSER);
    "enter a namespace", Die, Die => call!(libc::SYS_setns, NOBODY, 0);
    "mount", Die, Die => call!(libc::SYS_mount, 0, 0, 0, 0, 0);
    "unmount", Die, Die => call!(libc::SYS_umount2, 0, 0);
    "another root", Die, Die => call!(libc::SYS_pivot_root, 0, 0);
    "chroot", Die, Die => call!(libc::SYS_chroot, text(c"/"));
    "another user", Die, Die => call!(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY);
    "capabilities", Die, Die => call!(libc::SYS_capset, 0, 0);
    "raise the limit of files", Trap(libc::SYS_prlimit64), Fail(EACCES) => {
        let limit = [1_u64 << 16; 2]; call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, limit.as_ptr(), 0)
    };
    "raise a limit of the parent", Trap(libc::SYS_prlimit64), Fail(EACCES) => {
        let limit = [1_u64 << 16; 2]; call!(libc::SYS_prlimit64, place.parent, libc::RLIMIT_NOFILE, limit.as_ptr(), 0)
    };
    "let itself be debugged", Fail(ENOSYS), Trap(libc::SYS_prctl) => call!(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1);
    // The filters of the seal come by it.
    "another filter", Trap(libc::SYS_seccomp), Trap(libc::SYS_seccomp), before: NotAsked =>
        call!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, 0);
    "another personality", Die, Die => call!(libc::SYS_personality, libc::ADDR_NO_RANDOMIZE);
    // Parts of the kernel with a long record.
    "bpf", Die, Die => call!(libc::SYS_bpf, NOBODY, 0, 0);
    "io_uring", Die, Die => call!(libc::SYS_io_uring_setup, 1, 0);
    "userfaultfd", Die, Die => call!(libc::SYS_userfaultfd, 0);
    "perf events", Die, Die => call!(libc::SYS_perf_event_open, 0, 0, 0, 0, 0);
    "keys", Die, Die => call!(libc::SYS_keyctl, NOBODY, 0, 0, 0, 0);
    "splice of its own pages", Die, Die => call!(libc::SYS_vmsplice, NOBODY, 0, 0, 0);
    "secret memory", Die, Die => call!(libc::SYS_memfd_secret, NOBODY);
    "watch the whole file system", Die, Die => call!(libc::SYS_fanotify_init, NOBODY, 0);
    "mount with attributes", Die, Die => call!(OPEN_TREE_ATTR, AT_FDCWD, NOBODY, 0, 0, 0);
    "quota by a descriptor", Die, Die => call!(libc::SYS_quotactl_fd, NOBODY, 0, 0, 0);
    "asynchronous reads and writes", Die, Die => call!(libc::SYS_io_submit, NOBODY, 0, 0);
    "mark the whole file system to watch it", Die, Die => call!(libc::SYS_fanotify_mark, NOBODY, 0, 0, AT_FDCWD, 0);
    // The machine.
    "load a kernel module", Die, Die => call!(libc::SYS_finit_module, NOBODY, 0, 0);
    "load another kernel", Die, Die => call!(libc::SYS_kexec_load, 0, 0, 0, NOBODY);
    "reboot", Die, Die => call!(libc::SYS_reboot, 0, 0, 0, 0);
    "swap", Die, Die => call!(libc::SYS_swapon, 0, 0);
    "rename the machine", Die, Die => call!(libc::SYS_sethostname, 0, NOBODY);
    "set the clock", Die, Die => call!(libc::SYS_clock_settime, NOBODY, 0);
    // Numbers that mean something else.
    #[cfg(target_arch = "x86_64")]
    "read /etc/passwd by the old call", Fail(EACCES), Fail(EACCES) =>
        call!(libc::SYS_open, text(c"/etc/passwd"), RDONLY, 0);
    #[cfg(target_arch = "x86_64")]
    "fork by the old call", Die, Die => call!(libc::SYS_fork);
    #[cfg(target_arch = "x86_64")]
    "x32 number", Trap(0x4000_0000 + libc::SYS_getppid), Die => call!(0x4000_0000 + libc::SYS_getppid);
    #[cfg(target_arch = "x86_64")]
    "call as a 32-bit program", Die, Die => crate::sys::call_as_i386(20);
};
