//! The node that runs containers on this machine, and whether there can be one.

mod network;
mod places;
mod start;

pub use network::NAME as NETWORK_NAME;
pub use places::Places;
pub use start::{CGROUP, RealNode, runtime};

use std::path::Path;

use crate::node_flags::NodeChoice;

/// Those without which no container can be made, by their number and name.
const CAPABILITIES: [(u8, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (18, "CAP_SYS_CHROOT"), (21, "CAP_SYS_ADMIN"), (27, "CAP_MKNOD")];

/// What decides.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    pub choice: NodeChoice,
    pub simulated: usize,
    pub store_is_shared: bool,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Real,
    /// There is none; people are told why where they may have expected one.
    None(Option<String>),
    /// It was asked for, and cannot be.
    Refuse(String),
}

pub fn decide(wishes: Wishes, machine: &Machine) -> Decision {
    match (wishes.choice, machine.problem()) {
        (NodeChoice::None, _) => Decision::None(None),
        (NodeChoice::Real, None) => Decision::Real,
        (NodeChoice::Real, Some(problem)) => {
            Decision::Refuse(format!("--node real: this machine cannot run containers: {problem}"))
        }
        (NodeChoice::Auto, _) if wishes.simulated > 0 => Decision::None(None),
        (NodeChoice::Auto, _) if wishes.store_is_shared => Decision::None(Some(
            "control planes that share an etcd have no nodes of their own: `--node real` makes this machine one"
                .to_owned(),
        )),
        (NodeChoice::Auto, None) => Decision::Real,
        (NodeChoice::Auto, Some(problem)) => Decision::None(Some(format!(
            "this machine is no node, pods will stay Pending: {problem}; `--sim-nodes 3` adds nodes that simulate them"
        ))),
    }
}

/// What there is to run containers with.
#[derive(Clone, Debug)]
pub struct Machine {
    pub is_root: bool,
    /// The effective ones, as bits.
    pub capabilities: u64,
    /// Whether groups of processes can be made, and limited.
    pub has_cgroups: bool,
}

impl Machine {
    pub fn read() -> Machine {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Machine {
            is_root: rustix::process::geteuid().is_root(),
            capabilities: effective_capabilities(&status),
            has_cgroups: has_cgroups(Path::new("/sys/fs/cgroup")),
        }
    }

    fn problem(&self) -> Option<String> {
        if !self.is_root {
            return Some("it takes root: run `sudo rkube up`".to_owned());
        }
        let missing = CAPABILITIES.iter().filter(|(number, _)| self.capabilities & (1 << number) == 0);
        let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
        if !missing.is_empty() {
            let names = missing.join(", ");
            return Some(format!("root lacks {names} here: in a container, run that one with --privileged"));
        }
        (!self.has_cgroups)
            .then(|| "no cgroups can be made below /sys/fs/cgroup: it has to be mounted and writable".to_owned())
    }
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// Of version 2, or with a controller of memory of version 1.
fn has_cgroups(root: &Path) -> bool {
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let v2 = root.join("cgroup.controllers");
    if v2.exists() { writable(root) } else { writable(&root.join("memory")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = (1 << 41) - 1;

    fn machine() -> Machine {
        Machine { is_root: true, capabilities: ALL, has_cgroups: true }
    }

    #[test]
    fn a_machine_is_a_node_where_it_can_be() {
        let wishes = |choice, simulated, store_is_shared| Wishes { choice, simulated, store_is_shared };
        let user = Machine { is_root: false, ..machine() };
        assert_eq!(decide(wishes(NodeChoice::Auto, 0, false), &machine()), Decision::Real);
        assert_eq!(decide(wishes(NodeChoice::Auto, 3, false), &machine()), Decision::None(None));
        assert_eq!(decide(wishes(NodeChoice::Real, 3, true), &machine()), Decision::Real);
        assert_eq!(decide(wishes(NodeChoice::None, 0, false), &machine()), Decision::None(None));
        assert!(matches!(decide(wishes(NodeChoice::Auto, 0, true), &machine()), Decision::None(Some(_))));
        match decide(wishes(NodeChoice::Auto, 0, false), &user) {
            Decision::None(Some(why)) => assert!(why.contains("sudo") && why.contains("--sim-nodes"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(decide(wishes(NodeChoice::Real, 0, false), &user), Decision::Refuse(_)));
    }

    #[test]
    fn what_is_missing_is_named() {
        let table = [
            (Machine { capabilities: ALL & !(1 << 21), ..machine() }, "CAP_SYS_ADMIN"),
            (Machine { has_cgroups: false, ..machine() }, "/sys/fs/cgroup"),
        ];
        for (machine, expected) in table {
            assert!(machine.problem().is_some_and(|problem| problem.contains(expected)), "{machine:?}");
        }
        assert_eq!(machine().problem(), None);
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n"), 0x1ff_feff_ffff);
        assert_eq!(effective_capabilities(""), 0);
    }
}
