//! Looks for work that grows with the square of what is sent. Every list and map of an example of every kind is filled
//! with many elements, the same and different ones, and with four times as many, and sent in every way; what takes much
//! more than four times the time is printed, and fails. Looks at times, so it is run by hand, on a quiet machine:
//!
//! `cargo test -p rkube --test hostile doubling -- --ignored --nocapture`; `DOUBLING_KIND=Pod,Job` does some kinds only

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::client::{Answer, Client, Connection};
use crate::is_well;

/// Two sizes are compared; what looks bad is measured again before it is told.
const SMALL_COUNT: usize = 1_000;
const GROWTH: usize = 4;
/// So many times the size may take so many times the time, and little time is none.
const RATIO_MAX: f64 = 6.5;
const LITTLE: Duration = Duration::from_millis(40);
/// What takes longer is told, too.
const LONG: Duration = Duration::from_secs(5);
/// No body may be larger.
const BODY_MAX: usize = 3_000_000;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

struct Probe {
    client: Client,
    connection: Connection,
    process: u32,
    offenders: Vec<String>,
}

impl Probe {
    fn send(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (Answer, Duration) {
        let before = self.used();
        let answer = self.connection.request(method, path, &[("Content-Type", content_type)], body);
        let taken = self.used().saturating_sub(before);
        if taken > LONG {
            eprintln!("{:.1} s: {method} {path} {content_type}", taken.as_secs_f64());
        }
        let answer = answer.unwrap_or_else(|error| {
            self.connection = self.client.connect().unwrap();
            Answer { status: 0, headers: Vec::new(), body: error.to_string().into_bytes() }
        });
        (answer, taken)
    }

    /// The time that the server's threads have worked: others on the machine do not count.
    fn used(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process)).unwrap();
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// Compares how long two sizes take, by what `run` says of each: times with their names.
    fn compare(&mut self, what: &str, run: &mut Run<'_>) {
        let large = run(self, SMALL_COUNT * GROWTH);
        if large.iter().all(|(_, taken)| *taken < LITTLE) {
            return;
        }
        let small = run(self, SMALL_COUNT);
        if suspects(&small, &large).is_empty() {
            return;
        }
        let large = quicker(large, run(self, SMALL_COUNT * GROWTH));
        let small = quicker(small, run(self, SMALL_COUNT));
        for (name, small, large) in suspects(&small, &large) {
            let line =
                format!("{what} {name}: {} ms, {GROWTH} times as many {} ms", small.as_millis(), large.as_millis());
            eprintln!("{line}");
            self.offenders.push(line);
        }
    }

    /// The same for what has one time.
    fn compare_one(&mut self, what: &str, run: &mut dyn FnMut(&mut Probe, usize) -> Duration) {
        self.compare(what, &mut |probe, count| vec![("", run(probe, count))]);
    }
}

type Times = Vec<(&'static str, Duration)>;
type Run<'a> = dyn FnMut(&mut Probe, usize) -> Times + 'a;

/// What takes too long for its size.
fn suspects(small: &Times, large: &Times) -> Vec<(&'static str, Duration, Duration)> {
    let pairs = small.iter().zip(large).map(|((name, small), (_, large))| (*name, *small, *large));
    pairs.filter(|(_, small, large)| *large > LITTLE && large.as_secs_f64() > small.as_secs_f64() * RATIO_MAX).collect()
}

fn quicker(one: Times, other: Times) -> Times {
    one.into_iter().zip(other).map(|((name, one), (_, other))| (name, one.min(other))).collect()
}

#[test]
#[ignore = "looks at times"]
fn nothing_grows_with_the_square_of_what_is_sent() {
    let flags = ["--store=memory", "--runtime-config=api/all=true"];
    let rkube = rkube_testkit::Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &flags);
    let client = Client::of(&rkube);
    let process = rkube.process_id();
    let mut probe = Probe { connection: client.connect().unwrap(), client, process, offenders: Vec::new() };
    let only = std::env::var("DOUBLING_KIND").unwrap_or_default();
    let wanted = |kind: &str| only.is_empty() || only.split(',').any(|one| one == kind);
    if wanted("text") {
        texts(&mut probe);
    }
    let paths = paths(&probe.client);
    for document in examples() {
        let line = |name: &str| document.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let kind = (line("apiVersion:").to_owned(), line("kind:").to_owned());
        if let Some((path, _)) = paths.get(&kind).filter(|_| wanted(&kind.1)) {
            let before = probe.used();
            grow_example(&mut probe, &kind.1, path, &document);
            grow_status(&mut probe, &kind.1, path, &document);
            eprintln!("{} {}: {:.1} s", kind.0, kind.1, probe.used().saturating_sub(before).as_secs_f64());
        }
    }
    is_well(&rkube);
    assert!(probe.offenders.is_empty(), "{} offenders", probe.offenders.len());
}

