//! The short way of tracking an update comes to what the long way comes to, byte for byte, whatever was written before.

use proptest::prelude::*;

use super::*;
use crate::decode;
use crate::json;
use crate::schema::structural::{Structural, StructuralView};
use crate::schema::{Field, Shape, Type, TypeRef};
use crate::value::Text;

/// Kinds with lists by key, sets, lists and maps that are taken as a whole, and fields of any form.
const KINDS: &[&str] = &[
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.PersistentVolume",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.ServiceAccount",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.ControllerRevision",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.networking.v1.NetworkPolicy",
    "io.k8s.api.rbac.v1.Role",
];

const CUSTOM: &str = r#"{"type":"object","properties":{
    "spec":{"type":"object","properties":{
        "text":{"type":"string"},"count":{"type":"integer"},"port":{"x-kubernetes-int-or-string":true},
        "plain":{"type":"array","items":{"type":"string"}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","port"],
                 "items":{"type":"object","properties":{"name":{"type":"string"},
                          "port":{"type":"integer","default":80},"text":{"type":"string"}}}},
        "map":{"type":"object","additionalProperties":{"type":"string"}},
        "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
        "free":{"x-kubernetes-preserve-unknown-fields":true,"type":"object"}}},
    "status":{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"}}}}}"#;

const RESETS: &[Reset<'static>] = &[
    Reset::Nothing,
    Reset::Nothing,
    Reset::Fields(&[&["status"]]),
    Reset::Fields(&[&["spec"], &["metadata", "labels"]]),
    Reset::AllBut(&[&["status", "conditions"], &["spec", "*", "*", "image"]]),
];

/// Numbers as good as random ones, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn word(&mut self) -> Value {
        Value::from(self.of(&["a", "b", "c", "aa", "a b", "<", "\"", "ä", "80", ""]))
    }

    fn leaf(&mut self) -> Value {
        match self.below(6) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2 => Value::Float(self.below(4) as f64 / 2.0),
            3 => Value::Int(self.below(12) as i64),
            _ => self.word(),
        }
    }

    fn anything(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0..3 => self.leaf(),
            3 => Value::Array((0..self.below(3)).map(|_| self.anything(depth - 1)).collect()),
            _ => {
                let names = ["a", "b", ".", "f:a", "known"];
                let entries = (0..self.below(4)).map(|_| (Text::new(self.of(&names)), self.anything(depth - 1)));
                Value::Object(Map::sorted(entries.collect()))
            }
        }
    }
}

/// Makes objects of a type of the table.
struct Maker<'a>(&'a mut Random);

impl Maker<'_> {
    fn object(&mut self, kind: &'static Type, depth: usize) -> Value {
        let mut map = Map::default();
        for field in kind.json_fields() {
            let density = if kind.json_len() > 12 { 6 } else { 2 };
            if matches!(field.name, "metadata" | "spec" | "status") || self.0.one_in(density) {
                map.insert(field.name, self.field(field, depth));
            }
        }
        Value::Object(map)
    }

    fn field(&mut self, field: &'static Field, depth: usize) -> Value {
        if field.name == "managedFields" || depth == 0 { Value::Null } else { self.shape(&field.shape, depth - 1) }
    }

    fn shape(&mut self, shape: &'static Shape, depth: usize) -> Value {
        match shape {
            Shape::Bool => Value::Bool(self.0.one_in(2)),
            Shape::Int32 | Shape::Int64 => Value::Int(self.0.below(12) as i64),
            Shape::Double => Value::Float(self.0.below(4) as f64 / 2.0),
            Shape::Struct(kind) => self.object(kind.get(), depth),
            Shape::List(item) => Value::Array((0..self.0.below(4)).map(|_| self.shape(item, depth)).collect()),
            Shape::Map(item) => {
                let names = ["a", "b", "a.b/c", "", "ä", ".", "k:{}", "f:x"];
                let count = self.0.below(4);
                let entries = (0..count).map(|_| (Text::new(self.0.of(&names)), self.shape(item, depth)));
                Value::Object(Map::sorted(entries.collect()))
            }
            Shape::RawExtension | Shape::Json | Shape::IntOrString => self.0.anything(2),
            _ => self.0.word(),
        }
    }

    /// Changes something here and there.
    fn vary(&mut self, value: &mut Value, kind: &'static Type, depth: usize) {
        for field in kind.json_fields().filter(|field| field.name != "managedFields") {
            match value.find_mut(field.name) {
                Some(_) if self.0.one_in(12) => drop(value.remove(field.name)),
                None if !self.0.one_in(30) => {}
                Some(found) if !self.0.one_in(6) => self.vary_shape(found, &field.shape, depth),
                _ => value.set(field.name, self.field(field, depth)),
            }
        }
    }

    fn vary_shape(&mut self, value: &mut Value, shape: &'static Shape, depth: usize) {
        let depth = depth.saturating_sub(1);
        match (shape, &mut *value) {
            (Shape::Struct(kind), Value::Object(_)) => self.vary(value, kind.get(), depth),
            (Shape::List(item), Value::Array(items)) => match self.0.below(8) {
                0 => items.reverse(),
                1 => drop(items.pop()),
                2 => items.push(self.shape(item, depth)),
                3..6 => items.iter_mut().for_each(|value| self.vary_shape(value, item, depth)),
                _ => {}
            },
            (Shape::Map(item), Value::Object(map)) => {
                map.iter_mut().for_each(|(_, value)| self.vary_shape(value, item, depth));
            }
            _ if self.0.one_in(6) => *value = self.shape(shape, depth),
            _ => {}
        }
    }
}

