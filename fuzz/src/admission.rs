//! Answers of admission webhooks and their patches: whatever comes, a refusal is an error, and what is patched is still
//! an object of its kind.

use rkube_kinds::admission_review::patch::{self, Expected};
use rkube_kinds::admission_review::{Review, ReviewVersion};
use rkube_machinery::decode::base64;
use rkube_machinery::{Value, json};

/// Kinds whose objects are patched, and one of each.
const OBJECTS: &[(&str, &str, &str)] = &[
    (
        "",
        "configmaps",
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","labels":{"l":"m"}},"data":{"k":"v"}}"#,
    ),
    (
        "apps",
        "deployments",
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"c"}]}}}}"#,
    ),
];

/// A text as an answer, as the response in one, and as the patch in that; then as a patch by itself.
pub fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let around = |response: &str| {
        format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{response}}}"#)
    };
    let patch = base64::encode(bytes);
    let response = format!(r#"{{"uid":"1-2","allowed":true,"patchType":"JSONPatch","patch":"{patch}"}}"#);
    for answer in [text.to_string(), around(&text), around(&response)] {
        for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
            for mutating in [true, false] {
                check(version, answer.as_bytes(), mutating);
            }
        }
    }
    patched(bytes);
}

fn check(version: ReviewVersion, answer: &[u8], mutating: bool) {
    let request = Value::object();
    let review = Review { version, uid: "1-2", request: &request, object: "null", old: "null" };
    let Ok(answer) = review.read("hook", answer, mutating) else { return };
    if let Some(refusal) = answer.refusal {
        assert!(refusal.code >= 400 && refusal.message.starts_with("admission webhook \"hook\" denied"));
        let shown = refusal.to_value();
        assert!(shown.int("code") >= 400 && shown.str("status") != "Success");
        assert!(json::parse(json::to_string(&shown).as_bytes()).is_ok());
    }
    if let Some((patch, _)) = answer.patch {
        assert!(mutating && !patch.is_empty());
        patched(&patch);
    }
}

fn patched(patch: &[u8]) {
    let Ok(Some(operations)) = patch::operations(patch) else { return };
    for (group, resource, object) in OBJECTS {
        let Some(kind) = rkube_kinds::find(group, "v1", resource) else { continue };
        let api_version = kind.api_version();
        let expected = Expected { api_version: &api_version, name: &kind.kind, kind: Some(kind), table: None };
        let Ok(mut after) = patch::apply(object, &operations, &expected) else { continue };
        assert_eq!((after.str("apiVersion"), after.str("kind")), (api_version.as_str(), kind.kind.as_str()));
        kind.rules.default(&mut after);
        kind.schema.complete(&mut after);
        // What is sent to the next webhook reads back the same.
        let written = json::to_string(&after);
        let read = patch::apply(&written, &Value::Array(Vec::new()), &expected).map(|value| json::to_string(&value));
        assert_eq!(read.ok().as_deref(), Some(written.as_str()));
    }
}
