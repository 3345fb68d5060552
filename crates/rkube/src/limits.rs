//! How many file descriptors there are, and how many of them clients may take.

use rkube_apiserver::serve::CONNECTIONS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the store, the control socket, connections to etcd, logs and whatever else is not a client: none of these may
/// fail because of them.
const DESCRIPTORS_RESERVED: u64 = 64;
/// A server that lets nobody in is of no use, however few descriptors there are.
const CONNECTIONS_MIN: usize = 16;

/// How many clients may be connected at once. Takes as many descriptors as the system gives, as Go programs do.
pub fn connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let descriptors = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let connections = connections_of(descriptors);
    if connections < CONNECTIONS_MAX {
        tracing::info!(connections, "the limit on open files is also one on clients: see ulimit -n");
    }
    connections
}

/// `None`: there is no limit.
fn connections_of(descriptors: Option<u64>) -> usize {
    let left = descriptors.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_RESERVED);
    usize::try_from(left).unwrap_or(usize::MAX).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_not_for_clients() {
        let table = [(Some(256), 192), (Some(64), CONNECTIONS_MIN), (Some(1 << 40), CONNECTIONS_MAX)];
        for (descriptors, expected) in table {
            assert_eq!(connections_of(descriptors), expected);
        }
        assert_eq!(connections_of(None), CONNECTIONS_MAX);
    }
}
