//! Which form a client wants its answer in, from the `Accept` header.

use rkube_machinery::Status;

use super::input::Format;
use super::{JSON, PROTOBUF, YAML};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transform {
    #[default]
    None,
    /// `as=Table` of `meta.k8s.io` in this version.
    Table(&'static str),
    PartialObjectMetadata(&'static str),
    PartialObjectMetadataList(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub format: Format,
    pub transform: Transform,
    pub pretty: bool,
}

struct Clause<'a> {
    kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One object, or what became of a request.
    Object,
    List,
    Watch,
}

/// The first acceptable clause by quality, then by order. `tables`: whether there are any.
pub fn accept(header: &str, subject: Subject, tables: bool) -> Result<Accept, Status> {
    let stream = subject == Subject::Watch;
    if header.is_empty() {
        return Ok(Accept { format: Format::Json, transform: Transform::None, pretty: false });
    }
    let clauses = parse(header);
    let found =
        clauses.iter().find_map(|clause| formats(clause.kind).find_map(|format| fits(clause, format, stream, tables)));
    found.ok_or_else(|| {
        let supported =
            [JSON, YAML, PROTOBUF, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
        let supported = if subject == Subject::Object { &supported[..3] } else { &supported[..] };
        // The form is known, but not what it is to be turned into.
        if clauses.iter().any(|clause| formats(clause.kind).next().is_some()) {
            let message = format!("only the following media types are accepted: {JSON}, {YAML}, {PROTOBUF}");
            return Status { code: 406, reason: "NotAcceptable", message, ..Status::default() };
        }
        Status::not_acceptable(supported)
    })
}

/// Whether a client of `/api` or `/apis` wants the aggregated discovery document, and in which version.
pub fn discovery_accept(header: &str) -> Option<&'static str> {
    for clause in parse(header) {
        let parameter = |name: &str| clause.parameters.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
        if clause.kind == JSON
            && parameter("as") == Some("APIGroupDiscoveryList")
            && parameter("g") == Some("apidiscovery.k8s.io")
        {
            match parameter("v") {
                Some("v2") => return Some("v2"),
                Some("v2beta1") => return Some("v2beta1"),
                _ => {}
            }
        } else if clause.kind == JSON && parameter("as").is_none() {
            return None;
        }
    }
    None
}

fn parse(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .map(|text| {
            let mut parts = text.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let mut quality = 1.0;
            let mut parameters = Vec::new();
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                match key.trim() {
                    "q" => quality = value.trim().parse().unwrap_or(1.0),
                    key => parameters.push((key, value.trim().trim_matches('"'))),
                }
            }
            Clause { kind, parameters, quality }
        })
        .collect();
    // Stable: clauses of equal quality stay in the client's order.
    clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality));
    clauses
}

fn formats(kind: &str) -> impl Iterator<Item = Format> + use<> {
    let matching: &[Format] = match kind {
        "*/*" => &[Format::Json, Format::Yaml, Format::Protobuf],
        JSON => &[Format::Json],
        YAML => &[Format::Yaml],
        PROTOBUF => &[Format::Protobuf],
        _ => &[],
    };
    matching.iter().copied()
}

/// The clause in this format, unless it asks for something that is not served.
fn fits(clause: &Clause<'_>, format: Format, stream: bool, tables: bool) -> Option<Accept> {
    let mut kind = "";
    let mut group = "";
    let mut version = "";
    let mut pretty = false;
    for (key, value) in &clause.parameters {
        match *key {
            "as" => kind = value,
            "g" => group = value,
            "v" => version = value,
            "pretty" => pretty = *value == "1",
            "stream" if !value.is_empty() && *value != "watch" => return None,
            _ => {}
        }
    }
    // A YAML stream has no framing that clients know.
    if stream && format == Format::Yaml {
        return None;
    }
    let transform = match (kind, group, version) {
        ("", "", "") => Transform::None,
        ("Table", ..) if !tables => return None,
        ("Table", "meta.k8s.io", "v1") if format != Format::Protobuf => Transform::Table("v1"),
        ("Table", "meta.k8s.io", "v1beta1") if format != Format::Protobuf => Transform::Table("v1beta1"),
        ("PartialObjectMetadata", "meta.k8s.io", "v1") => Transform::PartialObjectMetadata("v1"),
        ("PartialObjectMetadata", "meta.k8s.io", "v1beta1") => Transform::PartialObjectMetadata("v1beta1"),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Transform::PartialObjectMetadataList("v1"),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1beta1") => Transform::PartialObjectMetadataList("v1beta1"),
        _ => return None,
    };
    Some(Accept { format, transform, pretty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_gets_a_table_and_others_what_they_ask_for() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(table, Subject::Object, true).unwrap().transform, Transform::Table("v1"));
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf, */*", Subject::Object, true).unwrap().format,
            Format::Protobuf
        );
        assert_eq!(accept("*/*", Subject::Object, true).unwrap().format, Format::Json);
        assert_eq!(accept("", Subject::Object, true).unwrap().format, Format::Json);
        assert_eq!(
            accept("text/html;q=0.9,application/yaml;q=0.8", Subject::Object, true).unwrap().format,
            Format::Yaml
        );
        assert_eq!(accept("text/html", Subject::Object, true).unwrap_err().code, 406);
        assert_eq!(accept(table, Subject::Object, false).unwrap().transform, Transform::None);
        let protobuf_table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(protobuf_table, Subject::Object, true).unwrap().format, Format::Json);
    }

    #[test]
    fn discovery_falls_back_to_what_old_clients_know() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(discovery_accept(new), Some("v2"));
        assert_eq!(discovery_accept("application/json, */*"), None);
        assert_eq!(discovery_accept(""), None);
    }
}
