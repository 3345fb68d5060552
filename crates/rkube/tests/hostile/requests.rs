//! Requests that make no sense, by table: each is answered with the `Status` that Kubernetes answers, and the server
//! goes on.

use crate::client::{Answer, Client};
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The answer: code, reason, and a part of the message.
type Expected = (u16, &'static str, &'static str);
const BAD: &str = "BadRequest";
const UNREADABLE: Expected = (400, BAD, "");

#[track_caller]
fn check(what: &str, answer: &Answer, (code, reason, part): Expected) {
    let body = answer.json();
    assert_eq!(answer.status, code, "{what:.200}: {body}");
    assert_eq!((&body["kind"], &body["code"], &body["status"]), (&"Status".into(), &code.into(), &"Failure".into()));
    assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{what:.200}: {body}");
    assert!(body["message"].as_str().unwrap().contains(part), "{what:.200}: {body} does not say {part:?}");
}

fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &[u8]) -> Answer {
    client
        .request(method, path, &[("Content-Type", content_type)], body)
        .unwrap_or_else(|error| panic!("{method} {path:.100} {content_type}: {error}"))
}

#[test]
fn bodies() {
    let rkube = start();
    let client = Client::of(&rkube);
    let name_required = (422, "Invalid", "metadata.name: Required value: name or generateName is required");
    let name_invalid = (422, "Invalid", "a lowercase RFC 1123 subdomain must consist of");
    let long = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(254));
    let table: &[(&str, &[u8], Expected)] = &[
        (JSON, b"", (400, BAD, "unexpected end of JSON input")),
        (JSON, b"{", (400, BAD, "unexpected end of JSON input")),
        (JSON, b"\0", (400, BAD, r"invalid character '\x00' looking for beginning of value")),
        (JSON, b"[]", (400, BAD, "json: cannot unmarshal array into Go value of type")),
        (JSON, b"{} x", (400, BAD, "invalid character 'x' after top-level value")),
        (JSON, b"{}", name_required),
        (
            JSON,
            br#"{"kind":"Pod","apiVersion":"v1"}"#,
            (400, BAD, "Pod in version \"v1\" cannot be handled as a ConfigMap"),
        ),
        (
            JSON,
            br#"{"kind":"ConfigMap","apiVersion":"v9"}"#,
            (400, BAD, "no kind \"ConfigMap\" is registered for version \"v9\""),
        ),
        (
            JSON,
            br#"{"metadata":{"name":"a"},"data":{"a":1}}"#,
            (400, BAD, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        ),
        (JSON, br#"{"metadata":{"name":"a","creationTimestamp":"x"}}"#, (400, BAD, "parsing time \"x\"")),
        (JSON, br#"{"metadata":{"name":"A"}}"#, name_invalid),
        (JSON, br#"{"metadata":{"name":"a/b"}}"#, name_invalid),
        (JSON, br#"{"metadata":{"name":".."}}"#, name_invalid),
        (JSON, br#"{"metadata":{"name":"a\u0000"}}"#, name_invalid),
        (JSON, long.as_bytes(), (422, "Invalid", "must be no more than 253 characters")),
        (
            JSON,
            br#"{"metadata":{"name":"a","namespace":"b"}}"#,
            (400, BAD, "the namespace of the provided object does not match"),
        ),
        (
            JSON,
            br#"{"metadata":{"name":"a","labels":{"-":""}}}"#,
            (422, "Invalid", "metadata.labels: Invalid value: \"-\""),
        ),
        (YAML, b"a: b: c", (400, BAD, "mapping values are not allowed in this context")),
        (YAML, b"a: *x", (400, BAD, "yaml: unknown anchor 'x' referenced")),
        (YAML, b"a: &a [*a]", (400, BAD, "yaml: anchor 'a' value contains itself")),
        (YAML, b"{", UNREADABLE),
        (YAML, b"\0", UNREADABLE),
        (YAML, b"- a", UNREADABLE),
        (
            YAML,
            b"metadata: {name: a}\ndata: {a: 1}",
            (400, BAD, "cannot unmarshal number into Go struct field ConfigMap.data"),
        ),
        (PROTOBUF, b"", (400, BAD, "empty data")),
        (PROTOBUF, b"{}", (400, BAD, "does not appear to be a protobuf message, expected prefix [107 56 115 0]")),
        (PROTOBUF, b"k8s\0", (400, BAD, "empty body")),
        (PROTOBUF, b"k8s\0\x0a", (400, BAD, "unexpected EOF")),
        (PROTOBUF, b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", (400, BAD, "proto: integer overflow")),
        (PROTOBUF, b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\x05", (400, BAD, "unexpected EOF")),
        (PROTOBUF, b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\0", name_required),
        ("text/plain", b"{}", (415, "UnsupportedMediaType", "the body of the request was in an unknown format")),
        (
            "application/json-patch+json",
            b"{}",
            (415, "UnsupportedMediaType", "accepted media types include: application/json"),
        ),
    ];
    for (content_type, body, expected) in table {
        let what = format!("{content_type} {}", String::from_utf8_lossy(body));
        check(&what, &send(&client, "POST", MAPS, content_type, body), *expected);
    }
    is_well(&rkube);
}

#[test]
fn depth_and_size() {
    let rkube = start();
    let client = Client::of(&rkube);
    for depth in [1_001, 10_000, 1_000_000] {
        let nested = |open: &str, close: &str| [open.repeat(depth), close.repeat(depth)].concat().into_bytes();
        let list = nested("[", "]");
        check("lists", &send(&client, "POST", MAPS, JSON, &list), (400, BAD, "exceeded max depth"));
        check("half", &send(&client, "POST", MAPS, JSON, &list[..depth]), (400, BAD, "exceeded max depth"));
        check("YAML flow", &send(&client, "POST", MAPS, YAML, &list), UNREADABLE);
        check("YAML block", &send(&client, "POST", MAPS, YAML, &nested("- ", "")), UNREADABLE);
        check("patch", &send(&client, "PATCH", &format!("{MAPS}/kube-root-ca.crt"), MERGE_PATCH, &list), UNREADABLE);
        check("apply", &send(&client, "PATCH", &format!("{MAPS}/a?fieldManager=m"), APPLY_PATCH, &list), UNREADABLE);
    }
    // Messages in messages: a struct of a CustomResourceDefinition is not served yet, so groups of unknown fields.
    let groups = [b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap".as_slice(), &b"\x7b".repeat(1_000_000)].concat();
    check("groups", &send(&client, "POST", MAPS, PROTOBUF, &groups), UNREADABLE);

    let bomb = |count: usize| {
        let level = |index: usize| format!("a{index}: &a{index} [{}]\n", format!("*a{},", index - 1).repeat(9));
        let levels: String = (1..count).map(level).collect();
        format!("a0: &a0 [{}]\n{levels}", "x,".repeat(9))
    };
    let excessive = (400, BAD, "yaml: document contains excessive aliasing");
    check("bomb", &send(&client, "POST", MAPS, YAML, bomb(30).as_bytes()), excessive);

    let large = |length: usize| format!(r#"{{"metadata":{{"name":"a"}},"data":{{"a":"{}"}}}}"#, "x".repeat(length));
    let too_large = (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    for (method, path, content_type) in [
        ("POST", MAPS.to_owned(), JSON),
        ("PUT", format!("{MAPS}/a"), JSON),
        ("PATCH", format!("{MAPS}/a"), MERGE_PATCH),
    ] {
        let answer = send(&client, method, &path, content_type, large(3 << 20).as_bytes());
        check(method, &answer, too_large);
    }
    let answer = send(&client, "POST", MAPS, JSON, large((1 << 20) + 1).as_bytes());
    check("data", &answer, (422, "Invalid", "Too long: may not be more than 1048576 bytes"));
    is_well(&rkube);
}

#[test]
fn options() {
    let rkube = start();
    let client = Client::of(&rkube);
    let invalid = |part| (422, "Invalid", part);
    let selector = |part| (400, BAD, part);
    let reads: &[(&str, Expected)] = &[
        ("labelSelector=a%20in", selector("unable to parse requirement: found ''")),
        ("labelSelector=%2C%2C", selector("found ',', expected: !, identifier")),
        ("labelSelector=a%3E1.5", selector("for 'Gt', 'Lt' operators, the value must be an integer")),
        ("labelSelector=%ff", selector("unable to parse requirement")),
        ("fieldSelector=a", selector("invalid selector: 'a'; can't understand 'a'")),
        ("fieldSelector=spec.x%3Da", selector("is not a known field selector")),
        ("watch=1&labelSelector=!!", selector("unable to parse requirement")),
        ("watch=1&fieldSelector=x%3Dy", selector("is not a known field selector")),
        ("continue=x", selector("continue key is not valid")),
        ("continue=e30", selector("continue key is not valid: server does not recognize this encoded version")),
        ("limit=x", selector("strconv.ParseInt: parsing \"x\": invalid syntax")),
        ("timeoutSeconds=x", selector("strconv.ParseInt: parsing \"x\": invalid syntax")),
        ("watch=1&timeoutSeconds=x", selector("strconv.ParseInt: parsing \"x\": invalid syntax")),
        ("resourceVersion=x", selector("strconv.ParseUint: parsing \"x\": invalid syntax")),
        ("watch=1&resourceVersion=x", (500, "", "resourceVersion: Invalid value: \"x\"")),
        ("resourceVersion=-1", selector("strconv.ParseUint: parsing \"-1\": invalid syntax")),
        ("resourceVersion=1&resourceVersionMatch=x", invalid("resourceVersionMatch: Unsupported value: \"x\"")),
        ("resourceVersionMatch=Exact", invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")),
        ("sendInitialEvents=true", invalid("sendInitialEvents is forbidden for list")),
        ("watch=1&sendInitialEvents=true", invalid("sendInitialEvents requires setting resourceVersionMatch")),
        ("resourceVersion=99999999", (504, "Timeout", "Too large resource version: 99999999")),
    ];
    for (query, expected) in reads {
        check(query, &client.get(&format!("{MAPS}?{query}")), *expected);
    }
    let manager = format!("fieldManager={}", "a".repeat(129));
    let writes: &[(&str, Expected)] = &[
        ("dryRun=x", invalid("dryRun: Unsupported value: [\"x\"]: supported values: \"All\"")),
        ("fieldValidation=x", invalid("fieldValidation: Unsupported value: \"x\"")),
        (manager.as_str(), invalid("fieldManager: Too long: may not be more than 128 bytes")),
        ("fieldManager=%01", invalid("invalid character U+0001 (at position 0)")),
    ];
    for (query, expected) in writes {
        let answer = send(&client, "POST", &format!("{MAPS}?{query}"), JSON, br#"{"metadata":{"name":"a"}}"#);
        check(query, &answer, *expected);
    }
    is_well(&rkube);
}

#[test]
fn unknown_and_repeated_fields() {
    let rkube = start();
    let client = Client::of(&rkube);
    let body = br#"{"metadata":{"name":"a","nope":1},"data":{"a":"1","a":"2"}}"#;
    let post = |validation: &str| {
        send(&client, "POST", &format!("{MAPS}?dryRun=All&fieldValidation={validation}"), JSON, body)
    };
    let strict = r#"strict decoding error: unknown field "metadata.nope", duplicate field "data.a""#;
    check("Strict", &post("Strict"), (400, BAD, strict));
    let warnings = |answer: &Answer| answer.headers.iter().filter(|(name, _)| name == "warning").count();
    assert_eq!((post("Warn").status, warnings(&post("Warn"))), (201, 2));
    assert_eq!((post("").status, warnings(&post(""))), (201, 2));
    assert_eq!((post("Ignore").status, warnings(&post("Ignore"))), (201, 0));
    is_well(&rkube);
}

#[test]
fn patches() {
    let rkube = start();
    let client = Client::of(&rkube);
    let made = send(&client, "POST", MAPS, JSON, br#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#);
    assert_eq!(made.status, 201);
    let rejected = (422, "Invalid", "the server rejected our request due to an error in our request");
    let table: &[(&str, &str, Expected)] = &[
        (JSON_PATCH, "", UNREADABLE),
        (JSON_PATCH, "{}", (400, BAD, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp")),
        (JSON_PATCH, r#"[{"op":"nope","path":"/a"}]"#, rejected),
        (JSON_PATCH, r#"[{"op":"remove","path":"/nope"}]"#, rejected),
        (JSON_PATCH, r#"[{"op":"test","path":"/data/k","value":"2"}]"#, rejected),
        (JSON_PATCH, r#"[{"op":"remove","path":""}]"#, rejected),
        (MERGE_PATCH, "", UNREADABLE),
        (MERGE_PATCH, "[]", UNREADABLE),
        (MERGE_PATCH, r#"{"data":1}"#, (422, "Invalid", "patch: Invalid value")),
        (MERGE_PATCH, r#"{"metadata":{"resourceVersion":"1"}}"#, (409, "Conflict", "the object has been modified")),
        (STRATEGIC_PATCH, "", UNREADABLE),
        (STRATEGIC_PATCH, "[]", UNREADABLE),
        (STRATEGIC_PATCH, r#"{"data":{"k":1}}"#, (422, "Invalid", "patch: Invalid value")),
        (STRATEGIC_PATCH, r#"{"metadata":{"$retainKeys":1}}"#, (400, BAD, "invalid patch format of retainKeys")),
        (APPLY_PATCH, "{", (400, BAD, "error decoding YAML")),
        (APPLY_PATCH, "[]", (400, BAD, "error decoding YAML")),
        (APPLY_PATCH, "{}", (400, BAD, "invalid object type: /, Kind=")),
        (JSON, "{}", (415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        ("", "{}", (415, "UnsupportedMediaType", "")),
        ("text/plain", "junk", (415, "UnsupportedMediaType", "")),
    ];
    for (content_type, body, expected) in table {
        let path = format!("{MAPS}/a?{}", if *content_type == APPLY_PATCH { "fieldManager=m" } else { "" });
        check(
            &format!("{content_type} {body}"),
            &send(&client, "PATCH", &path, content_type, body.as_bytes()),
            *expected,
        );
    }
    let unchanged = client.get(&format!("{MAPS}/a")).json();
    assert_eq!(unchanged["metadata"]["resourceVersion"], made.json()["metadata"]["resourceVersion"]);
    is_well(&rkube);
}

#[test]
fn paths_methods_and_wishes() {
    let rkube = start();
    let client = Client::of(&rkube);
    let nowhere = (404, "NotFound", "the server could not find the requested resource");
    let not_allowed = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    let long = format!("/{}", "a".repeat(60_000));
    let table: &[(&str, &str, Expected)] = &[
        ("GET", "/api/v1/nope", nowhere),
        ("GET", "/api/v1/nodes/x/y", nowhere),
        ("GET", "/api/v1/namespaces/default/configmaps/a/b/c", nowhere),
        ("GET", "/api/v1/namespaces/default/configmaps/../../..", nowhere),
        ("GET", "/api/v1/namespaces/default/configmaps/nope", (404, "NotFound", "configmaps \"nope\" not found")),
        ("POST", "/api/v1/namespaces/default/configmaps/a", not_allowed),
        ("DELETE", "/api/v1/namespaces", not_allowed),
        ("FOO", "/api/v1/namespaces/default/configmaps", not_allowed),
        ("TRACE", "/api/v1/namespaces/default/configmaps", not_allowed),
    ];
    for (method, path, expected) in table {
        check(&format!("{method} {path}"), &send(&client, method, path, JSON, b""), *expected);
    }
    for path in [long.as_str(), "/nope", "/apis/nope/v1/x", "/api/v9/namespaces", "/apis/apps/v9/deployments"] {
        assert_eq!(client.get(path).status, 404, "{path:.100}");
    }
    for (query, wish) in [("", "text/html"), ("?watch=1", "text/html")] {
        let answer = client.request("GET", &format!("{MAPS}{query}"), &[("Accept", wish)], b"").unwrap();
        check(wish, &answer, (406, "NotAcceptable", "406: Not Acceptable"));
    }
    let nobody = client.without_certificate();
    check(
        "nobody",
        &nobody.get(MAPS),
        (403, "Forbidden", "User \"system:anonymous\" cannot list resource \"configmaps\""),
    );
    let answer = nobody.request("GET", MAPS, &[("Authorization", "Bearer nope")], b"").unwrap();
    check("bad token", &answer, (401, "Unauthorized", "Unauthorized"));
    is_well(&rkube);
}

#[test]
fn deletions() {
    let rkube = start();
    let client = Client::of(&rkube);
    assert_eq!(send(&client, "POST", MAPS, JSON, br#"{"metadata":{"name":"a"}}"#).status, 201);
    let path = format!("{MAPS}/a");
    let table: &[(&str, Expected)] = &[
        ("{", UNREADABLE),
        ("[]", UNREADABLE),
        (r#"{"gracePeriodSeconds":"x"}"#, UNREADABLE),
        (r#"{"preconditions":{"uid":"y"}}"#, (409, "Conflict", "the UID in the precondition (y) does not match")),
        (
            r#"{"preconditions":{"resourceVersion":"1"}}"#,
            (409, "Conflict", "the ResourceVersion in the precondition (1)"),
        ),
        (r#"{"propagationPolicy":"x"}"#, (422, "Invalid", "propagationPolicy: Unsupported value: \"x\"")),
        (r#"{"dryRun":["x"]}"#, (422, "Invalid", "dryRun: Unsupported value: [\"x\"]")),
    ];
    for (body, expected) in table {
        check(body, &send(&client, "DELETE", &path, JSON, body.as_bytes()), *expected);
    }
    for (query, part) in
        [("labelSelector=!!", "unable to parse requirement"), ("fieldSelector=x%3Dy", "is not a known field selector")]
    {
        check(query, &send(&client, "DELETE", &format!("{MAPS}?{query}"), JSON, b""), (400, BAD, part));
    }
    assert_eq!(client.get(&path).status, 200, "it is still there");
    is_well(&rkube);
}

/// What is asked of one pod that no node runs: forms that it does not have, logs that there are not, trials.
#[test]
fn forms_logs_and_trials() {
    let rkube = start();
    let client = Client::of(&rkube);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"a","image":"i"},{"name":"b","image":"i"}]}}"#;
    assert_eq!(send(&client, "POST", pods, JSON, pod.as_bytes()).status, 201);
    let one = format!("{pods}/p");
    let get = |path: &str, form: &str| {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        client.request("GET", path, &[("Accept", &accept)], b"").unwrap()
    };
    let unfit = |what| (406, "NotAcceptable", what);
    check("a pod as a list", &get(&one, "PartialObjectMetadataList"), unfit("is not a list (*core.Pod)"));
    check("pods as one", &get(pods, "PartialObjectMetadata"), unfit("is a list (*core.PodList)"));
    check("include", &get(&format!("{one}?includeObject=x"), "Table"), (400, BAD, "Unable to convert to Table"));
    check("discovery", &get("/api/v1", "Table"), unfit("only the following media types are accepted"));
    for (query, expected) in [
        ("tailLines=-1", (422, "Invalid", "tailLines: Invalid value: -1: must be greater than or equal to 0")),
        ("", (400, BAD, "a container name must be specified for pod p, choose one of: [a b]")),
        ("container=c", (400, BAD, "container c is not valid for pod p")),
    ] {
        check(query, &send(&client, "GET", &format!("{one}/log?{query}"), "", b""), expected);
    }
    let eviction = br#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;
    assert_eq!(send(&client, "POST", &format!("{one}/eviction?dryRun=All"), JSON, eviction).status, 201);
    assert_eq!(send(&client, "GET", &one, "", b"").status, 200, "the pod is still there");
    is_well(&rkube);
}
