//! System calls that have no safe wrapper: the only unsafe code of the project, each piece with its reason.
//!
//! Everything else that the kernel is asked for goes through `rustix` or the standard library. Nothing here keeps state.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

/// On which side of a fork one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have one thread only: with more, the child could wait for ever for a lock that a thread
/// held which it does not have. Refused otherwise.
pub fn fork() -> io::Result<Fork> {
    check_single_thread()?;
    // SAFETY: there is no other thread, as was just seen, and nobody but this thread could start one: the child has
    // everything that the parent had, in a consistent state.
    side(i64::from(unsafe { libc::fork() }))
}

/// Forks this process, which must have one thread only, into a cgroup of version 2.
pub fn fork_into_cgroup(cgroup: impl AsFd) -> io::Result<Fork> {
    check_single_thread()?;
    let arguments = CloneArguments {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD.cast_unsigned().into(),
        cgroup: u64::try_from(cgroup.as_fd().as_raw_fd()).map_err(io::Error::other)?,
        ..Default::default()
    };
    // SAFETY: without shared memory and with the stack as it is, this is a fork. There is no other thread, as was just
    // seen, so that no lock is held in the child; the C library's own functions to be called at a fork only take locks.
    side(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) })
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// As the kernel lays it out.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    process_descriptor: u64,
    child_thread: u64,
    parent_thread: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    thread_storage: u64,
    wanted_numbers: u64,
    wanted_numbers_count: u64,
    cgroup: u64,
}

fn check_single_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("a process with several threads cannot be forked")),
    }
}

fn side(result: i64) -> io::Result<Fork> {
    match i32::try_from(result).map_err(io::Error::other)? {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(Pid::from_raw(child).ok_or_else(|| io::Error::other("a child without a number"))?)),
    }
}

/// Gives this thread namespaces of its own. The tables of files and the root directory stay shared: that is what makes the
/// general call unsafe.
pub fn unshare(namespaces: rustix::thread::UnshareFlags) -> io::Result<()> {
    let files = rustix::thread::UnshareFlags::FILES | rustix::thread::UnshareFlags::FS;
    if namespaces.intersects(files) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: without FILES no descriptor gets a second life, and without FS nobody's paths change meaning.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(io::Error::from)
}

/// Blocks these signals, and returns a descriptor from which they are read.
pub fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised, and the old one is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: -1 asks for a new descriptor; the set is initialised.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    owned(descriptor)
}

/// Gives every signal its default action, and blocks none, as a new process expects it.
pub fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action is no function of ours. Those that have no other are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let set = signal_set(&[]);
    // SAFETY: the set is initialised, and the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Blocks all signals that can be blocked.
pub fn block_all_signals() {
    let mut set = signal_set(&[]);
    // SAFETY: the set is ours and initialised; the old mask is not asked for.
    unsafe {
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Waits for one of these signals, which must be blocked.
pub fn wait_for_signal(signals: &[i32]) -> i32 {
    let set = signal_set(signals);
    // SAFETY: the set is initialised, and the details are not asked for.
    unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it; a number that is no signal is refused by sigaddset.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Sends any signal, also one that has a number only, to the process that a descriptor stands for.
pub fn send_signal(process: impl AsFd, signal: i32) -> io::Result<()> {
    let descriptor = process.as_fd().as_raw_fd();
    // SAFETY: without details there is nothing for the kernel to read; a number that is no signal is refused.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes all descriptors from this number on when another program is executed.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let first = u32::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: nothing is closed now; the flag takes no descriptor from its owner in this program.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What to change about mounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountChange {
    /// Bits as `MOUNT_ATTR_RDONLY`.
    pub set: u64,
    pub clear: u64,
    /// Bits as `MS_SLAVE`; 0: as it is.
    pub propagation: u64,
    pub recursive: bool,
}

pub const MOUNT_READ_ONLY: u64 = 0x1;
pub const PROPAGATE_PRIVATE: u64 = libc::MS_PRIVATE;
pub const PROPAGATE_SLAVE: u64 = libc::MS_SLAVE;
pub const PROPAGATE_SHARED: u64 = libc::MS_SHARED;

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Changes a mount that a descriptor stands for.
pub fn change_mount(mount: impl AsFd, change: MountChange) -> io::Result<()> {
    let attributes =
        MountAttributes { set: change.set, clear: change.clear, propagation: change.propagation, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | if change.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a string that ends, and the structure has the layout and the size that are passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts a filter of system calls on this thread and its children. Without `no_new_privs` it takes `CAP_SYS_ADMIN`.
pub fn install_filter(program: &[seccompiler::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The structures of the two libraries are the kernel's: of the same layout.
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the program lives until the call returns, and the kernel only reads it, as many entries as there are.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One instruction of a program for the kernel's virtual machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u8,
    /// The register that is written in the lower half, the one that is read in the upper.
    pub registers: u8,
    pub offset: i16,
    pub immediate: i32,
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_F_ALLOW_MULTI: u32 = 2;

/// As the kernel lays it out, up to what is used of it.
#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct AttachProgram {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

/// Has a program decide which devices the processes of a cgroup (of version 2) may use. It stays until the cgroup goes.
pub fn attach_device_program(cgroup: impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let count = u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let load = LoadProgram {
        program_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        instruction_count: count,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the structure has the layout and size that are passed, and what it points to lives until the call returns.
    let loaded = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<LoadProgram>()) };
    let loaded = owned(RawFd::try_from(loaded).map_err(io::Error::other)?)?;
    let number = |descriptor: RawFd| u32::try_from(descriptor).map_err(io::Error::other);
    let attach = AttachProgram {
        target: number(cgroup.as_fd().as_raw_fd())?,
        program: number(loaded.as_raw_fd())?,
        attach_type: BPF_CGROUP_DEVICE,
        flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: the structure has the layout and size that are passed; both descriptors are open.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, &raw const attach, size_of::<AttachProgram>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has tokio wait at a descriptor.
pub fn watched(descriptor: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is moved in and nobody closes it before it is dropped there: an `OwnedFd` is one for life.
    Ok(unsafe { tokio::io::unix::AsyncFd::register(descriptor) }?)
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
