//! Metadata of what comes in: names, namespaces, owners.

use std::collections::HashSet;

use rkube_machinery::value::Distinct;
use rkube_machinery::{Status, Text, Value};

/// The name as text of its own; empty where there is none.
pub fn name_of(object: &Value) -> Text {
    match object.get("metadata").get("name") {
        Value::String(name) => name.clone(),
        _ => Text::default(),
    }
}

/// Makes the object's namespace that of the request, or objects.
pub fn place(metadata: &mut Value, namespace: &str) -> Result<(), Status> {
    let given = metadata.str("namespace");
    if given == namespace {
        return Ok(());
    }
    if given.is_empty() {
        metadata.set("namespace", namespace);
    } else if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// When owner references are looked at, as warnings about them say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Sent,
    Mutated,
}

/// Owner references that are the same count once. Says, as a warning, which stood twice.
pub fn dedup_owners(metadata: &mut Value, stage: Stage) -> Option<String> {
    let Some(Value::Array(owners)) = metadata.find_mut("ownerReferences") else { return None };
    if owners.len() < 2 {
        return None;
    }
    let mut seen = Distinct::new();
    let fresh: Vec<bool> = owners.iter().map(|owner| seen.add(owner)).collect();
    if fresh.iter().all(|fresh| *fresh) {
        return None;
    }
    let mut known = HashSet::new();
    let repeated = owners.iter().zip(&fresh).filter(|(_, fresh)| !**fresh).map(|(owner, _)| owner.str("uid"));
    let twice: Vec<String> = repeated.filter(|uid| known.insert(*uid)).map(str::to_owned).collect();
    let mut fresh = fresh.into_iter();
    owners.retain(|_| fresh.next().unwrap_or(true));
    let when = match stage {
        Stage::Sent => "",
        Stage::Mutated => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_count_once() {
        let owner = |name: &str| rkube_machinery::object! { "name": name, "uid": "u" };
        let mut metadata = rkube_machinery::object! { "ownerReferences": vec![owner("a"), owner("b"), owner("a")] };
        let warning = dedup_owners(&mut metadata, Stage::Mutated).unwrap();
        assert!(
            warning.starts_with(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API"
            )
        );
        assert!(warning.ends_with("observed: u"));
        assert_eq!(metadata.list("ownerReferences"), [owner("a"), owner("b")]);
        assert_eq!(dedup_owners(&mut metadata, Stage::Sent), None);
    }
}
