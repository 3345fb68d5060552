//! How long a pod may run by its own wish (`activeDeadlineSeconds`).

use rkube_machinery::Value;

use super::spec;
use super::state::{PodState, Verdict, micros_of};

pub const REASON: &str = "DeadlineExceeded";
pub const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// When the pod's time is over. One that has not begun begins now.
pub fn of_pod(pod: &Value, now_micros: i64) -> Option<i64> {
    let seconds = pod.get("spec").get("activeDeadlineSeconds").as_int()?;
    let started = match pod.get("status").str("startTime") {
        "" => now_micros,
        text => micros_of(text),
    };
    Some(started.saturating_add(seconds.saturating_mul(1_000_000)))
}

/// The time is over: the pod has failed, unless it goes anyway. Whether that is news.
pub fn pass(state: &mut PodState, pod: &Value) -> bool {
    if state.verdict.is_some() || spec::is_deleted(pod) {
        return false;
    }
    state.verdict = Some(Verdict { reason: REASON.into(), message: MESSAGE.to_owned(), rejected: false });
    true
}
