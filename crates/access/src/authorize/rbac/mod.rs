//! Role-based access control: what the Roles and ClusterRoles allow that somebody is bound to.
//!
//! The index follows the catalog's caches when it is asked: a write of a role or of a binding that was acknowledged
//! counts for every request that comes after it. Nothing is ever refused by this member, only not allowed.

mod binding;
mod cover;
mod index;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};
use rkube_catalog::{EventType, Limit, Object, Resource, Snapshot, Subscription};
use rkube_machinery::field::quote;

pub use cover::{COMBINATIONS_MAX, Coverage, Uncovered, quoted_list};
pub use index::ObjectName;
pub use rule::Rule;

use super::{Attributes, Authorizer, Decision, Rules};
use crate::User;
use index::Index;
use rule::Asked;
use table::Table;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Reviews show so many rules; where there are more, they say that they are incomplete.
const RULES_SHOWN_MAX: usize = 10_000;
/// So many missing roles are named.
pub const MISSING_SHOWN_MAX: usize = 1_000;
/// All events that there are.
const NO_LIMIT: Limit = Limit { events: usize::MAX, bytes: usize::MAX };

pub struct Rbac {
    state: RwLock<State>,
}

struct State {
    index: Index,
    followed: Vec<Followed>,
}

/// A resource, and how far the index knows it.
struct Followed {
    resource: Arc<Resource>,
    is_role: bool,
    /// Nothing is known before the first look.
    known: Option<Known>,
}

struct Known {
    changes: u64,
    subscription: Subscription,
}

/// A Role or a ClusterRole that is not there, as an error.
fn not_found(role: &ObjectName) -> String {
    format!("{}.{GROUP} {} not found", role.kind(), quote(&role.name))
}

impl Rbac {
    pub fn new(catalog: &Snapshot) -> Rbac {
        let kinds = [("roles", true), ("clusterroles", true), ("rolebindings", false), ("clusterrolebindings", false)];
        let followed = kinds.into_iter().filter_map(|(name, is_role)| {
            let resource = catalog.resource(GROUP, "v1", name)?;
            Some(Followed { resource, is_role, known: None })
        });
        Rbac { state: RwLock::new(State { index: Index::default(), followed: followed.collect() }) }
    }

    /// Asks the index as it is now.
    fn ask<T>(&self, ask: impl FnOnce(&Index) -> T) -> T {
        let state = self.state.read();
        if state.is_current() {
            return ask(&state.index);
        }
        drop(state);
        let mut state = self.state.write();
        state.catch_up();
        ask(&RwLockWriteGuard::downgrade(state).index)
    }

    /// Whether what the user may do in the namespace includes all that these rules say.
    pub fn covers(&self, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), Uncovered> {
        self.ask(|index| {
            let table = Table::of(index.rules_of(user, namespace));
            cover::covers(&table, rules)
        })
    }

    /// The rules of a Role, or of a ClusterRole where there is no namespace; none if it is not there.
    pub fn role_rules(&self, namespace: &str, name: &str) -> Option<Vec<Rule>> {
        let name = ObjectName { namespace: namespace.into(), name: name.into() };
        self.ask(|index| Some(index.role(&name)?.rules.iter().map(|rule| Rule::clone(rule)).collect()))
    }

    /// Roles that the user is bound to and that are not there: the first [`MISSING_SHOWN_MAX`].
    pub fn missing(&self, user: &User, namespace: &str) -> Vec<ObjectName> {
        self.ask(|index| index.missing(user, namespace)).into_iter().take(MISSING_SHOWN_MAX).collect()
    }

    fn allowed_by(&self, user: &User, attributes: &Attributes<'_>) -> Option<String> {
        let asked = Asked::of(attributes);
        self.ask(|index| {
            let mut bindings = index.bindings_of(user, attributes.namespace()).into_iter();
            let found = bindings.find(|binding| {
                index.role(&binding.role).is_some_and(|role| role.rules.iter().any(|rule| rule.allows(&asked)))
            });
            found.map(|binding| binding.describe(user))
        })
    }
}

impl Authorizer for Rbac {
    fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let asked = Asked::of(attributes);
        match self.ask(|index| index.allows(user, attributes.namespace(), &asked)) {
            true => Decision::Allow,
            false => Decision::NoOpinion,
        }
    }

    fn reason(&self, user: &User, attributes: &Attributes<'_>, decision: Decision) -> String {
        if decision == Decision::Allow {
            let found = self.allowed_by(user, attributes);
            return found.map(|binding| format!("RBAC: allowed by {binding}")).unwrap_or_default();
        }
        let missing: Vec<String> = self.missing(user, attributes.namespace()).iter().map(not_found).collect();
        if missing.is_empty() { String::new() } else { format!("RBAC: {}", together(&missing)) }
    }

    fn rules(&self, user: &User, namespace: &str) -> Rules {
        self.ask(|index| {
            let mut found = Rules::default();
            let mut missing = BTreeSet::new();
            for binding in index.bindings_of(user, namespace) {
                let Some(role) = index.role(&binding.role) else {
                    missing.insert(&binding.role);
                    continue;
                };
                let room = RULES_SHOWN_MAX - found.rules.len();
                found.is_incomplete |= role.rules.len() > room;
                found.rules.extend(role.rules.iter().take(room).cloned());
            }
            let missing: Vec<String> = missing.into_iter().take(MISSING_SHOWN_MAX).map(not_found).collect();
            found.error = together(&missing);
            found
        })
    }
}

/// Errors as one text: one stands alone, several in brackets.
pub fn together(errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    }
}

impl State {
    fn is_current(&self) -> bool {
        let is_known = |one: &Followed| one.known.as_ref().is_some_and(|known| known.changes == one.resource.changes());
        self.followed.iter().all(is_known)
    }

    fn catch_up(&mut self) {
        for followed in &mut self.followed {
            followed.catch_up(&mut self.index);
        }
    }
}

impl Followed {
    fn catch_up(&mut self, index: &mut Index) {
        // Looked at first: what changes meanwhile is seen now and looked for once more.
        let changes = self.resource.changes();
        if let Some(known) = &mut self.known {
            if known.changes == changes {
                return;
            }
            if let Ok(taken) = known.subscription.take(NO_LIMIT) {
                known.changes = changes;
                for event in taken.events {
                    put(index, self.is_role, &event.object, event.event_type == EventType::Deleted);
                }
                return;
            }
        }
        // The events since then are not kept any more, or this is the first look.
        let (items, subscription) = self.resource.follow(0);
        let is_namespaced = self.resource.kind.is_namespaced();
        let is_there = |name: &ObjectName| {
            name.namespace.is_empty() == is_namespaced
                || items.contains_key(self.resource.key(&name.namespace, &name.name).as_str())
        };
        match self.is_role {
            true => index.retain_roles(is_there),
            false => index.retain_bindings(is_there),
        }
        items.values().for_each(|entry| put(index, self.is_role, &entry.object, false));
        self.known = Some(Known { changes, subscription });
    }
}

fn put(index: &mut Index, is_role: bool, object: &Object, is_deleted: bool) {
    let name = ObjectName { namespace: object.namespace.clone(), name: object.name.clone() };
    match (is_role, is_deleted) {
        (true, true) => index.remove_role(&name),
        (true, false) => index.put_role(name, &object.value(0)),
        (false, true) => index.remove_binding(&name),
        (false, false) => index.put_binding(name, &object.value(0)),
    }
}
