//! Conditions in a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use rkube_machinery::host::Clock;

/// A condition as it is to be; times are found out when it is set.
pub fn condition(kind: &str, holds: bool, reason: &str, message: &str, generation: Option<i64>) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Sets a condition among others. Its transition time moves only if its status does. Whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, clock: &dyn Clock) -> bool {
    let known = conditions.iter_mut().find(|known| known.type_ == condition.type_);
    condition.last_transition_time = match &known {
        Some(known) if known.status == condition.status => known.last_transition_time.clone(),
        // Kubernetes' times have whole seconds.
        _ => Time(Timestamp::from_second(clock.now_seconds()).unwrap_or(Timestamp::UNIX_EPOCH)),
    };
    match known {
        Some(known) if *known == condition => return false,
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    true
}

/// Whether a condition is there, and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(i64);

    impl Clock for At {
        fn now_micros(&self) -> i64 {
            self.0 * 1_000_000
        }
    }

    #[test]
    fn a_transition_time_moves_with_the_status() {
        let mut all = Vec::new();
        let seconds = |all: &[Condition]| all[0].last_transition_time.0.as_second();
        assert!(set_condition(&mut all, condition("Ready", false, "Waiting", "", Some(1)), &At(1)));
        assert!(!set_condition(&mut all, condition("Ready", false, "Waiting", "", Some(1)), &At(2)));
        assert!(set_condition(&mut all, condition("Ready", false, "Failed", "why", Some(2)), &At(3)));
        assert_eq!((seconds(&all), is_true(&all, "Ready")), (1, false));
        assert!(set_condition(&mut all, condition("Ready", true, "Done", "", Some(2)), &At(4)));
        assert_eq!((seconds(&all), is_true(&all, "Ready"), all.len()), (4, true, 1));
    }
}
