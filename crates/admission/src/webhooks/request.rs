//! What a webhook is told of a request, beside its objects.

// tidy: types AdmissionRequest UserInfo

use rkube_access::User;
use rkube_catalog::Served;
use rkube_machinery::{Map, Text, Value};

use crate::{Attributes, ObjectKind};

/// Group, version and resource in which a webhook asked for the objects, and their kind there.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub served: &'a Served,
    pub kind: ObjectKind<'a>,
}

impl Subject<'_> {
    fn kind_value(&self) -> Value {
        let (group, version) = self.kind.api_version.rsplit_once('/').unwrap_or(("", self.kind.api_version));
        triple("kind", group, version, self.kind.kind)
    }

    fn resource_value(&self) -> Value {
        let kind = &self.served.kind;
        triple("resource", &kind.group, &kind.version, &kind.resource)
    }
}

fn triple(last: &'static str, group: &str, version: &str, name: &str) -> Value {
    let fields = [("group", group), ("version", version), (last, name)];
    Value::Object(Map::in_order(fields.map(|(field, text)| (Text::new_static(field), text.into())).into()))
}

/// The request without what is different for each webhook: its UID and its objects.
pub fn request(attributes: &Attributes<'_>, subject: Subject<'_>) -> Value {
    let own = Subject { served: attributes.served, kind: attributes.kind };
    let mut entries: Vec<(Text, Value)> = Vec::with_capacity(13);
    let mut put = |field: &'static str, value: Value| entries.push((Text::new_static(field), value));
    let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    put("kind", subject.kind_value());
    put("resource", subject.resource_value());
    text(attributes.subresource).into_iter().for_each(|text| put("subResource", text));
    put("requestKind", own.kind_value());
    put("requestResource", own.resource_value());
    text(attributes.subresource).into_iter().for_each(|text| put("requestSubResource", text));
    text(attributes.name).into_iter().for_each(|text| put("name", text));
    text(attributes.namespace).into_iter().for_each(|text| put("namespace", text));
    put("operation", attributes.operation.name().into());
    put("userInfo", user_info(attributes.user));
    put("dryRun", attributes.dry_run.into());
    put("options", attributes.options_value());
    Value::Object(Map::in_order(entries))
}

fn user_info(user: &User) -> Value {
    let texts = |texts: &[Text]| Value::Array(texts.iter().cloned().map(Value::from).collect());
    let mut entries: Vec<(Text, Value)> = Vec::with_capacity(4);
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            entries.push((Text::new_static(field), text.clone().into()));
        }
    }
    if !user.groups.is_empty() {
        entries.push((Text::new_static("groups"), texts(&user.groups)));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.clone(), texts(values))).collect();
        entries.push((Text::new_static("extra"), Value::Object(Map::sorted(extra))));
    }
    Value::Object(Map::in_order(entries))
}
