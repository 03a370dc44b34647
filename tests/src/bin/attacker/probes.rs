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

/// `escape!(name, outcome in prepare and encode, outcome in bake, act)`, optionally with what is on descriptor 0.
macro_rules! escape {
    ($name:literal, $work:expr, $bake:expr, $act:expr) => {
        escape!($name, $work, $bake, Stdin::Open, $act)
    };
    ($name:literal, $work:expr, $bake:expr, $stdin:expr, $act:expr) => {
        Probe {
            name: $name,
            work: $work,
            bake: $bake,
            start: unsealed($bake),
            stdin: $stdin,
            escape: true,
            act: $act,
        }
    };
}

macro_rules! honest {
    ($name:literal, $must:expr, $act:expr) => {
        Probe {
            name: $name,
            work: $must,
            bake: $must,
            start: $must,
            stdin: Stdin::Open,
            escape: false,
            act: $act,
        }
    };
}

use Must::{Die, Fail, FailEither, NotAsked, Trap};
use libc::{EACCES, ENOMEM, ENOSYS, EPERM};

pub(crate) const PROBES: &[Probe] = &[
    // Honest work must still be possible.
    honest!("start a thread", Must::Work, |_| {
        std::thread::spawn(|| 1).join().map_err(|_| 0)
    }),
    honest!("take 64 MiB", Must::Work, |_| {
        Ok(i64::from(std::hint::black_box(vec![1_u8; 64 << 20])[5]))
    }),
    honest!("read memory that was handed down", Must::Work, |_| {
        let mut byte = 0_u8;
        call(libc::SYS_pread64, &[0, (&raw mut byte) as u64, 1, 0])
    }),
    honest!("abort", Must::Signal(libc::SIGABRT), |_| {
        std::process::abort()
    }),
    Probe {
        work: NotAsked,
        ..honest!("read its own maps", Must::Work, |_| open(
            c"/proc/self/maps",
            RDONLY
        ))
    },
    // Files.
    escape!("read /etc/passwd", Fail(EACCES), Fail(EACCES), |_| open(
        c"/etc/passwd",
        RDONLY
    )),
    escape!(
        "read /etc/passwd by openat2",
        Fail(ENOSYS),
        Fail(ENOSYS),
        |_| {
            let how = [RDONLY, 0, 0];
            call(
                libc::SYS_openat2,
                &[AT_FDCWD, text(c"/etc/passwd"), how.as_ptr() as u64, 24],
            )
        }
    ),
    escape!(
        "look into a home folder",
        Fail(EACCES),
        Fail(EACCES),
        |_| { open(c"/root", (libc::O_RDONLY | libc::O_DIRECTORY) as u64) }
    ),
    escape!("list the root folder", Fail(EACCES), Fail(EACCES), |_| {
        open(c"/", (libc::O_RDONLY | libc::O_DIRECTORY) as u64)
    }),
    escape!(
        "read the environment of process 1",
        Fail(EACCES),
        Fail(EACCES),
        |_| { open(c"/proc/1/environ", RDONLY) }
    ),
    escape!(
        "write the memory of the parent",
        Fail(EACCES),
        Fail(EACCES),
        |place| {
            let path = CString::new(format!("/proc/{}/mem", place.parent)).expect("no NUL");
            call(libc::SYS_openat, &[AT_FDCWD, path.as_ptr() as u64, RDWR, 0])
        }
    ),
    escape!(
        "write its own memory as a file",
        Fail(EACCES),
        Fail(EACCES),
        |_| { open(c"/proc/self/mem", RDWR) }
    ),
    escape!(
        "open a kernel device",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/dev/kmsg", RDONLY)
    ),
    escape!("open the folder of GPUs", Fail(EACCES), NotAsked, |_| open(
        c"/dev/dri",
        RDONLY
    )),
    escape!("make a file", Fail(EACCES), Fail(EACCES), |place| {
        let flags = (libc::O_CREAT | libc::O_WRONLY) as u64;
        call(
            libc::SYS_openat,
            &[AT_FDCWD, place.fresh.as_ptr() as u64, flags, 0o600],
        )
    }),
    escape!(
        "empty a file while opening it to read",
        Fail(EACCES),
        Fail(EACCES),
        |_| {
            // The null device accepts this unchanged.
            open(c"/dev/null", (libc::O_RDONLY | libc::O_TRUNC) as u64)
        }
    ),
    escape!(
        "make a folder",
        Trap(libc::SYS_mkdirat),
        Fail(EACCES),
        |place| {
            call(
                libc::SYS_mkdirat,
                &[AT_FDCWD, place.fresh.as_ptr() as u64, 0o700],
            )
        }
    ),
    escape!(
        "remove a name",
        Trap(libc::SYS_unlinkat),
        Fail(EACCES),
        |place| {
            call(
                libc::SYS_unlinkat,
                &[AT_FDCWD, place.fresh.as_ptr() as u64, 0],
            )
        }
    ),
    escape!(
        "make a link",
        Trap(libc::SYS_symlinkat),
        Fail(EACCES),
        |place| {
            call(
                libc::SYS_symlinkat,
                &[text(c"/etc"), AT_FDCWD, place.fresh.as_ptr() as u64],
            )
        }
    ),
    escape!(
        "change the mode of a file",
        Trap(libc::SYS_fchmodat),
        Fail(EACCES),
        |_| { call(libc::SYS_fchmodat, &[AT_FDCWD, text(c"/dev/null"), 0o666]) }
    ),
    escape!(
        "change the times of a file",
        Trap(libc::SYS_utimensat),
        Fail(EACCES),
        |_| { call(libc::SYS_utimensat, &[AT_FDCWD, text(c"/dev/null"), 0, 0]) }
    ),
    escape!(
        "ask whether a file is there",
        Fail(EACCES),
        NotAsked,
        |_| {
            let mut buffer = [0_u64; 32];
            let place = buffer.as_mut_ptr() as u64;
            call(
                libc::SYS_newfstatat,
                &[AT_FDCWD, text(c"/etc/passwd"), place, 0],
            )
        }
    ),
    escape!(
        "watch files",
        Trap(libc::SYS_inotify_init1),
        Fail(EACCES),
        |_| { call(libc::SYS_inotify_init1, &[]) }
    ),
    escape!(
        "list the sockets of the machine",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/proc/self/net/unix", RDONLY)
    ),
    escape!("list the mounts", Fail(EACCES), Fail(EACCES), |_| open(
        c"/proc/self/mountinfo",
        RDONLY
    )),
    escape!(
        "list the mounts by the old file",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/proc/self/mounts", RDONLY)
    ),
    escape!(
        "read its environment as a file",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/proc/self/environ", RDONLY)
    ),
    escape!(
        "list its threads as files",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/proc/self/task", RDONLY)
    ),
    escape!("read its control group", Fail(EACCES), Fail(EACCES), |_| {
        open(c"/proc/self/cgroup", RDONLY)
    }),
    escape!(
        "list the connections of the machine",
        Fail(EACCES),
        Fail(EACCES),
        |_| open(c"/proc/net/tcp", RDONLY)
    ),
    escape!(
        "read what lies beside a driver's manifest",
        NotAsked,
        Fail(EACCES),
        |place| open(&place.beside_manifest, RDONLY)
    ),
    escape!(
        "read what lies in a folder of libraries",
        Fail(EACCES),
        Fail(EACCES),
        |place| open(&place.beside_library, RDONLY)
    ),
    escape!(
        "list the mounts by their own call",
        Trap(LISTMOUNT),
        Fail(EACCES),
        |_| {
            // mnt_id_req: its size, then the root of all mounts.
            let request = [24_u64, u64::MAX, 0];
            let mut found = [0_u64; 8];
            let place = found.as_mut_ptr() as u64;
            call(LISTMOUNT, &[request.as_ptr() as u64, place, 8, 0])
        }
    ),
    escape!(
        "list the security modules",
        Trap(LSM_LIST_MODULES),
        Fail(EACCES),
        |_| {
            let mut found = [0_u64; 16];
            let mut size = 128_u32;
            let place = found.as_mut_ptr() as u64;
            call(LSM_LIST_MODULES, &[place, (&raw mut size) as u64, 0])
        }
    ),
    escape!(
        "change the mode of a file by the new call",
        Trap(FCHMODAT2),
        Fail(EACCES),
        |_| { call(FCHMODAT2, &[AT_FDCWD, text(c"/dev/null"), 0o666, 0]) }
    ),
    escape!(
        "set an attribute of a file by the new call",
        Trap(SETXATTRAT),
        Fail(EACCES),
        |_| call(
            SETXATTRAT,
            &[AT_FDCWD, text(c"/dev/null"), 0, text(c"user.x"), NOBODY, 0]
        )
    ),
    escape!(
        "read an attribute of a file by the new call",
        Trap(GETXATTRAT),
        Fail(EACCES),
        |_| call(
            GETXATTRAT,
            &[AT_FDCWD, text(c"/"), 0, text(c"user.x"), NOBODY, 0]
        )
    ),
    escape!(
        "list the attributes of a file by the new call",
        Trap(LISTXATTRAT),
        Fail(EACCES),
        |_| call(LISTXATTRAT, &[AT_FDCWD, text(c"/"), 0, 0, 0])
    ),
    escape!(
        "remove an attribute of a file by the new call",
        Trap(REMOVEXATTRAT),
        Fail(EACCES),
        |_| call(
            REMOVEXATTRAT,
            &[AT_FDCWD, text(c"/dev/null"), 0, text(c"user.x")]
        )
    ),
    escape!(
        "list the attributes of a file",
        Trap(libc::SYS_listxattr),
        Fail(EACCES),
        |_| call(libc::SYS_listxattr, &[text(c"/"), 0, 0])
    ),
    escape!(
        "read the flags of a file",
        Trap(FILE_GETATTR),
        Fail(EACCES),
        |_| {
            let mut found = [0_u64; 4];
            let place = found.as_mut_ptr() as u64;
            call(FILE_GETATTR, &[AT_FDCWD, text(c"/"), place, 24, 0])
        }
    ),
    escape!(
        "set the flags of a file",
        Trap(FILE_SETATTR),
        Fail(EACCES),
        |_| call(FILE_SETATTR, &[AT_FDCWD, text(c"/dev/null"), 0, 0, 0])
    ),
    escape!(
        "work from another folder",
        Trap(libc::SYS_chdir),
        Fail(EACCES),
        |_| call(libc::SYS_chdir, &[text(c"/")])
    ),
    escape!(
        "wait until its files are on disk",
        Trap(libc::SYS_fdatasync),
        Fail(EACCES),
        |_| call(libc::SYS_fdatasync, &[0])
    ),
    escape!("open a file by its handle", Die, Die, |_| {
        call(libc::SYS_open_by_handle_at, &[NOBODY, 0, 0])
    }),
    escape!("get the handle of a file", Die, Die, |_| {
        call(
            libc::SYS_name_to_handle_at,
            &[AT_FDCWD, text(c"/"), 0, 0, 0],
        )
    }),
    // Memory that was handed down.
    escape!(
        "reopen frozen memory and write it",
        Fail(EACCES),
        FailEither(EACCES, EPERM),
        Stdin::Frozen,
        |_| {
            let number = open(c"/proc/self/fd/0", RDWR)?;
            call(libc::SYS_pwrite64, &[number as u64, text(c"x"), 1, 0])
        }
    ),
    escape!(
        "shrink frozen memory",
        Trap(libc::SYS_ftruncate),
        Fail(EPERM),
        Stdin::Frozen,
        |_| { call(libc::SYS_ftruncate, &[0, 1]) }
    ),
    escape!(
        "seal memory that is not its own",
        Trap(libc::SYS_fcntl),
        Fail(EPERM),
        Stdin::Frozen,
        |_| {
            call(
                libc::SYS_fcntl,
                &[0, libc::F_ADD_SEALS as u64, libc::F_SEAL_SEAL as u64],
            )
        }
    ),
    escape!(
        "write frozen memory",
        Fail(EPERM),
        Fail(EPERM),
        Stdin::Frozen,
        |_| { call(libc::SYS_pwrite64, &[0, text(c"x"), 1, 0]) }
    ),
    escape!(
        "write a terabyte into memory",
        Must::Signal(libc::SIGXFSZ),
        Must::Signal(libc::SIGXFSZ),
        |_| { call(libc::SYS_pwrite64, &[0, text(c"x"), 1, 1 << 40]) }
    ),
    escape!(
        "set aside more addresses than allowed",
        Fail(ENOMEM),
        NotAsked,
        |_| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
            call(
                libc::SYS_mmap,
                &[0, 8 << 30, libc::PROT_READ as u64, flags, NOBODY, 0],
            )
        }
    ),
    // Code.
    escape!(
        "map memory to run it",
        Trap(libc::SYS_mmap),
        NotAsked,
        |_| {
            let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            call(libc::SYS_mmap, &[0, 4096, rights, flags, NOBODY, 0])
        }
    ),
    escape!(
        "make memory runnable",
        Trap(libc::SYS_mprotect),
        NotAsked,
        |_| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let page = call(libc::SYS_mmap, &[0, 4096, 1, flags, NOBODY, 0])?;
            call(
                libc::SYS_mprotect,
                &[
                    page as u64,
                    4096,
                    (libc::PROT_READ | libc::PROT_EXEC) as u64,
                ],
            )
        }
    ),
    escape!(
        "make a file in memory",
        Trap(libc::SYS_memfd_create),
        NotAsked,
        |_| { call(libc::SYS_memfd_create, &[text(c"x"), 0]) }
    ),
    escape!("run a program", Die, Die, |_| {
        let none = [0_u64];
        let place = none.as_ptr() as u64;
        call(libc::SYS_execve, &[text(c"/bin/absent"), place, place])
    }),
    escape!("run a program from memory", Die, Die, |_| {
        let none = [0_u64];
        let place = none.as_ptr() as u64;
        call(
            libc::SYS_execveat,
            &[0, text(c""), place, place, libc::AT_EMPTY_PATH as u64],
        )
    }),
    // Processes.
    escape!("fork", Die, Die, |_| call(
        libc::SYS_clone,
        &[libc::SIGCHLD as u64, 0, 0, 0, 0]
    )),
    escape!("clone3", Fail(ENOSYS), Fail(ENOSYS), |_| call(
        libc::SYS_clone3,
        &[0, 0]
    )),
    escape!("fork into a user namespace", Die, Die, |_| {
        let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as u64;
        call(libc::SYS_clone, &[flags, 0, 0, 0, 0])
    }),
    escape!(
        "ask whether the parent can be signalled",
        Trap(libc::SYS_kill),
        Fail(EACCES),
        |place| { call(libc::SYS_kill, &[place.parent, 0]) }
    ),
    escape!(
        "signal everybody",
        Trap(libc::SYS_kill),
        Fail(EACCES),
        |_| { call(libc::SYS_kill, &[NOBODY, 0]) }
    ),
    escape!(
        "signal a thread of the parent",
        Trap(libc::SYS_tgkill),
        Trap(libc::SYS_tgkill),
        |place| { call(libc::SYS_tgkill, &[place.parent, place.parent, 0]) }
    ),
    escape!(
        "signal the parent with a value",
        Trap(libc::SYS_rt_sigqueueinfo),
        Fail(EACCES),
        |place| { call(libc::SYS_rt_sigqueueinfo, &[place.parent, 0, 0]) }
    ),
    escape!("trace the parent", Die, Die, |place| {
        call(
            libc::SYS_ptrace,
            &[libc::PTRACE_PEEKDATA as u64, place.parent, 0, 0],
        )
    }),
    escape!("read the parent's memory", Die, Die, |place| {
        call(libc::SYS_process_vm_readv, &[place.parent, 0, 0, 0, 0, 0])
    }),
    escape!("write the parent's memory", Die, Die, |place| {
        call(libc::SYS_process_vm_writev, &[place.parent, 0, 0, 0, 0, 0])
    }),
    escape!("advise on the parent's memory", Die, Die, |_| {
        call(libc::SYS_process_madvise, &[NOBODY, 0, 0, 0, 0])
    }),
    escape!("hold the parent by a descriptor", Die, Die, |place| {
        call(libc::SYS_pidfd_open, &[place.parent, 0])
    }),
    escape!("take a descriptor of the parent", Die, Die, |_| {
        call(libc::SYS_pidfd_getfd, &[NOBODY, 0, 0])
    }),
    escape!("signal by a descriptor", Die, Die, |_| {
        call(libc::SYS_pidfd_send_signal, &[NOBODY, 0, 0, 0])
    }),
    escape!("compare with the parent", Die, Die, |place| {
        call(libc::SYS_kcmp, &[place.parent, place.parent, 1, 0, 0])
    }),
    Probe {
        start: Fail(ENOSYS),
        ..escape!(
            "say which processors the parent may have",
            Trap(libc::SYS_sched_setaffinity),
            Fail(EACCES),
            |place| {
                // All processors, which changes nothing.
                let all = [u64::MAX; 16];
                let size = size_of_val(&all) as u64;
                call(
                    libc::SYS_sched_setaffinity,
                    &[place.parent, size, all.as_ptr() as u64],
                )
            }
        )
    },
    escape!(
        "have signals of a file sent to the parent",
        Trap(libc::SYS_fcntl),
        Trap(libc::SYS_fcntl),
        |place| call(libc::SYS_fcntl, &[0, libc::F_SETOWN as u64, place.parent])
    ),
    escape!(
        "have signals of a file sent to a thread of the parent",
        Trap(libc::SYS_fcntl),
        Trap(libc::SYS_fcntl),
        |place| {
            // F_OWNER_TID, and the thread.
            let owner = [0_i32, place.parent as i32];
            call(libc::SYS_fcntl, &[0, F_SETOWN_EX, owner.as_ptr() as u64])
        }
    ),
    escape!(
        "have signals of a file sent to the parent by ioctl",
        Trap(libc::SYS_ioctl),
        Trap(libc::SYS_ioctl),
        |place| {
            let owner = place.parent as i32;
            call(libc::SYS_ioctl, &[0, FIOSETOWN, (&raw const owner) as u64])
        }
    ),
    escape!(
        "take signals from a descriptor",
        Trap(libc::SYS_signalfd4),
        Fail(EACCES),
        |_| {
            let none = 0_u64;
            let place = (&raw const none) as u64;
            call(libc::SYS_signalfd4, &[NOBODY, place, 8, 0])
        }
    ),
    escape!(
        "outlive the thread that started it",
        Fail(ENOSYS),
        Trap(libc::SYS_prctl),
        |_| call(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64, 0])
    ),
    escape!(
        "leave its session",
        Trap(libc::SYS_setsid),
        Fail(EACCES),
        |_| call(libc::SYS_setsid, &[])
    ),
    escape!(
        "set how it is scheduled",
        Trap(libc::SYS_sched_setattr),
        Fail(EACCES),
        |_| {
            // sched_attr: its size and SCHED_OTHER; no flags, nice 0.
            let attributes = [48_u64, 0, 0, 0, 0, 0];
            call(libc::SYS_sched_setattr, &[0, attributes.as_ptr() as u64, 0])
        }
    ),
    escape!(
        "set how it is scheduled by the old call",
        Trap(libc::SYS_sched_setparam),
        Fail(EACCES),
        |_| {
            let priority = 0_i32;
            call(libc::SYS_sched_setparam, &[0, (&raw const priority) as u64])
        }
    ),
    escape!(
        "set how it reads and writes",
        Trap(libc::SYS_ioprio_set),
        Fail(EACCES),
        |_| {
            // Best effort at its middle level: the default.
            call(
                libc::SYS_ioprio_set,
                &[IOPRIO_WHO_PROCESS, 0, (2 << 13) | 4],
            )
        }
    ),
    escape!(
        "move pages",
        Trap(libc::SYS_move_pages),
        Fail(EACCES),
        |_| call(libc::SYS_move_pages, &[0, 0, 0, 0, 0, 0])
    ),
    escape!(
        "move to another node",
        Trap(libc::SYS_migrate_pages),
        Fail(EACCES),
        |_| {
            let nodes = 1_u64;
            let address = (&raw const nodes) as u64;
            call(libc::SYS_migrate_pages, &[0, 64, address, address])
        }
    ),
    // The network and other ways out.
    escape!("TCP", Fail(EACCES), Fail(EACCES), |_| {
        call(
            libc::SYS_socket,
            &[libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0],
        )
    }),
    escape!("UDP", Fail(EACCES), Fail(EACCES), |_| {
        call(
            libc::SYS_socket,
            &[libc::AF_INET6 as u64, libc::SOCK_DGRAM as u64, 0],
        )
    }),
    escape!("Unix socket", Fail(EACCES), Fail(EACCES), |_| {
        call(
            libc::SYS_socket,
            &[libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0],
        )
    }),
    escape!("netlink", Fail(EACCES), Fail(EACCES), |_| {
        call(
            libc::SYS_socket,
            &[libc::AF_NETLINK as u64, libc::SOCK_RAW as u64, 0],
        )
    }),
    escape!(
        "socket pair",
        Trap(libc::SYS_socketpair),
        Fail(EACCES),
        |_| {
            let mut pair = [0_i32; 2];
            let place = pair.as_mut_ptr() as u64;
            call(
                libc::SYS_socketpair,
                &[libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, place],
            )
        }
    ),
    escape!("connect", Trap(libc::SYS_connect), Fail(EACCES), |_| {
        let address: [u8; 16] = [2, 0, 0, 22, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        call(libc::SYS_connect, &[0, address.as_ptr() as u64, 16])
    }),
    escape!(
        "shared memory of System V",
        Trap(libc::SYS_shmget),
        Fail(EACCES),
        |_| { call(libc::SYS_shmget, &[1, 4096, 0]) }
    ),
    escape!(
        "shared memory of the parent",
        Trap(libc::SYS_shmat),
        Fail(EACCES),
        |place| call(libc::SYS_shmat, &[place.shared[0], 0, 0])
    ),
    escape!(
        "who has shared memory",
        Trap(libc::SYS_shmctl),
        Fail(EACCES),
        |place| {
            let mut found = [0_u64; 32];
            let address = found.as_mut_ptr() as u64;
            call(
                libc::SYS_shmctl,
                &[place.shared[0], libc::IPC_STAT as u64, address],
            )
        }
    ),
    escape!(
        "let shared memory go",
        Trap(libc::SYS_shmdt),
        Fail(EACCES),
        |_| call(libc::SYS_shmdt, &[4096])
    ),
    escape!(
        "semaphores of System V",
        Trap(libc::SYS_semget),
        Fail(EACCES),
        |_| call(libc::SYS_semget, &[1, 1, 0])
    ),
    escape!(
        "semaphore of the parent by semop",
        Trap(libc::SYS_semop),
        Fail(EACCES),
        |place| {
            // sembuf: the first semaphore, one more, no flags.
            let more = [0_u16, 1, 0];
            let address = more.as_ptr() as u64;
            call(libc::SYS_semop, &[place.shared[1], address, 1])
        }
    ),
    escape!(
        "semaphore of the parent by semtimedop",
        Trap(libc::SYS_semtimedop),
        Fail(EACCES),
        |place| {
            // sembuf: the first semaphore, one more, no flags.
            let more = [0_u16, 1, 0];
            let address = more.as_ptr() as u64;
            call(libc::SYS_semtimedop, &[place.shared[1], address, 1, 0])
        }
    ),
    escape!(
        "value of a semaphore",
        Trap(libc::SYS_semctl),
        Fail(EACCES),
        |place| call(
            libc::SYS_semctl,
            &[place.shared[1], 0, libc::GETVAL as u64, 0]
        )
    ),
    escape!(
        "queues of System V",
        Trap(libc::SYS_msgget),
        Fail(EACCES),
        |_| call(libc::SYS_msgget, &[1, 0])
    ),
    escape!(
        "message to the parent",
        Trap(libc::SYS_msgsnd),
        Fail(EACCES),
        |place| {
            // msgbuf: a kind, and eight bytes.
            let message = [1_u64, 0];
            let flags = libc::IPC_NOWAIT as u64;
            call(
                libc::SYS_msgsnd,
                &[place.shared[2], message.as_ptr() as u64, 8, flags],
            )
        }
    ),
    escape!(
        "message from the parent",
        Trap(libc::SYS_msgrcv),
        Fail(EACCES),
        |place| {
            let mut message = [0_u64; 2];
            let flags = libc::IPC_NOWAIT as u64;
            let address = message.as_mut_ptr() as u64;
            call(libc::SYS_msgrcv, &[place.shared[2], address, 8, 0, flags])
        }
    ),
    escape!(
        "who has a queue",
        Trap(libc::SYS_msgctl),
        Fail(EACCES),
        |place| {
            let mut found = [0_u64; 32];
            let address = found.as_mut_ptr() as u64;
            call(
                libc::SYS_msgctl,
                &[place.shared[2], libc::IPC_STAT as u64, address],
            )
        }
    ),
    escape!(
        "remove a message queue",
        Trap(libc::SYS_mq_unlink),
        Fail(EACCES),
        |_| call(libc::SYS_mq_unlink, &[text(c"absent")])
    ),
    escape!(
        "mq_timedsend",
        Trap(libc::SYS_mq_timedsend),
        Fail(EACCES),
        |_| call(libc::SYS_mq_timedsend, &[NOBODY, 0, 0, 0, 0])
    ),
    escape!(
        "mq_timedreceive",
        Trap(libc::SYS_mq_timedreceive),
        Fail(EACCES),
        |_| call(libc::SYS_mq_timedreceive, &[NOBODY, 0, 0, 0, 0])
    ),
    escape!("mq_notify", Trap(libc::SYS_mq_notify), Fail(EACCES), |_| {
        call(libc::SYS_mq_notify, &[NOBODY, 0, 0])
    }),
    escape!(
        "mq_getsetattr",
        Trap(libc::SYS_mq_getsetattr),
        Fail(EACCES),
        |_| call(libc::SYS_mq_getsetattr, &[NOBODY, 0, 0])
    ),
    escape!(
        "bytes to anybody",
        Trap(libc::SYS_sendto),
        Fail(EACCES),
        |_| call(libc::SYS_sendto, &[0, text(c"x"), 1, 0, 0, 0])
    ),
    escape!(
        "copy within the kernel",
        Trap(libc::SYS_copy_file_range),
        Fail(EACCES),
        |_| {
            let (from, to) = (0_u64, 2048_u64);
            let (from, to) = ((&raw const from) as u64, (&raw const to) as u64);
            call(libc::SYS_copy_file_range, &[0, from, 0, to, 1, 0])
        }
    ),
    escape!(
        "message queue",
        Trap(libc::SYS_mq_open),
        Fail(EACCES),
        |_| { call(libc::SYS_mq_open, &[text(c"absent"), RDONLY, 0, 0]) }
    ),
    escape!(
        "type into the terminal",
        Trap(libc::SYS_ioctl),
        Trap(libc::SYS_ioctl),
        |_| { call(libc::SYS_ioctl, &[0, libc::TIOCSTI, text(c"x")]) }
    ),
    // More rights.
    escape!("user namespace", Die, Die, |_| {
        call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as u64])
    }),
    escape!("enter a namespace", Die, Die, |_| call(
        libc::SYS_setns,
        &[NOBODY, 0]
    )),
    escape!("mount", Die, Die, |_| call(
        libc::SYS_mount,
        &[0, 0, 0, 0, 0]
    )),
    escape!("unmount", Die, Die, |_| call(libc::SYS_umount2, &[0, 0])),
    escape!("another root", Die, Die, |_| call(
        libc::SYS_pivot_root,
        &[0, 0]
    )),
    escape!("chroot", Die, Die, |_| call(
        libc::SYS_chroot,
        &[text(c"/")]
    )),
    escape!("another user", Die, Die, |_| call(
        libc::SYS_setresuid,
        &[NOBODY, NOBODY, NOBODY]
    )),
    escape!("capabilities", Die, Die, |_| call(
        libc::SYS_capset,
        &[0, 0]
    )),
    escape!(
        "raise the limit of files",
        Trap(libc::SYS_prlimit64),
        Fail(EACCES),
        |_| {
            let limit = [1_u64 << 16; 2];
            call(
                libc::SYS_prlimit64,
                &[0, libc::RLIMIT_NOFILE.into(), limit.as_ptr() as u64, 0],
            )
        }
    ),
    escape!(
        "raise a limit of the parent",
        Trap(libc::SYS_prlimit64),
        Fail(EACCES),
        |place| {
            let limit = [1_u64 << 16; 2];
            call(
                libc::SYS_prlimit64,
                &[
                    place.parent,
                    libc::RLIMIT_NOFILE.into(),
                    limit.as_ptr() as u64,
                    0,
                ],
            )
        }
    ),
    escape!(
        "let itself be debugged",
        Fail(ENOSYS),
        Trap(libc::SYS_prctl),
        |_| { call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 1]) }
    ),
    Probe {
        // The seal itself uses this call to add filters.
        start: NotAsked,
        ..escape!(
            "another filter",
            Trap(libc::SYS_seccomp),
            Trap(libc::SYS_seccomp),
            |_| {
                call(
                    libc::SYS_seccomp,
                    &[libc::SECCOMP_SET_MODE_FILTER.into(), 0, 0],
                )
            }
        )
    },
    escape!("another personality", Die, Die, |_| {
        call(libc::SYS_personality, &[libc::ADDR_NO_RANDOMIZE as u64])
    }),
    // Parts of the kernel with many past vulnerabilities.
    escape!("bpf", Die, Die, |_| call(libc::SYS_bpf, &[NOBODY, 0, 0])),
    escape!("io_uring", Die, Die, |_| call(
        libc::SYS_io_uring_setup,
        &[1, 0]
    )),
    escape!("userfaultfd", Die, Die, |_| call(
        libc::SYS_userfaultfd,
        &[0]
    )),
    escape!("perf events", Die, Die, |_| call(
        libc::SYS_perf_event_open,
        &[0, 0, 0, 0, 0]
    )),
    escape!("keys", Die, Die, |_| call(
        libc::SYS_keyctl,
        &[NOBODY, 0, 0, 0, 0]
    )),
    escape!("splice of its own pages", Die, Die, |_| call(
        libc::SYS_vmsplice,
        &[NOBODY, 0, 0, 0]
    )),
    escape!("secret memory", Die, Die, |_| call(
        libc::SYS_memfd_secret,
        &[NOBODY]
    )),
    escape!("watch the whole file system", Die, Die, |_| {
        call(libc::SYS_fanotify_init, &[NOBODY, 0])
    }),
    escape!("mount with attributes", Die, Die, |_| call(
        OPEN_TREE_ATTR,
        &[AT_FDCWD, NOBODY, 0, 0, 0]
    )),
    escape!("quota by a descriptor", Die, Die, |_| call(
        libc::SYS_quotactl_fd,
        &[NOBODY, 0, 0, 0]
    )),
    escape!("asynchronous reads and writes", Die, Die, |_| call(
        libc::SYS_io_submit,
        &[NOBODY, 0, 0]
    )),
    escape!(
        "mark the whole file system to watch it",
        Die,
        Die,
        |_| call(libc::SYS_fanotify_mark, &[NOBODY, 0, 0, AT_FDCWD, 0])
    ),
    // The machine.
    escape!("load a kernel module", Die, Die, |_| call(
        libc::SYS_finit_module,
        &[NOBODY, 0, 0]
    )),
    escape!("load another kernel", Die, Die, |_| call(
        libc::SYS_kexec_load,
        &[0, 0, 0, NOBODY]
    )),
    escape!("reboot", Die, Die, |_| call(
        libc::SYS_reboot,
        &[0, 0, 0, 0]
    )),
    escape!("swap", Die, Die, |_| call(libc::SYS_swapon, &[0, 0])),
    escape!("rename the machine", Die, Die, |_| call(
        libc::SYS_sethostname,
        &[0, NOBODY]
    )),
    escape!("set the clock", Die, Die, |_| call(
        libc::SYS_clock_settime,
        &[NOBODY, 0]
    )),
    // System call numbers with another meaning.
    #[cfg(target_arch = "x86_64")]
    escape!(
        "read /etc/passwd by the old call",
        Fail(EACCES),
        Fail(EACCES),
        |_| { call(libc::SYS_open, &[text(c"/etc/passwd"), RDONLY, 0]) }
    ),
    #[cfg(target_arch = "x86_64")]
    escape!("fork by the old call", Die, Die, |_| call(
        libc::SYS_fork,
        &[]
    )),
    #[cfg(target_arch = "x86_64")]
    escape!(
        "x32 number",
        Trap(0x4000_0000 + libc::SYS_getppid),
        Die,
        |_| { call(0x4000_0000 + libc::SYS_getppid, &[]) }
    ),
    #[cfg(target_arch = "x86_64")]
    escape!("call as a 32-bit program", Die, Die, |_| {
        crate::sys::call_as_i386(20)
    }),
];
