//! What webhooks answer: documents of a type that the question names, read with upstream's words for what is wrong.

use crate::field::quote;
use crate::schema::TypeRef;
use crate::value::Value;
use crate::{decode, json, yaml};

/// As upstream names the types that it knows of webhooks.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";
/// An answer that is no JSON is read as YAML up to this size, if only to say what is wrong with it.
const YAML_BYTES_MAX: usize = 64 << 10;

/// The versions of reviews that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// The first that we speak, too.
    pub fn choose<'a>(mut accepted: impl Iterator<Item = &'a str>) -> Option<ReviewVersion> {
        accepted.find_map(|version| [Self::V1, Self::V1Beta1].into_iter().find(|known| known.name() == version))
    }

    pub fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// What an answer must be.
#[derive(Clone, Copy, Debug)]
pub struct ReviewType<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    /// The versions that the server knows at all.
    pub versions: &'a [&'a str],
    /// The type's name in the table.
    pub type_name: &'a str,
}

impl ReviewType<'_> {
    /// The answer as an object, with `apiVersion` and `kind` as they were given, which may be not at all.
    pub fn read(&self, answer: &[u8]) -> Result<Value, String> {
        let unrecognized = |why: String| format!("couldn't get version/kind; json parse error: {why}");
        let is_json = answer.trim_ascii_start().first() == Some(&b'{');
        let raw = match json::parse(answer) {
            Err(_) if !is_json && answer.len() <= YAML_BYTES_MAX => {
                yaml::parse(answer).map_err(|error| format!("error converting YAML to JSON: {error}"))?
            }
            parsed => parsed.map_err(|error| unrecognized(error.to_string()))?,
        };
        let (api_version, kind) = decode::type_meta(&raw).map_err(|error| unrecognized(error.to_string()))?;
        self.check(&api_version, &kind)?;
        let table = TypeRef::find(self.type_name).ok_or_else(|| format!("the table has no {}", self.type_name))?;
        let mut review = decode::decode(raw, table.get()).map_err(|error| error.to_string())?.value;
        review.set("apiVersion", api_version);
        review.set("kind", kind);
        Ok(review)
    }

    /// Whether a document of this type can be read as an answer; what it does not say is taken as right.
    fn check(&self, api_version: &str, kind: &str) -> Result<(), String> {
        let kind = if kind.is_empty() { self.kind } else { kind };
        let (group, given) = api_version.split_once('/').unwrap_or(("", api_version));
        if given.contains('/') {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        let (group, given) = if api_version.is_empty() { (self.group, self.version) } else { (group, given) };
        let unknown =
            |from: &str| Err(format!("converting ({from}) to ({}.{}): unknown conversion", self.version, self.kind));
        if group == self.group && kind == self.kind {
            if given == self.version {
                return Ok(());
            }
            if self.versions.contains(&given) {
                return unknown(&format!("{given}.{kind}"));
            }
        }
        if (group, given, kind) == ("", "v1", "Status") {
            return unknown("v1.Status");
        }
        let api_version = if group.is_empty() { given.to_owned() } else { format!("{group}/{given}") };
        let (kind, api_version, scheme) = (quote(kind), quote(&api_version), quote(SCHEME));
        Err(format!("no kind {kind} is registered for version {api_version} in scheme {scheme}"))
    }
}
