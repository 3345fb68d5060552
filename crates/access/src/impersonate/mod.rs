//! Acting as somebody else: `kubectl --as`.
//!
//! [`wanted`] reads from a request's headers whom it wants to act as. There are several ways to be allowed that, tried
//! in their order ([`Mode`]): the constrained ones ask for `impersonate:<mode>` on who is wanted and for
//! `impersonate-on:<mode>:<verb>` on what is to be done as them, the old one for `impersonate` alone. Where no mode
//! allows it, the first one's reason counts.

mod check;
pub mod wanted;

use std::collections::HashMap;

use parking_lot::Mutex;
use rkube_machinery::{Text, names};

use crate::authorize::Attributes;
use crate::{User, UserRef};
use check::Check;

/// Of so many requesters it is known how they were last allowed; beyond that it is found out anew.
const REMEMBERED_MAX: usize = 10_000;

/// The ways to be allowed to act as somebody, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account whose token is bound to a node acts as that node.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Everybody else, with whatever is said of them.
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// Whether somebody may do something; `Err` with the reason why not, where there is one to say.
pub type Allows<'a> = dyn Fn(&User, &Attributes<'_>) -> Result<(), String> + 'a;

/// Who a request acts as.
#[derive(Debug, PartialEq, Eq)]
pub struct Impersonated {
    pub user: UserRef,
    /// The verb that allowed it; empty for the old one. Audit tells it.
    pub constraint: &'static str,
}

/// Why not: what was to be done, as in any other refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    pub group: String,
    pub resource: String,
    pub name: String,
    pub why: String,
}

/// Decides who may act as whom.
#[derive(Default)]
pub struct Impersonation {
    /// By which mode a requester was last allowed: it is tried first.
    latest: Mutex<HashMap<Text, Mode>>,
}

impl Impersonation {
    /// The user that the request goes on as. `wanted` is what its headers say, `attributes` what it wants to do.
    pub fn decide(
        &self,
        wanted: &User,
        requester: &User,
        attributes: &Attributes<'_>,
        allows: &Allows<'_>,
    ) -> Result<Impersonated, Denied> {
        let latest = self.latest.lock().get(&requester.name).copied();
        let mut first = None;
        for mode in latest.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != latest)) {
            if !mode.concerns(wanted, requester) {
                continue;
            }
            match (Check { mode, requester, allows }).run(wanted, attributes) {
                Ok(user) => {
                    if Some(mode) != latest {
                        self.remember(&requester.name, mode);
                    }
                    return Ok(Impersonated { user: user.into(), constraint: mode.constraint() });
                }
                Err(denied) => first = first.or(Some(denied)),
            }
        }
        Err(first.expect("the last mode concerns everybody"))
    }

    fn remember(&self, requester: &Text, mode: Mode) {
        let mut latest = self.latest.lock();
        if latest.len() >= REMEMBERED_MAX {
            latest.clear();
        }
        latest.insert(requester.clone(), mode);
    }
}

impl Mode {
    /// The verb that is asked for on who is wanted.
    fn verb(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "impersonate:associated-node",
            Mode::ArbitraryNode => "impersonate:arbitrary-node",
            Mode::ServiceAccount => "impersonate:serviceaccount",
            Mode::UserInfo => "impersonate:user-info",
            Mode::Legacy => "impersonate",
        }
    }

    fn constraint(self) -> &'static str {
        if self == Mode::Legacy { "" } else { self.verb() }
    }

    fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    /// Whether the mode is for such a user at all.
    fn concerns(self, wanted: &User, requester: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_of(&wanted.name), account_of(&wanted.name));
        match self {
            Mode::AssociatedNode => {
                only_name && node.is_some() && account_of(&requester.name).is_some() && node == bound_node(requester)
            }
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }
}

/// The node whose user this is.
fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| names::dns1123_subdomain(name).is_empty())
}

/// Namespace and name of the service account whose user this is.
pub(crate) fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let fine = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    fine.then_some((namespace, name))
}

/// The node that the user's token is bound to.
fn bound_node(user: &User) -> Option<&str> {
    let (_, values) = user.extra.iter().find(|(key, _)| key == "authentication.kubernetes.io/node-name")?;
    if let [node] = values.as_slice() { Some(node.as_str()) } else { None }
}

#[cfg(test)]
mod tests;
