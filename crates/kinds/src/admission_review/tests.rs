//! Answers of webhooks and their patches, as tables.

use rkube_machinery::decode::base64;
use rkube_machinery::{Status, Value, json};

use super::patch::{self, Expected};
use super::*;

fn ask(version: ReviewVersion, request: &Value) -> Review<'_> {
    Review { version, uid: "u-1", request, object: r#"{"a":1}"#, old: "null" }
}

/// The answer's response (and the rest of it, where it is not as it should be), and what it is worth.
#[test]
fn answers_are_checked() {
    let request = Value::object();
    let read = |version, answer: &str, mutating| ask(version, &request).read("a.b.c", answer.as_bytes(), mutating);
    let v1 = |response: &str, mutating| {
        let answer =
            format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{response}}}"#);
        read(ReviewVersion::V1, &answer, mutating)
    };
    let patch = base64::encode(b"[]");
    assert_eq!(v1(r#"{"uid":"u-1","allowed":true}"#, false), Ok(Answer::default()));
    let with_patch = format!(r#"{{"uid":"u-1","allowed":true,"patchType":"JSONPatch","patch":"{patch}"}}"#);
    let expected = Answer { patch: Some((b"[]".to_vec(), "JSONPatch".to_owned())), ..Answer::default() };
    assert_eq!(v1(&with_patch, true), Ok(expected));
    let told = v1(r#"{"uid":"u-1","allowed":true,"warnings":["w"],"auditAnnotations":{"k":"v"}}"#, true).unwrap();
    assert_eq!(told.warnings, ["w"]);
    assert_eq!(told.annotations, [("a.b.c/k".to_owned(), "v".to_owned())]);
    let invalid = [
        ("null".to_owned(), true, "webhook response was absent"),
        (r#"{"uid":"x","allowed":true}"#.to_owned(), true, r#"expected response.uid="u-1", got "x""#),
        (with_patch.clone(), false, "validating webhook may not return response.patch"),
        (
            r#"{"uid":"u-1","patchType":"JSONPatch"}"#.to_owned(),
            false,
            "validating webhook may not return response.patchType",
        ),
        (
            r#"{"uid":"u-1","patchType":"JSONPatch"}"#.to_owned(),
            true,
            "webhook returned response.patchType but not response.patch",
        ),
        (
            format!(r#"{{"uid":"u-1","patch":"{patch}"}}"#),
            true,
            "webhook returned response.patch but not response.patchType",
        ),
        (with_patch.replace("JSONPatch", ""), true, r#"webhook returned invalid response.patchType of """#),
    ];
    for (response, mutating, why) in invalid {
        assert_eq!(v1(&response, mutating), Err(Unusable::Invalid(why.to_owned())), "{response}");
    }
    let whole = [
        (
            r#"{"response":{"uid":"u-1"}}"#,
            Unusable::Invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=".to_owned(),
            ),
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            Unusable::Unreadable(
                "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion".to_owned(),
            ),
        ),
        (
            r#"{"response":{"allowed":"yes"}}"#,
            Unusable::Unreadable(
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool"
                    .to_owned(),
            ),
        ),
    ];
    for (answer, expected) in whole {
        assert_eq!(read(ReviewVersion::V1, answer, true), Err(expected));
    }
    // The older version asks for less.
    let old = format!(r#"{{"response":{{"allowed":true,"patch":"{patch}"}}}}"#);
    assert!(read(ReviewVersion::V1Beta1, &old, true).unwrap().patch.is_some());
    assert_eq!(read(ReviewVersion::V1Beta1, &old, false), Ok(Answer::default()));
}

#[test]
fn refusals_keep_the_webhooks_words() {
    let request = Value::object();
    let refused = |status: &str| {
        let answer = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":
            {{"uid":"u-1","allowed":false,"status":{status}}}}}"#
        );
        let answer = ask(ReviewVersion::V1, &request).read("a.b.c", answer.as_bytes(), false).unwrap();
        *answer.refusal.unwrap()
    };
    let denied = r#"admission webhook "a.b.c" denied the request"#;
    let table = [
        ("null", 400, format!("{denied} without explanation")),
        (r#"{"message":"no"}"#, 400, format!("{denied}: no")),
        (r#"{"reason":"Odd"}"#, 400, format!("{denied}: Odd")),
        (r#"{"reason":"Odd","message":"no","code":403}"#, 403, format!("{denied}: no")),
        (r#"{"code":200,"status":"Success"}"#, 400, format!("{denied} without explanation")),
        (r#"{"code":100000}"#, u16::MAX, format!("{denied} without explanation")),
    ];
    for (status, code, message) in table {
        let refused = refused(status);
        assert_eq!((refused.code, &refused.message), (code, &message));
        let shown = refused.to_value();
        assert_eq!((shown.str("status"), shown.str("message")), ("Failure", message.as_str()));
    }
    let full = refused(r#"{"code":429,"reason":"Odd","details":{"retryAfterSeconds":3,"name":"n"}}"#);
    assert_eq!(full.details.as_ref().unwrap().retry_after_seconds, 3);
    assert_eq!((full.to_value().str("reason"), full.to_value().get("details").str("name")), ("Odd", "n"));
}

#[test]
fn patches_make_objects_of_the_same_kind() {
    let kind = crate::find("", "v1", "configmaps").unwrap();
    let expected = Expected { api_version: "v1", name: "ConfigMap", kind: Some(kind), table: None };
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"k":"v"}}"#;
    let apply = |patch: &str| {
        let operations = patch::operations(patch.as_bytes()).map_err(Status::bad_request)?.unwrap();
        patch::apply(object, &operations, &expected).map(|value| json::to_string(&value))
    };
    let failed = |patch: &str| apply(patch).unwrap_err().message;
    assert_eq!(
        apply(r#"[{"op":"add","path":"/data/b","value":"w"},{"op":"add","path":"/unknown","value":1}]"#).unwrap(),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"b":"w","k":"v"}}"#
    );
    assert_eq!(apply(r#"[{"op":"remove","path":"/kind"}]"#).unwrap(), object);
    let table = [
        ("junk", "invalid character 'j' looking for beginning of value"),
        ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (
            r#"[{"op":"add","path":"/data","value":[1]}]"#,
            "Internal error occurred: json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"[{"op":"replace","path":"/kind","value":"Nope"}]"#,
            "Internal error occurred: no kind \"Nope\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            r#"[{"op":"replace","path":"/kind","value":"Pod"},{"op":"remove","path":"/data"}]"#,
            "Internal error occurred: converting (v1.Pod) to (v1.ConfigMap): unknown conversion",
        ),
        (
            r#"[{"op":"remove","path":"/nope"}]"#,
            "Internal error occurred: error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
        ),
    ];
    for (patch, message) in table {
        assert_eq!(failed(patch), message, "{patch}");
    }
    for nothing in ["[]", "null"] {
        assert_eq!(patch::operations(nothing.as_bytes()), Ok(None));
    }
}
