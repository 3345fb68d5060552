//! What the committer does on a full disk: it refuses puts, makes room for deletions, and finds out when there is room.
//!
//! A disk is full once it has refused something for want of room, until the reserve and a little more can be had.
//! The reserve is not given back before a deletion needs it: as long as it is held, nobody else can use it up. On a
//! disk where it could never be had, a refusal is forgotten when the next look is due, and puts are tried again.

use std::io;

use tokio::time::Instant;

use super::committer::{Committer, LOGS_MAX};
use super::reserve::State;
use crate::contract::Error;
use crate::memory::state::Op;

/// On a full disk the logs are shortened when so much of them is dead, and an eighth of what is alive.
const FULL_DEAD_BYTES_MIN: u64 = 64 << 10;
/// More than a snapshot has for an item besides its key and value, and for itself.
const SNAPSHOT_ITEM_BYTES: u64 = 64;
const SNAPSHOT_BYTES: u64 = 1 << 10;

pub(super) struct FullDisk {
    look_again_at: Instant,
    shrink_again_at: Instant,
}

impl Committer {
    /// A start's last step: the reserve is taken if there is room. If it was spent and there is none, the disk is
    /// still full.
    pub(super) fn begin_reserve(&mut self) {
        match self.reserve.state() {
            State::Held => {}
            _ if self.reserve.take() => {}
            // Nobody asked for one.
            State::Absent if !self.reserve.is_wanted() => {}
            State::Absent => tracing::warn!(
                "there is no room for a reserve: if the disk gets full, deletions may be refused as well; free {} MiB",
                mebibytes(self.reserve.wanted_bytes())
            ),
            State::Spent => self.set_full("the reserve is spent"),
        }
    }

    pub(super) fn rotate_with_reserve(&mut self) -> io::Result<()> {
        match self.rotate() {
            Err(error) if is_full(&error) && self.reserve.release() => {
                self.note_full(&error);
                self.rotate()
            }
            other => other,
        }
    }

    pub(super) fn note_full(&mut self, error: &io::Error) {
        self.set_full(&error.to_string());
    }

    fn set_full(&mut self, error: &str) {
        if self.full.is_some() {
            return;
        }
        let wanted = mebibytes(self.reserve.wanted_bytes());
        tracing::error!(error, "the disk is full, only deletions are accepted: delete objects, or free {wanted} MiB");
        let now = Instant::now();
        self.full = Some(FullDisk { look_again_at: now + self.look_for_room_every, shrink_again_at: now });
    }

    /// Something was freed: it is time to look.
    pub(super) fn expect_room(&mut self) {
        if let Some(full) = &mut self.full {
            full.look_again_at = Instant::now();
        }
    }

    /// Ends the full disk's time if there is room again.
    pub(super) fn look_for_room(&mut self) {
        if self.full.is_none() {
            return;
        }
        self.note_finished_snapshot();
        let Some(full) = &mut self.full else { return };
        let now = Instant::now();
        // A snapshot needs what is free.
        if self.snapshot.is_some() || now < full.look_again_at {
            return;
        }
        full.look_again_at = now + self.look_for_room_every;
        if self.reserve.take() {
            tracing::info!("there is room on the disk again, all writes are accepted");
            self.full = None;
        } else if self.reserve.state() == State::Absent {
            self.full = None;
        }
    }

    /// Begins a snapshot if it frees something and there is room for it, with the reserve.
    pub(super) fn shrink_on_full_disk(&mut self) {
        let now = Instant::now();
        let Some(full) = self.full.as_mut().filter(|full| now >= full.shrink_again_at) else { return };
        if self.snapshot.is_some() {
            return;
        }
        let (live, items) = {
            let state = self.core.state.read();
            (state.bytes, state.items.len() as u64)
        };
        let dead = self.size.total().saturating_sub(live);
        let dead_min = FULL_DEAD_BYTES_MIN.min(self.snapshot_dead_bytes_min).max(live / 8);
        if dead < dead_min && self.logs <= LOGS_MAX {
            return;
        }
        full.shrink_again_at = now + self.look_for_room_every;
        let needed = live + items * SNAPSHOT_ITEM_BYTES + SNAPSHOT_BYTES + self.reserve.headroom_bytes();
        if !self.reserve.lend(needed) {
            return;
        }
        if let Err(error) = self.begin_snapshot() {
            tracing::warn!(%error, "the log could not be shortened on a full disk, will be tried again");
        }
    }

    /// What puts get that are not even tried.
    pub(super) fn put_refusal(&self) -> Error {
        Error::NoSpace(format!(
            "the disk is full, only deletions are accepted: delete objects, or free {} MiB on the disk of the data directory",
            mebibytes(self.reserve.wanted_bytes())
        ))
    }

    /// What those get whose write met the full disk.
    pub(super) fn failure(&mut self, is_deletion: bool) -> Error {
        let wanted = mebibytes(self.reserve.wanted_bytes());
        // What a sync could not write may be there after a restart, unless a new log says that it does not count.
        if self.log.is_unsure() && self.rotate_with_reserve().is_err() {
            return Error::Unavailable(format!(
                "the disk is full, and whether this was written is not known: free {wanted} MiB on the disk of the data directory"
            ));
        }
        if !is_deletion {
            return self.put_refusal();
        }
        Error::NoSpace(format!(
            "the disk is full, and no reserve for deletions is left: free {wanted} MiB on the disk of the data directory"
        ))
    }
}

/// Whether all of these are deletions and ends of leases.
pub(super) fn frees_only(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::Delete { .. } | Op::Revoke { .. }))
}

/// Whether something failed for want of room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
