//! Forgetting etcd's past, which etcd itself keeps for ever.
//!
//! Done as kube-apiserver does, and together with it where both use one etcd: the key `compact_rev_key` counts the
//! rounds. Whoever finds it as it left it one interval ago may count the next round, and compacts what was the newest
//! revision then; the others see that somebody was quicker, and look again an interval later. So of many processes one
//! compacts, and when it dies another takes over within two intervals.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::client::Client;
use super::wire::{Compare, CompareResult, CompareTarget, PutRequest, Request, Response, TxnRequest, TxnResponse};
use super::{one, operation};
use crate::contract::{Result, Revision};

/// Not under the prefix of anybody's objects.
pub(super) const COMPACT_KEY: &str = "compact_rev_key";

/// The task that compacts. It ends with this.
pub(super) struct Compactor {
    task: Option<AbortHandle>,
}

impl Compactor {
    /// `interval`: zero if nothing is to be compacted.
    pub(super) fn start(client: Arc<Client>, interval: Duration) -> Self {
        let task = (!interval.is_zero()).then(|| tokio::spawn(run(client, interval)).abort_handle());
        Compactor { task }
    }

    pub(super) fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn run(client: Arc<Client>, interval: Duration) {
    let mut round = Round::default();
    loop {
        sleep(interval).await;
        match round.compact(&client).await {
            Ok(Some(revision)) => tracing::debug!(revision, "compacted etcd"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "etcd could not be compacted, will be tried again"),
        }
    }
}

/// What was found an interval ago.
#[derive(Default)]
pub(super) struct Round {
    /// The version of the key: how many rounds there have been.
    count: i64,
    /// The newest revision. 0: not known yet.
    revision: Revision,
}

impl Round {
    /// Tries to take the next round. Returns what was compacted, if that fell to us.
    pub(super) async fn compact(&mut self, client: &Client) -> Result<Option<Revision>> {
        let take = TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Version.into(),
                key: COMPACT_KEY.as_bytes().to_vec(),
                version: Some(self.count),
                mod_revision: None,
            }],
            success: vec![operation(Request::Put(PutRequest {
                key: COMPACT_KEY.as_bytes().to_vec(),
                value: self.revision.to_string().into(),
                lease: 0,
            }))],
            failure: vec![operation(Request::Range(one(COMPACT_KEY)))],
        };
        let (response, newest) = client.transaction(take).await?;
        let old = std::mem::replace(&mut self.revision, newest);
        if !response.succeeded {
            self.count = found_version(response);
            return Ok(None);
        }
        self.count += 1;
        if old == 0 {
            return Ok(None);
        }
        client.compact(old).await?;
        Ok(Some(old))
    }
}

/// 0 if somebody has deleted the key.
fn found_version(response: TxnResponse) -> i64 {
    match response.responses.into_iter().next().and_then(|response| response.response) {
        Some(Response::Range(range)) => range.kvs.first().map_or(0, |found| found.version),
        None => 0,
    }
}