/// A custom resource that mostly follows its schema.
fn custom(random: &mut Random) -> Value {
    let mut spec = Map::default();
    let items = |random: &mut Random| Value::Array((0..random.below(4)).map(|_| random.word()).collect());
    let map = |random: &mut Random| {
        let names = ["a", "b", ".", "ä"];
        Value::Object(Map::sorted(
            (0..random.below(4)).map(|_| (Text::new(random.of(&names)), random.word())).collect(),
        ))
    };
    let keyed = |random: &mut Random| {
        let mut item = Map::default();
        item.insert("name", random.word());
        if random.one_in(2) {
            item.insert(
                "port",
                [Value::Int(8), Value::Int(80), Value::Int(10), Value::Float(8.0)][random.below(4)].clone(),
            );
        }
        if random.one_in(2) {
            item.insert("text", random.word());
        }
        Value::Object(item)
    };
    for name in ["count", "free", "keyed", "map", "plain", "port", "set", "text", "whole"] {
        if random.one_in(3) {
            continue;
        }
        let value = match name {
            "count" => Value::Int(random.below(3) as i64),
            "plain" | "set" => items(random),
            "map" | "whole" => map(random),
            "keyed" => Value::Array((0..random.below(4)).map(|_| keyed(random)).collect()),
            "free" => random.anything(3),
            _ => random.word(),
        };
        spec.insert(name, value);
    }
    let mut object = Value::object();
    object.object_mut("metadata").set("labels", map(random));
    object.set("spec", spec);
    object.object_mut("status").set("text", random.word());
    object
}

/// What was written before, and what is to be now.
struct Writes<'a, S> {
    random: Random,
    schema: S,
    live: Value,
    /// How often the short way could be gone, and how often not.
    gone: &'a mut [usize; 2],
}

