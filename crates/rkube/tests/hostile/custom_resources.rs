//! Custom resources among people who define too much, too often and on top of each other, and who pull the plug.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rkube_testkit::{Rkube, eventually};
use serde_json::{Value, json};

use crate::client::{Answer, Client, Connection, Watch};
use crate::{Random, is_well, start, start_durable};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

/// A definition in `example.com` with these versions.
fn definition(plural: &str, kind: &str, versions: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    })
}

fn version(name: &str, is_stored: bool, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": schema}})
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn foos(spec: &Value) -> Value {
    definition("foos", "Foo", &[version("v1", true, spec)])
}

fn foo(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(method, path, &[("Content-Type", content_type)], body.as_bytes()).unwrap()
}

#[track_caller]
fn expect(answer: Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn condition(client: &Client, name: &str, kind: &str) -> Option<String> {
    let found = client.get(&format!("{DEFINITIONS}/{name}"));
    let conditions = found.json()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition["type"] == kind)?;
    condition["status"].as_str().map(str::to_owned)
}

fn wait_established(client: &Client, name: &str) {
    eventually("the definition is established", || match condition(client, name, "Established").as_deref() {
        Some("True") => Ok(()),
        other => Err(format!("{name}: {other:?}")),
    });
}

/// Asks for the deletion, and waits for it.
fn remove_definition(client: &Client, name: &str) {
    let path = format!("{DEFINITIONS}/{name}");
    send(client, "DELETE", &path, &Value::Null);
    eventually("the definition goes", || match client.get(&path).status {
        404 => Ok(()),
        other => Err(other.to_string()),
    });
}

#[test]
fn a_rule_that_would_run_for_ever_does_not() {
    let rkube = start();
    let client = Client::of(&rkube);
    let rule = "self.all(x, self.all(y, x == y || x != y))";
    let list = |max: Option<u64>| {
        let mut list =
            json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]});
        if let Some(max) = max {
            list["maxItems"] = max.into();
        }
        json!({"type": "object", "properties": {"list": list}})
    };
    let unbounded = expect(send(&client, "POST", DEFINITIONS, &foos(&list(None))), 422);
    let message = unbounded["message"].as_str().unwrap();
    assert!(message.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{message}");

    expect(send(&client, "POST", DEFINITIONS, &foos(&list(Some(1000)))), 201);
    wait_established(&client, "foos.example.com");
    let long = foo("long", &json!({"list": (0..1000).collect::<Vec<u64>>()}));
    let stopped = expect(send(&client, "POST", FOOS, &long), 422);
    let words = format!(
        "Foo.example.com \"long\" is invalid: spec.list: Invalid value: \"array\": 'operation cancelled: actual cost limit \
         exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
    );
    assert_eq!(stopped["message"], words);
    expect(send(&client, "POST", FOOS, &foo("short", &json!({"list": [1, 2, 3]}))), 201);
    is_well(&rkube);
}

#[test]
fn a_stored_version_stays_while_objects_are_in_it() {
    let rkube = start();
    let client = Client::of(&rkube);
    let path = format!("{DEFINITIONS}/foos.example.com");
    let (old, new) = (version("v1", false, &anything()), version("v2", true, &anything()));
    expect(send(&client, "POST", DEFINITIONS, &foos(&anything())), 201);
    wait_established(&client, "foos.example.com");
    expect(send(&client, "POST", FOOS, &foo("old", &json!({"a": 1}))), 201);
    let versions = |versions: &[&Value]| send(&client, "PATCH", &path, &json!({"spec": {"versions": versions}}));
    let moved = expect(versions(&[&old, &new]), 200);
    assert_eq!(moved["status"]["storedVersions"], json!(["v1", "v2"]));
    let kept = expect(versions(&[&new]), 422);
    let words = "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage \
                 version, and must remain in spec.versions until a storage migration ensures no data remains persisted \
                 in v1 and removes v1 from status.storedVersions";
    assert!(kept["message"].as_str().unwrap().contains(words), "{kept}");

    // Somebody who says that nothing is left, and is wrong.
    let status = json!({"status": {"storedVersions": ["v2"]}});
    expect(send(&client, "PATCH", &format!("{path}/status"), &status), 200);
    expect(versions(&[&new]), 200);
    let foos = FOOS.replace("/v1/", "/v2/");
    eventually("v1 is gone", || if client.get(FOOS).status == 404 { Ok(()) } else { Err(String::new()) });
    for path in [&foos, &format!("{foos}/old")] {
        let refused = expect(client.get(path), 500);
        assert_eq!(refused["message"], "request to convert CR from an invalid group/version: example.com/v1");
    }
    let mut other = foo("new", &json!({}));
    other["apiVersion"] = "example.com/v2".into();
    expect(send(&client, "POST", &foos, &other), 201);
    expect(client.get(&format!("{foos}/new")), 200);

    // Nothing was lost.
    expect(versions(&[&old, &new]), 200);
    eventually("the old object is there again", || match client.get(&format!("{foos}/old")) {
        answer if answer.status == 200 && answer.json()["spec"]["a"] == 1 => Ok(()),
        answer => Err(answer.status.to_string()),
    });
    is_well(&rkube);
}

