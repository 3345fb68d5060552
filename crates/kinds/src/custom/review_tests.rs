//! Answers that are right, and every way in which they are not.

use proptest::prelude::*;

use super::*;

const UID: &str = "0b1e7a52-6f55-4d31-9b8e-1c2d3e4f5a6b";

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn object(name: &str) -> Value {
    value(&format!(
        r#"{{"apiVersion":"example.com/v2","kind":"App","metadata":{{"annotations":{{"a":"b"}},"generation":2,
            "labels":{{"x":"y"}},"name":"{name}","namespace":"default","uid":"u-{name}"}},"name":"n"}}"#
    ))
}

fn converted(name: &str, metadata: &str) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"App","metadata":{{{metadata}"name":"{name}","namespace":"default","uid":"u-{name}"}},"appName":"n"}}"#
    )
}

fn answer(objects: &[&str]) -> String {
    let objects = objects.join(",");
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{{"uid":"{UID}",
            "convertedObjects":[{objects}],"result":{{"status":"Success"}}}}}}"#
    )
}

fn read_as(version: ReviewVersion, objects: &[Value], answer: &str) -> Result<Vec<Value>, Failure> {
    Review { version, uid: UID, desired_api_version: "example.com/v1", objects }.read(answer.as_bytes())
}

fn read(objects: &[Value], answer: &str) -> Result<Vec<Value>, Failure> {
    read_as(ReviewVersion::V1, objects, answer)
}

#[test]
fn the_first_version_that_both_speak_is_chosen() {
    for (accepted, chosen) in [
        (vec!["v1", "v1beta1"], Some(ReviewVersion::V1)),
        (vec!["v2", "v1beta1", "v1"], Some(ReviewVersion::V1Beta1)),
        (vec!["v2"], None),
    ] {
        assert_eq!(ReviewVersion::choose(accepted.into_iter()), chosen);
    }
}

