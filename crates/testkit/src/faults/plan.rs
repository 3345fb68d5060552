//! What goes wrong, and how often.

use std::time::Duration;

/// A plan of faults. `Faults { crashes: Some(HOUR), ..Faults::none() }` says what of them there is.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Of a thousand updates and patches so many are refused with 409, as if another had been faster.
    pub conflicts: u32,
    /// Of a thousand requests so many are refused with 429 and a `Retry-After`.
    pub overloads: u32,
    /// Of a thousand requests so many are refused with 500, 503 or 504, and are not carried out.
    pub errors: u32,
    /// Of a thousand writes so many are carried out, and the one who asked is told that the connection is lost.
    pub lost_acknowledgements: u32,
    /// Of a thousand requests so many are on their way for up to [`Faults::request_delay_max`].
    pub slow_requests: u32,
    pub request_delay_max: Duration,
    /// Of a thousand changes that a watch tells so many are not told, nor those of the next while: then all is listed.
    pub dropped_watches: u32,
    /// Before so many of a thousand changes a watch is silent for up to [`Faults::watch_delay_max`].
    pub delayed_watches: u32,
    pub watch_delay_max: Duration,
    /// About how often a part of the control plane ends at once, and is started again.
    pub crashes: Option<Duration>,
    /// About how often a part stands still for up to [`Faults::pause_max`], and then goes on as if nothing had happened.
    pub pauses: Option<Duration>,
    pub pause_max: Duration,
    /// About how often a node is lost, flaps, is not ready, or is deleted; for up to [`Faults::node_fault_max`].
    pub nodes: Option<Duration>,
    pub node_fault_max: Duration,
    /// About how often the time of day jumps, by minutes or a year, there or back. Timers go on as ever.
    pub clock_jumps: Option<Duration>,
    /// Whether it is kept line by line what happens: see [`crate::Chaos::lines`].
    pub lines: bool,
    /// A safeguard that is taken out, to show that a run finds it.
    #[doc(hidden)]
    pub without: Option<Safeguard>,
}

/// What keeps controllers right when things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safeguard {
    /// A reconcile never sees caches that are older than what an earlier one wrote.
    ReadYourWrites,
    /// Who does not hold the lease sends nothing.
    Fencing,
    /// What runs into a conflict is tried again. Without: it is taken for done.
    ConflictRetry,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Faults {
    /// Nothing goes wrong. It is still recorded what happens.
    pub fn none() -> Faults {
        Faults {
            conflicts: 0,
            overloads: 0,
            errors: 0,
            lost_acknowledgements: 0,
            slow_requests: 0,
            request_delay_max: Duration::from_secs(3),
            dropped_watches: 0,
            delayed_watches: 0,
            watch_delay_max: Duration::from_secs(10),
            crashes: None,
            pauses: None,
            pause_max: MINUTE,
            nodes: None,
            node_fault_max: 20 * MINUTE,
            clock_jumps: None,
            lines: false,
            without: None,
        }
    }

    /// Everything goes wrong at times.
    pub fn all() -> Faults {
        Faults {
            conflicts: 20,
            overloads: 5,
            errors: 10,
            lost_acknowledgements: 10,
            slow_requests: 20,
            dropped_watches: 5,
            delayed_watches: 20,
            crashes: Some(60 * MINUTE),
            pauses: Some(60 * MINUTE),
            nodes: Some(45 * MINUTE),
            clock_jumps: Some(180 * MINUTE),
            ..Faults::none()
        }
    }
}