/// The example's kind with every list and map of it grown.
fn grow_example(probe: &mut Probe, kind: &str, path: &str, document: &str) {
    let dry = format!("{path}?dryRun=All&fieldValidation=Ignore");
    let (answer, _) = probe.send("POST", &dry, YAML, document.as_bytes());
    if answer.status != 201 {
        eprintln!("{kind}: the example is not taken: {:.200}", String::from_utf8_lossy(&answer.body));
        return;
    }
    let mut example = answer.json();
    let metadata = example["metadata"].as_object_mut().unwrap();
    for field in ["uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("name".into(), "doubling".into());
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"});
    metadata.insert("ownerReferences".into(), json!([owner]));
    if kind == "ConfigMap" {
        metadata.insert("finalizers".into(), json!(["a.example/a"]));
    }
    let fields = json!({"f:data": {"f:a": {}}});
    let manager = json!({"manager": "a", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields});
    metadata.insert("managedFields".into(), json!([manager]));
    metadata.entry("labels").or_insert(json!({"a": "b"}));
    metadata.entry("annotations").or_insert(json!({"a": "b"}));
    let mut places = Vec::new();
    find_places(&example, &mut String::new(), &mut places);
    // All kinds share what is done with metadata.
    places.retain(|place| kind == "ConfigMap" || !place.starts_with("/metadata"));
    for distinct in [false, true] {
        let word = if distinct { "different" } else { "same" };
        for place in &places {
            grow_places(probe, &format!("{kind} {place} {word}"), path, &example, &[place], distinct);
        }
        // What is looked up in another list shows only when both are large.
        let is_inner = |place: &&String| !places.iter().any(|other| other.starts_with(&format!("{place}/")));
        let all: Vec<&String> = places.iter().filter(is_inner).collect();
        grow_places(probe, &format!("{kind} everything {word}"), path, &example, &all, distinct);
    }
}

/// The example's status with every list and map of it grown, written on a small one and on one that is as large.
fn grow_status(probe: &mut Probe, kind: &str, path: &str, document: &str) {
    let (answer, _) = probe.send("POST", path, YAML, document.as_bytes());
    let name = answer.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let named = format!("{path}/{name}");
    let status = format!("{named}/status");
    let (answer, _) =
        probe.send("PUT", &format!("{status}?dryRun=All&fieldValidation=Ignore"), YAML, document.as_bytes());
    if answer.status == 200 {
        let mut example = answer.json();
        let metadata = example["metadata"].as_object_mut().unwrap();
        for field in ["resourceVersion", "managedFields"] {
            metadata.remove(field);
        }
        let mut places = Vec::new();
        find_places(&example["status"], &mut "/status".to_owned(), &mut places);
        for (place, distinct) in places.iter().flat_map(|place| [(place, false), (place, true)]) {
            let what = format!("{kind} {place} {}", if distinct { "different" } else { "same" });
            probe.compare(&what, &mut |probe, count| {
                let body = grown(&example, place, count, distinct).to_string().into_bytes();
                let small = probe.send("PUT", &format!("{status}?dryRun=All"), JSON, &body).1;
                if probe.send("PUT", &status, JSON, &body).0.status != 200 {
                    return vec![("status", small), ("status on large", Duration::ZERO)];
                }
                let large = probe.send("PUT", &format!("{status}?dryRun=All"), JSON, &body).1;
                probe.send("PUT", &status, JSON, example.to_string().as_bytes());
                vec![("status", small), ("status on large", large)]
            });
        }
    }
    if !name.is_empty() {
        probe.send("DELETE", &format!("{named}?gracePeriodSeconds=0"), JSON, b"");
    }
}

fn grow_places(probe: &mut Probe, what: &str, path: &str, example: &Value, places: &[&String], distinct: bool) {
    let all_grown =
        |count: usize| places.iter().fold(example.clone(), |value, place| grown(&value, place, count, distinct));
    let element = all_grown(101).to_string().len().saturating_sub(all_grown(1).to_string().len()) / 100 + 1;
    // As many as a body has room for, where the elements are large.
    let largest = (SMALL_COUNT * GROWTH).min(BODY_MAX / element);
    let body = |count: usize| all_grown(count * largest / (SMALL_COUNT * GROWTH));
    let named = format!("{path}/doubling");
    let applied = format!("{named}?dryRun=All&force=true&fieldManager=a");
    let mut taken = true;
    probe.compare(what, &mut |probe, count| {
        let body = body(count).to_string().into_bytes();
        let (answer, create) = probe.send("POST", &format!("{path}?dryRun=All"), JSON, &body);
        taken &= answer.status == 201;
        vec![("create", create), ("apply", probe.send("PATCH", &applied, APPLY, &body).1)]
    });
    if !taken {
        return;
    }
    // Large on large: an object that is there, changed by one that is as large.
    probe.compare(what, &mut |probe, count| {
        let mut body = body(count);
        if probe.send("POST", path, JSON, body.to_string().as_bytes()).0.status != 201 {
            return Vec::new();
        }
        body["metadata"]["labels"]["other"] = "x".into();
        let body = body.to_string().into_bytes();
        let dry = format!("{named}?dryRun=All");
        let times = vec![
            ("PUT", probe.send("PUT", &dry, JSON, &body).1),
            ("strategic merge", probe.send("PATCH", &dry, STRATEGIC, &body).1),
            ("merge", probe.send("PATCH", &dry, MERGE, &body).1),
            ("apply on large", probe.send("PATCH", &applied, APPLY, &body).1),
        ];
        let freeing = br#"{"metadata":{"finalizers":null}}"#;
        if !example["metadata"]["finalizers"].is_null() {
            probe.send("PATCH", &named, MERGE, freeing);
        }
        let (deleted, _) = probe.send("DELETE", &format!("{named}?gracePeriodSeconds=0"), JSON, b"");
        if deleted.json()["kind"] != "Status" {
            probe.send("PATCH", &named, MERGE, freeing);
        }
        times
    });
}

/// Where the lists and maps with something in them are, as JSON pointers; maps only where their keys look like free ones.
fn find_places(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let length = at.len();
    match value {
        Value::Array(items) => {
            places.push(at.clone());
            if let Some(first) = items.first() {
                at.push_str("/0");
                find_places(first, at, places);
            }
        }
        Value::Object(map) => {
            if map.values().all(Value::is_string) && !map.is_empty() {
                places.push(at.clone());
            }
            for (key, value) in map {
                at.push('/');
                at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                find_places(value, at, places);
                at.truncate(length);
            }
        }
        _ => {}
    }
    at.truncate(length);
}

/// The example with so many elements at a place, each made from the first one there.
fn grown(example: &Value, place: &str, count: usize, distinct: bool) -> Value {
    let mut value = example.clone();
    match value.pointer_mut(place) {
        Some(Value::Array(items)) => {
            let first = items.first().cloned().unwrap_or_else(|| "a".into());
            *items = (0..count).map(|number| if distinct { renamed(&first, number) } else { first.clone() }).collect();
        }
        Some(Value::Object(map)) => {
            let first = map.values().next().and_then(Value::as_str).unwrap_or_default().to_owned();
            let amounts = first.starts_with(|letter: char| letter.is_ascii_digit());
            let prefix = match amounts {
                true if place.ends_with("/hard") => "requests.example.com/",
                true => "example.com/",
                false => "",
            };
            let entry = |number: usize| {
                let value = match (distinct, amounts) {
                    (false, _) => first.clone(),
                    (true, true) => number.to_string(),
                    // Eight letters that are base64, too.
                    (true, false) => format!("v{number:07}"),
                };
                (format!("{prefix}k{number}"), Value::from(value))
            };
            map.extend((0..count).map(entry));
        }
        _ => {}
    }
    value
}

/// An element with another name: what may tell it from its siblings is numbered.
fn renamed(value: &Value, number: usize) -> Value {
    match value {
        Value::String(text) if text.parse::<std::net::IpAddr>().is_ok() => {
            format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255).into()
        }
        Value::String(text) if text.starts_with('/') => format!("{text}{number}").into(),
        Value::String(text) => format!("{text}{number}").into(),
        Value::Number(_) => Value::from(1 + number % 65_535),
        Value::Object(map) => {
            const NAMES: [&str; 14] = [
                "name",
                "key",
                "uid",
                "ip",
                "mountPath",
                "devicePath",
                "containerPort",
                "port",
                "hostPort",
                "type",
                "topologyKey",
                "path",
                "id",
                "manager",
            ];
            let entry = |(name, value): (&String, &Value)| {
                let value = if NAMES.contains(&name.as_str()) { renamed(value, number) } else { value.clone() };
                (name.clone(), value)
            };
            Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Where objects of each kind are made.
fn paths(client: &Client) -> HashMap<(String, String), (String, bool)> {
    let mut roots = vec![("v1".to_owned(), "/api/v1".to_owned())];
    for group in client.get("/apis").json()["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let name = version["groupVersion"].as_str().unwrap();
            roots.push((name.to_owned(), format!("/apis/{name}")));
        }
    }
    let mut found = HashMap::new();
    for (version, root) in roots {
        let list = client.get(&root).json();
        for resource in list["resources"].as_array().unwrap() {
            let (name, namespaced) = (resource["name"].as_str().unwrap(), resource["namespaced"] == true);
            let creates = resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "create");
            if creates && !name.contains('/') {
                let place = if namespaced { "/namespaces/default" } else { "" };
                let kind = resource["kind"].as_str().unwrap().to_owned();
                found.insert((version.clone(), kind), (format!("{root}{place}/{name}"), namespaced));
            }
        }
    }
    found
}

fn examples() -> Vec<String> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../kinds/tests/examples");
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let documents = |text: String| text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>();
    // What says another namespace is put where all are made.
    let here = |text: String| text.replace("\n  namespace: kube-system\n", "\n  namespace: default\n");
    paths.iter().map(read).flat_map(documents).map(here).collect()
}

