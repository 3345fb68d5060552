//! Which revisions are too old for lists: those that were superseded more than five minutes ago, as if they had been
//! compacted. Clients rely on it that a list's continue token expires, so it does even where everything is still known.
//!
//! Every few seconds the revision is noted with the time. What was current at a mark that is old enough is the oldest
//! that can still be read.

use std::collections::VecDeque;
use std::time::Duration;

use rkube_store::Revision;

/// As often as kube-apiserver compacts etcd.
pub const RETENTION_SECONDS: i64 = 300;
/// Expiry is as exact as this.
pub const MARK_INTERVAL: Duration = Duration::from_secs(10);
/// The marks of a retention twice over. There are more when the clock was set back: then the oldest counts as expired.
const MARKS_MAX: usize = 60;

#[derive(Default)]
pub struct Marks {
    /// Time in seconds and the revision then, oldest first.
    marks: VecDeque<(i64, Revision)>,
}

impl Marks {
    /// Notes the revision now; returns the one that became the oldest to be read, if that changed.
    pub fn note(&mut self, now: i64, revision: Revision) -> Option<Revision> {
        self.marks.push_back((now, revision));
        let mut oldest = None;
        while let Some((time, revision)) = self.marks.front().copied() {
            if now.saturating_sub(time) < RETENTION_SECONDS && self.marks.len() <= MARKS_MAX {
                break;
            }
            self.marks.pop_front();
            oldest = Some(revision);
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_superseded_five_minutes_ago_is_too_old() {
        let mut marks = Marks::default();
        let oldest: Vec<_> = (0..33).map(|tick| marks.note(1_000 + 10 * tick, 100 + tick as u64)).collect();
        assert!(oldest[..30].iter().all(Option::is_none));
        assert_eq!(oldest[30..], [Some(100), Some(101), Some(102)]);
        // A machine that slept for a day.
        assert_eq!(marks.note(100_000, 200), Some(132));
    }

    #[test]
    fn marks_are_few_even_when_the_clock_is_set_back() {
        let mut marks = Marks::default();
        marks.note(1_000_000, 5);
        for tick in 0..1_000 {
            marks.note(tick, 6);
            assert!(marks.marks.len() <= MARKS_MAX);
        }
    }
}
