//! `emptyDir`: a directory of the pod's own, on disk, in memory or in huge pages.

use rkube_machinery::Value;
use rkube_machinery::quantity::Quantity;

use super::{Content, Failure, Gather, Gathered, Medium};
use crate::real::prepare::fields::quantity;
use crate::real::prepare::resources;

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let medium = medium(gather.pod, volume.get("emptyDir"), gather.allocatable);
    let medium = medium.map_err(|why| Failure::set_up(volume, why))?;
    Ok(Gathered::new(volume, Content::Empty(medium)))
}

fn medium(pod: &Value, source: &Value, allocatable: &Value) -> Result<Medium, String> {
    match source.str("medium") {
        "" => Ok(Medium::Disk),
        "Memory" => Ok(Medium::Memory { size_bytes: memory_size(pod, source.get("sizeLimit"), allocatable) }),
        medium => match medium.strip_prefix("HugePages") {
            Some(size) => page_size(pod, medium, size.trim_start_matches('-')),
            None => Err(format!("unknown storage medium {medium:?}")),
        },
    }
}

/// The least of what the node has for pods, what the pod may use, and what the volume may.
pub fn memory_size(pod: &Value, limit: &Value, allocatable: &Value) -> u64 {
    let mut size = u64::try_from(quantity(allocatable.get("memory")).value()).unwrap_or(0);
    let of_pod = resources::of_pod(pod).memory_limit_bytes.unwrap_or(0);
    let of_volume = u64::try_from(quantity(limit).value()).unwrap_or(0);
    for limit in [of_pod, of_volume] {
        if limit > 0 && (size == 0 || limit <= size) {
            size = limit;
        }
    }
    size
}

/// Of the pages that containers ask for; where the medium names no size, there must be but one.
fn page_size(pod: &Value, medium: &str, wanted: &str) -> Result<Medium, String> {
    let spec = pod.get("spec");
    let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
    let lists = containers.map(|container| container.get("resources")).chain([spec.get("resources")]);
    let mut found: Option<(i64, String)> = None;
    for (name, _) in lists.flat_map(|resources| resources.map("requests").iter()) {
        let Some(text) = name.strip_prefix("hugepages-") else { continue };
        let size = Quantity::parse(text).map_err(|error| error.to_string())?.value();
        let is_wanted = wanted.is_empty() || Quantity::parse(wanted).is_ok_and(|wanted| wanted.value() == size);
        if wanted.is_empty() && found.as_ref().is_some_and(|(other, _)| *other != size) {
            return Err(format!("medium: {medium} can't be used if container requests multiple huge page sizes"));
        }
        if is_wanted {
            found = Some((size, text.to_owned()));
        }
    }
    match found {
        // The kernel knows no `Mi`.
        Some((_, text)) => Ok(Medium::HugePages { page_size: text.trim_end_matches('i').to_owned() }),
        None => Err(format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    #[test]
    fn memory_is_the_least_of_all_limits() {
        let allocatable = object! { "memory": "1Gi" };
        let pod = |limit: &str| {
            let text = format!(
                r#"{{"spec":{{"containers":[{{"resources":{{"limits":{{"memory":"{limit}"}}}}}}]}},"status":{{"qosClass":"Burstable"}}}}"#
            );
            json::parse(text.as_bytes()).unwrap()
        };
        let table = [("0", "", 1 << 30), ("512Mi", "", 512 << 20), ("512Mi", "1Mi", 1 << 20), ("0", "2Gi", 1 << 30)];
        for (limit, size, expected) in table {
            assert_eq!(memory_size(&pod(limit), &Value::from(size), &allocatable), expected, "{limit} {size}");
        }
    }

    #[test]
    fn huge_pages_are_those_that_containers_ask_for() {
        let pod = json::parse(
            br#"{"spec":{"containers":[{"resources":{"requests":{"hugepages-2Mi":"4Mi"}}},
                {"resources":{"requests":{"hugepages-1Gi":"1Gi"}}}]}}"#,
        )
        .unwrap();
        let of = |name: &str| medium(&pod, &object! { "medium": name }, &Value::Null);
        assert_eq!(of("HugePages-1Gi"), Ok(Medium::HugePages { page_size: "1G".to_owned() }));
        assert!(of("HugePages").unwrap_err().contains("multiple huge page sizes"));
        assert!(of("HugePages-4Mi").unwrap_err().contains("no resource request"));
        assert_eq!(of("Tape"), Err("unknown storage medium \"Tape\"".to_owned()));
    }
}
