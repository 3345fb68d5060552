//! Which taints a pod stands that evict others, and for how long.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rkube_machinery::Text;

use super::raw::RawToleration;
use crate::metadata::Interner;
use crate::nodes::Taint;

pub const NO_EXECUTE: &str = "NoExecute";

/// Nearly all pods have the same.
static TOLERATIONS: LazyLock<Interner<Tolerations>> = LazyLock::new(Interner::default);

/// Those that say something of taints with `NoExecute`, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tolerations(Box<[Toleration]>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Toleration {
    /// Empty for any.
    key: Text,
    /// None for any.
    value: Option<Text>,
    /// None for ever.
    seconds: Option<i64>,
}

/// How long a pod stands the taints of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Forever,
    For(Duration),
    /// One of them not at all.
    Not,
}

pub fn read(raw: &[RawToleration<'_>]) -> Arc<Tolerations> {
    let text = |text: &Option<Cow<'_, str>>| Text::new(text.as_deref().unwrap_or_default());
    let read = |one: &RawToleration<'_>| {
        if !matches!(one.effect.as_deref().unwrap_or_default(), "" | NO_EXECUTE) {
            return None;
        }
        let value = match one.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => Some(text(&one.value)),
            "Exists" => None,
            _ => return None,
        };
        Some(Toleration { key: text(&one.key), value, seconds: one.toleration_seconds })
    };
    TOLERATIONS.share(Tolerations(raw.iter().filter_map(read).collect()))
}

impl Tolerations {
    /// Of several that tolerate a taint the first counts; of several taints the one that is tolerated the shortest.
    pub fn stay<'a>(&self, taints: impl Iterator<Item = &'a Taint>) -> Stay {
        let mut shortest: Option<i64> = None;
        for taint in taints {
            let Some(used) = self.0.iter().find(|toleration| toleration.tolerates(taint)) else { return Stay::Not };
            shortest = shortest.into_iter().chain(used.seconds).min();
        }
        match shortest {
            None => Stay::Forever,
            Some(seconds) => Stay::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
        }
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        (self.key.is_empty() || self.key == taint.key) && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `key=value:seconds`, `key` for any value.
    fn tolerations(text: &'static str) -> Arc<Tolerations> {
        let one = |one: &'static str| {
            let (taint, seconds) = one.split_once(':').map_or((one, None), |(taint, seconds)| (taint, Some(seconds)));
            let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
            RawToleration {
                key: Some(key.into()),
                operator: Some(if value.is_some() { "Equal" } else { "Exists" }.into()),
                value: value.map(Into::into),
                effect: Some(NO_EXECUTE.into()),
                toleration_seconds: seconds.map(|seconds| seconds.parse().unwrap()),
            }
        };
        read(&text.split_whitespace().map(one).collect::<Vec<_>>())
    }

    fn taints(text: &str) -> Vec<Taint> {
        let one = |one: &str| {
            let (key, value) = one.split_once('=').unwrap_or((one, ""));
            Taint { key: key.into(), value: value.into(), effect: NO_EXECUTE.into() }
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn a_pod_stays_for_as_long_as_it_tolerates_all_taints() {
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        let table = [
            ("", "", Stay::Forever),
            ("", "a", Stay::Not),
            ("a", "a", Stay::Forever),
            ("a:300", "a", seconds(300)),
            ("a:-5", "a", seconds(0)),
            ("a:300 b:20", "a b", seconds(20)),
            ("a:300 b", "a b", seconds(300)),
            ("a:300", "a b", Stay::Not),
            ("a=x:5 a:9", "a=y", seconds(9)),
            ("a a:5", "a", Stay::Forever),
            (":7", "a b=c", seconds(7)),
        ];
        for (tolerated, tainted, expected) in table {
            let stay = tolerations(tolerated).stay(taints(tainted).iter());
            assert_eq!(stay, expected, "{tolerated} / {tainted}");
        }
    }

    #[test]
    fn tolerations_of_other_effects_say_nothing() {
        let of = |effect: &'static str, operator: &'static str| {
            read(&[RawToleration {
                effect: Some(effect.into()),
                operator: Some(operator.into()),
                ..RawToleration::default()
            }])
        };
        for (effect, operator, expected) in [
            ("NoSchedule", "Exists", Stay::Not),
            ("", "Exists", Stay::Forever),
            ("NoExecute", "Exists", Stay::Forever),
            ("NoExecute", "", Stay::Forever),
            ("NoExecute", "Gt", Stay::Not),
        ] {
            assert_eq!(of(effect, operator).stay(taints("a").iter()), expected, "{effect} {operator}");
        }
    }
}
