//! Pods made from parts of their JSON, and what is wrong with them.

use rkube_kinds::{Kind, all};
use rkube_machinery::{Value, decode, json};

pub fn kind() -> &'static Kind {
    all().iter().find(|kind| kind.kind == "Pod").unwrap()
}

/// A pod whose spec has these fields beside one container with these fields.
pub fn pod(spec: &str, container: &str) -> Value {
    let comma = |text: &str| if text.is_empty() { String::new() } else { format!(",{text}") };
    let text = format!(
        r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{{"containers":[{{"name":"c","image":"i"{}}}]{}}}}}"#,
        comma(container),
        comma(spec)
    );
    made(&text)
}

pub fn made(text: &str) -> Value {
    let raw = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut object =
        decode::decode(raw, kind().schema.table().unwrap()).unwrap_or_else(|error| panic!("{error}: {text}")).value;
    kind().rules.default(&mut object);
    kind().rules.prepare_create(&mut object);
    object
}

pub fn errors(object: &Value) -> Vec<String> {
    kind().validate_create(object).0.iter().map(ToString::to_string).collect()
}

pub fn check(table: &[(&str, &str, &[&str])]) {
    for (spec, container, want) in table {
        assert_eq!(errors(&pod(spec, container)), *want, "{spec} {container}");
    }
}
