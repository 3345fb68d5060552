//! Checking writes against the state, before anything changes.
//!
//! A [`Stage`] gathers the writes of one batch. Each is checked against the state as the writes before it in the
//! batch will leave it, and gets its revision. Nothing is visible until the ops are applied; a stage that is
//! dropped never happened.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;

use super::state::{Op, State};
use crate::contract::{Change, Error, LeaseId, Result, Revision, Write};

pub(crate) struct Stage {
    pub ops: Vec<Op>,
    revision: Revision,
    next_lease: LeaseId,
    /// Keys that this batch writes, as it will leave them.
    touched: HashMap<Arc<str>, Option<Stamp>, RandomState>,
}

#[derive(Clone, Copy)]
struct Stamp {
    create_revision: Revision,
    mod_revision: Revision,
}

impl Stage {
    pub(crate) fn begin(state: &State) -> Self {
        Stage {
            ops: Vec::new(),
            revision: state.revision,
            next_lease: state.leases.next_id(),
            touched: HashMap::default(),
        }
    }

    pub(crate) fn write(&mut self, state: &State, write: Write) -> Result<Revision> {
        let Write { key, expect, change, guard } = write;
        let now = self.stamp(state, &key);
        let current = now.map(|stamp| stamp.mod_revision);
        if !expect.holds(current, matches!(change, Change::Delete)) {
            return Err(Error::Conflict { current });
        }
        if let Some(guard) = guard {
            let current = self.stamp(state, &guard.key).map(|stamp| stamp.mod_revision);
            if current != Some(guard.revision) {
                return Err(Error::Guarded { current });
            }
        }
        let revision = self.revision + 1;
        let (op, stamp) = match change {
            Change::Put { value, lease, note } => {
                if let Some(lease) = lease.filter(|lease| !self.has_lease(state, *lease)) {
                    return Err(Error::NoLease(lease));
                }
                let create_revision = now.map_or(revision, |stamp| stamp.create_revision);
                let op = Op::Put { key: key.clone(), value, create_revision, revision, lease, note };
                (op, Some(Stamp { create_revision, mod_revision: revision }))
            }
            Change::Delete => (Op::Delete { key: key.clone(), revision }, None),
        };
        self.revision = revision;
        self.ops.push(op);
        self.touched.insert(key, stamp);
        Ok(revision)
    }

    pub(crate) fn grant(&mut self, ttl_seconds: u64) -> LeaseId {
        let id = self.next_lease;
        self.next_lease += 1;
        self.ops.push(Op::Grant { id, ttl_seconds });
        id
    }

    /// Ends a lease whose keys were taken from the state, so nothing else may be staged before it.
    pub(crate) fn end_lease(&mut self, id: LeaseId, keys: Vec<Arc<str>>) {
        debug_assert!(self.ops.is_empty());
        for key in keys {
            self.revision += 1;
            self.ops.push(Op::Delete { key, revision: self.revision });
        }
        self.ops.push(Op::Revoke { id });
    }

    /// The key as the writes so far leave it.
    fn stamp(&self, state: &State, key: &Arc<str>) -> Option<Stamp> {
        match self.touched.get(key) {
            Some(stamp) => *stamp,
            None => state
                .items
                .get(key)
                .map(|item| Stamp { create_revision: item.create_revision, mod_revision: item.mod_revision }),
        }
    }

    fn has_lease(&self, state: &State, id: LeaseId) -> bool {
        (state.leases.next_id()..self.next_lease).contains(&id) || state.leases.contains(id)
    }
}
