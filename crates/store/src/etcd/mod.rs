//! The store over a real etcd, 3.4 or newer: for more than one control plane.
//!
//! Reads are linearizable, writes are transactions on the key's revision, leases are etcd's own (which rounds short
//! times to live up, to about two seconds). Values are bounded by etcd's own limit (1.5 MiB by default); more than it
//! takes is [`Error::NoSpace`].
//!
//! What is different here:
//!
//! - Notes are not carried. Events have none.
//! - "Delivered before it is acknowledged" holds for the watches of this process: a write waits until they have been
//!   told, though not longer than two seconds when the watch is behind.
//! - A lease's keys are deleted in one revision, so several events can have the same; they come in one batch.
//! - The past that a watch asks for is delivered after [`Store::watch`] has returned.
//! - Progress: a watch follows all keys of the etcd, and tells its sink of those that have its prefix. So it reaches
//!   every revision, whoever wrote it, with the event of that revision. `watch.rs` says why.
//! - The past goes: every [`EtcdOptions::compaction_interval`] one of the processes that share the etcd compacts it, see
//!   `compact.rs`.
//! - A call that etcd does not answer fails with [`Error::Unavailable`] after [`EtcdOptions::call_timeout`].
//! - The oldest revision in [`Error::Compacted`] is a lower bound when another process compacted.

mod client;
mod compact;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use self::client::Client;
use self::compact::Compactor;
use self::watch::Watches;
use self::wire::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, PutRequest, RangeRequest, Request, RequestOp, Response,
    ResponseOp, TxnRequest,
};
use crate::contract::{
    Change, Error, Expect, KeyValue, LeaseId, Range, RangeQuery, Result, Revision, Sink, Store, WatchHandle, Write,
};

/// What Kubernetes has, so that servers of both kinds keep the same past.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Keys that are read at a time: with values of the 1.5 MiB that etcd takes, an answer is well within the 2 GiB of gRPC.
const PAGE_ITEMS: usize = 500;
/// Twice the time after which an etcd that is alive gives up by itself.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Where etcd is, how to be known to it, and how to treat it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://...` or `https://...`; any of them will do.
    pub endpoints: Vec<String>,
    /// PEM: who signs etcd's certificates. Needed for `https`.
    pub certificate_authority: Option<Vec<u8>>,
    /// PEM: who we are, with `key`.
    pub certificate: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    /// What is older than this is compacted away; up to twice as much is kept. Zero: we do not compact.
    pub compaction_interval: Duration,
    /// A call that takes longer has failed; whether a write was applied is then not known.
    pub call_timeout: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        EtcdOptions {
            endpoints: Vec::new(),
            certificate_authority: None,
            certificate: None,
            key: None,
            compaction_interval: COMPACTION_INTERVAL,
            call_timeout: CALL_TIMEOUT,
        }
    }
}

/// The store in an etcd.
pub struct Etcd {
    client: Arc<Client>,
    watches: Watches,
    compactor: Compactor,
    closed: AtomicBool,
}

impl Etcd {
    /// Connects. Must be called on a tokio runtime, which will run the watches and the compaction.
    pub async fn connect(options: &EtcdOptions) -> Result<Etcd> {
        let client = Arc::new(Client::connect(options).await?);
        let watches = Watches::start(client.clone());
        let compactor = Compactor::start(client.clone(), options.compaction_interval);
        Ok(Etcd { client, watches, compactor, closed: AtomicBool::new(false) })
    }

    async fn try_write(&self, write: Write) -> Result<Revision> {
        self.check_open()?;
        let Write { key, expect, change, guard } = write;
        let deletes = matches!(change, Change::Delete);
        if deletes && expect == Expect::Absent {
            // Cannot hold, whatever there is.
            let (found, _) = self.get(&key).await?;
            return Err(Error::Conflict { current: found.map(|found| found.mod_revision) });
        }
        let lease = match &change {
            Change::Put { lease, .. } => *lease,
            Change::Delete => None,
        };
        let mut compare = comparisons(&key, expect, deletes);
        compare.extend(guard.iter().flat_map(|guard| comparisons(&guard.key, Expect::Revision(guard.revision), false)));
        let asked = [Some(&*key), guard.as_ref().map(|guard| &*guard.key)];
        let transaction = TxnRequest {
            compare,
            success: vec![operation(match change {
                Change::Put { value, lease, .. } => {
                    Request::Put(PutRequest { key: key.as_bytes().to_vec(), value, lease: lease.unwrap_or(0) })
                }
                Change::Delete => Request::DeleteRange(DeleteRangeRequest { key: key.as_bytes().to_vec() }),
            })],
            failure: asked.into_iter().flatten().map(|key| operation(Request::Range(one(key)))).collect(),
        };
        let answer = self.client.transaction(transaction).await;
        let (response, revision) = answer.map_err(|error| match (&error, lease) {
            (Error::Unavailable(text), Some(lease)) if text.contains("requested lease not found") => {
                Error::NoLease(lease)
            }
            _ => error,
        })?;
        if !response.succeeded {
            let mut found = response.responses.into_iter().map(found_revision);
            let current = found.next().flatten();
            return Err(match found.next() {
                Some(guard) if expect.holds(current, deletes) => Error::Guarded { current: guard },
                _ => Error::Conflict { current },
            });
        }
        self.watches.delivered(&key, revision).await;
        Ok(revision)
    }

