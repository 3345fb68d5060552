//! What becomes of migrations, as pure functions: whose turn it is, what there is to migrate, and what is written of it.

use std::sync::Arc;

use rkube_machinery::time;
use rkube_operator::Discovered;
use serde_json::{Value, json};

use super::view::{FAILED, GroupResource, Migration, RUNNING, SUCCEEDED};

/// What a resource has to offer to be migrated.
const VERBS: [&str; 3] = ["update", "patch", "list"];
/// What is not there yet may come within so many seconds after a migration was asked for.
const PATIENCE_SECONDS: i64 = 60;
/// Not migrated upstream, where the garbage collector has to know what is.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];
/// Upstream's words for what its garbage collector does not know.
const NOT_COLLECTED: &str = "migration encountered unhandled error: resource does not exist in GC: %!w(<nil>)";

/// What to do about all migrations of one resource: only one of them runs at a time.
#[derive(Debug, Default)]
pub struct Turn {
    /// They are over, and do not say so yet.
    pub finish: Vec<Arc<Migration>>,
    pub start: Option<Arc<Migration>>,
}

pub fn turn(migrations: &[Arc<Migration>]) -> Turn {
    let (running, waiting): (Vec<_>, Vec<_>) = migrations.iter().partition(|migration| migration.is_running());
    let is_free = running.iter().all(|migration| migration.is_over());
    let waiting = waiting.into_iter().filter(|migration| is_free && !migration.is_over());
    let first = waiting.min_by(|one, other| (one.created, &one.item.name).cmp(&(other.created, &other.item.name)));
    Turn {
        finish: running.into_iter().filter(|migration| migration.is_over()).cloned().collect(),
        start: first.cloned(),
    }
}

/// What a migration of a resource is up against.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    Resource(&'a Discovered),
    /// Perhaps it comes.
    NotYet,
    /// It cannot be migrated, and this says why.
    Never(String),
}

pub fn find<'a>(of: &GroupResource, served: &'a [Discovered], age_seconds: i64) -> Found<'a> {
    let is_meant = |found: &&Discovered| {
        found.preferred && found.resource.group == of.group && found.resource.plural == of.resource
    };
    let is_young = age_seconds < PATIENCE_SECONDS;
    let Some(found) = served.iter().find(is_meant) else {
        let why = "resource does not exist in discovery".to_owned();
        return if is_young { Found::NotYet } else { Found::Never(why) };
    };
    if !found.supports(&VERBS) {
        let (group, version) = (&found.resource.group, &found.resource.version);
        let name = format!("{group}/{version}, Resource={}", found.resource.plural);
        let verbs = VERBS.join(" ");
        return Found::Never(format!("resource {name:?} does not support discovery operations: [{verbs}]"));
    }
    let is_ignored = IGNORED.contains(&(of.group.as_str(), of.resource.as_str()));
    if is_ignored || !found.supports(&["delete", "watch"]) {
        return if is_young { Found::NotYet } else { Found::Never(NOT_COLLECTED.to_owned()) };
    }
    Found::Resource(found)
}

/// Adds to a whole migration that it is running.
pub fn run(migration: &mut Value, now_seconds: i64) {
    add_condition(migration, RUNNING, ("MigrationRunning", "The migration is running"), now_seconds);
}

pub fn succeed(migration: &mut Value, now_seconds: i64) {
    add_condition(migration, SUCCEEDED, ("StorageVersionMigrationSucceeded", ""), now_seconds);
}

pub fn fail(migration: &mut Value, message: &str, now_seconds: i64) {
    add_condition(migration, FAILED, ("StorageVersionMigrationFailed", message), now_seconds);
}

/// Says in a whole migration that it runs no more.
pub fn finish(migration: &mut Value, generation: i64, now_seconds: i64) {
    let conditions = migration["status"]["conditions"].as_array_mut();
    let running = conditions.into_iter().flatten().find(|condition| condition["type"] == RUNNING);
    if let Some(running) = running {
        running["status"] = "False".into();
        running["reason"] = "MigrationCompleted".into();
        running["message"] = "Migration completed".into();
        running["lastTransitionTime"] = time::format_seconds(now_seconds).into();
        if generation != 0 {
            running["observedGeneration"] = generation.into();
        }
    }
}

