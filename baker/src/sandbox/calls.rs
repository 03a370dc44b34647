//! The system calls of each role, as data: what is let through, what is answered with an error, what is death.
//!
//! What no list names is trapped (`SIGSYS`), so that the call which a new driver or C library needs is named by its number.
//! A call that is answered with an error is not counted as allowed: the kernel never runs it.

use nix::libc;

/// A call, and the arguments for which it is meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) when: When,
}

/// A condition on the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Always,
    /// This argument is this.
    Is(u8, u64),
    /// This argument is not this.
    IsNot(u8, u64),
    /// These bits of this argument are all set.
    Has(u8, u64),
    /// None of these bits of this argument is set.
    Lacks(u8, u64),
    /// This argument, under this mask, is this.
    Masked(u8, u64, u64),
    /// This argument is the process's own number.
    Own(u8),
    /// This argument is another process's number.
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
/// The type byte of an ioctl's number.
const IOCTL_TYPE: u64 = 0xff00;

/// Prepare and encode, from the start: memory without the right to run it, threads, the socket, and files that are open.
pub(super) const WORK: &[Call] = calls![
    // Memory.
    SYS_mmap if When::Lacks(2, EXEC),
    SYS_mprotect if When::Lacks(2, EXEC),
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    // Threads: rayon, and the ends of both.
    SYS_clone if When::Has(0, libc::CLONE_THREAD as u64),
    SYS_futex,
    SYS_rseq,
    SYS_sched_yield,
    SYS_gettid,
    SYS_getpid,
    SYS_exit,
    SYS_exit_group,
    // The socket on descriptor 0, and what comes with its packets.
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
    // Hash tables are seeded.
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

/// Bake once its adapter is open, beyond [`WORK`]: a driver that talks to its adapter, and compiles code for the processor
/// (llvmpipe does).
pub(super) const DRIVER: &[Call] = calls![
    SYS_mmap,
    SYS_mprotect,
    // 'd' is DRM (Mesa), 'F' NVIDIA's resource manager, 'm' its modeset node (`NVKMS_IOCTL_MAGIC`), 'G' Windows'
    // paravirtual adapter, 'b' dma-buf.
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6400),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x4600),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6d00),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x4700),
    SYS_ioctl if When::Masked(1, IOCTL_TYPE, 0x6200),
    // A driver opens its node again for a new context; Landlock says which files there are, and [`REFUSED_TO_BAKE`] that
    // none is made.
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
    // Its threads: their names, and where they may run.
    SYS_prctl if When::Is(0, libc::PR_SET_NAME as u64),
    SYS_set_robust_list,
    SYS_sched_getaffinity,
];

/// Answered with `ENOSYS` in every role: whoever asks has another way. glibc starts threads by `clone` when there is no
/// `clone3`, whose flags a filter cannot see.
pub(super) const ABSENT: &[Call] = calls![SYS_clone3, SYS_openat2, SYS_faccessat2];

/// The same for prepare and encode: robust mutexes, names of threads and their processors are not needed.
pub(super) const ABSENT_AT_WORK: &[Call] = calls![
    SYS_set_robust_list,
    SYS_sched_getaffinity,
    // The one that each further filter begins with; the allow-list, which comes last, traps it.
    SYS_prctl if When::IsNot(0, libc::PR_SET_NO_NEW_PRIVS as u64),
    SYS_statx,
    SYS_getrusage,
];

/// Answered with `EACCES` in prepare and encode: the C library looks for files in places where it takes no for an answer.
pub(super) const REFUSED_AT_WORK: &[Call] = calls![
    SYS_openat,
    SYS_newfstatat,
    SYS_fstat,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_socket,
    // glibc's qsort (libwebp's, of the palette of an opacity) asks how much memory there is, and sorts either way.
    SYS_sysinfo,
];

/// Answered with `EACCES` in a sealed bake: what drivers try and can do without.
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

/// Answered with `EACCES` in bake from the start: outward signals and sockets, metadata of files (Landlock does not bind it),
/// and ways to write that old versions of Landlock do not bind.
pub(super) const REFUSED_TO_BAKE: &[Call] = calls![
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_shmget,
    SYS_semget,
    SYS_msgget,
    SYS_mq_open,
    SYS_kill if When::Foreign(0),
    SYS_tgkill if When::Foreign(0),
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
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
    SYS_mkdirat,
    SYS_mknodat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_inotify_init1,
    SYS_setrlimit,
    SYS_prlimit64 if When::IsNot(2, 0),
    SYS_prctl if When::Is(0, libc::PR_SET_DUMPABLE as u64),
    SYS_prctl if When::Is(0, libc::PR_SET_PTRACER as u64),
    SYS_prctl if When::Is(0, libc::PR_SET_MM as u64),
    SYS_sched_setscheduler,
    SYS_setpriority,
];

/// Death in every role: no honest worker makes these.
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
    // Parts of the kernel with a long record of holes.
    SYS_bpf,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_setup,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
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
    SYS_vhangup,
    // Who it is.
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

/// The older spellings, which only x86-64 still has.
#[cfg(target_arch = "x86_64")]
pub(super) mod old {
    use super::{Call, When, libc};

    pub(in super::super) const DEADLY: &[Call] = calls![
        SYS_fork,
        SYS_vfork,
        SYS_iopl,
        SYS_ioperm,
        SYS_modify_ldt,
        SYS_uselib,
        SYS_kexec_file_load,
    ];
    pub(in super::super) const REFUSED_AT_WORK: &[Call] =
        calls![SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink];
    pub(in super::super) const REFUSED_AT_BAKE: &[Call] = calls![
        SYS_open,
        SYS_stat,
        SYS_lstat,
        SYS_access,
        SYS_readlink,
        SYS_getdents,
    ];
    pub(in super::super) const REFUSED_TO_BAKE: &[Call] = calls![
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
        SYS_renameat,
        SYS_link,
        SYS_symlink,
        SYS_inotify_init,
        SYS_signalfd,
    ];
}

/// Other machines have no older spellings.
#[cfg(not(target_arch = "x86_64"))]
pub(super) mod old {
    use super::Call;

    pub(in super::super) const DEADLY: &[Call] = &[];
    pub(in super::super) const REFUSED_AT_WORK: &[Call] = &[];
    pub(in super::super) const REFUSED_AT_BAKE: &[Call] = &[];
    pub(in super::super) const REFUSED_TO_BAKE: &[Call] = &[];
}
