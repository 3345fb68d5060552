//! Secret: keys and bytes that not everybody should see. Clients may write texts in `stringData`; what is kept is
//! `data`.

mod key_pair;

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::decode::base64;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, json};

use crate::columns::{AGE, NAME};
use crate::core::config_map::{DATA_MAX_BYTES, decoded_len, validate_immutable, validate_key};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Selectable};

pub static KIND: Row = Row {
    kind: "Secret",
    resource: "secrets",
    singular: "secret",
    type_name: "io.k8s.api.core.v1.Secret",
    storage_prefix: "secrets",
    columns: &[
        NAME,
        Column::text("Type", "doc:io.k8s.api.core.v1.Secret type", |object, _| object.str("type").into()),
        Column::text("Data", "doc:io.k8s.api.core.v1.Secret data", keys),
        AGE,
    ],
    selectable: &[Selectable { label: "type", value: |object| object.str("type").to_owned() }],
    strategy: Strategy { repeats_meta: Repeats::all(Repeat::Whole), ..Strategy::DEFAULTS },
    rules: &SecretRules,
    ..Row::DEFAULTS
};

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const REDACTED: &str = "<secret contents redacted>";
const DATA: Path<'static> = Path::new("data");

struct SecretRules;

impl Rules for SecretRules {
    fn default(&self, object: &mut Value) {
        if let Some(Value::Object(texts)) = object.remove("stringData")
            && !texts.is_empty()
        {
            let data = object.object_mut("data");
            for (key, text) in texts.iter() {
                data.set(key, base64::encode(text.as_str().as_bytes()));
            }
        }
        object.set_default("type", "Opaque");
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        let data = object.map("data");
        let mut size = 0;
        for (key, value) in data.iter() {
            validate_key(DATA, key, errors);
            size += decoded_len(value.as_str());
        }
        if size > DATA_MAX_BYTES {
            errors.too_long(DATA, DATA_MAX_BYTES);
        }
        validate_type(object, errors);
    }

    fn prepare_update(&self, _part: Part, object: &mut Value, old: &Value) {
        if object.str("type").is_empty() {
            carry(object, old, "type");
        }
    }

    fn validate_update(&self, _part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        if object.str("type") != old.str("type") {
            errors.invalid(Path::new("type"), object.str("type"), "field is immutable");
        }
        validate_immutable(object, old, &["data"], errors);
        self.validate_create(object, errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.str("type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let bytes = |key: &str| base64::decode(object.map("data").str(key).as_bytes()).unwrap_or_default();
        key_pair::problem(&bytes("tls.crt"), &bytes("tls.key")).into_iter().collect()
    }
}

/// What the secret's type says must be there.
fn validate_type(object: &Value, errors: &mut Errors) {
    let data = object.map("data");
    match object.str("type") {
        "kubernetes.io/service-account-token" => {
            let name = object.at(&["metadata", "annotations"]).str(SERVICE_ACCOUNT_NAME);
            let meta = Path::new("metadata");
            let path = meta.child("annotations");
            require(!name.is_empty(), path.key(SERVICE_ACCOUNT_NAME), errors);
        }
        "kubernetes.io/dockercfg" => validate_json(".dockercfg", data.get(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => validate_json(".dockerconfigjson", data.get(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" => {
            let either = data.contains("username") || data.contains("password");
            require(either, DATA.key("username"), errors);
            require(either, DATA.key("password"), errors);
        }
        "kubernetes.io/ssh-auth" => require(!data.str("ssh-privatekey").is_empty(), DATA.key("ssh-privatekey"), errors),
        "kubernetes.io/tls" => {
            require(data.contains("tls.crt"), DATA.key("tls.crt"), errors);
            require(data.contains("tls.key"), DATA.key("tls.key"), errors);
        }
        _ => {}
    }
}

fn require(there: bool, path: Path<'_>, errors: &mut Errors) {
    if !there {
        errors.required(path, "");
    }
}

/// The bytes must be a JSON object; the message does not show them.
fn validate_json(key: &str, value: Option<&Value>, errors: &mut Errors) {
    let Some(value) = value else { return errors.required(DATA.key(key), "") };
    let bytes = base64::decode(value.as_str().as_bytes()).unwrap_or_default();
    let wrong = match json::parse(&bytes) {
        Ok(Value::Object(_) | Value::Written(_) | Value::Null) => return,
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Bool(_)) => "bool",
        Ok(Value::Int(_) | Value::Float(_)) => "number",
        Err(error) => return errors.invalid(DATA.key(key), REDACTED, error.to_string()),
    };
    let message = format!("json: cannot unmarshal {wrong} into Go value of type map[string]interface {{}}");
    errors.invalid(DATA.key(key), REDACTED, message);
}

fn keys(object: &Value, _now: i64) -> Value {
    i64::try_from(object.map("data").len()).unwrap_or(i64::MAX).into()
}
