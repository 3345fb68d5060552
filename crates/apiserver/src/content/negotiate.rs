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

impl Accept {
    /// What a client gets that did not say: JSON, short.
    pub const PLAIN: Accept = Accept { format: Format::Json, transform: Transform::None, pretty: false };
}

struct Clause<'a> {
    kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f64,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One object, or what became of a request.
    Object,
    List,
    Watch,
    /// The log of a pod, which is text.
    Log,
    /// A page of discovery.
    Page,
    /// A page of discovery about groups, which no route guards: `/apis`.
    Index,
    Version,
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tables: bool,
    /// Custom resources have no form in protobuf (what they are turned into has), and no route that guards them.
    pub is_custom: bool,
}

impl Offer {
    /// No more than the thing itself.
    pub const PLAIN: Offer = Offer { tables: false, is_custom: false };
}

const FORMATS: [&str; 3] = [JSON, YAML, PROTOBUF];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

impl Subject {
    /// The media types that the route has.
    fn routed(self) -> Vec<&'static str> {
        match self {
            Subject::Object | Subject::Page | Subject::Index => FORMATS.to_vec(),
            Subject::List | Subject::Watch => [&FORMATS[..], &STREAMS[..]].concat(),
            Subject::Log => [&["text/plain"], &FORMATS[..]].concat(),
            Subject::Version => vec![JSON],
        }
    }

    fn has_transforms(self) -> bool {
        !matches!(self, Subject::Page | Subject::Index)
    }
}

/// The first acceptable clause by quality, then by order.
pub fn accept(header: &str, subject: Subject, offer: Offer) -> Result<Accept, Status> {
    if header.is_empty() {
        return Ok(Accept::PLAIN);
    }
    let clauses = parse(header);
    let routed = subject.routed();
    let is_routed = |clause: &Clause<'_>| clause.kind == "*/*" || routed.contains(&clause.kind);
    if subject != Subject::Index && !offer.is_custom && !clauses.iter().any(is_routed) {
        return Err(Status::not_acceptable(&routed));
    }
    if subject == Subject::Version {
        return Ok(Accept::PLAIN);
    }
    let found = first(&clauses, offer.tables, |accept| match accept.transform {
        Transform::None => !offer.is_custom || accept.format != Format::Protobuf,
        _ => subject.has_transforms(),
    });
    match found {
        // A YAML stream has no framing that clients know.
        Some(found) if subject == Subject::Watch && found.format == Format::Yaml => Err(only(&STREAMS)),
        Some(found) => Ok(found),
        None => Err(only(&FORMATS)),
    }
}

/// The form of a `Status`, which is never turned into anything. None: as the server likes it.
pub fn accept_status(header: &str) -> Option<Accept> {
    if header.is_empty() {
        return Some(Accept::PLAIN);
    }
    first(&parse(header), true, |accept| accept.transform == Transform::None)
}

/// Where the form is known, but not what it is to be turned into.
fn only(accepted: &[&str]) -> Status {
    let message = format!("only the following media types are accepted: {}", accepted.join(", "));
    Status { code: 406, reason: "NotAcceptable", message, ..Status::default() }
}

fn first(clauses: &[Clause<'_>], tables: bool, takes: impl Fn(&Accept) -> bool) -> Option<Accept> {
    let mut forms = clauses.iter().flat_map(|clause| formats(clause.kind).map(move |format| (clause, format)));
    forms.find_map(|(clause, format)| fits(clause, format, tables).filter(|accept| takes(accept)))
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
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for text in header.split(',') {
        let mut parts = text.split(';');
        let mut clause = Clause { kind: parts.next().unwrap_or_default().trim(), parameters: Vec::new(), quality: 1.0 };
        if clause.kind != "*" && clause.kind.split('/').count() != 2 {
            continue;
        }
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                _ if value.is_empty() || value.contains('=') => {}
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                key => clause.parameters.push((key, value.trim())),
            }
        }
        clauses.push(clause);
    }
    // Not a sort: "goes before" is no order, and what comes of it depends on who is compared with whom.
    for last in 1..clauses.len() {
        let mut place = last;
        while place > 0 && goes_before(&clauses[place], &clauses[place - 1]) {
            clauses.swap(place, place - 1);
            place -= 1;
        }
    }
    clauses
}

/// Wanted more, or more exactly.
fn goes_before(left: &Clause<'_>, right: &Clause<'_>) -> bool {
    let any_type = |clause: &Clause<'_>| clause.kind.starts_with('*');
    let any_subtype = |clause: &Clause<'_>| clause.kind.ends_with('*');
    left.quality > right.quality || (!any_type(left) && any_type(right)) || (!any_subtype(left) && any_subtype(right))
}

fn formats(kind: &str) -> impl Iterator<Item = Format> + use<> {
    let matching: &[Format] = match kind {
        "*" | "*/*" | "application/*" => &[Format::Json, Format::Yaml, Format::Protobuf],
        JSON => &[Format::Json],
        YAML => &[Format::Yaml],
        PROTOBUF => &[Format::Protobuf],
        _ => &[],
    };
    matching.iter().copied()
}

