//! Who is connected, since when they do nothing, and who goes first when there is no room.
//!
//! A client is known once a certificate or a token has proved who it is. At the bound the newcomer takes the place of,
//! in this order: an unknown client without an open request, an unknown one with one, a known one without; among equals
//! of the one that has been so for longest. Known clients with open requests stay: then the newcomer goes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// No more clients are connected at once, however many the system allows.
pub const CONNECTIONS_MAX: usize = 10_000;

/// From the handshake to the first whole head of a request; upstream's time for a head.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// From the end of a request to the whole head of the next; as upstream.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Nobody that is unknown may ask for anything that takes so long, so they do not read their answer.
const UNKNOWN_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client may let bytes wait for it without taking one.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How often to look at a connection that is in use.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// How long an evicted connection may take to let its descriptor go before the next client is let in.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// All clients that are connected.
pub(super) struct Peers {
    max: usize,
    began: Instant,
    seated: Mutex<Seated>,
    left: Notify,
}

#[derive(Default)]
struct Seated {
    peers: HashMap<u64, Arc<Peer>>,
    next: u64,
}

impl Peers {
    pub(super) fn new(max: usize) -> Arc<Peers> {
        Arc::new(Peers { max: max.max(1), began: Instant::now(), seated: Mutex::default(), left: Notify::new() })
    }

    /// A place for a newcomer; `None` where everybody else has more right to theirs.
    pub(super) async fn seat(self: &Arc<Peers>) -> Option<Seat> {
        let mut left = pin!(self.left.notified());
        left.as_mut().enable();
        if self.seated.lock().peers.len() >= self.max {
            if !self.evict_one() {
                return None;
            }
            // Not forever: whom to wait for is not known to be able to run.
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, left).await;
        }
        let peer = Arc::new(Peer::new(self.began));
        let mut seated = self.seated.lock();
        let id = seated.next;
        seated.next += 1;
        seated.peers.insert(id, peer.clone());
        Some(Seat { peers: self.clone(), id, peer })
    }

    /// Makes the connection end that matters least; false: all of them matter.
    pub(super) fn evict_one(&self) -> bool {
        let seated = self.seated.lock();
        let goes = seated.peers.values().filter(|peer| peer.may_go()).min_by_key(|peer| peer.rank());
        let Some(peer) = goes else { return false };
        peer.going.store(true, Ordering::Relaxed);
        peer.evict.notify_one();
        true
    }

    pub(super) async fn all_left(&self) {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if self.seated.lock().peers.is_empty() {
                return;
            }
            left.await;
        }
    }
}

/// A client's place among the connected, until it is dropped.
pub(super) struct Seat {
    peers: Arc<Peers>,
    id: u64,
    peer: Arc<Peer>,
}

impl Seat {
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.peers.seated.lock().peers.remove(&self.id);
        self.peers.left.notify_waiters();
    }
}

/// Why a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// Another needs the place.
    Evicted,
    /// Did not ask for anything in time.
    Silent,
    /// Did not ask for anything more.
    Idle,
    /// Takes too long over an answer.
    Stalled,
}

impl Late {
    /// Whether the client is not even told.
    pub(super) fn is_abrupt(self) -> bool {
        self != Late::Idle
    }
}

/// One client. Times are milliseconds since the server began; written with every request, so without a lock.
#[derive(Debug)]
pub(super) struct Peer {
    began: Instant,
    known: AtomicBool,
    has_asked: AtomicBool,
    going: AtomicBool,
    open_requests: AtomicU32,
    /// When the last request ended, or the first of those that are open began.
    since: AtomicU64,
    /// Since when bytes wait for the client to take them; 0: none do.
    stalled_since: AtomicU64,
    evict: Notify,
}

impl Peer {
    fn new(began: Instant) -> Peer {
        Peer {
            began,
            known: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            going: AtomicBool::new(false),
            open_requests: AtomicU32::new(0),
            since: AtomicU64::new(now(began)),
            stalled_since: AtomicU64::new(0),
            evict: Notify::new(),
        }
    }

