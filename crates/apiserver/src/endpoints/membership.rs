//! Which servers are on the store: a key each, that lasts as long as its server renews it.

use std::net::SocketAddr;
use std::sync::Arc;

use rkube_store::{Change, Error, Expect, LeaseId, RangeQuery, Store, Write};

use super::plan::Member;

/// A server that has not renewed its key for so long is gone.
const TTL_SECONDS: u64 = 15;
const PREFIX: &str = "/registry/masterleases/";

pub struct Membership {
    store: Arc<dyn Store>,
    own: Member,
    lease: Option<LeaseId>,
}

impl Membership {
    pub fn new(store: Arc<dyn Store>, own: Member) -> Membership {
        Membership { store, own, lease: None }
    }

    /// Says that this server is there, for [`TTL_SECONDS`] from now.
    pub async fn renew(&mut self) -> Result<(), Error> {
        if let Some(lease) = self.lease {
            let (found, _) = self.store.get(&key(self.own)).await?;
            if found.is_some_and(|found| found.lease == Some(lease)) && self.store.renew_lease(lease).await.is_ok() {
                return Ok(());
            }
        }
        let lease = self.store.grant_lease(TTL_SECONDS).await?;
        self.lease = Some(lease);
        let value = SocketAddr::new(self.own.address, self.own.port).to_string().into();
        let change = Change::Put { value, lease: Some(lease), note: None };
        self.store
            .write(Write { key: key(self.own).into(), expect: Expect::Anything, change, guard: None })
            .await
            .map(drop)
    }

    /// Everybody who is there, in order.
    pub async fn all(&self) -> Result<Vec<Member>, Error> {
        let found = self.store.range(RangeQuery::prefix(PREFIX)).await?;
        let mut all: Vec<Member> = found.items.iter().filter_map(|item| member(&item.value)).collect();
        all.sort();
        all.dedup();
        Ok(all)
    }

    pub fn is_among(&self, members: &[Member]) -> bool {
        members.contains(&self.own)
    }

    /// Takes this server's key away.
    pub async fn end(&mut self) -> Result<(), Error> {
        match self.lease.take() {
            Some(lease) => self.store.revoke_lease(lease).await,
            None => Ok(()),
        }
    }

    /// Takes away the keys of all others: of servers that ended without taking theirs along.
    pub async fn forget_others(&self) -> Result<(), Error> {
        for item in self.store.range(RangeQuery::prefix(PREFIX)).await?.items {
            if *item.key != key(self.own) {
                let gone = Write { key: item.key, expect: Expect::Anything, change: Change::Delete, guard: None };
                self.store.write(gone).await?;
            }
        }
        Ok(())
    }
}

/// By address and port: two servers may be on one host.
fn key(member: Member) -> String {
    format!("{PREFIX}{}", SocketAddr::new(member.address, member.port))
}

/// What cannot be read is nobody's.
fn member(value: &[u8]) -> Option<Member> {
    let address: SocketAddr = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(Member { port: address.port(), address: address.ip() })
}
