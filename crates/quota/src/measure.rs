//! What one object takes.

use std::hash::{Hash, Hasher};

use rkube_machinery::Text;

use crate::amounts::Amounts;
use crate::{Scopes, amounts};

/// Pods that are there, whatever became of them. The other resources are of those that have not ended.
pub const COUNT_PODS: &str = "count/pods";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    pub scopes: Scopes,
    pub usage: Amounts,
    /// From when on, in seconds, a pod is only counted as an object: nobody waits for nodes that are lost.
    pub expires: Option<i64>,
}

/// What a container says of cpu and memory: a quota of these wants it said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: Text,
    pub requests_cpu: bool,
    pub requests_memory: bool,
    pub limits_cpu: bool,
    pub limits_memory: bool,
}

impl Measure {
    /// What it takes now.
    pub fn usage_at(self, now_micros: i64) -> Amounts {
        if self.is_expired(now_micros) { Measure::leftover() } else { self.usage }
    }

    pub fn is_expired(&self, now_micros: i64) -> bool {
        self.expires.is_some_and(|at| now_micros > at.saturating_mul(1_000_000))
    }

    /// What a pod takes that has expired.
    pub fn leftover() -> Amounts {
        Amounts::from([(Text::new_static(COUNT_PODS), amounts::count(1))])
    }
}

/// Amounts are equal or not, however they are written: names are enough.
impl Hash for Measure {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.scopes.hash(hasher);
        self.expires.hash(hasher);
        self.usage.keys().for_each(|name| name.hash(hasher));
    }
}