/// The clause in this format, unless it asks for something that is not served.
fn fits(clause: &Clause<'_>, format: Format, tables: bool) -> Option<Accept> {
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
            "stream" if *value != "watch" || format == Format::Yaml => return None,
            "sv" => return None,
            _ => {}
        }
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

    const ALL: Offer = Offer { tables: true, is_custom: false };

    #[test]
    fn kubectl_gets_a_table_and_others_what_they_ask_for() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(table, Subject::Object, ALL).unwrap().transform, Transform::Table("v1"));
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf, */*", Subject::Object, ALL).unwrap().format,
            Format::Protobuf
        );
        assert_eq!(accept("*/*", Subject::Object, ALL).unwrap().format, Format::Json);
        assert_eq!(accept("", Subject::Object, ALL).unwrap().format, Format::Json);
        assert_eq!(
            accept("text/html;q=0.9,application/yaml;q=0.8", Subject::Object, ALL).unwrap().format,
            Format::Yaml
        );
        assert_eq!(accept("text/html", Subject::Object, ALL).unwrap_err().code, 406);
        assert_eq!(accept(table, Subject::Object, Offer::PLAIN).unwrap().transform, Transform::None);
        let protobuf_table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(protobuf_table, Subject::Object, ALL).unwrap().format, Format::Json);
    }

    #[test]
    fn what_is_not_served_is_refused_in_the_words_of_who_refuses() {
        const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let formats = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let streams = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let routed = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let text = "406: Not Acceptable\n\nAvailable representations: text/plain, application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let cases: &[(&str, Subject, Result<Format, &str>)] = &[
            ("application/*", Subject::Object, Err(routed)),
            ("application/*", Subject::Page, Err(routed)),
            ("application/*", Subject::Index, Ok(Format::Json)),
            ("application/*", Subject::Log, Err(text)),
            ("text/plain", Subject::Log, Err(formats)),
            ("text/plain", Subject::Index, Err(formats)),
            ("*/*", Subject::Log, Ok(Format::Json)),
            ("application/yaml", Subject::Page, Ok(Format::Yaml)),
            ("application/yaml", Subject::Watch, Err(streams)),
            ("application/yaml;stream=watch", Subject::Object, Err(formats)),
            ("application/json;q=0,application/yaml", Subject::Object, Ok(Format::Yaml)),
            ("application/json;q=0,application/yaml", Subject::Watch, Err(streams)),
            ("application/json;stream=x", Subject::Watch, Err(formats)),
            ("*/*,application/yaml", Subject::Object, Ok(Format::Yaml)),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io", Subject::Object, Err(formats)),
            ("application/json;v=v1;g=meta.k8s.io", Subject::Object, Err(formats)),
            (PARTIAL, Subject::Page, Err(formats)),
            (PARTIAL, Subject::Object, Ok(Format::Json)),
            (";;;", Subject::Object, Err(routed)),
            (
                "application/yaml",
                Subject::Version,
                Err("406: Not Acceptable\n\nAvailable representations: application/json"),
            ),
        ];
        for (header, subject, want) in cases {
            let got = accept(header, *subject, ALL).map(|accept| accept.format).map_err(|status| status.message);
            assert_eq!(got, want.map_err(str::to_owned), "{header} {subject:?}");
        }
    }

    #[test]
    fn custom_resources_have_no_protobuf_but_their_metadata_has() {
        let custom = Offer { tables: true, is_custom: true };
        let accepted = |header: &str| accept(header, Subject::Object, custom).map(|accept| accept.format);
        assert_eq!(accepted("application/vnd.kubernetes.protobuf,application/json").unwrap(), Format::Json);
        assert_eq!(accepted("application/vnd.kubernetes.protobuf, */*").unwrap(), Format::Json);
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(accepted(partial).unwrap(), Format::Protobuf);
        for header in ["application/vnd.kubernetes.protobuf", "text/html"] {
            let status = accepted(header).unwrap_err();
            assert!(status.message.starts_with("only the following media types are accepted: "), "{status:?}");
        }
    }

    #[test]
    fn a_status_is_never_turned_into_anything() {
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(accept_status(""), Some(Accept::PLAIN));
        assert_eq!(accept_status("application/*"), Some(Accept::PLAIN));
        assert_eq!(accept_status(&format!("{TABLE},application/yaml")).map(|accept| accept.format), Some(Format::Yaml));
        assert_eq!(accept_status(TABLE), None);
        assert_eq!(accept_status("text/html"), None);
    }

    #[test]
    fn discovery_falls_back_to_what_old_clients_know() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(discovery_accept(new), Some("v2"));
        assert_eq!(discovery_accept("application/json, */*"), None);
        assert_eq!(discovery_accept(""), None);
    }
}
