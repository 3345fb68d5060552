//! Conversions for code that cannot wait.
//!
//! Who owns which fields depends on how an object looks in the versions of all its owners, and is worked out by pure
//! functions. They ask here; what is not known yet is noted, and after it was learned they run again.

use std::collections::HashMap;

use parking_lot::Mutex;
use rkube_kinds::Kind;
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, Text, Value, json};

use crate::served::Served;

/// What no webhook sees: nobody stores a resource version, and owners are none of its business.
const OWN_FIELDS: [&str; 2] = ["resourceVersion", "managedFields"];

#[derive(Default)]
pub struct Conversions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<Question, Value>,
    missing: Vec<(Question, Value)>,
}

/// A version, and the text of an object.
type Question = (Text, String);

impl Conversions {
    /// An object of a custom resource in another version, with that version's schema. None: the definition has no such
    /// version, or the answer has to be learned first.
    pub fn get<'a>(&self, served: &'a Served, object: &Value, api_version: &str) -> Option<(Value, &'a Schema)> {
        let schema = &served.version(api_version)?.schema;
        if object.str("apiVersion") == api_version {
            return Some((object.clone(), schema));
        }
        let mut plain = object.clone();
        let metadata = plain.object_mut("metadata");
        let own: Vec<_> = OWN_FIELDS.iter().filter_map(|field| Some((field, metadata.remove(field)?))).collect();
        let question = (Text::from(api_version), json::to_string(&plain));
        let mut state = self.state.lock();
        let Some(answer) = state.known.get(&question) else {
            state.missing.push((question, plain));
            return None;
        };
        let mut answer = answer.clone();
        let metadata = answer.object_mut("metadata");
        own.into_iter().for_each(|(field, value)| metadata.set(field, value));
        schema.complete(&mut answer);
        Some((answer, schema))
    }

    /// Converts what was asked for and not known; says whether there was anything.
    pub async fn learn(&self, served: &Served) -> Result<bool, Status> {
        let missing = std::mem::take(&mut self.state.lock().missing);
        let learned = !missing.is_empty();
        for (question, object) in missing {
            let is_known = self.state.lock().known.contains_key(&question);
            if let (false, Some(kind)) = (is_known, served.version(&question.0)) {
                let answer = served.to_version(object, kind).await?;
                self.state.lock().known.insert(question, answer);
            }
        }
        Ok(learned)
    }
}

impl Served {
    /// The custom resource in another of its versions, served or not.
    fn version(&self, api_version: &str) -> Option<&Kind> {
        self.custom_versions()?.find(api_version).ok().map(|kind| &**kind)
    }

    async fn to_version(&self, object: Value, kind: &Kind) -> Result<Value, Status> {
        let Some(versions) = self.custom_versions() else { return Ok(object) };
        let mut converted = versions.convert(vec![object], kind).await?;
        Ok(converted.pop().unwrap_or_default())
    }
}
