//! What a quota says.

use rkube_machinery::Value;

use crate::amounts::{self, Amounts};
use crate::{Evaluator, Requirement, Scopes};

#[derive(Clone, Debug)]
pub struct Quota {
    pub requirements: Vec<Requirement>,
    /// What its spec asks for.
    pub wanted: Amounts,
    /// What counts, by its status. None before anybody looked at the quota.
    pub hard: Option<Amounts>,
    /// What is used of it.
    pub used: Option<Amounts>,
}

impl Quota {
    pub fn read(quota: &Value) -> Quota {
        let (spec, status) = (quota.get("spec"), quota.get("status"));
        let part = |part: &str| status.has(part).then(|| amounts::read(status.map(part)));
        Quota {
            requirements: Requirement::all(spec),
            wanted: amounts::read(spec.map("hard")),
            hard: part("hard"),
            used: part("used"),
        }
    }

    /// Whether objects of these scopes are any of its business.
    pub fn is_about(&self, evaluator: &Evaluator, scopes: &Scopes) -> bool {
        let hard = self.hard.iter().flat_map(Amounts::keys);
        scopes.meet_all(&self.requirements) && hard.into_iter().any(|name| evaluator.counts(name))
    }
}