    pub(super) fn authenticated(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    /// A request is open until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> OpenRequest {
        self.has_asked.store(true, Ordering::Relaxed);
        if self.open_requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.since.store(now(self.began), Ordering::Relaxed);
        }
        OpenRequest { peer: self.clone() }
    }

    /// Bytes wait for the client to take some.
    pub(super) fn stalls(&self) {
        if self.stalled_since.load(Ordering::Relaxed) == 0 {
            self.stalled_since.store(now(self.began).max(1), Ordering::Relaxed);
        }
    }

    /// The client took bytes.
    pub(super) fn flows(&self) {
        if self.stalled_since.load(Ordering::Relaxed) != 0 {
            self.stalled_since.store(0, Ordering::Relaxed);
        }
    }

    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// Returns once the connection must end.
    pub(super) async fn late(&self) -> Late {
        loop {
            let (late, at) = self.deadline();
            if late != Late::Evicted && at <= now(self.began) {
                return late;
            }
            let at = self.began + Duration::from_millis(at);
            if tokio::time::timeout_at(at, self.evicted()).await.is_ok() {
                return Late::Evicted;
            }
        }
    }

    /// What is the next deadline, and when; for one that is in use, when to look again.
    fn deadline(&self) -> (Late, u64) {
        let after = |since: u64, timeout: Duration| since + timeout.as_millis() as u64;
        let since = self.since.load(Ordering::Relaxed);
        let stalled_since = self.stalled_since.load(Ordering::Relaxed);
        if stalled_since != 0 {
            return (Late::Stalled, after(stalled_since, STALL_TIMEOUT));
        }
        if self.open_requests.load(Ordering::Relaxed) == 0 {
            return match self.has_asked.load(Ordering::Relaxed) {
                true => (Late::Idle, after(since, IDLE_TIMEOUT)),
                false => (Late::Silent, after(since, FIRST_REQUEST_TIMEOUT)),
            };
        }
        match self.known.load(Ordering::Relaxed) {
            true => (Late::Evicted, after(now(self.began), LOOK_INTERVAL)),
            false => (Late::Stalled, after(since, UNKNOWN_REQUEST_TIMEOUT)),
        }
    }

    fn may_go(&self) -> bool {
        let (known, is_open, _) = self.rank();
        let stays = known && is_open;
        !stays && !self.going.load(Ordering::Relaxed)
    }

    /// Who has the smallest goes first.
    fn rank(&self) -> (bool, bool, u64) {
        let is_open = self.open_requests.load(Ordering::Relaxed) > 0;
        (self.known.load(Ordering::Relaxed), is_open, self.since.load(Ordering::Relaxed))
    }
}

/// That a request is open.
pub(super) struct OpenRequest {
    peer: Arc<Peer>,
}

impl OpenRequest {
    /// As long as this is there, too, a request is open.
    pub(super) fn another(&self) -> OpenRequest {
        self.peer.begin()
    }

    /// The client, if it has not proved yet who it is.
    pub(super) fn unknown_peer(&self) -> Option<Arc<Peer>> {
        (!self.peer.known.load(Ordering::Relaxed)).then(|| self.peer.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        // Before the count, so that nobody sees an idle connection with an old time.
        self.peer.since.store(now(self.peer.began), Ordering::Relaxed);
        self.peer.open_requests.fetch_sub(1, Ordering::Release);
    }
}

fn now(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    async fn is_late(peer: &Peer) -> Option<Late> {
        tokio::time::timeout(Duration::ZERO, peer.late()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn every_phase_has_its_deadline() {
        let peers = Peers::new(10);
        let seat = peers.seat().await.unwrap();
        let peer = seat.peer();
        pass(31).await;
        assert_eq!(is_late(peer).await, None);
        pass(1).await;
        assert_eq!(is_late(peer).await, Some(Late::Silent));
        let open = peer.begin();
        pass(119).await;
        assert_eq!(is_late(peer).await, None);
        pass(1).await;
        assert_eq!(is_late(peer).await, Some(Late::Stalled), "an unknown client has nothing to wait for");
        peer.authenticated();
        pass(10_000).await;
        assert_eq!(is_late(peer).await, None, "a watch lasts");
        peer.stalls();
        pass(60).await;
        peer.stalls();
        pass(59).await;
        assert_eq!(is_late(peer).await, None);
        pass(1).await;
        assert_eq!(is_late(peer).await, Some(Late::Stalled));
        peer.flows();
        assert_eq!(is_late(peer).await, None);
        drop(open);
        pass(89).await;
        assert_eq!(is_late(peer).await, None);
        pass(1).await;
        assert_eq!(is_late(peer).await, Some(Late::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn who_matters_least_goes_first() {
        let peers = Peers::new(5);
        let mut seats = Vec::new();
        for _ in 0..5 {
            seats.push(peers.seat().await.unwrap());
            pass(1).await;
        }
        let watching = seats[0].peer().begin();
        seats[0].peer().authenticated();
        seats[1].peer().authenticated();
        let reading = seats[2].peer().begin();
        let mut gone = Vec::new();
        while peers.evict_one() {
            for (index, seat) in seats.iter().enumerate() {
                if seat.peer().going.load(Ordering::Relaxed) && !gone.contains(&index) {
                    gone.push(index);
                }
            }
        }
        assert_eq!(gone, [3, 4, 2, 1], "unknown and idle, unknown, known and idle; one that watches stays");
        assert!(peers.seat().await.is_none(), "the newcomer goes when all others stay");
        assert_eq!(seats[3].peer().late().await, Late::Evicted);
        drop((watching, reading, seats.remove(3)));
        assert!(peers.seat().await.is_some());
        drop(seats);
        peers.all_left().await;
    }
}
