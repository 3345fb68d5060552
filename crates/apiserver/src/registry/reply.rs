//! What a request gets: the answer, in the version and form that are asked for, and the warnings that go with it.

use http::StatusCode;
use rkube_catalog::Entry;
use rkube_machinery::Status;

use super::request::Request;
use crate::content::{Answer, object_answer};

pub struct Reply {
    pub answer: Result<Answer, Status>,
    /// Texts for `Warning` headers; they go with refusals, too.
    pub warnings: Vec<String>,
}

/// What a write left behind.
pub struct Written {
    pub entry: Entry,
    pub created: bool,
}

impl Request<'_> {
    /// The answer to a write. `now` is for ages in tables.
    pub async fn written_answer(&self, written: &Written, now: i64) -> Result<Answer, Status> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.object_answer(code, &written.entry, now).await
    }

    /// An object that is stored, in the version and form that are asked for.
    pub async fn object_answer(&self, code: StatusCode, stored: &Entry, now: i64) -> Result<Answer, Status> {
        let converted = if self.served.is_custom() { Some(self.served.in_version(stored).await?) } else { None };
        let entry = converted.as_ref().unwrap_or(stored);
        Ok(object_answer(code, self.served, self.accept, &self.query.include_object, now, entry))
    }
}
