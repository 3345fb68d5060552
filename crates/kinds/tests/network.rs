//! What the kinds of networking, discovery and flow control make of requests.

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, all, find};
use rkube_machinery::{Value, decode, json};

fn kind(resource: &str) -> &'static Kind {
    let found = all().iter().map(|kind| &**kind).find(|kind| kind.resource == resource && kind.conversion.is_none());
    found.expect("the kind is there")
}

fn read(kind: &Kind, text: &str) -> Value {
    let raw = json::parse(text.as_bytes()).expect("the text is JSON");
    let schema = kind.schema.table().expect("the type is in the table");
    let mut value = decode::decode(raw, schema).expect("the text fits the type").value;
    kind.rules.default(&mut value);
    let once = value.clone();
    kind.rules.default(&mut value);
    assert_eq!(value, once, "defaults are set once");
    value
}

fn object(kind: &Kind, name: &str, rest: &str) -> String {
    let namespace = if kind.is_namespaced() { r#","namespace":"default""# } else { "" };
    format!(r#"{{"metadata":{{"name":"{name}"{namespace},"uid":"u","resourceVersion":"1"}},{rest}}}"#)
}

/// The errors that creating this object gives.
fn create_as(resource: &str, name: &str, rest: &str) -> Vec<String> {
    let kind = kind(resource);
    let mut object = read(kind, &object(kind, name, rest));
    kind.rules.prepare_create(&mut object);
    kind.validate_create(&object).0.iter().map(ToString::to_string).collect()
}

fn create(resource: &str, rest: &str) -> Vec<String> {
    create_as(resource, "x", rest)
}

/// The errors that changing `old` into `new` gives.
fn update(resource: &str, part: Part, old: &str, new: &str) -> Vec<String> {
    let kind = kind(resource);
    let (old, mut new) = (read(kind, &object(kind, "x", old)), read(kind, &object(kind, "x", new)));
    kind.rules.prepare_update(part, &mut new, &old);
    kind.validate_update(part, &new, &old).0.iter().map(ToString::to_string).collect()
}

fn expect(resource: &str, table: &[(&str, &[&str])]) {
    for (rest, want) in table {
        assert_eq!(create(resource, rest), *want, "{rest}");
    }
}

#[test]
fn ingresses() {
    let backend = r#""backend":{"service":{"name":"s","port":{"number":80}}}"#;
    let path = |path: &str| format!(r#""spec":{{"rules":[{{"http":{{"paths":[{{{path}}}]}}}}]}}"#);
    let exact = path(&format!(r#""path":"/a//b/..","pathType":"Exact",{backend}"#));
    let free = path(&format!(r#""path":"a","pathType":"ImplementationSpecific",{backend}"#));
    let both = path(
        r#""pathType":"ImplementationSpecific","backend":{"service":{"name":"1s","port":{"name":"web","number":1}}}"#,
    );
    let resource = path(r#""path":"/","pathType":"Prefix","backend":{"resource":{"kind":"","name":"a/b"}}"#);
    let at = "spec.rules[0].http.paths[0]";
    expect(
        "ingresses",
        &[
            (r#""spec":{"defaultBackend":{"service":{"name":"1s","port":{"name":"http"}}}}"#, &[]),
            (r#""spec":{}"#, &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
            (
                &exact,
                &[
                    &format!("{at}.path: Invalid value: \"/a//b/..\": must not contain '//'"),
                    &format!("{at}.path: Invalid value: \"/a//b/..\": cannot end with '/..'"),
                ],
            ),
            (&free, &[&format!("{at}.path: Invalid value: \"a\": must be an absolute path")]),
            (&both, &[&format!("{at}.backend: Invalid value: \"\": cannot set both port name & port number")]),
            (
                &resource,
                &[
                    &format!("{at}.backend.resource.kind: Required value"),
                    &format!("{at}.backend.resource.name: Invalid value: \"a/b\": may not contain '/'"),
                ],
            ),
            (
                r#""spec":{"rules":[{"host":"1.2.3.4"}]}"#,
                &["spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"],
            ),
        ],
    );
}

#[test]
fn ingress_mistakes_of_old_stay_fine() {
    let old = r#""spec":{"rules":[{"host":"*.a.b","http":{"paths":[]}}],"tls":[{"secretName":"-"}]}"#;
    assert_eq!(create("ingresses", old).len(), 2);
    assert_eq!(update("ingresses", Part::Main, old, old), Vec::<String>::new());
    let status = r#""spec":{},"status":{"loadBalancer":{"ingress":[{"ip":"01.2.3.4"},{"hostname":"1.2.3.4"}]}}"#;
    assert_eq!(
        update("ingresses", Part::Status, r#""spec":{}"#, status),
        [
            "status.loadBalancer.ingress[0].ip: Invalid value: \"01.2.3.4\": must not have leading 0s",
            "status.loadBalancer.ingress[1].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
        ]
    );
    assert_eq!(update("ingresses", Part::Status, status, status).len(), 1);
}

#[test]
fn ingress_classes() {
    let parameters =
        |rest: &str| format!(r#""spec":{{"controller":"a.b/c","parameters":{{"kind":"K","name":"n"{rest}}}}}"#);
    expect(
        "ingressclasses",
        &[
            (&parameters(""), &[]),
            (r#""spec":{}"#, &["spec.controller: Required value"]),
            (
                &parameters(r#","namespace":"x""#),
                &["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
            ),
            (
                &parameters(r#","scope":"Namespace""#),
                &["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
            ),
            (
                &parameters(r#","scope":"Far""#),
                &["spec.parameters.scope: Unsupported value: \"Far\": supported values: \"Cluster\", \"Namespace\""],
            ),
        ],
    );
    assert_eq!(
        update("ingressclasses", Part::Main, &parameters(""), r#""spec":{"controller":"a.b/d"}"#),
        ["spec.controller: Invalid value: \"a.b/d\": field is immutable"]
    );
}

#[test]
fn network_policies() {
    let from = |peer: &str| format!(r#""spec":{{"ingress":[{{"from":[{peer}]}}]}}"#);
    let port = |port: &str| format!(r#""spec":{{"egress":[{{"ports":[{port}]}}]}}"#);
    expect(
        "networkpolicies",
        &[
            (&from(r#"{"podSelector":{}}"#), &[]),
            (&from("{}"), &["spec.ingress[0].from[0]: Required value: must specify a peer"]),
            (
                &from(r#"{"podSelector":{},"ipBlock":{"cidr":"10.0.0.0/8"}}"#),
                &["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
            ),
            (
                &from(r#"{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.0.0.0/8","11.0.0.0/16","10.1.0.0/16"]}}"#),
                &[
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                    "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                ],
            ),
            (
                &port(r#"{"protocol":"ICMP","port":90,"endPort":80}"#),
                &[
                    "spec.egress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
                    "spec.egress[0].ports[0].endPort: Invalid value: 90: must be greater than or equal to `port`",
                ],
            ),
            (
                r#""spec":{"policyTypes":["Ingress","Egress","Other"]}"#,
                &[
                    "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Other\"]: may not specify more than two policyTypes",
                ],
            ),
        ],
    );
    let sloppy = from(r#"{"ipBlock":{"cidr":"010.0.0.0/8"}}"#);
    assert_eq!(create("networkpolicies", &sloppy).len(), 1);
    assert_eq!(update("networkpolicies", Part::Main, &sloppy, &sloppy), Vec::<String>::new());
}

#[test]
fn addresses_and_ranges() {
    let parent = r#""spec":{"parentRef":{"resource":"services","namespace":"default","name":"s"}}"#;
    assert_eq!(create_as("ipaddresses", "10.0.0.1", parent), Vec::<String>::new());
    assert_eq!(
        create_as("ipaddresses", "fd00:0::1", r#""spec":{}"#),
        [
            "metadata.name: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")",
            "spec.parentRef: Required value",
        ]
    );
    let other = r#""spec":{"parentRef":{"resource":"services","name":"t"}}"#;
    assert_eq!(
        update("ipaddresses", Part::Main, parent, other),
        [
            "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"\",\"Name\":\"t\"}: \
          field is immutable"
        ]
    );
    expect(
        "servicecidrs",
        &[
            (r#""spec":{"cidrs":["10.0.0.0/16","fd00::/64"]}"#, &[]),
            (r#""spec":{}"#, &["spec.cidrs: Required value: at least one CIDR required"]),
            (
                r#""spec":{"cidrs":["10.0.0.0/16","11.0.0.0/16"]}"#,
                &["spec.cidrs: Invalid value: [\"10.0.0.0/16\",\"11.0.0.0/16\"]: may specify no more than one IP for \
                   each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"],
            ),
            (
                r#""spec":{"cidrs":["a","b","c"]}"#,
                &["spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values"],
            ),
        ],
    );
    let one = r#""spec":{"cidrs":["10.0.0.0/16"]}"#;
    let two = r#""spec":{"cidrs":["10.0.0.0/16","fd00::/64"]}"#;
    assert_eq!(update("servicecidrs", Part::Main, one, two), Vec::<String>::new());
    assert_eq!(
        update("servicecidrs", Part::Main, two, one),
        ["spec.cidrs: Invalid value: [\"10.0.0.0/16\"]: field is immutable"]
    );
}

#[test]
fn endpoint_slices() {
    let slice = |kind: &str, endpoint: &str| format!(r#""addressType":"{kind}","endpoints":[{{{endpoint}}}]"#);
    expect(
        "endpointslices",
        &[
            (&slice("IPv4", r#""addresses":["10.0.0.1"]"#), &[]),
            (
                &slice("IPv4", r#""addresses":["fd00::1","127.0.0.1"]"#),
                &[
                    "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address",
                    "endpoints[0].addresses[1]: Invalid value: \"127.0.0.1\": may not be in the loopback range \
                     (127.0.0.0/8, ::1/128)",
                ],
            ),
            (
                &slice("IPv6", r#""addresses":["10.0.0.1","fd00:0::1"]"#),
                &[
                    "endpoints[0].addresses: Invalid value: \"10.0.0.1\": must be an IPv6 address",
                    "endpoints[0].addresses[1]: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")",
                ],
            ),
            (r#""addressType":"IPv4","ports":[{},{}]"#, &["ports[1].name: Duplicate value: \"\""]),
            (
                &slice("IPv4", r#""addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"a"},{"name":"a"}]}"#),
                &["endpoints[0].hints.forZones[1].name: Duplicate value: \"a\""],
            ),
        ],
    );
    let kind = kind("endpointslices");
    let text = slice("IPv4", r#""addresses":["10.0.0.1"],"deprecatedTopology":{"kubernetes.io/hostname":"n"}"#);
    let mut written = read(kind, &object(kind, "x", &text));
    kind.rules.prepare_create(&mut written);
    assert!(!written.list("endpoints")[0].has("deprecatedTopology"), "it is not written any more");
}

#[test]
fn endpoints() {
    expect(
        "endpoints",
        &[
            (r#""subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":1}]}]"#, &[]),
            (r#""subsets":[{}]"#, &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
            (
                r#""subsets":[{"notReadyAddresses":[{"ip":"x"}],"ports":[{"port":1},{"port":0,"protocol":"X"}]}]"#,
                &[
                    "subsets[0].notReadyAddresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. \
                     10.9.8.7 or 2001:db8::ffff)",
                    "subsets[0].notReadyAddresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                    "subsets[0].ports[0].name: Required value",
                    "subsets[0].ports[1].name: Required value",
                    "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "subsets[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
        ],
    );
    let bad = r#""subsets":[{}]"#;
    assert_eq!(update("endpoints", Part::Main, bad, bad), Vec::<String>::new());
}

#[test]
fn flow_control() {
    assert_eq!(
        create_as(
            "flowschemas",
            "exempt",
            r#""spec":{"matchingPrecedence":1,"priorityLevelConfiguration":{"name":"x"}}"#
        ),
        ["spec: Invalid value: {\"PriorityLevelConfiguration\":{\"Name\":\"x\"},\"MatchingPrecedence\":1,\
          \"DistinguisherMethod\":null,\"Rules\":null}: spec of 'exempt' must equal the fixed value"]
    );
    let queue = |queuing: &str| {
        format!(
            r#""spec":{{"type":"Limited","limited":{{"limitResponse":{{"type":"Queue","queuing":{{{queuing}}}}}}}}}"#
        )
    };
    let path = "spec.limited.limitResponse.queuing";
    expect(
        "prioritylevelconfigurations",
        &[
            (&queue(""), &[]),
            (
                &queue(r#""handSize":65"#),
                &[&format!("{path}.handSize: Invalid value: 65: should not be greater than queues (64)")],
            ),
            (
                &queue(r#""queues":512,"handSize":7"#),
                &[&format!(
                    "{path}.handSize: Invalid value: 7: required entropy bits of deckSize 512 and handSize 7 should not \
                     be greater than 60"
                )],
            ),
            (
                r#""spec":{"type":"Exempt"}"#,
                &["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
            ),
            (r#""spec":{"type":"Limited"}"#, &["spec.limited: Required value: must not be empty when type is Limited"]),
        ],
    );
    let status = r#""spec":{"type":"Limited"},"status":{"conditions":[{"type":"a"},{"type":"a"}]}"#;
    assert_eq!(
        update("prioritylevelconfigurations", Part::Status, r#""spec":{"type":"Limited"}"#, status),
        ["status.conditions[1].type: Duplicate value: \"a\""]
    );
}

#[test]
fn lease_candidates() {
    let spec = |rest: &str| format!(r#""spec":{{"leaseName":"l","binaryVersion":"1.36.0"{rest}}}"#);
    expect(
        "leasecandidates",
        &[
            (&spec(r#","emulationVersion":"1.35.0","strategy":"OldestEmulationVersion""#), &[]),
            (
                &spec(r#","strategy":"OldestEmulationVersion""#),
                &[
                    "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
                ],
            ),
            (
                &spec(r#","emulationVersion":"1.37.0","strategy":"Mine""#),
                &[
                    "spec.binaryVersion: Invalid value: \"1.36.0\": must be greater than or equal to `emulationVersion`",
                    "spec.strategy.strategy: Unsupported value: \"Mine\": supported values: \"OldestEmulationVersion\"",
                ],
            ),
        ],
    );
    let alpha = find("coordination.k8s.io", "v1alpha2", "leasecandidates").expect("it is there");
    assert!(alpha.off_by_default);
}
