//! The system calls of each role, as data: which are allowed, which fail with an error, and which kill.
//!
//! An unlisted call is trapped (`SIGSYS`), so that a call which a new driver or C library needs is reported by number.
//! Before bake is sealed, it fails with `ENOSYS` instead, as on a kernel without it. A call that fails with an error
//! does not count as allowed: the kernel never runs it. `kernel.txt` lists every call, and a test checks that each is
//! in one of bake's lists.

use nix::libc;

/// A call, and the arguments to which the entry applies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) when: When,
}

/// A condition on the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Always,
    /// The argument equals this.
    Is(u8, u64),
    /// The argument does not equal this.
    IsNot(u8, u64),
    /// All of these bits of the argument are set.
    Has(u8, u64),
    /// None of these bits of the argument is set.
    Lacks(u8, u64),
    /// The masked argument equals this.
    Masked(u8, u64, u64),
    /// The argument is the process's own pid.
    Own(u8),
    /// The argument is another process's pid.
    Foreign(u8),
}

macro_rules! calls {
    ($($name:ident $(if $when:expr)?),* $(,)?) => {
        &[$(Call { number: libc::$name, when: calls!(@ $($when)?) }),*]
    };
    (@) => { When::Always };
    (@ $when:expr) => { $when };
}

const EXEC: u64 = libc::PROT_EXEC as u64;
/// The type byte of an ioctl request.
const IOCTL_TYPE: u64 = 0xff00;

/// Commands of `fcntl` and `ioctl` that choose who gets which signal for a file (asm-generic/fcntl.h,
/// asm-generic/sockios.h), and those of the console (asm-generic/ioctls.h).
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const TIOCLINUX: u64 = 0x541c;

/// Prepare and encode, from the start: non-executable memory, threads, the socket, and open files.
pub(super) const WORK: &[Call] = calls![
    // Memory.
    SYS_mmap if When::Lacks(2, EXEC),
    SYS_mprotect if When::Lacks(2, EXEC),
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    // Threads: rayon, and the end of threads and processes.
    SYS_clone if When::Has(0, libc::CLONE_THREAD as u64),
    SYS_futex,
    SYS_rseq,
    SYS_sched_yield,
    SYS_gettid,
    SYS_getpid,
    SYS_exit,
    SYS_exit_group,
    // The socket on descriptor 0, and descriptors that arrive with packets.
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_fcntl if When::Is(1, libc::F_GET_SEALS as u64),
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_close,
    // Log lines.
    SYS_write,
    SYS_clock_gettime,
    // Seeds of hash tables.
    SYS_getrandom,
    // Last words of a crash, and abort.
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_tgkill if When::Own(0),
    // After SIGSTOP and SIGCONT.
    SYS_restart_syscall,
];

/// Bake once its adapter is open, beyond [`WORK`]: a driver talks to its adapter, and may compile code for the
/// processor, as llvmpipe does.
pub(super) const DRIVER: &[Call] = calls![
    SYS_mmap,
    SYS_mprotect,
    // 'd' is DRM (Mesa), 'F' NVIDIA's resource manager, 'm' its modeset node (`NVKMS_IOCTL_MAGIC`), 'G' the paravirtual
    // adapter of Windows, 'b' dma-buf.
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6400),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x4600),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6d00),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x4700),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6200),
    // A driver opens its node again for a new context. Landlock limits which files, and [`REFUSED_TO_BAKE`] forbids
    // creating any.
    SYS_openat,
    SYS_read,
    SYS_fstat,
    SYS_newfstatat,
    SYS_fcntl if When::Is(1, libc::F_GETFD as u64),
    SYS_fcntl if When::Is(1, libc::F_SETFD as u64),
    SYS_fcntl if When::Is(1, libc::F_GETFL as u64),
    SYS_fcntl if When::Is(1, libc::F_SETFL as u64),
    SYS_fcntl if When::Is(1, libc::F_DUPFD_CLOEXEC as u64),
    SYS_fcntl if When::Is(1, libc::F_ADD_SEALS as u64),
    // Waiting for the adapter.
    SYS_poll,
    SYS_ppoll,
    SYS_eventfd2,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    // Memory of a software adapter.
    SYS_memfd_create,
    SYS_ftruncate,
    // The driver's threads: their names and processors.
    SYS_prctl if When::Is(0, libc::PR_SET_NAME as u64),
    SYS_set_robust_list,
    SYS_sched_getaffinity,
];

