//! What a container may ask of the kernel by default: the same as with other runtimes.

use super::profile::{Action, Argument, Comparison, Profile, Rule};

/// For every container.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    // Files.
    "access", "cachestat", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "faccessat", "faccessat2", "fadvise64", "fallocate", "fanotify_mark", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
    "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
    "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "getxattrat", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
    "ioctl", "lchown", "lgetxattr", "link", "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr",
    "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "name_to_handle_at", "newfstatat", "open", "openat", "openat2", "pread64",
    "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "removexattr",
    "removexattrat", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "setxattrat", "splice", "stat", "statfs",
    "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime",
    "utimensat", "utimes", "vmsplice", "write", "writev",
    // Waiting.
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait", "epoll_wait_old",
    "eventfd", "eventfd2", "pause", "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4",
    // Memory.
    "brk", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "memfd_secret", "mincore", "mlock", "mlock2", "mlockall",
    "mmap", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "process_mrelease", "remap_file_pages",
    // Processes and threads.
    "alarm", "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_requeue",
    "futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "get_thread_area", "getcpu", "getegid", "geteuid", "getgid",
    "getgroups", "getitimer", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit",
    "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "modify_ldt", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64",
    "process_vm_readv", "process_vm_writev", "ptrace", "restart_syscall", "riscv_hwprobe", "rseq", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
    "sched_yield", "seccomp", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid",
    "sigaltstack", "sysinfo", "tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid",
    // Pipes, queues, sockets.
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "mq_getsetattr", "mq_notify",
    "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "pipe", "pipe2", "recvfrom",
    "recvmmsg", "recvmsg", "semctl", "semget", "semop", "semtimedop", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shmat",
    "shmctl", "shmdt", "shmget", "shutdown", "socketpair",
    // Time and chance.
    "clock_getres", "clock_gettime", "clock_nanosleep", "getrandom", "gettimeofday", "nanosleep", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    // Looked at, not changed.
    "adjtimex", "clock_adjtime",
];

/// By capability.
#[rustfmt::skip]
const BY_CAPABILITY: &[(&str, &[&str])] = &[
    ("DAC_READ_SEARCH", &["open_by_handle_at"]),
    ("SYS_ADMIN", &[
        "bpf", "clone", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "lookup_dcookie", "mount",
        "mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd", "setdomainname", "sethostname",
        "setns", "syslog", "umount2", "unshare",
    ]),
    ("BPF", &["bpf"]),
    ("PERFMON", &["perf_event_open"]),
    ("SYSLOG", &["syslog"]),
    ("SYS_BOOT", &["reboot"]),
    ("SYS_CHROOT", &["chroot"]),
    ("SYS_MODULE", &["delete_module", "finit_module", "init_module"]),
    ("SYS_NICE", &["get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"]),
    ("SYS_PACCT", &["acct"]),
    ("SYS_PTRACE", &["kcmp", "pidfd_getfd", "process_madvise"]),
    ("SYS_RAWIO", &["ioperm", "iopl"]),
    ("SYS_TIME", &["clock_settime", "settimeofday"]),
    ("SYS_TTY_CONFIG", &["vhangup"]),
];

/// Personalities that change nothing that matters here.
const PERSONALITIES: &[u64] = &[0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// What makes a clone of a process enter new namespaces.
const NAMESPACES: u64 = 0x7e02_0000;
/// Sockets between a virtual machine and its host: those of a node are not a pod's business.
const VIRTUAL_MACHINE_SOCKETS: u64 = 40;

/// The default for a container with these capabilities.
pub(super) fn profile(has: impl Fn(&str) -> bool) -> Profile {
    let allow = |names: &[&str], arguments: Vec<Argument>| Rule {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        action: Action::Allow,
        arguments,
    };
    let argument = |comparison, value, value_two| Argument { index: 0, comparison, value, value_two };
    let mut rules = vec![allow(ALLOWED, Vec::new())];
    for personality in PERSONALITIES {
        rules.push(allow(&["personality"], vec![argument(Comparison::Equal, *personality, 0)]));
    }
    rules.push(allow(&["socket"], vec![argument(Comparison::NotEqual, VIRTUAL_MACHINE_SOCKETS, 0)]));
    for (_, names) in BY_CAPABILITY.iter().filter(|(capability, _)| has(capability)) {
        rules.push(allow(names, Vec::new()));
    }
    if !has("SYS_ADMIN") {
        rules.push(allow(&["clone"], vec![argument(Comparison::MaskedEqual, NAMESPACES, 0)]));
        // Its flags are in memory, where no filter sees them: so that callers turn to the older call.
        let names = vec!["clone3".to_owned()];
        rules.push(Rule { names, action: Action::Error(libc::ENOSYS.cast_unsigned()), arguments: Vec::new() });
    }
    Profile { default: Action::Error(libc::EPERM.cast_unsigned()), rules }
}
