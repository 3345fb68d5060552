//! Removes the links of pods that are gone, on a thread of its own.
//!
//! The kernel takes some twenty milliseconds to remove a link, most of them waiting, and no longer for a hundred of them. So
//! who detaches a sandbox takes its routes away, puts its link among those that are dead, and goes on.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::netlink::{self, Batch, Socket, route};

/// Of links that wait to be removed. Any number that nobody else would take: the letters `rkub`.
pub const DEAD: u32 = 0x726b_7562;

/// The thread ends with it.
pub struct Reaper {
    wake: Option<SyncSender<()>>,
}

impl Reaper {
    /// In the network namespace of the calling thread.
    pub fn start() -> Reaper {
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new().name("pod-network-reaper".to_owned()).spawn(move || run(&woken));
        Reaper { wake: thread.is_ok().then_some(wake) }
    }

    /// False where nobody will do it.
    pub fn wake(&self) -> bool {
        // One that is full has been told, and looks after that.
        self.wake.as_ref().is_some_and(|wake| !matches!(wake.try_send(()), Err(TrySendError::Disconnected(()))))
    }
}

fn run(woken: &Receiver<()>) {
    let Ok(mut socket) = Socket::route() else { return };
    while woken.recv().is_ok() {
        if let Err(error) = bury(&mut socket) {
            tracing::warn!(%error, "the links of pods that are gone stay for now");
        }
    }
}

/// Removes the links that are dead.
pub fn bury(socket: &mut Socket) -> netlink::Result<()> {
    let mut batch = Batch::new();
    route::delete_group(&mut batch, DEAD);
    match socket.send(batch, "cannot remove links") {
        Err(error) if !error.is_absent() => Err(error),
        _ => Ok(()),
    }
}