/// Bake while its adapter opens, beyond [`WORK`] and [`DRIVER`]: the loader and the drivers read files that Landlock
/// allows, inspect the machine and themselves, and wait. Calls that they might need are included even if no trace shows
/// them, provided that they affect this process alone. [`REFUSED_TO_BAKE`] and [`DEADLY`] then take some of this away.
pub(super) const START: &[Call] = calls![
    // Files.
    SYS_readv,
    SYS_preadv,
    SYS_preadv2,
    SYS_writev,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_readahead,
    SYS_fadvise64,
    SYS_flock,
    SYS_umask,
    SYS_ioctl,
    SYS_fcntl,
    SYS_dup,
    SYS_dup3,
    SYS_close_range,
    // Memory.
    SYS_msync,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_membarrier,
    // Waiting, and time.
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_pipe2,
    SYS_futex_waitv,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_getitimer,
    SYS_setitimer,
    SYS_gettimeofday,
    SYS_clock_getres,
    SYS_times,
    SYS_rt_sigpending,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_wait4,
    SYS_waitid,
    // The machine, and the identity and location of this process.
    SYS_uname,
    SYS_sysinfo,
    SYS_getcpu,
    SYS_getrusage,
    SYS_prlimit64,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getresuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_capget,
    SYS_getpriority,
    SYS_ioprio_get,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    // Its main thread: llvmpipe inspects the caches of each processor.
    SYS_sched_setaffinity if When::Is(0, 0),
    SYS_sched_setaffinity if When::Own(0),
    SYS_set_tid_address,
    SYS_prctl,
    SYS_kill,
    // Giving up rights.
    SYS_seccomp,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
];

/// Fails with `ENOSYS` in every role; callers have an alternative. glibc starts threads with `clone` when there is no
/// `clone3`, whose flags a filter cannot see.
pub(super) const ABSENT: &[Call] = calls![SYS_clone3, SYS_openat2, SYS_faccessat2];

/// The same for prepare and encode: they need no robust mutexes, thread names or processor masks.
pub(super) const ABSENT_AT_WORK: &[Call] = calls![
    SYS_set_robust_list,
    SYS_sched_getaffinity,
    // Except the call that precedes each further filter; the allow-list, which comes last, traps it.
    SYS_prctl if When::IsNot(0, libc::PR_SET_NO_NEW_PRIVS as u64),
    SYS_statx,
    SYS_getrusage,
];

/// Fails with `EACCES` in prepare and encode: the C library looks for files that it can do without.
pub(super) const REFUSED_AT_WORK: &[Call] = calls![
    SYS_openat,
    SYS_newfstatat,
    SYS_fstat,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_socket,
    // glibc's qsort (in libwebp, for the palette of an alpha channel) asks for the memory size, and sorts either way.
    SYS_sysinfo,
];

/// Fails with `EACCES` in a sealed bake: drivers try these calls and can do without them.
pub(super) const REFUSED_AT_BAKE: &[Call] = calls![
    SYS_statx,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_sched_setaffinity,
    SYS_sched_setscheduler,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_setpriority,
    SYS_uname,
    SYS_sysinfo,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getcpu,
    SYS_getrusage,
    SYS_mlock,
    SYS_munlock,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_membarrier,
    SYS_prlimit64,
];

/// Fails with `EACCES` in a sealed bake where no Landlock limits which files: it opens none. `REFUSED_AT_BAKE` has the older
/// ways to open one.
pub(super) const OPENS: &[Call] = calls![SYS_openat];