#[test]
fn of_many_who_want_the_same_names_one_has_them() {
    const RIVALS: usize = 16;
    let rkube = start();
    let client = Client::of(&rkube);
    std::thread::scope(|scope| {
        for number in 0..RIVALS {
            let client = client.clone();
            scope.spawn(move || {
                let rival = definition(&format!("rivals{number}"), "Rival", &[version("v1", true, &anything())]);
                expect(send(&client, "POST", DEFINITIONS, &rival), 201);
            });
        }
    });
    let mut left: Vec<String> = (0..RIVALS).map(|number| format!("rivals{number}.example.com")).collect();
    while !left.is_empty() {
        let has_names = |name: &String| condition(&client, name, "Established").as_deref() == Some("True");
        let winner = eventually("one of them is established", || {
            left.iter().position(has_names).ok_or_else(|| format!("none of {left:?}"))
        });
        assert_eq!(left.iter().filter(|name| has_names(name)).count(), 1);
        let winner = left.swap_remove(winner);
        let resource = winner.split('.').next().unwrap();
        expect(client.get(&format!("/apis/example.com/v1/{resource}")), 200);
        // It goes, and the next one has the names.
        remove_definition(&client, &winner);
        if left.len() < RIVALS - 3 {
            break;
        }
    }
    is_well(&rkube);
}

/// What writers, readers and watchers of a resource know while it is defined, changed and removed.
struct Storm {
    client: Client,
    ends: AtomicBool,
    written: AtomicU64,
    listed: AtomicU64,
    watched: AtomicU64,
}

/// Each definition marks its objects, so that none can be taken for another's.
fn marked(mark: u64, fields: u64) -> Value {
    let mut properties = json!({"mark": {"type": "integer", "default": mark, "enum": [mark]}});
    for field in 0..fields {
        properties[format!("field{field}")] = json!({"type": "string", "default": "x"});
    }
    foos(&json!({"type": "object", "properties": properties}))
}

#[test]
fn a_definition_changes_goes_and_comes_back_in_a_storm() {
    let rkube = start();
    storm(&rkube, 0x5eed_cafe, 12);
    is_well(&rkube);
}

/// Defines, changes and removes a resource `rounds` times while others write, list and watch its objects.
fn storm(rkube: &Rkube, seed: u64, rounds: u64) {
    let storm = Storm {
        client: Client::of(rkube),
        ends: AtomicBool::new(false),
        written: AtomicU64::new(0),
        listed: AtomicU64::new(0),
        watched: AtomicU64::new(0),
    };
    let mut random = Random(seed);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (storm, seed) = (&storm, seed + writer + 1);
            scope.spawn(move || storm.write(writer, &mut Random(seed)));
        }
        scope.spawn(|| storm.list());
        for _ in 0..2 {
            scope.spawn(|| storm.watch());
        }
        for round in 0..rounds {
            storm.define(round, &mut random);
        }
        storm.ends.store(true, Ordering::Relaxed);
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (written, listed, watched) = (count(&storm.written), count(&storm.listed), count(&storm.watched));
    assert!(
        written > 0 && listed > 0 && watched > 0,
        "seed {seed}: {written} written, {listed} listed, {watched} watched"
    );
}

