//! A change of an object that is there.

use rkube_machinery::field::Errors;
use rkube_machinery::{Text, Value, managed};

use super::Lifecycle;
use crate::kind::Part;

impl Lifecycle<'_> {
    /// From the object as it was changed to the one that is stored, with the warnings that the client gets.
    pub fn update(&self, object: &mut Value, old: &Value) -> Result<Vec<String>, Errors> {
        self.prepare_update(object, old);
        let mut errors = self.namespace_errors(object, Some(old));
        errors.0.extend(self.kind.validate_update(self.part, object, old).0);
        if !errors.is_empty() {
            return Err(errors);
        }
        let rules = &self.kind.rules;
        let warnings = match self.part {
            Part::Main => rules.warnings(object, Some(old)),
            Part::Status => rules.status_warnings(object),
            Part::Other(_) => Vec::new(),
        };
        rules.canonicalize(object);
        self.settle(object, old);
        managed::keep_times(old, object);
        Ok(warnings)
    }

    /// Carries over what an update may not change, and counts the generations.
    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let rules = &self.kind.rules;
        let before = old.get("metadata");
        let metadata = object.object_mut("metadata");
        match before.get("generation") {
            Value::Null => metadata.remove("generation"),
            generation => Some(std::mem::replace(metadata.get_mut("generation"), generation.clone())),
        };
        rules.prepare_update(self.part, object, old);
        rules.stamp(object, Some((self.part, old)), &self.requester);
        let metadata = object.object_mut("metadata");
        if metadata.str("uid").is_empty() {
            metadata.set("uid", before.str("uid"));
        }
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if before.has(field) {
                metadata.set(field, before.get(field).clone());
            }
        }
        if before.has("deletionGracePeriodSeconds") {
            metadata.set_if_absent("deletionGracePeriodSeconds", before.get("deletionGracePeriodSeconds").clone());
        }
        debug_assert!(self.carried().is_none_or(|field| object.get(field).is_exactly(old.get(field))));
        let counts = self.kind.strategy.has_generation && self.part == Part::Main;
        if counts && self.differs(object, old) && object.get("metadata").int("generation") == before.int("generation") {
            object.object_mut("metadata").set("generation", before.int("generation").wrapping_add(1));
        }
    }

    /// Whether anything but metadata and status differs. Lists that are there and empty stay for the rules to see.
    fn differs(&self, object: &mut Value, old: &Value) -> bool {
        if !self.kept_empties {
            self.settle(object, old);
            return differs(object, old);
        }
        let mut settled = object.clone();
        self.settle(&mut settled, old);
        differs(&settled, old)
    }
}

/// Whether anything but metadata and status differs.
fn differs(object: &Value, old: &Value) -> bool {
    fn counted<'a>((key, _): &(&'a Text, &'a Value)) -> bool {
        !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion")
    }
    !object.as_map().iter().filter(counted).eq(old.as_map().iter().filter(counted))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{Value, object};

    use super::*;
    use crate::all;
    use crate::kind::Requester;

    /// The generation after an update of a ReplicaSet of generation 3 to so many replicas.
    fn generation(part: Part, replicas: i64, labels: Value) -> i64 {
        let kind = all().iter().find(|kind| kind.is("apps", "replicasets")).unwrap();
        let lifecycle = Lifecycle {
            kind,
            schema: &kind.schema,
            part,
            requester: Requester { user: &Value::object, now: 0, gave_no_labels: false },
            namespace: &|| Value::Null,
            kept_empties: false,
        };
        let replica_set = |replicas: i64, generation: i64, labels: Value| {
            let metadata = object! { "name": "a", "generation": generation, "labels": labels };
            object! { "metadata": metadata, "spec": object! { "replicas": replicas } }
        };
        let mut object = replica_set(replicas, 9, labels);
        lifecycle.prepare_update(&mut object, &replica_set(1, 3, Value::object()));
        object.get("metadata").int("generation")
    }

    #[test]
    fn generations_count_what_is_wanted_and_nothing_else() {
        assert_eq!(generation(Part::Main, 1, Value::object()), 3);
        assert_eq!(generation(Part::Main, 1, object! { "a": "b" }), 3);
        assert_eq!(generation(Part::Main, 2, Value::object()), 4);
        assert_eq!(generation(Part::Status, 2, Value::object()), 3);
    }
}
