//! What becomes of a pod on a tainted node, as a pure function.

use tokio::time::Instant;

use crate::nodes::Taint;
use crate::pods::tolerations::{NO_EXECUTE, Stay, Tolerations};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It stays; what was planned for it is not to happen.
    Stay,
    /// It stays until then.
    Until(Instant),
    Evict,
}

/// What to do with a pod that stands these taints. `planned` is when it is to go already: once that is known, other taints
/// and tolerations do not change it, as long as there are some by which it goes at all.
pub fn step(tolerations: &Tolerations, taints: &[Taint], planned: Option<Instant>, now: Instant) -> Step {
    let mut evicting = taints.iter().filter(|taint| taint.effect == NO_EXECUTE).peekable();
    if evicting.peek().is_none() {
        return Step::Stay;
    }
    let until = match tolerations.stay(evicting) {
        Stay::Forever => return Step::Stay,
        Stay::Not => return Step::Evict,
        Stay::For(time) => planned.or_else(|| now.checked_add(time)),
    };
    match until {
        Some(until) if until <= now => Step::Evict,
        Some(until) => Step::Until(until),
        // So late that it cannot be said.
        None => Step::Stay,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pods::Pod;

    fn tolerations(json: serde_json::Value) -> Pod {
        let json = serde_json::json!({ "metadata": {}, "spec": { "tolerations": json } }).to_string().into();
        let item = rkube_operator::Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 1, json };
        Pod::read(&item).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_goes_when_it_tolerates_no_longer() {
        let pod = tolerations(serde_json::json!([
            { "key": "short", "operator": "Exists", "tolerationSeconds": 10 },
            { "key": "huge", "operator": "Exists", "tolerationSeconds": i64::MAX },
            { "key": "ever", "operator": "Exists" },
        ]));
        let taint = |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
        let evicting = |key: &str| taint(key, NO_EXECUTE);
        let now = Instant::now();
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let table = [
            (vec![], None, Step::Stay),
            (vec![], Some(after(5)), Step::Stay),
            (vec![taint("x", "NoSchedule")], Some(after(5)), Step::Stay),
            (vec![evicting("x")], None, Step::Evict),
            (vec![evicting("ever")], Some(after(5)), Step::Stay),
            (vec![evicting("short")], None, Step::Until(after(10))),
            (vec![evicting("short")], Some(after(5)), Step::Until(after(5))),
            (vec![evicting("short"), evicting("ever")], Some(now), Step::Evict),
            (vec![evicting("short"), evicting("x")], Some(after(5)), Step::Evict),
        ];
        for (taints, planned, expected) in table {
            assert_eq!(step(&pod.tolerations, &taints, planned, now), expected, "{taints:?} {planned:?}");
        }
        let late = step(&pod.tolerations, &[evicting("huge")], None, now);
        assert!(matches!(late, Step::Stay | Step::Until(_)), "{late:?}");
    }
}
