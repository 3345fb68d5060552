//! How long a Job waits before it makes another pod after some have failed.

use std::sync::Arc;

use crate::pods::{OfJob, Pod};

/// The first delay in seconds; doubled with each failure, up to the other.
const FIRST: i64 = 10;
const MAX: i64 = 10 * 60;

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: i64,
    /// In seconds.
    last: i64,
}

impl Backoff {
    /// With pods that have ended and were not noted before.
    pub fn noting(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Backoff {
        let last_success = succeeded.iter().map(|pod| finished(pod)).max();
        let before = if last_success.is_some() { Backoff::default() } else { self };
        let counted =
            failed.iter().map(|pod| finished(pod)).filter(|time| last_success.is_none_or(|last| *time > last));
        counted.fold(before, |noted, time| Backoff {
            failures: noted.failures + 1,
            last: if noted.failures == before.failures { time } else { noted.last.max(time) },
        })
    }

    /// In how many microseconds another pod may be made; 0: now.
    pub fn remaining(self, now_micros: i64) -> i64 {
        remaining(self.failures, self.last, now_micros)
    }
}

/// The same for an index of which this was the last pod.
pub fn remaining_of_index(last: Option<&Arc<Pod>>, now_micros: i64) -> i64 {
    let Some(OfJob { failures, ignored_failures, finished, .. }) = last.and_then(|pod| pod.job.as_deref()) else {
        return 0;
    };
    remaining(failures + ignored_failures + 1, *finished, now_micros)
}

pub fn finished(pod: &Pod) -> i64 {
    pod.job.as_ref().map_or(0, |of| of.finished)
}

fn remaining(failures: i64, last: i64, now_micros: i64) -> i64 {
    if failures == 0 {
        return 0;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX).min(MAX.ilog2());
    let delay = (FIRST << doublings).min(MAX);
    ((last + delay) * 1_000_000 - now_micros).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(finished: &[i64]) -> Vec<Arc<Pod>> {
        let pod = |finished: &i64| {
            let of = OfJob { finished: *finished, ..OfJob::default() };
            Arc::new(Pod { job: Some(Box::new(of)), ..Pod::default() })
        };
        finished.iter().map(pod).collect()
    }

    #[test]
    fn failures_since_the_last_success_double_the_delay() {
        let before = Backoff { failures: 1, last: 50 };
        // What succeeded, what failed, how often that is, and until when to wait.
        let table: [(&[i64], &[i64], i64, i64); 6] = [
            (&[], &[], 1, 60),
            (&[], &[100], 2, 120),
            (&[], &[100, 90], 3, 140),
            (&[100], &[], 0, 0),
            (&[95, 100], &[90, 100, 101], 1, 111),
            (&[], &[100; 20], 21, 700),
        ];
        for (succeeded, failed, failures, until) in table {
            let noted = before.noting(&pods(succeeded), &pods(failed));
            assert_eq!(noted.failures, failures, "{succeeded:?} {failed:?}");
            assert_eq!(noted.remaining(0), until * 1_000_000, "{succeeded:?} {failed:?}");
            assert_eq!(noted.remaining(until * 1_000_000), 0);
        }
    }
}
