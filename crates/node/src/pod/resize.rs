//! Other resources for a pod that runs, where its containers keep what they were started with.

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Value};

/// Resources that can be changed while a pod runs.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

pub const REASON: &str = "Infeasible";
pub const EVENT: &str = "ResizeInfeasible";
pub const MESSAGE: &str = "In-place resize of pods is not supported on this node";

/// The pod with the resources that its containers have, by its status. None: they have what it asks for.
pub fn as_allocated(pod: &Value) -> Option<Value> {
    let mut held: Option<Value> = None;
    for (list, statuses) in [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")] {
        for (number, container) in pod.get("spec").list(list).iter().enumerate() {
            let mut all = pod.get("status").list(statuses).iter();
            let status = all.find(|status| status.str("name") == container.str("name"));
            let Some(status) = status.filter(|status| !status.str("containerID").is_empty()) else { continue };
            let has = status.get("resources");
            if has.is_null() || same(container.get("resources"), has) {
                continue;
            }
            let whole = held.get_or_insert_with(|| pod.clone());
            whole.get_mut("spec").list_mut(list)[number].set("resources", has.clone());
        }
    }
    held
}

fn same(one: &Value, other: &Value) -> bool {
    ["limits", "requests"].into_iter().all(|list| {
        let amount = |amounts: &Map, name: &str| amounts.get(name).and_then(|text| Quantity::parse(text.as_str()).ok());
        RESIZABLE.into_iter().all(|name| amount(one.map(list), name) == amount(other.map(list), name))
    })
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn containers_keep_what_they_were_started_with() {
        let pod = |cpu: &str, has: &str| {
            let text = format!(
                r#"{{"spec":{{"containers":[{{"name":"a","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}},
                "status":{{"containerStatuses":[{{"name":"a"{has}}}]}}}}"#
            );
            json::parse(text.as_bytes()).unwrap()
        };
        let has = r#","containerID":"x","resources":{"requests":{"cpu":"1"}}"#;
        assert_eq!(as_allocated(&pod("2", "")), None, "it was not started yet");
        assert_eq!(as_allocated(&pod("1000m", has)), None);
        assert_eq!(as_allocated(&pod("2", has)), Some(pod("1", has)));
    }
}
