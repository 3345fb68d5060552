//! Whether a pod uses more of the disk than it may. Without quotas it is measured by walking.

use std::collections::HashMap;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, Value};

use super::fields::quantity;
use crate::resources;

const RESOURCE: &str = "ephemeral-storage";

/// The volumes that count: directories of the pod's own on disk.
pub fn counted(pod: &Value) -> impl Iterator<Item = &Value> {
    let volumes = pod.get("spec").list("volumes").iter();
    volumes.filter(|volume| volume.has("emptyDir") && volume.get("emptyDir").str("medium").is_empty())
}

/// Whether there is any limit: otherwise nothing need be measured.
pub fn is_limited(pod: &Value) -> bool {
    counted(pod).any(|volume| !size_limit(volume).is_zero())
        || resources::of_pod(pod, "limits").contains_key(RESOURCE)
        || pod.get("spec").list("containers").iter().any(|container| !limit(container).is_zero())
}

/// Why the pod is evicted, in upstream's words. `volumes` and `containers`: what each of them uses.
pub fn excess(pod: &Value, volumes: &HashMap<Text, u64>, containers: &[(Text, u64)]) -> Option<String> {
    let is_over = |used: u64, limit: &Quantity| !limit.is_zero() && used > u64::try_from(limit.value()).unwrap_or(0);
    for volume in counted(pod) {
        let (name, limit) = (volume.str("name"), size_limit(volume));
        if volumes.get(name).is_some_and(|used| is_over(*used, &limit)) {
            return Some(format!(
                "Usage of EmptyDir volume {name:?} exceeds the limit {:?}. ",
                limit.to_text().as_str()
            ));
        }
    }
    if let Some(limit) = resources::of_pod(pod, "limits").get(RESOURCE) {
        let used = volumes.values().chain(containers.iter().map(|(_, used)| used)).sum();
        if is_over(used, limit) {
            let limit = limit.to_text();
            return Some(format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "));
        }
    }
    for container in pod.get("spec").list("containers") {
        let (name, limit) = (container.str("name"), limit(container));
        let used = containers.iter().find(|(other, _)| other == name).map_or(0, |(_, used)| *used);
        if is_over(used, &limit) {
            let limit = limit.to_text();
            return Some(format!("Container {name} exceeded its local ephemeral storage limit {:?}. ", limit.as_str()));
        }
    }
    None
}

fn size_limit(volume: &Value) -> Quantity {
    quantity(volume.get("emptyDir").get("sizeLimit"))
}

fn limit(container: &Value) -> Quantity {
    quantity(container.get("resources").get("limits").get(RESOURCE))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn limits_are_of_volumes_containers_and_the_pod() {
        let pod = |text: &str| json::parse(format!(r#"{{"spec":{text}}}"#).as_bytes()).unwrap();
        let used = HashMap::from([(Text::from("v"), 3 << 20)]);
        let containers = [(Text::from("c"), 2 << 20)];
        let volume = |limit: &str| {
            format!(
                r#""volumes":[{{"name":"v","emptyDir":{{"sizeLimit":"{limit}"}}}},{{"name":"m","emptyDir":{{"medium":"Memory"}}}}]"#
            )
        };
        let container = |limit: &str| {
            format!(r#""containers":[{{"name":"c","resources":{{"limits":{{"ephemeral-storage":"{limit}"}}}}}}]"#)
        };
        let table = [
            (format!("{{{}}}", volume("2Mi")), Some("Usage of EmptyDir volume \"v\" exceeds the limit \"2Mi\". ")),
            (format!("{{{}}}", volume("3Mi")), None),
            (format!("{{{}}}", volume("0")), None),
            (
                format!("{{{}}}", container("4Mi")),
                Some("Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "),
            ),
            (format!("{{{}}}", container("5Mi")), None),
        ];
        for (spec, expected) in table {
            assert_eq!(excess(&pod(&spec), &used, &containers).as_deref(), expected, "{spec}");
        }
        let one = pod(&format!(
            r#"{{{},"initContainers":[{{"name":"i","resources":{{"limits":{{"ephemeral-storage":"9Mi"}}}}}}]}}"#,
            container("1Mi")
        ));
        assert_eq!(
            excess(&one, &HashMap::new(), &containers).as_deref(),
            Some("Container c exceeded its local ephemeral storage limit \"1Mi\". ")
        );
        assert!(is_limited(&one));
        assert!(!is_limited(&pod(&format!("{{{}}}", volume("0")))));
    }
}