impl<S: SchemaView> Writes<'_, S> {
    /// Writes the object both ways.
    fn update(&mut self, second: usize, mut object: Value) -> Result<(), TestCaseError> {
        let (manager, subresource) = (self.random.of(&["a", "b", ""]), self.random.of(&["", "", "status"]));
        let time = format!("2026-01-01T00:00:{:02}Z", second - self.random.below(2));
        let reset = RESETS[self.random.below(RESETS.len())];
        let context = WriteContext { manager, api_version: "v1", kind: "K", subresource, time: &time };
        object.set("apiVersion", "v1");
        object.set("kind", "K");
        object.object_mut("metadata").set("uid", "1");
        self.send_owners(&mut object);
        let scene = Scene { schema: self.schema, context: &context, reset, convert: None };
        let mut long = object.clone();
        let sent = entries::take(&mut long);
        track_the_long_way(&scene, &self.live, &mut long, &sent);
        let mut live = self.live.clone();
        if self.random.one_in(2) {
            fold(&mut live);
            let mut of_folded = object.clone();
            let sent = entries::take(&mut of_folded);
            track_the_long_way(&scene, &live, &mut of_folded, &sent);
            prop_assert_eq!(json::to_string(&of_folded), json::to_string(&long));
            let mut unfolded = live.clone();
            unfold(&mut unfolded);
            prop_assert_eq!(json::to_string(&unfolded), json::to_string(&self.live));
        }
        let mut short = object.clone();
        let sent = entries::take(&mut short);
        let before = short.clone();
        let given_back = match short_way::track(&scene, &live, &mut short, sent.clone()) {
            Ok(()) => {
                prop_assert_eq!(json::to_string(&short), json::to_string(&long), "after {:?}", &self.live);
                false
            }
            Err(given_back) => {
                prop_assert_eq!((&given_back, &short), (&sent, &before));
                true
            }
        };
        self.gone[usize::from(given_back)] += 1;
        track_update(&live, &mut object, self.schema, &context, reset, None);
        prop_assert_eq!(json::to_string(&object), json::to_string(&long));
        unfold(&mut object);
        if self.random.one_in(3) {
            let applied = apply(&live, &Value::object(), self.schema, &context, true, Reset::Nothing, None);
            object = applied.unwrap_or(object);
            unfold(&mut object);
        }
        self.live = object;
        self.tamper();
        Ok(())
    }

    /// The owners as most clients send them, or not at all, or others.
    fn send_owners(&mut self, object: &mut Value) {
        let mut owners = self.live.get("metadata").get("managedFields").clone();
        match self.random.below(12) {
            0 => return,
            1 => owners = Value::Array(Vec::new()),
            2 => {
                if let Value::Array(list) = &mut owners {
                    list.pop();
                }
            }
            3 => sort(&mut owners),
            _ => {}
        }
        if !owners.is_null() {
            object.object_mut("metadata").set("managedFields", owners);
        }
    }

    /// Now and then something is stored that we would not have written so.
    fn tamper(&mut self) {
        if !self.random.one_in(6) {
            return;
        }
        let Some(Value::Array(list)) = self.live.object_mut("metadata").find_mut("managedFields") else { return };
        let index = self.random.below(list.len().max(1));
        let Some(entry) = list.get_mut(index) else { return };
        let fields = entry.get_mut("fieldsV1");
        let steps = ["f:spec", "f:metadata", "f:status", ".", "x:1", "nonsense", "k:{}", "v:01", "f:a", "i:1"];
        match self.random.below(10) {
            0 => entry.set("time", ""),
            1 => drop(entry.remove("time")),
            2 => sort(entry),
            3 => entry.set("more", "1"),
            4 => entry.set("operation", "Apply"),
            5 => fields.set(self.random.of(&steps), Value::object()),
            6 => fields.object_mut(self.random.of(&steps)).set(self.random.of(&steps), Value::object()),
            7 => fields.object_mut("f:metadata").set("f:resourceVersion", Value::object()),
            // What was taken field by field once is taken as a whole today.
            8 => {
                let whole = self.random.of(&["f:whole", "f:nodeSelector", "f:selector", "f:roleRef", "f:claimRef"]);
                fields.object_mut("f:spec").object_mut(whole).set("f:a", Value::object());
            }
            _ => {
                let twin = entry.clone();
                list.push(twin);
            }
        }
    }
}

/// Makes text of what each owner has, as it is read of what is stored.
fn fold(object: &mut Value) {
    let Some(metadata) = object.find_mut("metadata") else { return };
    for entry in metadata.list_mut("managedFields") {
        if let Some(fields @ Value::Object(_)) = entry.find_mut("fieldsV1") {
            *fields = Value::Written(json::to_string(fields).into());
        }
    }
}

/// Sorts by key, as custom resources are.
fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.iter_mut().for_each(|(_, value)| sort(value));
            *map = Map::sorted(std::mem::take(map).into_entries());
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

fn of_the_table(seed: u64, gone: &mut [usize; 2]) -> Result<(), TestCaseError> {
    let mut random = Random(seed);
    let name = random.of(KINDS);
    let kind = TypeRef::find(name).unwrap().get();
    let mut object = Maker(&mut random).object(kind, 6);
    let mut writes = Writes { random, schema: TableView::Object(kind), live: Value::Null, gone };
    for second in 1..10 {
        let mut written = object.clone();
        if !writes.random.one_in(8) {
            decode::complete(&mut written, kind);
        }
        writes.update(second, written)?;
        Maker(&mut writes.random).vary(&mut object, kind, 6);
    }
    Ok(())
}

fn of_a_definition(seed: u64, gone: &mut [usize; 2]) -> Result<(), TestCaseError> {
    let schema = Structural::read(&text::parse(CUSTOM).unwrap()).unwrap();
    for view in [Some(&schema), None] {
        let schema = StructuralView::of(view);
        let mut writes = Writes { random: Random(seed), schema, live: Value::Null, gone };
        let mut object = custom(&mut writes.random);
        for second in 1..10 {
            writes.update(second, object.clone())?;
            sort(&mut writes.live);
            let other = custom(&mut writes.random);
            match writes.random.below(4) {
                0 => object = other,
                1 => object.set("status", other.get("status").clone()),
                _ => {
                    let name = writes.random.of(&["keyed", "map", "set", "free", "text", "whole"]);
                    object.object_mut("spec").set(name, other.get("spec").get(name).clone());
                }
            }
        }
    }
    Ok(())
}

