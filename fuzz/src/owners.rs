//! Who owns which field, after writes and applies of arbitrary objects.

use rkube_machinery::decode::{complete, decode};
use rkube_machinery::managed::{Reset, TableView, WriteContext, apply, check, keep_times, track_update};
use rkube_machinery::{Type, TypeRef, Value, json};

use super::documents::Choices;

/// What a write of the object, and one of its status, never owns.
const RESETS: [Reset<'_>; 2] = [Reset::Fields(&[&["status"]]), Reset::AllBut(&[&["status"]])];

/// A few writes and applies of one object, by several managers.
pub fn managed(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.object_kind();
    let Some(view) = TypeRef::find(kind.name).map(TableView::of) else { return };
    let plain = choices.below(2) == 0;
    let mut live = Value::Null;
    for round in 0..4 {
        let context = WriteContext {
            manager: choices.one_of(&["a", "b", "kubectl", ""]),
            api_version: "v1",
            kind: kind.short_name(),
            subresource: choices.one_of(&["", "status"]),
            time: ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"][round % 2],
        };
        let reset = if plain { Reset::Nothing } else { RESETS[usize::from(!context.subresource.is_empty())] };
        let document = named(choices.fitting(kind, 0), kind);
        if choices.below(2) == 0 {
            let Ok(decoded) = decode(document, kind) else { continue };
            let mut new = decoded.value;
            // As the server does: empty lists and maps are nobody's, and no object that is kept has them.
            complete(&mut new, kind);
            track_update(&live, &mut new, view, &context, reset, None);
            keep_times(&live, &mut new);
            assert!(live.is_null() || check(&live).is_err() || check(&new).is_ok());
            live = new;
            continue;
        }
        let force = choices.below(2) == 1;
        let canonical = decode(document.clone(), kind).ok().map(|decoded| named(decoded.value, kind));
        let is_canonical = canonical.is_some() && choices.below(2) == 1;
        let sent = canonical.filter(|_| is_canonical).unwrap_or(document);
        let Ok(mut applied) = apply(&live, &sent, view, &context, force, reset, None) else { continue };
        check(&applied).expect("managed fields can be read");
        complete(&mut applied, kind);
        // What is written otherwise than the server keeps it may conflict with its own canonical form; and an object
        // without owners (an empty list is nobody's) is one that nobody applied to, as upstream.
        if is_canonical && !applied.get("metadata").list("managedFields").is_empty() {
            let repeat = |before: &Value| {
                let again = apply(before, &sent, view, &context, force, reset, None);
                let mut again = again.expect("what could be applied can be applied again");
                complete(&mut again, kind);
                keep_times(before, &mut again);
                again
            };
            let mut again = repeat(&applied);
            if again != applied && has_empty(&sent) {
                // Upstream, too, takes away with its last field what is applied as empty, and brings it back next time.
                applied = again;
                again = repeat(&applied);
            }
            assert_eq!(json::to_string(&again), json::to_string(&applied), "{}", json::to_string(&sent));
        }
        live = applied;
    }
}

fn has_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty() || map.iter().any(|(_, value)| has_empty(value)),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        _ => false,
    }
}

fn named(mut document: Value, kind: &'static Type) -> Value {
    document.set("apiVersion", "v1");
    document.set("kind", kind.short_name());
    document
}
