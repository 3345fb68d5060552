//! Capabilities, users and limits of a process, by their names and numbers; and signals by theirs.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Failure, ProcessUser};
use crate::api::{Capabilities, Security};
use crate::seccomp::Filter;

/// In the order of their numbers.
const NAMES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];
const DEFAULT: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
    ("RTMIN", 34),
    ("RTMAX", 64),
];

/// The number of a signal by its name, with or without `SIG`, as `SIGRTMIN+3`, or as a number.
pub fn signal_number(name: &str) -> Option<i32> {
    if let Ok(number) = name.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let (short, offset) = match short.find(['+', '-']) {
        Some(place) => (&short[..place], short[place..].parse::<i32>().ok()?),
        None => (short, 0),
    };
    let number = SIGNALS.iter().find(|(known, _)| *known == short)?.1 + offset;
    (1..=64).contains(&number).then_some(number)
}

/// Whether there is such a capability, by its name with or without `CAP_`.
pub fn known_capability(name: &str) -> bool {
    name.eq_ignore_ascii_case("ALL") || bit(name).is_some()
}

fn bit(name: &str) -> Option<u64> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == short).map(|number| 1 << number)
}

/// The filter of a container's system calls; None: none. A privileged container is never confined.
pub fn filter_of(security: &Security) -> Result<Option<Filter>, String> {
    if security.privileged {
        return Ok(None);
    }
    let held = capability_bits(security, u64::MAX);
    Filter::of(&security.seccomp, &|name| bit(name).is_some_and(|bit| held & bit != 0))
}

/// What a container asks for, within what this process may hand on.
pub(super) fn capability_bits(security: &Security, bounding: u64) -> u64 {
    if security.privileged {
        return bounding;
    }
    let Capabilities { add, drop } = &security.capabilities;
    let all = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    let bits = |names: &[String]| names.iter().filter_map(|name| bit(name)).fold(0, |bits, one| bits | one);
    let mut held = DEFAULT.iter().filter_map(|name| bit(name)).fold(0, |bits, one| bits | one);
    // All are added or dropped before single ones, so that these win.
    if all(add) {
        held = u64::MAX;
    }
    if all(drop) {
        held = 0;
    }
    ((held | bits(add)) & !bits(drop)) & bounding
}

/// What this process could hand on.
pub(super) fn bounding_set() -> u64 {
    let numbers = 0..NAMES.len();
    let held = |number: &usize| {
        rustix::thread::capability_is_in_bounding_set(CapabilitySet::from_bits_retain(1 << number)).unwrap_or(false)
    };
    numbers.filter(held).fold(0, |bits, number| bits | 1 << number)
}

/// Becomes the user, with these capabilities and no others.
pub(super) fn become_user(user: &ProcessUser, capabilities: u64) -> Result<(), Failure> {
    let bounding = bounding_set();
    for number in (0..NAMES.len()).filter(|number| bounding & !capabilities & (1 << number) != 0) {
        rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number))
            .map_err(said("drop a capability"))?;
    }
    rustix::thread::set_keep_capabilities(true).map_err(said("keep capabilities"))?;
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    rustix::thread::set_thread_groups(&groups).map_err(said("set groups"))?;
    let group = Gid::from_raw(user.group);
    rustix::thread::set_thread_res_gid(group, group, group).map_err(said("set the group"))?;
    let number = Uid::from_raw(user.user);
    rustix::thread::set_thread_res_uid(number, number, number).map_err(said("set the user"))?;
    rustix::thread::set_keep_capabilities(false).map_err(said("keep capabilities"))?;
    let held = CapabilitySet::from_bits_retain(capabilities);
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(said("set capabilities"))
}

fn said(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Failure {
    move |error| Failure::doing(what)(io::Error::from(error))
}

/// Says how soon the kernel may kill this process for want of memory; not sooner than its parent, where that takes a
/// capability that is not there.
pub(super) fn adjust_oom_score(score: i32) {
    let file = "/proc/self/oom_score_adj";
    if std::fs::write(file, score.clamp(-1000, 1000).to_string()).is_err() {
        // As low as may be: what the parent has.
        let _as_it_is = std::fs::write(file, "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(add: &[&str], drop: &[&str]) -> Security {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Security { capabilities: Capabilities { add: list(add), drop: list(drop) }, ..Default::default() }
    }

    #[test]
    fn capabilities_are_added_dropped_and_clamped() {
        let all = (1 << NAMES.len()) - 1;
        let default = capability_bits(&security(&[], &[]), all);
        assert_eq!(default, 0xa804_25fb);
        assert_eq!(capability_bits(&security(&["NET_ADMIN"], &["ALL"]), all), 1 << 12);
        assert_eq!(capability_bits(&security(&["CAP_SYS_TIME"], &["chown"]), all), (default | 1 << 25) & !1);
        assert_eq!(capability_bits(&security(&["ALL"], &["KILL"]), all), all & !(1 << 5));
        assert_eq!(capability_bits(&security(&["SYS_RESOURCE"], &["ALL"]), all & !(1 << 24)), 0);
        assert!(known_capability("cap_bpf") && known_capability("ALL") && !known_capability("CAP_NOPE"));
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal_number("SIGTERM"), Some(15));
        assert_eq!(signal_number("usr1"), Some(10));
        assert_eq!(signal_number("SIGRTMIN+3"), Some(37));
        assert_eq!(signal_number("9"), Some(9));
        assert_eq!(signal_number("SIGNOPE"), None);
        assert_eq!(signal_number("99"), None);
    }
}
