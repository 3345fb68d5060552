//! `get`.

use http::StatusCode;
use rkube_machinery::Status;

use super::{Call, cache_error};
use crate::content::Answer;
use rkube_catalog::Entry;

impl Call<'_> {
    pub(super) async fn get(&mut self) -> Result<Answer, Status> {
        if let Some(text) = &self.options.resource_version {
            unworded_version(text)?;
        }
        self.wait_for_version().await?;
        let entry = self.find()?;
        self.answer_object(StatusCode::OK, &entry).await
    }

    /// The object as the cache has it, in the form in which it is stored.
    pub(super) fn find(&self) -> Result<Entry, Status> {
        let found = self.served.stored().get(&self.key(&self.info.name));
        found.ok_or_else(|| Status::not_found(&self.served.group_resource, &self.info.name))
    }

    /// Waits until the cache is as new as the request's resource version wants: none means as new as the store.
    pub(super) async fn wait_for_version(&self) -> Result<u64, Status> {
        let cache = self.server.catalog.cache();
        match self.options.resource_version.as_deref() {
            None => cache.fresh().await.map_err(cache_error),
            Some(text) => {
                let wanted = parse_version(text)?;
                cache.reach(wanted).await.map_err(cache_error)?;
                Ok(wanted)
            }
        }
    }
}

/// As [`parse_version`], but answered as Kubernetes answers it where the storage finds the mistake: without a reason.
pub fn unworded_version(text: &str) -> Result<u64, Status> {
    parse_version(text).map_err(|status| {
        let message = status.message.trim_start_matches("invalid resource version: ").to_owned();
        Status { code: 500, message, ..Status::default() }
    })
}

pub fn parse_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        Status::bad_request(format!("invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"))
    })
}