impl Storm {
    /// One life of the definition: made, changed, removed with what is in it.
    fn define(&self, mark: u64, random: &mut Random) {
        expect(send(&self.client, "POST", DEFINITIONS, &marked(mark, 2)), 201);
        wait_established(&self.client, "foos.example.com");
        self.expect_only(mark);
        let goal = self.written.load(Ordering::Relaxed) + 100 + random.below(200);
        eventually("objects are written", || {
            let written = self.written.load(Ordering::Relaxed);
            if written >= goal { Ok(()) } else { Err(format!("{written} of {goal}")) }
        });
        for _ in 0..random.below(4) {
            let versions = &marked(mark, 2 + random.below(20))["spec"]["versions"];
            let path = format!("{DEFINITIONS}/foos.example.com");
            expect(send(&self.client, "PATCH", &path, &json!({"spec": {"versions": versions}})), 200);
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        self.expect_only(mark);
        remove_definition(&self.client, "foos.example.com");
    }

    fn expect_only(&self, mark: u64) {
        let listed = expect(self.client.get(FOOS), 200);
        for item in listed["items"].as_array().unwrap() {
            assert_eq!(item["spec"]["mark"], mark, "an object of another definition: {item}");
        }
    }

    /// Creates, changes and deletes; whether the resource is there is a matter of luck.
    fn write(&self, writer: u64, random: &mut Random) {
        let mut connection = self.client.connect().unwrap();
        while !self.ends.load(Ordering::Relaxed) {
            let name = format!("foo-{writer}-{}", random.below(40));
            let one = format!("{FOOS}/{name}");
            let body = foo(&name, &json!({"field0": random.below(1000).to_string()}));
            let answer = match random.below(4) {
                0 | 1 => ask(&mut connection, "POST", FOOS, &body),
                2 => ask(&mut connection, "PATCH", &one, &json!({"spec": {"field1": random.below(1000).to_string()}})),
                _ => ask(&mut connection, "DELETE", &one, &Value::Null),
            };
            match answer.status {
                200 | 201 => drop(self.written.fetch_add(1, Ordering::Relaxed)),
                // Not there yet or any more; there twice; changed meanwhile; on its way out.
                403 | 404 | 405 | 409 => {}
                other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
    }

    fn list(&self) {
        let mut connection = self.client.connect().unwrap();
        while !self.ends.load(Ordering::Relaxed) {
            let answer = ask(&mut connection, "GET", FOOS, &Value::Null);
            match answer.status {
                200 => {
                    let marks = marks_of(&answer.json());
                    assert!(marks.len() < 2, "objects of several definitions in one list: {marks:?}");
                    self.listed.fetch_add(1, Ordering::Relaxed);
                }
                404 => {}
                other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
    }

    /// One watch after the other; each ends when the definition changes or goes.
    fn watch(&self) {
        let path = format!("{FOOS}?watch=true&timeoutSeconds=2");
        while !self.ends.load(Ordering::Relaxed) {
            let Ok(Ok(mut watch)) = Watch::start(&self.client, &path) else { continue };
            let mut first = None;
            while let Ok(Some(event)) = watch.next_event() {
                if event["type"] == "ERROR" {
                    break;
                }
                let mark = event["object"]["spec"]["mark"].as_u64();
                let expected = *first.get_or_insert(mark);
                assert_eq!(mark, expected, "a watch went on with the objects of another definition: {event}");
                self.watched.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn ask(connection: &mut Connection, method: &str, path: &str, body: &Value) -> Answer {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    connection.request(method, path, &[("Content-Type", content_type)], body.as_bytes()).unwrap()
}

fn marks_of(list: &Value) -> std::collections::BTreeSet<u64> {
    list["items"].as_array().unwrap().iter().filter_map(|item| item["spec"]["mark"].as_u64()).collect()
}

#[test]
fn a_thousand_definitions_at_once() {
    const DEFINED: usize = 1_000;
    const CLIENTS: usize = 8;
    let rkube = start();
    let client = Client::of(&rkube);
    std::thread::scope(|scope| {
        for part in 0..CLIENTS {
            let client = &client;
            scope.spawn(move || {
                let mut connection = client.connect().unwrap();
                for number in (part..DEFINED).step_by(CLIENTS) {
                    let (plural, kind) = (format!("kind{number}s"), format!("Kind{number}"));
                    let wanted = definition(&plural, &kind, &[version("v1", true, &anything())]);
                    expect(ask(&mut connection, "POST", DEFINITIONS, &wanted), 201);
                }
            });
        }
    });
    eventually("all of them are discovered", || {
        let found = expect(client.get("/apis/example.com/v1"), 200)["resources"].as_array().unwrap().len();
        if found == DEFINED { Ok(()) } else { Err(format!("{found} are")) }
    });
    for number in [0, 1, DEFINED / 2, DEFINED - 1] {
        let path = format!("/apis/example.com/v1/namespaces/default/kind{number}s");
        let mut object = foo("a", &json!({"a": 1}));
        object["kind"] = format!("Kind{number}").into();
        expect(send(&client, "POST", &path, &object), 201);
        assert_eq!(expect(client.get(&path), 200)["items"].as_array().unwrap().len(), 1);
    }
    expect(send(&client, "DELETE", DEFINITIONS, &Value::Null), 200);
    eventually("all of them go", || {
        let left = expect(client.get(DEFINITIONS), 200)["items"].as_array().unwrap().len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
    eventually("their group goes", || match client.get("/apis/example.com/v1").status {
        404 => Ok(()),
        other => Err(other.to_string()),
    });
    is_well(&rkube);
}

#[test]
fn definitions_and_objects_outlive_the_process() {
    const ROUNDS: u64 = 6;
    let mut random = Random(0x0ff_5eed);
    let mut rkube = start_durable();
    let mut known: Vec<String> = Vec::new();
    expect(send(&Client::of(&rkube), "POST", DEFINITIONS, &foos(&anything())), 201);
    for round in 0..ROUNDS {
        let client = Client::of(&rkube);
        wait_established(&client, "foos.example.com");
        let acknowledged = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_dead(&client, round));
            let definer = scope.spawn(|| define_until_dead(&client, round));
            std::thread::sleep(Duration::from_micros(50_000 + random.below(200_000)));
            rkube.kill9();
            definer.join().unwrap();
            writer.join().unwrap()
        });
        known.extend(acknowledged);
        rkube.restart();
        let client = Client::of(&rkube);
        // Served from the first moment on: nothing is to be waited for.
        let listed = expect(client.get(FOOS), 200);
        let items = listed["items"].as_array().unwrap();
        let names: std::collections::HashSet<&str> =
            items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
        let lost: Vec<&String> = known.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert!(lost.is_empty(), "round {round}: lost {lost:?} of {}", known.len());
        // What was being removed goes on going.
        eventually("the others are settled", || {
            let left = expect(client.get(DEFINITIONS), 200);
            let going =
                left["items"].as_array().unwrap().iter().filter(|it| !it["metadata"]["deletionTimestamp"].is_null());
            match going.count() {
                0 => Ok(()),
                count => Err(format!("{count} definitions are still going")),
            }
        });
        is_well(&rkube);
    }
    assert!(!known.is_empty());
}

/// Creates objects until the server is dead; gives the names of those that were acknowledged.
fn write_until_dead(client: &Client, round: u64) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = client.connect() else { return acknowledged };
    for number in 0.. {
        let name = format!("foo-{round}-{number}");
        let body = foo(&name, &json!({"number": number})).to_string();
        let headers = [("Content-Type", "application/json")];
        match connection.request("POST", FOOS, &headers, body.as_bytes()) {
            Ok(answer) if answer.status == 201 => acknowledged.push(name),
            Ok(answer) => panic!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
            Err(_) => break,
        }
    }
    acknowledged
}

/// Defines other resources, gives them objects and removes them until the server is dead.
fn define_until_dead(client: &Client, round: u64) {
    let Ok(mut connection) = client.connect() else { return };
    let headers = [("Content-Type", "application/json")];
    for number in 0.. {
        let (plural, kind) = (format!("bar{round}x{number}s"), format!("Bar{round}x{number}"));
        let wanted = definition(&plural, &kind, &[version("v1", true, &anything())]).to_string();
        let mut object = foo("a", &json!({}));
        object["kind"] = kind.into();
        let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
        let gone = format!("{DEFINITIONS}/{plural}.example.com");
        let steps =
            [("POST", DEFINITIONS, wanted), ("POST", &path, object.to_string()), ("DELETE", &gone, String::new())];
        for (method, path, body) in steps {
            if connection.request(method, path, &headers, body.as_bytes()).is_err() {
                return;
            }
        }
    }
}
