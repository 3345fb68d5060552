//! The parts of custom kinds, kept until what they were made of changes.
//!
//! What holds: a part is that of its kind and of the definition's revision that it was made of. Parts take at most
//! [`HELD_BYTES_MAX`] while nobody is answered with them. Beyond, those that were made first go: they are made anew for
//! each answer, and shared by the answers that are under way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use rkube_catalog::{Entry, Resource};
use rkube_kinds::Kind;
use rkube_machinery::Value;
use rkube_openapi::{Form, Part};

/// The parts of some thousand definitions.
const HELD_BYTES_MAX: usize = 64 << 20;

/// A custom kind that is served, and the definition that it came from.
pub(super) struct CustomKind {
    pub(super) kind: Arc<Kind>,
    definition: Option<Entry>,
}

impl CustomKind {
    pub(super) fn new(kind: Arc<Kind>, definitions: Option<&Resource>) -> CustomKind {
        let name = format!("{}.{}", kind.resource, kind.group);
        let definition = definitions.and_then(|definitions| definitions.find("", &name));
        CustomKind { kind, definition }
    }

    /// The definition; null where it is gone already.
    pub(super) fn definition_value(&self) -> Value {
        self.definition.as_ref().map(|entry| entry.object.value(0)).unwrap_or_default()
    }

    pub(super) fn has_same_definition(&self, other: &CustomKind) -> bool {
        self.kind.is(&other.kind.group, &other.kind.resource)
    }

    /// Changes with the definition.
    pub(super) fn mark(&self) -> String {
        self.definition.as_ref().map(|entry| format!("{} {}", entry.object.uid, entry.revision)).unwrap_or_default()
    }

    pub(super) fn place(&self) -> (&str, &str, &str) {
        (&self.kind.group, &self.kind.resource, &self.kind.version)
    }

    fn revision(&self) -> u64 {
        self.definition.as_ref().map_or(0, |entry| entry.revision)
    }
}

#[derive(Default)]
pub(super) struct Parts {
    by_kind: HashMap<Key, Kept>,
    /// What is held, oldest first; perhaps with keys of what is gone.
    held: VecDeque<Key>,
    held_bytes: usize,
    /// Of the catalog, when kinds that are gone were last looked for.
    generation: u64,
}

/// Where the kind lies in memory. The weak reference beside it keeps others from that place.
type Key = (usize, Form);

struct Kept {
    kind: Weak<Kind>,
    revision: u64,
    part: Weak<Part>,
    held: Option<Arc<Part>>,
}

impl Parts {
    pub(super) fn find(&self, custom: &CustomKind, form: Form) -> Option<Arc<Part>> {
        let kept = self.by_kind.get(&key(custom, form))?;
        kept.part.upgrade().filter(|_| kept.revision == custom.revision())
    }

    pub(super) fn keep(&mut self, custom: &CustomKind, form: Form, part: &Arc<Part>) {
        self.keep_within(custom, form, part, HELD_BYTES_MAX);
    }

    fn keep_within(&mut self, custom: &CustomKind, form: Form, part: &Arc<Part>, bytes_max: usize) {
        let key = key(custom, form);
        let kept = Kept {
            kind: Arc::downgrade(&custom.kind),
            revision: custom.revision(),
            part: Arc::downgrade(part),
            held: Some(part.clone()),
        };
        self.held_bytes += part.size();
        match self.by_kind.insert(key, kept).and_then(|before| before.held) {
            Some(before) => self.held_bytes -= before.size(),
            None => self.held.push_back(key),
        }
        while self.held_bytes > bytes_max
            && let Some(oldest) = self.held.pop_front()
        {
            self.let_go(&oldest);
        }
    }

    fn let_go(&mut self, key: &Key) {
        if let Some(part) = self.by_kind.get_mut(key).and_then(|kept| kept.held.take()) {
            self.held_bytes -= part.size();
        }
    }

    /// Forgets the parts of kinds that are gone, where the catalog has changed since the last time.
    pub(super) fn sweep(&mut self, generation: u64) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        self.by_kind.retain(|_, kept| kept.kind.strong_count() > 0);
        self.held.retain(|key| self.by_kind.get(key).is_some_and(|kept| kept.held.is_some()));
        self.held_bytes = self.by_kind.values().filter_map(|kept| kept.held.as_ref()).map(|part| part.size()).sum();
    }
}

fn key(custom: &CustomKind, form: Form) -> Key {
    (Arc::as_ptr(&custom.kind).addr(), form)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;
    use rkube_openapi::Custom;

    use super::*;

    fn custom(plural: &str) -> CustomKind {
        let text = format!(
            r#"{{"spec":{{"group":"example.com","scope":"Cluster","versions":[{{"name":"v1","served":true,
                "storage":true,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}]}},
                "status":{{"acceptedNames":{{"plural":"{plural}","kind":"A","listKind":"AList"}}}}}}"#
        );
        let definition = json::parse(text.as_bytes()).unwrap();
        CustomKind { kind: rkube_kinds::custom::Definition::read(&definition).unwrap().stored, definition: None }
    }

    #[test]
    fn parts_are_kept_within_a_bound() {
        let texts = Custom::new();
        let kinds = [custom("a"), custom("b"), custom("c")];
        let made = kinds.each_ref().map(|custom| Arc::new(texts.part(&custom.kind, &Value::Null, Form::V3)));
        let room_for_two = made[0].size() * 5 / 2;
        let mut parts = Parts::default();
        for (custom, part) in kinds.iter().zip(&made) {
            parts.keep_within(custom, Form::V3, part, room_for_two);
            // Again, as if two had made it.
            parts.keep_within(custom, Form::V3, part, room_for_two);
        }
        assert_eq!(parts.held_bytes, made[1].size() + made[2].size());
        // Whoever is answered with the first shares it; then it is gone.
        assert!(parts.find(&kinds[0], Form::V3).is_some());
        drop(made);
        assert!(parts.find(&kinds[0], Form::V3).is_none());
        assert!(parts.find(&kinds[1], Form::V3).is_some() && parts.find(&kinds[2], Form::V3).is_some());
        assert!(parts.find(&kinds[2], Form::V2Json).is_none());
    }

    #[test]
    fn parts_of_kinds_that_are_gone_are_forgotten() {
        let mut parts = Parts::default();
        let (gone, stays) = (custom("a"), custom("b"));
        for custom in [&gone, &stays] {
            let part = Arc::new(Custom::new().part(&custom.kind, &Value::Null, Form::V3));
            parts.keep(custom, Form::V3, &part);
        }
        drop(gone);
        parts.sweep(1);
        assert_eq!((parts.by_kind.len(), parts.held.len()), (1, 1));
        assert_eq!(parts.held_bytes, parts.find(&stays, Form::V3).unwrap().size());
    }
}