/// Fails with `EACCES` in bake from the start: outward signals, sockets, shared memory and queues, other processes'
/// priorities and processors, file metadata and the list of mounts (which Landlock does not bind), ways to write that
/// old versions of Landlock do not bind, and parts of the kernel that no driver uses.
pub(super) const REFUSED_TO_BAKE: &[Call] = calls![
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    // Memory, semaphores and messages that other processes can share.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_semtimedop,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    // Signals, including those that a file sends to its owner.
    SYS_kill if When::Foreign(0),
    SYS_tgkill if When::Foreign(0),
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_fcntl if When::Is(1, libc::F_SETOWN as u64),
    SYS_fcntl if When::Is(1, F_SETOWN_EX),
    SYS_fcntl if When::Is(1, F_SETSIG),
    SYS_fcntl if When::Is(1, libc::F_SETLEASE as u64),
    SYS_fcntl if When::Is(1, libc::F_NOTIFY as u64),
    SYS_ioctl if When::Is(1, FIOSETOWN),
    SYS_ioctl if When::Is(1, SIOCSPGRP),
    SYS_signalfd4,
    // Keystrokes injected into a terminal.
    SYS_ioctl if When::Is(1, libc::TIOCSTI),
    SYS_ioctl if When::Is(1, TIOCLINUX),
    // Sessions and process groups.
    SYS_setsid,
    SYS_getsid,
    SYS_setpgid,
    SYS_getpgid,
    SYS_chdir,
    SYS_fchdir,
    SYS_get_robust_list,
    // Files.
    SYS_openat if When::Has(2, libc::O_CREAT as u64),
    SYS_openat if When::Has(2, libc::O_TRUNC as u64),
    SYS_truncate,
    SYS_fallocate,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_sync,
    SYS_syncfs,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sendfile,
    SYS_copy_file_range,
    SYS_splice,
    SYS_tee,
    SYS_remap_file_pages,
    // Limits, priorities and processors, of this process and of others.
    SYS_prlimit64 if When::IsNot(2, 0),
    SYS_prctl if When::Is(0, libc::PR_SET_DUMPABLE as u64),
    SYS_prctl if When::Is(0, libc::PR_SET_PTRACER as u64),
    SYS_prctl if When::Is(0, libc::PR_SET_MM as u64),
    // A worker ends with the thread that started it, and adopts nobody's children.
    SYS_prctl if When::Is(0, libc::PR_SET_PDEATHSIG as u64),
    SYS_prctl if When::Is(0, libc::PR_SET_CHILD_SUBREAPER as u64),
    SYS_prctl if When::Is(0, libc::PR_SCHED_CORE as u64),
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_set_mempolicy_home_node,
];

/// Kills in every role: no honest worker makes these calls.
pub(super) const DEADLY: &[Call] = calls![
    // Another program, another process.
    SYS_execve,
    SYS_execveat,
    SYS_clone if When::Lacks(0, libc::CLONE_THREAD as u64),
    // Other processes' memory, descriptors and threads.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_process_mrelease,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kcmp,
    // Namespaces and mounts.
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    // Parts of the kernel with many past vulnerabilities.
    SYS_bpf,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_setup,
    SYS_io_destroy,
    SYS_io_submit,
    SYS_io_cancel,
    SYS_io_getevents,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    SYS_vmsplice,
    SYS_memfd_secret,
    SYS_personality,
    // The machine.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_vhangup,
    // The process's identity.
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    SYS_capset,
];

/// Calls without a name in `libc`, by numbers that are the same on every machine.
pub(super) mod new {
    use crate::worker::sandbox::calls::{Call, When};

    pub(super) const fn call(number: i64) -> Call {
        Call {
            number,
            when: When::Always,
        }
    }

