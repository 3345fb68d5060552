//! Whether a pod's node selector and required node affinity fit a node.

use rkube_machinery::{Map, Value};

pub fn matches(pod: &Value, node: &Value) -> bool {
    let (spec, metadata) = (pod.get("spec"), node.get("metadata"));
    let labels = metadata.map("labels");
    let selected = spec.map("nodeSelector").iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec.get("affinity").get("nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution");
    selected
        && (required.is_null() || required.list("nodeSelectorTerms").iter().any(|term| term_matches(term, metadata)))
}

/// A term without requirements fits nothing.
fn term_matches(term: &Value, metadata: &Value) -> bool {
    let (labels, fields) = (term.list("matchExpressions"), term.list("matchFields"));
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let name = Map::sorted(vec![("metadata.name".into(), metadata.str("name").into())]);
    labels.iter().all(|requirement| fits(requirement, metadata.map("labels")))
        && fields.iter().all(|requirement| fits(requirement, &name))
}

fn fits(requirement: &Value, labels: &Map) -> bool {
    let found = labels.get(requirement.str("key")).map(Value::as_str);
    let values = requirement.list("values");
    let is_listed = found.is_some_and(|found| values.iter().any(|value| value.as_str() == found));
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = found.and_then(number).zip(values.first().and_then(|value| number(value.as_str())));
    match requirement.str("operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared.is_some_and(|(found, value)| found > value),
        "Lt" => compared.is_some_and(|(found, value)| found < value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn terms_fit_nodes() {
        let node = json::parse(br#"{"metadata":{"name":"n","labels":{"zone":"a","size":"5"}}}"#).unwrap();
        let table = [
            ("", true),
            (r#"{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"rack","operator":"NotIn","values":["a"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"rack","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"rack","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"size","operator":"Lt","values":["4"]}]}"#, false),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}"#, true),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["m"]}]}"#, false),
            (r#"{}"#, false),
        ];
        for (term, expected) in table {
            let affinity = format!(
                r#","affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{term}]}}}}}}"#
            );
            let more = if term.is_empty() { "" } else { &affinity };
            let pod = json::parse(format!(r#"{{"spec":{{"nodeName":"n"{more}}}}}"#).as_bytes()).unwrap();
            assert_eq!(matches(&pod, &node), expected, "{term}");
        }
    }
}