/// A condition is added once, and stays.
fn add_condition(migration: &mut Value, kind: &str, (reason, message): (&str, &str), now_seconds: i64) {
    let conditions = &mut migration["status"]["conditions"];
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    if conditions.iter().any(|condition| condition["type"] == kind) {
        return;
    }
    let since = time::format_seconds(now_seconds);
    let condition =
        json!({ "type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message });
    conditions.push(condition);
}

/// What is said in the definition of a custom resource while it is migrated.
pub fn definition_migrating(definition: &Value, migration: &str, now_seconds: i64) -> Value {
    let message = format!("Migration {migration} is running");
    definition_status(definition, ("True", "MigrationRunning", &message), now_seconds)
}

/// The same when that is over. Versions in which nothing is stored any more are no longer named, unless the definition was
/// changed meanwhile: then something may have been stored in any of them. After a failure it still is; Kubernetes forgets
/// the versions then, too, and lets them be removed from the definition with objects that nobody can read any more.
pub fn definition_migrated(definition: &Value, succeeded: bool, now_seconds: i64) -> Value {
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let migrating = conditions.find(|condition| condition["type"] == STORAGE_MIGRATING);
    let generation = |value: &Value| value.as_i64().unwrap_or(0);
    let is_same = migrating.is_some_and(|condition| {
        generation(&condition["observedGeneration"]) == generation(&definition["metadata"]["generation"])
    });
    let (reason, message) = match (succeeded, is_same) {
        (true, true) => ("MigrationSucceeded", "The migration has succeeded and the stored versions have been updated"),
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut applied = definition_status(definition, ("False", reason, message), now_seconds);
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    if let Some(stored) = versions.find(|version| version["storage"] == true).filter(|_| succeeded && is_same) {
        applied["status"]["storedVersions"] = json!([stored["name"]]);
    }
    applied
}

const STORAGE_MIGRATING: &str = "StorageMigrating";

/// A configuration to be applied to the status of a definition that is still as it was seen.
fn definition_status(definition: &Value, (status, reason, message): (&str, &str, &str), now_seconds: i64) -> Value {
    let metadata = &definition["metadata"];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": metadata["name"], "resourceVersion": metadata["resourceVersion"] },
        "status": { "conditions": [{
            "type": STORAGE_MIGRATING, "status": status, "lastTransitionTime": time::format_seconds(now_seconds),
            "reason": reason, "message": message, "observedGeneration": metadata["generation"],
        }] },
    })
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;
    use rkube_operator::kube::core::{ApiResource, GroupVersionKind};

    use super::*;

    /// `name:age:conditions`, of which `R`, `S` and `F` hold and `r` does not.
    fn migrations(text: &str) -> Vec<Arc<Migration>> {
        let read = |word: &str| {
            let mut parts = word.split(':');
            let mut part = || parts.next().unwrap();
            let (name, age, letters) = (part(), part().parse::<i64>().unwrap(), part());
            let condition = |letter: char| {
                let status = if letter.is_uppercase() { "True" } else { "False" };
                let kind = match letter.to_ascii_uppercase() {
                    'R' => RUNNING,
                    'S' => SUCCEEDED,
                    _ => FAILED,
                };
                json!({ "type": kind, "status": status })
            };
            let conditions: Vec<Value> = letters.chars().map(condition).collect();
            let object = json!({
                "metadata": { "creationTimestamp": time::format_seconds(1_000 - age) },
                "spec": { "resource": { "resource": "pods" } },
                "status": { "conditions": conditions },
            });
            let json = object.to_string().into();
            let item = Item { namespace: "".into(), name: name.into(), uid: "u".into(), revision: 1, json };
            Arc::new(Migration::read(&item).unwrap())
        };
        text.split_whitespace().map(read).collect()
    }

    #[test]
    fn one_runs_at_a_time_and_the_oldest_is_next() {
        // All of a resource, those that are to be finished, and the one to be started.
        let table = [
            ("", "", ""),
            ("a:1:", "", "a"),
            ("a:1: b:2:", "", "b"),
            ("b:1: a:1:", "", "a"),
            ("a:2: b:1:R", "", ""),
            ("b:1:R a:2:", "", ""),
            ("a:3:RS b:2: c:1:", "a", "b"),
            ("a:3:RF b:2:RS c:1:R d:1:", "a b", ""),
            ("a:3:rS b:2:rF c:1:", "", "c"),
            ("a:3:S", "", ""),
        ];
        for (given, finish, start) in table {
            let turn = turn(&migrations(given));
            let names: Vec<&str> = turn.finish.iter().map(|migration| migration.item.name.as_str()).collect();
            let first = turn.start.map_or(String::new(), |migration| migration.item.name.to_string());
            assert_eq!((names.join(" ").as_str(), first.as_str()), (finish, start), "{given}");
        }
    }

    #[test]
    fn what_cannot_be_migrated_fails_once_it_is_clear() {
        let resource = |group: &str, version: &str, plural: &str, verbs: &[&str], preferred: bool| Discovered {
            resource: ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "Kind"), plural),
            namespaced: true,
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
            preferred,
        };
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let served = [
            resource("a.io", "v2", "things", &all, true),
            resource("a.io", "v1", "things", &all, false),
            resource("", "v1", "statuses", &["get", "list"], true),
            resource("", "v1", "events", &all, true),
            resource("a.io", "v1", "fixed", &["list", "patch", "update"], true),
        ];
        let gone = "resource does not exist in discovery";
        let collected = NOT_COLLECTED;
        let verbs = "resource \"/v1, Resource=statuses\" does not support discovery operations: [update patch list]";
        let table = [
            ("a.io", "things", 0, Found::Resource(&served[0])),
            ("b.io", "things", 59, Found::NotYet),
            ("b.io", "things", 60, Found::Never(gone.to_owned())),
            ("", "statuses", 0, Found::Never(verbs.to_owned())),
            ("", "events", 59, Found::NotYet),
            ("", "events", 61, Found::Never(collected.to_owned())),
            ("a.io", "fixed", 61, Found::Never(collected.to_owned())),
        ];
        for (group, name, age, expected) in table {
            let of = GroupResource { group: group.to_owned(), resource: name.to_owned() };
            assert_eq!(find(&of, &served, age), expected, "{group} {name} {age}");
        }
    }

    #[test]
    fn conditions_are_added_once_and_running_ends() {
        let mut migration = json!({});
        run(&mut migration, 1);
        succeed(&mut migration, 2);
        succeed(&mut migration, 3);
        finish(&mut migration, 0, 4);
        assert_eq!(
            migration["status"]["conditions"],
            json!([
                { "type": "Running", "status": "False", "lastTransitionTime": "1970-01-01T00:00:04Z",
                  "reason": "MigrationCompleted", "message": "Migration completed" },
                { "type": "Succeeded", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z",
                  "reason": "StorageVersionMigrationSucceeded", "message": "" },
            ])
        );
    }

    #[test]
    fn versions_are_forgotten_only_if_the_definition_stayed_as_it_was() {
        let definition = |seen: Option<i64>| {
            let condition = |seen| json!({ "type": "StorageMigrating", "status": "True", "observedGeneration": seen });
            json!({
                "metadata": { "name": "things.a.io", "resourceVersion": "7", "generation": 3 },
                "spec": { "versions": [{ "name": "v1", "storage": false }, { "name": "v2", "storage": true }] },
                "status": { "conditions": seen.map(condition).into_iter().collect::<Vec<_>>(), "storedVersions": ["v1", "v2"] },
            })
        };
        let updated = "The migration has succeeded and the stored versions have been updated";
        let kept =
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch";
        let table = [
            (Some(3), true, json!(["v2"]), updated),
            (Some(2), true, Value::Null, kept),
            (None, true, Value::Null, kept),
            (Some(3), false, Value::Null, "The migration has failed"),
        ];
        for (seen, succeeded, stored, message) in table {
            let applied = definition_migrated(&definition(seen), succeeded, 0);
            assert_eq!(applied["status"]["storedVersions"], stored, "{seen:?} {succeeded}");
            let condition = &applied["status"]["conditions"][0];
            assert_eq!((&condition["message"], &condition["status"]), (&json!(message), &json!("False")));
            assert_eq!(applied["metadata"], json!({ "name": "things.a.io", "resourceVersion": "7" }));
        }
        let applied = definition_migrating(&definition(None), "m", 0);
        assert_eq!(applied["status"]["conditions"][0]["message"], "Migration m is running");
    }
}
