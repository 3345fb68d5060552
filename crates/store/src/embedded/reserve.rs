//! The file `reserve`: blocks that are kept for the time when the disk has no others.
//!
//! It is made where there is room for it and for some more, so that it is not given back at once. When a deletion meets a full disk, its blocks are given back; the empty file that stays says so to the next start. It is
//! taken again as soon as there is room. What it contains means nothing, so nothing is lost when a crash gives an
//! older form of it back.

use std::io;
use std::sync::Arc;

use super::disk::Disk;

pub(crate) const RESERVE: &str = "reserve";
/// Its name until it is known to have room, as of everything temporary.
const PROBE: &str = "reserve.tmp";
/// What must be free besides the reserve before it is taken is this part of it.
const HEADROOM_PART: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There never was one: the disk may be too small.
    Absent,
    /// Its blocks are allocated.
    Held,
    /// Its blocks were given back to a full disk.
    Spent,
}

pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    bytes: u64,
    headroom_bytes: u64,
    state: State,
}

impl Reserve {
    /// What a start finds. `bytes` is how large it is to be.
    pub(crate) fn find(disk: Arc<dyn Disk>, bytes: u64) -> Reserve {
        let found = disk.list().unwrap_or_default().into_iter().find(|(name, _)| name == RESERVE);
        let state = match found {
            None => State::Absent,
            // A copy of a directory may have a hole where there should be blocks.
            Some((_, length)) if length >= bytes && disk.allocate(RESERVE, bytes).is_ok() => State::Held,
            Some(_) => {
                // What is left of it serves nobody. If this fails, it is only smaller than it could be.
                let _ = disk.allocate(RESERVE, 0);
                State::Spent
            }
        };
        Reserve { disk, bytes, headroom_bytes: bytes / HEADROOM_PART, state }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// How much must be free before it is taken again.
    pub(crate) fn is_wanted(&self) -> bool {
        self.bytes > 0
    }

    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.bytes + self.headroom_bytes
    }

    pub(crate) fn headroom_bytes(&self) -> u64 {
        self.headroom_bytes
    }

    /// Takes it if there is room. Whether it is held now.
    pub(crate) fn take(&mut self) -> bool {
        let taken =
            self.bytes > 0 && self.grow(self.wanted_bytes()).is_ok() && self.disk.allocate(RESERVE, self.bytes).is_ok();
        if taken {
            self.state = State::Held;
        }
        taken
    }

    /// Gives its blocks back. Whether there were any.
    pub(crate) fn release(&mut self) -> bool {
        if self.state != State::Held {
            return false;
        }
        if let Err(error) = self.disk.allocate(RESERVE, 0) {
            tracing::warn!(%error, "the reserve could not be given back");
            return false;
        }
        self.state = State::Spent;
        true
    }

    /// Whether there is room for something of so many bytes, with the reserve; if so, the reserve is given back.
    pub(crate) fn lend(&mut self, bytes: u64) -> bool {
        match self.state {
            State::Absent => {
                let fits = self.disk.allocate(PROBE, bytes).is_ok();
                self.disk.remove(PROBE).is_ok() && fits
            }
            State::Held if bytes <= self.bytes => self.release(),
            State::Held | State::Spent => {
                if self.disk.allocate(RESERVE, bytes).is_err() {
                    return false;
                }
                self.state = State::Held;
                self.release()
            }
        }
    }

    /// Makes the file so large. After an error it is as it was.
    fn grow(&self, bytes: u64) -> io::Result<()> {
        if self.state != State::Absent {
            return self.disk.allocate(RESERVE, bytes);
        }
        // An empty file would mean that it is spent, so it gets its name when it is not.
        let made = self.disk.allocate(PROBE, bytes).and_then(|()| self.disk.rename(PROBE, RESERVE));
        if made.is_err() {
            // If this fails as well, the next start removes it.
            let _ = self.disk.remove(PROBE);
        }
        made
    }
}