#[test]
fn a_question_is_written_as_upstream_writes_it() {
    let objects = [value(r#"{"a":1}"#), value(r#"{"b":"é"}"#)];
    let review =
        Review { version: ReviewVersion::V1, uid: "u", desired_api_version: "example.com/v1", objects: &objects };
    assert_eq!(
        String::from_utf8(review.request()).unwrap(),
        concat!(
            r#"{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","#,
            r#""desiredAPIVersion":"example.com/v1","objects":[{"a":1},{"b":"é"}]},"#,
            r#""response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
            "\n"
        )
    );
}

#[test]
fn metadata_is_kept_but_for_labels_and_annotations() {
    let metadata = r#""labels":{"x":"z","w":"v"},"generation":9,"finalizers":["no"],"#;
    let found = read(&[object("a")], &answer(&[&converted("a", metadata)])).unwrap();
    assert_eq!(
        json::to_string(&found[0]),
        r#"{"apiVersion":"example.com/v1","appName":"n","kind":"App","metadata":{"generation":2,"labels":{"w":"v","x":"z"},"name":"a","namespace":"default","uid":"u-a"}}"#
    );
    let both = read(&[object("a"), object("b")], &answer(&[&converted("a", ""), &converted("b", "")])).unwrap();
    assert_eq!(both.iter().map(|object| object.get("metadata").str("name")).collect::<Vec<_>>(), ["a", "b"]);
    // The older version is not asked who it answers.
    let older = answer(&[&converted("a", "")]).replace("/v1\",\"kind\":\"Conv", "/v1beta1\",\"kind\":\"Conv");
    let older = older.replace(UID, "another");
    assert_eq!(read_as(ReviewVersion::V1Beta1, &[object("a")], &older).unwrap().len(), 1);
    assert_eq!(
        read_as(ReviewVersion::V1Beta1, &[object("a")], &older.replace("apiVersion\":\"apiext", "x\":\""))
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn answers_that_are_none_are_refused() {
    let right = answer(&[&converted("a", "")]);
    let failed = |why: &str| format!("conversion webhook for example.com/v2, Kind=App failed: {why}");
    let cases = [
        (
            right.replace("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"),
            FailureType::Call,
            failed("converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"),
        ),
        (
            right.replace("ConversionReview", "Pod"),
            FailureType::Call,
            failed(
                r#"no kind "Pod" is registered for version "apiextensions.k8s.io/v1" in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71""#,
            ),
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure"}"#.to_owned(),
            FailureType::Call,
            failed("converting (v1.Status) to (v1.ConversionReview): unknown conversion"),
        ),
        (
            "hello".to_owned(),
            FailureType::Call,
            failed(
                r#"couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
            ),
        ),
        (
            "{".to_owned(),
            FailureType::Call,
            failed("couldn't get version/kind; json parse error: unexpected end of JSON input"),
        ),
        (
            right.replace("\"response\":{", "\"response\":[{").replace("}}}", "}}]}"),
            FailureType::Call,
            failed(
                "json: cannot unmarshal array into Go struct field ConversionReview.response of type v1.ConversionResponse",
            ),
        ),
        (
            "{}".to_owned(),
            FailureType::MalformedResponse,
            failed("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="),
        ),
        (
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#.to_owned(),
            FailureType::MalformedResponse,
            failed("no response provided"),
        ),
        (
            right.replace(UID, "other"),
            FailureType::MalformedResponse,
            failed(&format!(r#"expected response.uid="{UID}", got "other""#)),
        ),
        (
            right.replace("Success", "Failure"),
            FailureType::MalformedResponse,
            failed("response.result.status was 'Failure', not 'Success'"),
        ),
        (
            right.replace("\"Success\"", "\"Failed\",\"message\":\"too hard\""),
            FailureType::MalformedResponse,
            failed("too hard"),
        ),
        (right.replace("\"status\"", "\"message\""), FailureType::MalformedResponse, failed("Success")),
        (
            answer(&[]),
            FailureType::PartialResponse,
            "conversion webhook for example.com/v2, Kind=App returned 0 objects, expected 1".to_owned(),
        ),
        (
            answer(&[&converted("a", ""), &converted("a", "")]),
            FailureType::PartialResponse,
            "conversion webhook for example.com/v2, Kind=App returned 2 objects, expected 1".to_owned(),
        ),
    ];
    for (answer, kind, message) in cases {
        assert_eq!(read(&[object("a")], &answer).unwrap_err(), Failure { kind, message }, "{answer}");
    }
}

#[test]
fn objects_that_are_not_what_was_asked_for_are_refused() {
    let right = converted("b", "");
    let with = |metadata: &str| converted("b", metadata);
    let cases: &[(String, &str, &str)] = &[
        ("null".to_owned(), "unexpected end of JSON input", "at index 1: unexpected end of JSON input"),
        (
            "[]".to_owned(),
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
            "at index 1: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            r#"{"a":1}"#.to_owned(),
            r#"Object 'Kind' is missing in '{"a":1}'"#,
            r#"at index 1: Object 'Kind' is missing in '{"a":1}'"#,
        ),
        (
            right.replace("example.com/v1", "example.com/v2"),
            "invalid object at index 0: invalid groupVersion (expected example.com/v1, received example.com/v2)",
            "invalid converted object at index 1: invalid groupVersion (expected example.com/v1, received example.com/v2)",
        ),
        (
            right.replace("example.com/v1", "a/b/c"),
            "invalid groupVersion (expected example.com/v1, received )",
            "invalid groupVersion (expected example.com/v1, received )",
        ),
        (
            right.replace("\"App\"", "\"Pod\""),
            "invalid object at index 0: invalid kind (expected App, received Pod)",
            "invalid converted object at index 1: invalid kind (expected App, received Pod)",
        ),
        (
            right.replace("\"name\":\"b\"", "\"name\":\"c\""),
            "invalid object: must have the same name: b != c",
            "invalid converted object at index 1: must have the same name: b != c",
        ),
        (
            right.replace("default", "other"),
            "invalid object: must have the same namespace: default != other",
            "must have the same namespace: default != other",
        ),
        (
            right.replace("u-b", ""),
            "invalid object: must have the same UID: u-b != ",
            "must have the same UID: u-b != ",
        ),
        (
            with("\"labels\":[],"),
            "invalid metadata: invalid metadata.labels of type []interface {} in converted object",
            "invalid metadata in object at index 1: invalid metadata.labels of type []interface {} in converted object",
        ),
        (
            with("\"annotations\":{\"a\":1},"),
            "invalid metadata: metadata.annotations[a] must be a string, but is int64 in converted object",
            "metadata.annotations[a] must be a string, but is int64 in converted object",
        ),
        (
            with("\"labels\":{\"a\":\"-\"},"),
            "invalid metadata: metadata.labels: Invalid value: \"-\": a valid label must be",
            "at index 1: metadata.labels: Invalid value: \"-\": a valid label must be",
        ),
        (
            with("\"annotations\":{\"\":\"a\"},"),
            "invalid metadata: [metadata.annotation: Invalid value: \"\": name part must be non-empty",
            "at index 1: [metadata.annotation: Invalid value: \"\": name part must be non-empty",
        ),
    ];
    for (wrong, alone, second) in cases {
        let failure = read(&[object("b")], &answer(&[wrong])).unwrap_err();
        assert_eq!(failure.kind, FailureType::InvalidConvertedObject);
        assert!(failure.message.contains(alone), "{}\n{alone}", failure.message);
        let failure = read(&[object("a"), object("b")], &answer(&[&converted("a", ""), wrong])).unwrap_err();
        assert!(failure.message.starts_with("conversion webhook for example.com/v2, Kind=App returned invalid"));
        assert!(failure.message.contains(second), "{}\n{second}", failure.message);
    }
    let swapped = answer(&[&converted("b", ""), &converted("a", "")]);
    let failure = read(&[object("a"), object("b")], &swapped).unwrap_err();
    assert!(failure.message.ends_with("at index 0: must have the same name: a != b"), "{}", failure.message);
}

#[test]
fn errors_are_short() {
    let long = "x".repeat(3 << 20);
    for wrong in [
        answer(&[&format!(r#"{{"a":"{long}"}}"#)]),
        answer(&[]).replace("\"Success\"", &format!("\"Failure\",\"message\":\"{long}\"")),
    ] {
        let message = read(&[object("a")], &wrong).unwrap_err().message;
        assert!(message.len() < 2 * SHOWN_BYTES_MAX, "{}", message.len());
    }
}

/// Any JSON, with names among it that mean something.
fn any_json() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("metadata"),
        Just("labels"),
        Just("annotations"),
        Just("name"),
        Just("uid"),
        Just("kind"),
        Just("apiVersion"),
        Just("response"),
        Just("convertedObjects"),
        Just("result"),
        Just("status"),
    ];
    let text = prop_oneof![
        Just("App".to_owned()),
        Just("example.com/v1".to_owned()),
        Just("Success".to_owned()),
        Just(UID.to_owned()),
        Just("a".to_owned()),
        Just("u-a".to_owned()),
        Just("default".to_owned()),
        "[a-z/\\\\-]{0,5}",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i32>().prop_map(|value| value.to_string()),
        text.prop_map(|text| json::to_string(&Value::from(text.as_str()))),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| {
                let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    /// Whatever comes back, what is taken of it is the same object in the right version.
    #[test]
    fn nothing_but_the_same_object_is_taken(object_given in any_json(), metadata in any_json(), whole in any_json()) {
        let original = [object("a")];
        let placed = format!(r#"{{"apiVersion":"example.com/v1","kind":"App","metadata":{metadata},"spec":{object_given}}}"#);
        for answer in [whole.clone(), answer(&[&object_given]), answer(&[&placed])] {
            if let Ok(found) = read(&original, &answer) {
                prop_assert_eq!(found.len(), 1);
                prop_assert_eq!(found[0].str("apiVersion"), "example.com/v1");
                prop_assert_eq!(found[0].str("kind"), "App");
                let mut kept = found[0].get("metadata").clone();
                let mut before = original[0].get("metadata").clone();
                for field in ["labels", "annotations"] {
                    kept.remove(field);
                    before.remove(field);
                }
                prop_assert_eq!(kept, before);
            }
        }
    }
}
