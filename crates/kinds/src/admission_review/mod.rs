//! AdmissionReview: what a webhook is asked, and what its answer is worth. Pure.
//!
//! An answer is right if it is an AdmissionReview of the version that was asked, for this question, and says of a patch
//! both what it is and of which type. Every text is upstream's.

// tidy: types AdmissionReview AdmissionRequest AdmissionResponse Status

pub mod patch;

use rkube_machinery::decode::base64;
use rkube_machinery::field::quote;
use rkube_machinery::review::ReviewType;
pub use rkube_machinery::review::ReviewVersion;
use rkube_machinery::status::Details;
use rkube_machinery::{Map, Status, Text, Value, json};

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";
/// A refusal has at least this code.
const REFUSAL_CODE_MIN: i64 = 400;

/// One question.
pub struct Review<'a> {
    pub version: ReviewVersion,
    pub uid: &'a str,
    /// All fields but the UID and the objects.
    pub request: &'a Value,
    /// JSON of the objects; `null` where there is none.
    pub object: &'a str,
    pub old: &'a str,
}

/// What a webhook says.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// None: it has nothing against it.
    pub refusal: Option<Box<Status>>,
    /// The bytes of a patch and their type.
    pub patch: Option<(Vec<u8>, String)>,
    pub warnings: Vec<String>,
    /// For the audit log.
    pub annotations: Vec<(String, String)>,
}

/// Why an answer is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It cannot even be read.
    Unreadable(String),
    /// It is none to this question.
    Invalid(String),
}

impl Review<'_> {
    /// The question as it goes out.
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024 + self.object.len() + self.old.len());
        let text = |text: &str, out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        let version = self.version.name();
        text(&format!(r#"{{"kind":"{KIND}","apiVersion":"{GROUP}/{version}","request":{{"uid":"#), &mut out);
        json::write_string(self.uid, &mut out);
        for (field, value) in self.request.as_map().iter() {
            if field == "dryRun" {
                text(",\"object\":", &mut out);
                text(self.object, &mut out);
                text(",\"oldObject\":", &mut out);
                text(self.old, &mut out);
            }
            out.push(b',');
            json::write_string(field, &mut out);
            out.push(b':');
            json::write(value, &mut out);
        }
        text("}}\n", &mut out);
        out
    }

    /// What the answer says. `mutating`: whether the webhook may change the object.
    pub fn read(&self, hook: &str, answer: &[u8], mutating: bool) -> Result<Answer, Unusable> {
        let version = self.version.name();
        let expected = ReviewType {
            group: GROUP,
            version,
            kind: KIND,
            versions: &["v1", "v1beta1"],
            type_name: match self.version {
                ReviewVersion::V1 => "io.k8s.api.admission.v1.AdmissionReview",
                ReviewVersion::V1Beta1 => "io.k8s.api.admission.v1beta1.AdmissionReview",
            },
        };
        let review = expected.read(answer).map_err(Unusable::Unreadable)?;
        let response = review.get("response");
        if response.is_null() {
            return Err(Unusable::Invalid("webhook response was absent".to_owned()));
        }
        let patch = self.patch(&review, response, mutating).map_err(Unusable::Invalid)?;
        let texts = |(key, value): (&Text, &Value)| (format!("{hook}/{key}"), value.as_str().to_owned());
        Ok(Answer {
            refusal: (!response.bool("allowed")).then(|| Box::new(refusal(hook, response.get("status")))),
            patch,
            warnings: response.list("warnings").iter().map(|text| text.as_str().to_owned()).collect(),
            annotations: response.map("auditAnnotations").iter().map(texts).collect(),
        })
    }

    /// The patch of an answer that is one to this question.
    fn patch(&self, review: &Value, response: &Value, mutating: bool) -> Result<Option<(Vec<u8>, String)>, String> {
        let patch = base64::decode(response.str("patch").as_bytes()).unwrap_or_default();
        if self.version == ReviewVersion::V1Beta1 {
            // Neither the question nor the type of a patch was ever looked at.
            return Ok((mutating && !patch.is_empty()).then(|| (patch, JSON_PATCH.to_owned())));
        }
        if response.str("uid") != self.uid {
            return Err(format!("expected response.uid={}, got {}", quote(self.uid), quote(response.str("uid"))));
        }
        let (api_version, kind) = (review.str("apiVersion"), review.str("kind"));
        if api_version != "admission.k8s.io/v1" || kind != KIND {
            let slash = if api_version.contains('/') { "" } else { "/" };
            let got = format!("{slash}{api_version}, Kind={kind}");
            return Err(format!("expected webhook response of {GROUP}/v1, Kind={KIND}, got {got}"));
        }
        let patch_type = response.get("patchType");
        let refused = match (mutating, !patch.is_empty(), !patch_type.is_null()) {
            (true, true, false) => "webhook returned response.patch but not response.patchType",
            (true, false, true) => "webhook returned response.patchType but not response.patch",
            (false, true, _) => "validating webhook may not return response.patch",
            (false, false, true) => "validating webhook may not return response.patchType",
            (_, false, false) => return Ok(None),
            (true, true, true) if patch_type.as_str().is_empty() => {
                return Err("webhook returned invalid response.patchType of \"\"".to_owned());
            }
            (true, true, true) => return Ok(Some((patch, patch_type.as_str().to_owned()))),
        };
        Err(refused.to_owned())
    }
}

pub const JSON_PATCH: &str = "JSONPatch";

/// The refusal in the webhook's words.
fn refusal(hook: &str, given: &Value) -> Status {
    let code = given.int("code").max(REFUSAL_CODE_MIN);
    let word = match given.str("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    let denied = format!("admission webhook {} denied the request", quote(hook));
    let message = match (given.str("message"), given.str("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let mut entries: Vec<(Text, Value)> = Vec::with_capacity(8);
    let mut put = |field: &'static str, value: Value| entries.push((Text::new_static(field), value));
    put("kind", "Status".into());
    put("apiVersion", "v1".into());
    put("metadata", if given.has("metadata") { given.get("metadata").clone() } else { Value::object() });
    put("status", word.into());
    put("message", message.as_str().into());
    for field in ["reason", "details"] {
        if given.has(field) && !given.get(field).is_null() {
            put(field, given.get(field).clone());
        }
    }
    put("code", code.into());
    let retry_after_seconds = u32::try_from(given.get("details").int("retryAfterSeconds")).unwrap_or(0);
    let details = (retry_after_seconds > 0).then(|| Box::new(Details { retry_after_seconds, ..Details::default() }));
    let given = Some(Box::new(Value::Object(Map::in_order(entries))));
    Status { code: u16::try_from(code).unwrap_or(u16::MAX), message, details, given, ..Status::default() }
}

#[cfg(test)]
mod tests;