    /// However much is asked for, no single answer is larger than etcd sends or takes longer than a call may. All
    /// pages are of the first one's revision.
    async fn range_in_pages(&self, query: RangeQuery) -> Result<Range> {
        let wanted = if query.limit == 0 { usize::MAX } else { query.limit };
        let mut request = RangeRequest {
            key: start_key(&query.start),
            range_end: range_end(&query.end),
            limit: wanted.min(PAGE_ITEMS) as i64,
            revision: query.revision.unwrap_or(0) as i64,
            count_only: false,
        };
        let (first, newest) = self.client.range(request.clone()).await?;
        let revision = query.revision.unwrap_or(newest);
        request.revision = revision as i64;
        let count = usize::try_from(first.count).unwrap_or(0);
        let (mut items, mut taken) = (Vec::new(), 0);
        let mut page = first;
        loop {
            taken += page.kvs.len();
            let last = page.kvs.last().map(|last| last.key.clone());
            items.extend(page.kvs.into_iter().filter_map(key_value));
            let Some(mut next) = last.filter(|_| page.more && taken < wanted) else {
                return Ok(Range { items, revision, more: page.more, count });
            };
            next.push(0);
            request.key = next;
            request.limit = (wanted - taken).min(PAGE_ITEMS) as i64;
            page = self.client.range(request.clone()).await?.0;
        }
    }

    /// Whether the store can be read as of `revision`; returns the newest.
    async fn check_revision(&self, revision: Option<Revision>) -> Result<Revision> {
        let request = RangeRequest {
            // No key is empty, so this finds none.
            key: vec![0],
            count_only: true,
            revision: revision.unwrap_or(0) as i64,
            ..RangeRequest::default()
        };
        Ok(self.client.range(request).await?.1)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Unavailable("it is shutting down".to_owned()));
        }
        Ok(())
    }
}

impl Store for Etcd {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.check_revision(None).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision)>> {
        async move {
            let (response, revision) = self.client.range(one(key)).await?;
            Ok((response.kvs.into_iter().next().and_then(key_value), revision))
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range>> {
        async move {
            if !query.end.is_empty() && query.end <= query.start {
                let newest = self.check_revision(query.revision).await?;
                let revision = query.revision.unwrap_or(newest);
                return Ok(Range { items: Vec::new(), revision, more: false, count: 0 });
            }
            self.range_in_pages(query).await
        }
        .boxed()
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision>> {
        self.try_write(write).boxed()
    }

    fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> BoxFuture<'_, Result<WatchHandle>> {
        let prefix = prefix.to_owned();
        async move {
            self.check_open()?;
            let newest = self.check_revision(after).await?;
            Ok(self.watches.add(&prefix, after.unwrap_or(newest), sink))
        }
        .boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.client.compact(revision).boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId>> {
        async move {
            self.check_open()?;
            self.client.grant(ttl_seconds.max(1)).await
        }
        .boxed()
    }

    fn renew_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.client.renew(lease).boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.client.revoke(lease).boxed()
    }

    /// Of the etcd that was connected to last, at that time.
    fn size_on_disk(&self) -> Option<u64> {
        Some(self.client.size())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async move {
            self.closed.store(true, Ordering::Release);
            self.compactor.stop();
            self.watches.stop().await;
        }
        .boxed()
    }
}

fn comparisons(key: &str, expect: Expect, deletes: bool) -> Vec<Compare> {
    let compare = |result: CompareResult, revision: Revision| Compare {
        result: result.into(),
        target: CompareTarget::Mod.into(),
        key: key.as_bytes().to_vec(),
        mod_revision: Some(revision as i64),
        version: None,
    };
    // To etcd an absent key has revision 0.
    match expect {
        Expect::Anything if deletes => vec![compare(CompareResult::Greater, 0)],
        Expect::Anything => Vec::new(),
        Expect::Absent => vec![compare(CompareResult::Equal, 0)],
        Expect::Revision(revision) => {
            vec![compare(CompareResult::Equal, revision), compare(CompareResult::Greater, 0)]
        }
    }
}

fn found_revision(response: ResponseOp) -> Option<Revision> {
    let Some(Response::Range(range)) = response.response else { return None };
    range.kvs.first().map(|found| found.mod_revision as Revision)
}

fn operation(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn one(key: &str) -> RangeRequest {
    RangeRequest { key: start_key(key), ..RangeRequest::default() }
}

/// etcd has no empty key; the first one is a zero byte.
fn start_key(start: &str) -> Vec<u8> {
    if start.is_empty() { vec![0] } else { start.as_bytes().to_vec() }
}

/// To etcd a zero byte as end means: no end.
fn range_end(end: &str) -> Vec<u8> {
    if end.is_empty() { vec![0] } else { end.as_bytes().to_vec() }
}

/// `None`: the key is not text, so it is not ours.
fn key_value(found: wire::KeyValue) -> Option<KeyValue> {
    Some(KeyValue {
        key: String::from_utf8(found.key).ok()?.into(),
        value: found.value.into(),
        create_revision: found.create_revision as Revision,
        mod_revision: found.mod_revision as Revision,
        lease: Some(found.lease).filter(|lease| *lease != 0),
        note: None,
    })
}
