//! Waiting for what comes true some time later.

use std::thread::sleep;
use std::time::Duration;

use crate::TIMEOUT;

const STEP: Duration = Duration::from_millis(20);

/// Asks again and again until the answer is there; panics with the last problem when time is up.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let mut waited = Duration::ZERO;
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(problem) if waited >= TIMEOUT => panic!("{what}: {problem}"),
            Err(_) => sleep(STEP),
        }
        waited += STEP;
    }
}

/// Asks until the answer is there, or `timeout` has passed.
pub(crate) fn poll<T>(timeout: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(found) = attempt() {
            return Some(found);
        }
        if waited >= timeout {
            return None;
        }
        let step = if waited < STEP { Duration::from_millis(1) } else { STEP };
        sleep(step);
        waited += step;
    }
}