    pub(in crate::worker::sandbox) const START: &[Call] = &[
        call(453), // map_shadow_stack: of threads, where the processor has one.
        call(454), // futex_wake
        call(455), // futex_wait
        call(456), // futex_requeue
        call(462), // mseal: libraries that are loaded.
    ];
    pub(in crate::worker::sandbox) const REFUSED_TO_BAKE: &[Call] = &[
        call(451), // cachestat
        call(452), // fchmodat2
        call(457), // statmount
        call(458), // listmount
        call(459), // lsm_get_self_attr
        call(460), // lsm_set_self_attr
        call(461), // lsm_list_modules
        call(463), // setxattrat
        call(464), // getxattrat
        call(465), // listxattrat
        call(466), // removexattrat
        call(468), // file_getattr
        call(469), // file_setattr
        call(470), // listns
    ];
    pub(in crate::worker::sandbox) const DEADLY: &[Call] = &[
        call(467), // open_tree_attr
    ];
}

/// Older variants that only x86-64 still has.
#[cfg(target_arch = "x86_64")]
pub(super) mod old {
    use nix::libc;

    use crate::worker::sandbox::calls::{Call, When};

    pub(in crate::worker::sandbox) const START: &[Call] = calls![
        SYS_open,
        SYS_stat,
        SYS_lstat,
        SYS_access,
        SYS_readlink,
        SYS_getdents,
        SYS_dup2,
        SYS_pipe,
        SYS_select,
        SYS_pause,
        SYS_alarm,
        SYS_time,
        SYS_epoll_create,
        SYS_epoll_wait,
        SYS_eventfd,
        SYS_getrlimit,
        SYS_getpgrp,
        SYS_arch_prctl,
    ];

    pub(in crate::worker::sandbox) const DEADLY: &[Call] = calls![
        SYS_fork,
        SYS_vfork,
        SYS_iopl,
        SYS_ioperm,
        SYS_modify_ldt,
        SYS_uselib,
        SYS_kexec_file_load,
    ];
    pub(in crate::worker::sandbox) const REFUSED_AT_WORK: &[Call] =
        calls![SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink];
    pub(in crate::worker::sandbox) const REFUSED_AT_BAKE: &[Call] = calls![
        SYS_open,
        SYS_stat,
        SYS_lstat,
        SYS_access,
        SYS_readlink,
        SYS_getdents,
    ];
    pub(in crate::worker::sandbox) const REFUSED_TO_BAKE: &[Call] = calls![
        SYS_open if When::Has(1, libc::O_CREAT as u64),
        SYS_open if When::Has(1, libc::O_TRUNC as u64),
        SYS_creat,
        SYS_chmod,
        SYS_chown,
        SYS_lchown,
        SYS_utime,
        SYS_utimes,
        SYS_futimesat,
        SYS_mkdir,
        SYS_mknod,
        SYS_rmdir,
        SYS_unlink,
        SYS_rename,
        SYS_link,
        SYS_symlink,
        SYS_inotify_init,
        SYS_signalfd,
        SYS_setrlimit,
        SYS_sync_file_range,
        SYS_sysfs,
        SYS_ustat,
        SYS_get_thread_area,
        SYS_set_thread_area,
    ];
    /// Calls without a name in `libc`.
    pub(in crate::worker::sandbox) const UNNAMED: &[Call] = &[
        crate::worker::sandbox::calls::new::call(333), // io_pgetevents
        crate::worker::sandbox::calls::new::call(335), // uretprobe
        crate::worker::sandbox::calls::new::call(336), // uprobe
    ];
}

/// Other machines have no older variants.
#[cfg(not(target_arch = "x86_64"))]
pub(super) mod old {
    use crate::worker::sandbox::calls::Call;

    pub(in crate::worker::sandbox) const START: &[Call] = &[];
    pub(in crate::worker::sandbox) const UNNAMED: &[Call] = &[];
    pub(in crate::worker::sandbox) const DEADLY: &[Call] = &[];
    pub(in crate::worker::sandbox) const REFUSED_AT_WORK: &[Call] = &[];
    pub(in crate::worker::sandbox) const REFUSED_AT_BAKE: &[Call] = &[];
    pub(in crate::worker::sandbox) const REFUSED_TO_BAKE: &[Call] = &[];
}