/// Texts that readers find hard, in each form, and selectors.
fn texts(probe: &mut Probe) {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";
    type Make = fn(usize) -> String;
    let number = |make: fn(usize) -> String, count: usize| (0..count).map(make).collect::<String>();
    let bodies: &[(&str, &str, Make)] = &[
        ("merge keys", YAML, |n| format!("a: &a {{b: c}}\nd:\n{}", "  <<: *a\n".repeat(n * 10))),
        ("merge keys of a large map", YAML, |n| {
            let large: String = (0..n).map(|k| format!("  k{k}: v\n")).collect();
            format!("a: &a\n{large}d:\n{}", "  <<: *a\n".repeat(n))
        }),
        ("anchors", YAML, |n| (0..n * 10).map(|k| format!("a{k}: &a{k} b\n")).collect()),
        ("aliases", YAML, |n| format!("a: &a b\nl:\n{}", "- *a\n".repeat(n * 10))),
        ("block list", YAML, |n| "- a\n".repeat(n * 50)),
        ("flow list", YAML, |n| format!("[{}]", "a,".repeat(n * 50))),
        ("flow maps", YAML, |n| format!("[{}]", "{a: b},".repeat(n * 20))),
        ("deep flow", YAML, |n| format!("{}{}", "[".repeat(200), "a,".repeat(n * 50))),
        ("deep block", YAML, |n| format!("{}{}", "- ".repeat(900), "[a,b],".repeat(n * 10))),
        ("repeated keys", YAML, |n| "a: b\n".repeat(n * 20)),
        ("different keys", YAML, |n| (0..n * 20).map(|k| format!("a{k}: b\n")).collect()),
        ("quoted", YAML, |n| format!("a: \"{}\"", "\\n".repeat(n * 100))),
        ("folded", YAML, |n| format!("a: >\n{}", "  a\n".repeat(n * 50))),
        ("plain lines", YAML, |n| format!("a: b\n{}", "  c\n".repeat(n * 50))),
        ("empty lines", YAML, |n| format!("a: b{}", "\n".repeat(n * 100))),
        ("comments", YAML, |n| format!("a: b\n{}", "# c\n".repeat(n * 50))),
        ("tabs", YAML, |n| format!("a: b\n{}", "c: d\t\n".repeat(n * 20))),
        ("tab lines", YAML, |n| format!("a: b\t\n{}", "\t\n".repeat(n * 50))),
        ("documents", YAML, |n| "---\n".repeat(n * 50)),
        ("directives", YAML, |n| "%TAG ! tag:a\n".repeat(n * 20)),
        ("colons and tabs", YAML, |n| "a:\tb\n".repeat(n * 20)),
        ("quoted lines", YAML, |n| format!("a: \"{}\"", "\nb".repeat(n * 50))),
        ("JSON keys", JSON, |n| {
            format!("{{{}\"a\":1}}", (0..n * 20).map(|k| format!("\"k{k}\":1,")).collect::<String>())
        }),
        ("JSON same keys", JSON, |n| format!("{{{}\"a\":1}}", "\"k\":1,".repeat(n * 20))),
        ("JSON escapes", JSON, |n| format!("{{\"a\":\"{}\"}}", "\\u00e4".repeat(n * 50))),
        ("JSON blanks", JSON, |n| format!("{}{{}}", " ".repeat(n * 100))),
        ("JSON lists", JSON, |n| format!("{{\"data\":[{}1]}}", "[1],".repeat(n * 30))),
    ];
    for (what, content_type, make) in bodies {
        probe.compare_one(what, &mut |probe, count| probe.send("POST", MAPS, content_type, make(count).as_bytes()).1);
    }
    let patched = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt?dryRun=All";
    let patches: &[(&str, &str, Make)] = &[
        ("adds", JSON_PATCH, |n| {
            let adds: Vec<String> =
                (0..n.min(4_000)).map(|k| format!(r#"{{"op":"add","path":"/data/k{k}","value":"v"}}"#)).collect();
            format!("[{}]", adds.join(","))
        }),
        ("adds to a list", JSON_PATCH, |n| {
            let add = r#"{"op":"add","path":"/metadata/finalizers/0","value":"a.example/a"}"#;
            format!(
                r#"[{{"op":"add","path":"/metadata/finalizers","value":[]}},{}]"#,
                vec![add; n.min(4_000)].join(",")
            )
        }),
        ("tests", JSON_PATCH, |n| {
            let list = vec!["\"a\""; n].join(",");
            let test = format!(r#"{{"op":"test","path":"/metadata/finalizers","value":[{list}]}}"#);
            format!(r#"[{{"op":"add","path":"/metadata/finalizers","value":[{list}]}},{test}]"#)
        }),
        ("copies", JSON_PATCH, |n| {
            let copies: Vec<String> =
                (0..n).map(|k| format!(r#"{{"op":"copy","from":"/data","path":"/data/k{k}"}}"#)).collect();
            format!("[{}]", copies.join(","))
        }),
        ("strategic directives", STRATEGIC, |n| {
            let keys: Vec<String> = (0..n).map(|k| format!("\"f{k}\"")).collect();
            format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":[{}]}}}}"#, keys.join(","))
        }),
        ("strategic order", STRATEGIC, |n| {
            let keys: Vec<String> = (0..n).map(|k| format!("\"f.example/{k}\"")).collect();
            let keys = keys.join(",");
            format!(r#"{{"metadata":{{"$setElementOrder/finalizers":[{keys}],"finalizers":[{keys}]}}}}"#)
        }),
    ];
    for (what, content_type, make) in patches {
        let what = format!("patch: {what}");
        probe.compare_one(&what, &mut |probe, count| {
            probe.send("PATCH", patched, content_type, make(count).as_bytes()).1
        });
    }
    let requirement = |k: usize| format!("a{k}%3Db,");
    let value = |k: usize| format!("b{k},");
    type Query = Box<dyn Fn(usize) -> String>;
    let selectors: [(&str, Query); 4] = [
        ("label requirements", Box::new(move |n| format!("labelSelector={}c", number(requirement, n)))),
        ("label values", Box::new(move |n| format!("labelSelector=a%20in%20({}c)", number(value, n)))),
        ("fields", Box::new(|n| format!("fieldSelector={}metadata.name%3Da", "metadata.name%3Da,".repeat(n)))),
        ("options", Box::new(|n| "x=y&".repeat(n))),
    ];
    for (what, make) in selectors {
        probe.compare_one(what, &mut |probe, count| {
            // A request's first line is shorter than a body may be.
            let path = format!("/api/v1/namespaces/default/configmaps?{}", make(count / 4));
            probe.send("GET", &path, JSON, b"").1
        });
    }
}