/// What is written most, by the short way: type, writer, the owners before, the object before and after, the owners after.
#[test]
fn leases_and_statuses_go_the_short_way() {
    let lease = r#""f:spec":{"f:holderIdentity":{},"f:renewTime":{}}"#;
    let running = r#""status":{"phase":"Running","conditions":[{"type":"Ready","status":"#;
    let cases = [
        (
            "coordination.v1.Lease",
            ("kubelet", ""),
            format!("kubelet  1 {{{lease}}}"),
            [r#""spec":{"holderIdentity":"n","renewTime":"1"}"#, r#""spec":{"holderIdentity":"n","renewTime":"2"}"#]
                .map(str::to_owned),
            format!("kubelet  9 {{{lease}}}"),
        ),
        (
            "core.v1.Pod",
            ("kubelet", "status"),
            format!(
                "kubelet status 1 {{\"f:status\":{{\"f:conditions\":{{{}}}}}}}\nscheduler  2 {{\"f:spec\":{{}}}}",
                r#""k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}"#
            ),
            [format!(r#"{running}"False"}}]}}"#), format!(r#"{running}"True"}}]}}"#)],
            format!(
                "scheduler  2 {{\"f:spec\":{{}}}}\nkubelet status 9 {{\"f:status\":{{\"f:conditions\":{{{}}}}}}}",
                r#""k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}"#
            ),
        ),
        (
            "batch.v1.Job",
            ("controller", "status"),
            r#"controller status 1 {"f:status":{"f:active":{},"f:ready":{}}}"#.to_owned(),
            [r#""status":{"active":1,"ready":1}"#, r#""status":{"ready":2,"succeeded":1}"#].map(str::to_owned),
            r#"controller status 9 {"f:status":{"f:ready":{},"f:succeeded":{}}}"#.to_owned(),
        ),
    ];
    for (kind, (manager, subresource), owners, objects, expected) in cases {
        let schema = TableView::of(TypeRef::find(&format!("io.k8s.api.{kind}")).unwrap());
        let [live, mut new] = objects.map(|object| {
            let mut object = text::parse(&format!("{{{object}}}")).unwrap();
            object.object_mut("metadata").set("managedFields", list_of(&owners));
            object
        });
        let context = WriteContext { manager, api_version: "v1", kind, subresource, time: "9" };
        let scene = Scene { schema, context: &context, reset: Reset::Nothing, convert: None };
        let sent = entries::take(&mut new);
        assert_eq!(short_way::track(&scene, &live, &mut new, sent), Ok(()), "{kind}");
        unfold(&mut new);
        assert_eq!(new.get("metadata").get("managedFields"), &list_of(&expected), "{kind}");
    }
}

/// Entries from lines of manager, subresource, time and fields.
fn list_of(lines: &str) -> Value {
    let entry = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let entry = Entry {
            manager: Text::new(words[0]),
            applied: false,
            api_version: Text::new_static("v1"),
            subresource: Text::new(words[1]),
            time: Some(Text::new(words[2])),
            fields: FieldSet::new(),
            written: text::parse(words[3]),
        };
        entry.write()
    };
    Value::Array(lines.lines().map(entry).collect())
}

/// It would be no short way if it could hardly ever be gone.
#[test]
fn the_short_way_is_gone_often() {
    let (mut table, mut custom) = ([0, 0], [0, 0]);
    for seed in 0..100 {
        of_the_table(seed, &mut table).unwrap();
        of_a_definition(seed, &mut custom).unwrap();
    }
    assert!(table[0] > 200 && custom[0] > 400, "{table:?} {custom:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn both_ways_lead_to_the_same(seed: u64) {
        of_the_table(seed, &mut [0, 0])?;
        of_a_definition(seed, &mut [0, 0])?;
    }
}

proptest! {
    /// Whatever somebody stored.
    #[test]
    fn no_text_of_owners_makes_it_panic(pieces in proptest::collection::vec(
        prop_oneof!["[{}:,.\\[\\]]", "\"f:[a-zä]{0,3}\"", Just("\"k:{\\\"name\\\":\\\"a\\\"}\"".to_owned()), "\\PC{0,3}", "[\"\\\\]"],
        0..24,
    )) {
        let text = pieces.concat();
        let schema = TableView::of(TypeRef::find("io.k8s.api.core.v1.Pod").unwrap());
        let is_right = written::is_as_written(&text, schema);
        let set = FieldSet::of_fields(&[&["a"], &["b", "a"]]);
        let stays = written::stays(&text, &set, written::Gains::Nothing);
        if is_right {
            let read = FieldSet::from_fields_v1(&Value::Written(text.as_str().into())).unwrap();
            prop_assert_eq!(json::to_string(&read.to_fields_v1()), text);
            prop_assert!(stays.is_some());
        }
    }
}
