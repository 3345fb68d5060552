//! Answers of conversion webhooks: whatever comes, nothing but the same object in the right version is taken.

use rkube_kinds::custom::review::{Review, ReviewVersion};
use rkube_machinery::{Value, json};

const BEFORE: &str = r#"{"apiVersion":"example.com/v2","kind":"App","metadata":{"annotations":{"f":"g"},"finalizers":["x"],"generation":2,"labels":{"d":"e"},"name":"a","namespace":"b","uid":"c"},"spec":{"old":1}}"#;

/// A text as an answer, as the object in one, and as the object's metadata.
pub fn answers(bytes: &[u8]) {
    let Ok(before) = json::parse(BEFORE.as_bytes()) else { return };
    let text = String::from_utf8_lossy(bytes);
    let around = |object: &str| {
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{{"uid":"1-2","result":{{"status":"Success"}},"convertedObjects":[{object}]}}}}"#
        )
    };
    let metadata = format!(r#"{{"apiVersion":"example.com/v1","kind":"App","metadata":{text}}}"#);
    for answer in [text.to_string(), around(&text), around(&metadata)] {
        for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
            check(version, &before, answer.as_bytes());
        }
    }
}

fn check(version: ReviewVersion, before: &Value, answer: &[u8]) {
    let objects = std::slice::from_ref(before);
    let review = Review { version, uid: "1-2", desired_api_version: "example.com/v1", objects };
    match review.read(answer) {
        Ok(converted) => {
            assert_eq!(converted.len(), 1);
            let after = &converted[0];
            assert_eq!((after.str("apiVersion"), after.str("kind")), ("example.com/v1", "App"));
            let without = |object: &Value| {
                let mut metadata = object.get("metadata").clone();
                metadata.remove("labels");
                metadata.remove("annotations");
                metadata
            };
            assert_eq!(without(after), without(before));
            let written = json::to_string(after);
            assert_eq!(json::parse(written.as_bytes()).ok().as_ref(), Some(after));
        }
        Err(failure) => assert!(!failure.message.is_empty() && failure.message.len() < 64 << 10),
    }
}
