//! What a pod asks for: the sum of its containers or the most that initialisation takes, what the pod as a whole asks
//! for, and its overhead.

use super::pod::{Container, ContainerStatus, Spec, Status};
use super::resources::Resources;

/// What a container counts as that does not say what it needs, where nodes are compared by how full they are.
const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// Which amounts are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// What is not said is nothing.
    Nothing,
    /// What a container does not say of CPU and memory has a default.
    Default,
}

pub fn requests(spec: &Spec<'_>, status: &Status<'_>, missing: Missing) -> Resources {
    let is_infeasible =
        status.conditions.iter().any(|one| one.kind.as_ref() == "PodResizePending" && one.reason.0 == "Infeasible");
    let of_container = |container: &Container<'_>, statuses: &[ContainerStatus<'_>]| {
        let asked = &container.resources.requests;
        let status = statuses.iter().find(|status| status.name == container.name);
        let resized = status.and_then(|status| {
            let actual = &status.resources.as_ref()?.requests;
            Some(effective(asked, actual, &status.allocated_resources, is_infeasible))
        });
        let mut requests = resized.unwrap_or_else(|| asked.clone());
        if missing == Missing::Default {
            requests.cpu_milli.get_or_insert(DEFAULT_CPU_MILLI);
            requests.memory.get_or_insert(DEFAULT_MEMORY);
        }
        requests
    };
    let mut sum = Resources::default();
    for container in &spec.containers {
        sum.add(&of_container(container, &status.container_statuses));
    }
    let (mut sidecars, mut initial) = (Resources::default(), Resources::default());
    for container in &spec.init_containers {
        if container.is_sidecar() {
            let requests = of_container(container, &status.init_container_statuses);
            sum.add(&requests);
            sidecars.add(&requests);
            initial.max(&sidecars);
        } else {
            // One that runs once cannot be resized.
            let mut requests = of_container(container, &[]);
            requests.add(&sidecars);
            initial.max(&requests);
        }
    }
    sum.max(&initial);
    if let Some(of_pod) = spec.resources.as_ref().map(|resources| &resources.requests) {
        let wanted = match &status.resources {
            Some(actual) => effective(of_pod, &actual.requests, &status.allocated_resources, is_infeasible),
            None => of_pod.clone(),
        };
        sum.replace(&of_whole_pod(wanted));
    }
    sum.add(&spec.overhead);
    sum
}

/// The resources that a pod as a whole can ask for.
fn of_whole_pod(mut wanted: Resources) -> Resources {
    wanted.ephemeral = None;
    wanted.pods = None;
    wanted.scalars.retain(|(name, _)| name.starts_with("hugepages-"));
    wanted
}

/// While containers are resized, the most of what is wanted, allowed and given; what cannot be is not wanted.
fn effective(asked: &Resources, actual: &Resources, allocated: &Resources, is_infeasible: bool) -> Resources {
    let mut most = if is_infeasible { Resources::default() } else { asked.clone() };
    most.max(actual);
    most.max(allocated);
    most
}
