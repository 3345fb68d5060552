//! What pods ask for, kept once for all pods that ask for the same, as it stands in JSON: read by who wants to know.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use serde::Deserialize;

use super::raw::{RawResources, RawSpec};
use crate::metadata::Interner;

static REQUESTS: LazyLock<Interner<Requests>> = LazyLock::new(Interner::default);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Of the pod as a whole.
    pod: Option<Text>,
    overhead: Option<Text>,
    /// Of containers first, then of sidecars, by name.
    containers: Box<[(Text, Option<Text>)]>,
}

/// Why it is not known how much a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The pod asks as a whole, but not for this.
    OfPod,
    /// This container does not ask for it.
    OfContainer(Text),
    NoSuchContainer,
}

impl Requests {
    pub(super) fn of(spec: &RawSpec<'_>) -> Arc<Requests> {
        let text = |resources: &Option<RawResources<'_>>| {
            let requests = resources.as_ref()?.requests?;
            Some(Text::new(requests.get()))
        };
        let containers = spec.containers.iter().flatten().chain(spec.sidecars());
        REQUESTS.share(Requests {
            pod: text(&spec.resources),
            overhead: spec.overhead.map(|overhead| Text::new(overhead.get())),
            containers: containers.map(|one| (Text::new(&one.name), text(&one.resources))).collect(),
        })
    }

    /// How many thousandths of a resource the pod asks for, or only this container.
    pub fn milli(&self, container: Option<&str>, resource: &str) -> Result<i64, Missing> {
        if let Some(name) = container {
            let found = self.containers.iter().find(|(own, _)| own == name).ok_or(Missing::NoSuchContainer)?;
            return of_container(found, resource);
        }
        match self.pod.as_deref().map(quantities).filter(|requests| requests.keys().any(|name| is_of_pods(name))) {
            Some(requests) => {
                let amount = match requests.get(resource).filter(|_| is_of_pods(resource)) {
                    Some(amount) => *amount,
                    None => self.sum(resource).map_err(|_| Missing::OfPod)?,
                };
                let overhead = self.overhead.as_deref().map(quantities);
                let overhead = overhead.and_then(|overhead| overhead.get(resource).copied()).unwrap_or(0);
                Ok(amount.saturating_add(overhead))
            }
            None => self.sum(resource),
        }
    }

    fn sum(&self, resource: &str) -> Result<i64, Missing> {
        self.containers.iter().try_fold(0, |sum: i64, one| Ok(sum.saturating_add(of_container(one, resource)?)))
    }
}

fn of_container((name, requests): &(Text, Option<Text>), resource: &str) -> Result<i64, Missing> {
    let requests = requests.as_deref().map(quantities).unwrap_or_default();
    requests.get(resource).copied().ok_or_else(|| Missing::OfContainer(name.clone()))
}

/// Whether a pod can ask for it as a whole.
fn is_of_pods(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with("hugepages-")
}

/// In thousandths. What cannot be read was not stored.
fn quantities(json: &str) -> BTreeMap<String, i64> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Raw<'a> {
        Text(#[serde(borrow)] Cow<'a, str>),
        Number(i64),
    }
    let raw: BTreeMap<String, Raw<'_>> = serde_json::from_str(json).unwrap_or_default();
    let read = |raw: Raw<'_>| match raw {
        Raw::Text(text) => Quantity::parse(&text).ok().map(|quantity| quantity.milli_value()),
        Raw::Number(number) => Some(number.saturating_mul(1000)),
    };
    raw.into_iter().filter_map(|(name, raw)| Some((name, read(raw)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_are_summed_as_the_autoscaler_wants_them() {
        let asking = |name: &str, requests: Value| json!({ "name": name, "resources": { "requests": requests } });
        let two = json!({
            "containers": [asking("a", json!({ "cpu": "100m" })), asking("b", json!({ "cpu": 1, "memory": "1Ki" }))],
            "initContainers": [
                asking("init", json!({ "cpu": "9" })),
                { "name": "side", "restartPolicy": "Always", "resources": { "requests": { "cpu": "50m" } } },
            ],
        });
        let mut whole = two.clone();
        whole["resources"] = json!({ "requests": { "cpu": "2" } });
        whole["overhead"] = json!({ "cpu": "10m" });
        let no = |name: &str| Err(Missing::OfContainer(name.into()));
        // The pod, one of its containers, the resource, and how much.
        let table = [
            (&two, None, "cpu", Ok(1150)),
            (&two, Some("a"), "cpu", Ok(100)),
            (&two, Some("side"), "cpu", Ok(50)),
            (&two, Some("init"), "cpu", Err(Missing::NoSuchContainer)),
            (&two, None, "memory", no("a")),
            (&two, Some("b"), "memory", Ok(1_024_000)),
            (&two, Some("a"), "memory", no("a")),
            (&whole, None, "cpu", Ok(2010)),
            (&whole, Some("a"), "cpu", Ok(100)),
            (&whole, None, "memory", Err(Missing::OfPod)),
        ];
        for (spec, container, resource, expected) in table {
            let text = spec.to_string();
            let requests = Requests::of(&serde_json::from_str(&text).unwrap());
            assert_eq!(requests.milli(container, resource), expected, "{container:?} {resource}");
        }
    }
}
