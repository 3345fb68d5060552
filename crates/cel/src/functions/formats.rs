//! Named formats that texts can be checked against.

use rkube_machinery::names;

use super::url::Url;
use super::{Function, Outcome, unfit};
use crate::time::Timestamp;
use crate::value::Value;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "format.named" => |arguments| match &arguments[0] {
            Value::String(wanted) => {
                let found = NAMES.into_iter().find(|name| *name == wanted.as_ref());
                Ok(Value::Optional(found.map(|name| Value::Format(name).into())))
            }
            _ => unfit(),
        },
        "validate" => validate,
        "format.dns1123Label" => |_| Ok(Value::Format("dns1123Label")),
        "format.dns1123Subdomain" => |_| Ok(Value::Format("dns1123Subdomain")),
        "format.dns1035Label" => |_| Ok(Value::Format("dns1035Label")),
        "format.qualifiedName" => |_| Ok(Value::Format("qualifiedName")),
        "format.dns1123LabelPrefix" => |_| Ok(Value::Format("dns1123LabelPrefix")),
        "format.dns1123SubdomainPrefix" => |_| Ok(Value::Format("dns1123SubdomainPrefix")),
        "format.dns1035LabelPrefix" => |_| Ok(Value::Format("dns1035LabelPrefix")),
        "format.labelValue" => |_| Ok(Value::Format("labelValue")),
        "format.uri" => |_| Ok(Value::Format("uri")),
        "format.uuid" => |_| Ok(Value::Format("uuid")),
        "format.byte" => |_| Ok(Value::Format("byte")),
        "format.date" => |_| Ok(Value::Format("date")),
        "format.datetime" => |_| Ok(Value::Format("datetime")),
        _ => return None,
    })
}

fn validate<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Format(format), Value::String(text)] = arguments else { return unfit() };
    let faults = faults(format, text);
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(faults.iter().map(|fault| Value::string(fault)).collect())))
}

fn faults(format: &str, text: &str) -> Vec<String> {
    let unless = |holds: bool, fault: &str| if holds { Vec::new() } else { vec![fault.to_owned()] };
    match format {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "dns1123LabelPrefix" => names::dns1123_label(&without_dash(text)),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&without_dash(text)),
        "dns1035LabelPrefix" => names::dns1035_label(&without_dash(text)),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        "uri" => Url::parse(text).err().into_iter().collect(),
        "uuid" => unless(is_uuid(text), "does not match the UUID format"),
        "byte" => unless(is_base64(text), "invalid base64"),
        "date" => unless(is_date(text), "invalid date"),
        _ => unless(Timestamp::parse(text).is_some(), "invalid datetime"),
    }
}

/// A prefix may end with a dash, which is what names end with that are made from it.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(start) if text.len() > 1 => format!("{start}a"),
        _ => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && !text.is_empty()
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}
