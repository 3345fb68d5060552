//! Roles and bindings, found by who is bound.
//!
//! A change of a role or of a binding touches what it is about and nothing else. A subject with few roles in a scope is
//! answered role by role; the rules of one with many are put into a table of their own when they are first asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rkube_machinery::{Text, Value};

use super::binding::{Binding, Subject};
use super::rule::{Asked, Rule};
use super::table::Table;
use crate::User;

/// A subject with more roles in one scope gets a table of all their rules. (Tests have fewer, so that they have both.)
const FEW_ROLES: usize = if cfg!(test) { 3 } else { 16 };
/// There are at most so many of these tables; the subjects beyond are answered role by role, however long that takes.
const COMBINED_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// A name in a namespace; in none for what has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    pub namespace: Text,
    pub name: Text,
}

impl ObjectName {
    /// What a role of this name is.
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_empty() { "clusterrole" } else { "role" }
    }
}

#[derive(Debug)]
pub struct Role {
    pub rules: Vec<Arc<Rule>>,
    table: Table,
}

#[derive(Default)]
pub struct Index {
    /// A ClusterRole has no namespace.
    roles: HashMap<ObjectName, Role>,
    /// A ClusterRoleBinding has no namespace.
    bindings: HashMap<ObjectName, Arc<Binding>>,
    users: HashMap<Text, Holder>,
    groups: HashMap<Text, Holder>,
    /// Whose roles are combined.
    combined: Mutex<HashSet<GrantsKey>>,
}

/// A user or a group that is bound somewhere.
#[derive(Default)]
struct Holder {
    everywhere: Grants,
    namespaces: HashMap<Text, Grants>,
}

/// What a subject is given in one scope.
#[derive(Default)]
pub struct Grants {
    /// With the number of bindings that give them. What is bound need not be there.
    roles: HashMap<ObjectName, usize>,
    bindings: BTreeMap<Text, Arc<Binding>>,
    combined: OnceLock<Box<Combined>>,
}

struct Combined {
    table: Table,
    missing: Vec<ObjectName>,
}

/// Who, and in which namespace; in none for what holds everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GrantsKey {
    subject: Subject,
    namespace: Text,
}

impl Role {
    fn read(role: &Value) -> Role {
        let rules: Vec<Arc<Rule>> = Rule::all_of(role).into_iter().map(Arc::new).collect();
        let table = Table::of(&rules);
        Role { rules, table }
    }
}

impl Index {
    pub fn put_role(&mut self, name: ObjectName, role: &Value) {
        self.separate(|grants| grants.roles.contains_key(&name));
        self.roles.insert(name, Role::read(role));
    }

    pub fn remove_role(&mut self, name: &ObjectName) {
        self.separate(|grants| grants.roles.contains_key(name));
        self.roles.remove(name);
    }

    pub fn retain_roles(&mut self, keep: impl Fn(&ObjectName) -> bool) {
        self.separate(|_| true);
        self.roles.retain(|name, _| keep(name));
    }

    pub fn put_binding(&mut self, name: ObjectName, binding: &Value) {
        self.remove_binding(&name);
        let binding = Arc::new(Binding::read(&name, binding));
        for subject in binding.distinct_subjects() {
            self.grants_mut(subject, &name.namespace, |grants| grants.add(&binding));
        }
        self.bindings.insert(name, binding);
    }

    pub fn remove_binding(&mut self, name: &ObjectName) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for subject in binding.distinct_subjects() {
            self.grants_mut(subject, &name.namespace, |grants| grants.remove(&binding));
        }
    }

    pub fn retain_bindings(&mut self, keep: impl Fn(&ObjectName) -> bool) {
        let gone: Vec<ObjectName> = self.bindings.keys().filter(|name| !keep(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove_binding(name));
    }

    pub fn role(&self, name: &ObjectName) -> Option<&Role> {
        self.roles.get(name)
    }

    /// Whether the user may.
    pub fn allows(&self, user: &User, namespace: &str, asked: &Asked<'_>) -> bool {
        self.grants_of(user, namespace).any(|(subject, namespace, grants)| {
            match self.combined(subject, namespace, grants) {
                Some(combined) => combined.table.allows(asked),
                None => {
                    let mut roles = grants.roles.keys().filter_map(|role| self.roles.get(role));
                    roles.any(|role| role.table.allows(asked))
                }
            }
        })
    }

    /// Roles that the user is bound to and that are not there: those of the whole cluster first, by name.
    pub fn missing(&self, user: &User, namespace: &str) -> BTreeSet<ObjectName> {
        let mut missing = BTreeSet::new();
        for (subject, namespace, grants) in self.grants_of(user, namespace) {
            match self.combined(subject, namespace, grants) {
                Some(combined) => missing.extend(combined.missing.iter().cloned()),
                None => missing.extend(grants.roles.keys().filter(|role| !self.roles.contains_key(*role)).cloned()),
            }
        }
        missing
    }

    /// The bindings of the user: of the whole cluster by name, then those of the namespace.
    pub fn bindings_of<'a>(&'a self, user: &'a User, namespace: &'a str) -> Vec<&'a Arc<Binding>> {
        let mut found: Vec<&'a Arc<Binding>> =
            self.grants_of(user, namespace).flat_map(|(_, _, grants)| grants.bindings.values()).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.dedup_by(|one, other| one.name == other.name);
        found
    }

    /// The distinct rules of the user, in no particular order.
    pub fn rules_of<'a>(&'a self, user: &'a User, namespace: &'a str) -> HashSet<&'a Arc<Rule>> {
        let roles = self.grants_of(user, namespace).flat_map(|(_, _, grants)| grants.roles.keys());
        roles.filter_map(|role| self.roles.get(role)).flat_map(|role| &role.rules).collect()
    }

    /// What the user is given, by its name and by its groups, everywhere and in the namespace.
    fn grants_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (SubjectRef<'a>, &'a str, &'a Grants)> {
        let by_name = self.users.get(&user.name).map(|holder| (SubjectRef::User(&user.name), holder));
        let by_group = user.groups.iter().filter_map(|group| Some((SubjectRef::Group(group), self.groups.get(group)?)));
        by_name.into_iter().chain(by_group).flat_map(move |(subject, holder)| {
            let here = if namespace.is_empty() { None } else { holder.namespaces.get(namespace) };
            let everywhere = Some((subject, "", &holder.everywhere)).filter(|found| !found.2.roles.is_empty());
            everywhere.into_iter().chain(here.map(|grants| (subject, namespace, grants)))
        })
    }

    /// All rules of a subject that has many roles, where there is room for them.
    fn combined<'a>(&self, subject: SubjectRef<'_>, namespace: &str, grants: &'a Grants) -> Option<&'a Combined> {
        if grants.roles.len() <= FEW_ROLES {
            return None;
        }
        if let Some(combined) = grants.combined.get() {
            return Some(combined);
        }
        let mut combined = self.combined.lock();
        let key = GrantsKey { subject: subject.owned(), namespace: namespace.into() };
        if combined.len() >= COMBINED_MAX && !combined.contains(&key) {
            return None;
        }
        combined.insert(key);
        drop(combined);
        Some(grants.combined.get_or_init(|| Box::new(self.combine(grants))))
    }

    fn combine(&self, grants: &Grants) -> Combined {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for name in grants.roles.keys() {
            match self.roles.get(name) {
                Some(role) => rules.extend(&role.rules),
                None => missing.push(name.clone()),
            }
        }
        Combined { table: Table::of(rules), missing }
    }

    /// Lets go of combined rules that are not right any more.
    fn separate(&mut self, is_wrong: impl Fn(&Grants) -> bool) {
        let (users, groups) = (&mut self.users, &mut self.groups);
        self.combined.get_mut().retain(|key| {
            let holder = match &key.subject {
                Subject::User(name) => users.get_mut(name),
                Subject::Group(name) => groups.get_mut(name),
            };
            let Some(grants) = holder.and_then(|holder| holder.grants_mut(&key.namespace)) else { return false };
            let wrong = is_wrong(grants);
            if wrong {
                grants.combined.take();
            }
            !wrong
        });
    }

    /// Changes what a subject is given; what is left of nothing goes.
    fn grants_mut(&mut self, subject: Subject, namespace: &Text, change: impl FnOnce(&mut Grants)) {
        let (holders, name) = match &subject {
            Subject::User(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        };
        let holder = holders.entry(name.clone()).or_default();
        let grants = match namespace.is_empty() {
            true => &mut holder.everywhere,
            false => holder.namespaces.entry(namespace.clone()).or_default(),
        };
        change(grants);
        if grants.combined.take().is_some() {
            self.combined.get_mut().remove(&GrantsKey { subject: subject.clone(), namespace: namespace.clone() });
        }
        if grants.bindings.is_empty() && !namespace.is_empty() {
            holder.namespaces.remove(namespace);
        }
        if holder.everywhere.bindings.is_empty() && holder.namespaces.is_empty() {
            holders.remove(name);
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.bindings.is_empty() && self.combined.lock().is_empty()
    }
}

impl Holder {
    fn grants_mut(&mut self, namespace: &str) -> Option<&mut Grants> {
        if namespace.is_empty() { Some(&mut self.everywhere) } else { self.namespaces.get_mut(namespace) }
    }
}

impl Grants {
    fn add(&mut self, binding: &Arc<Binding>) {
        *self.roles.entry(binding.role.clone()).or_default() += 1;
        self.bindings.insert(binding.name.name.clone(), binding.clone());
    }

    fn remove(&mut self, binding: &Arc<Binding>) {
        self.bindings.remove(&binding.name.name);
        if let Some(count) = self.roles.get_mut(&binding.role) {
            *count -= 1;
            if *count == 0 {
                self.roles.remove(&binding.role);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum SubjectRef<'a> {
    User(&'a Text),
    Group(&'a Text),
}

impl SubjectRef<'_> {
    fn owned(self) -> Subject {
        match self {
            SubjectRef::User(name) => Subject::User(name.clone()),
            SubjectRef::Group(name) => Subject::Group(name.clone()),
        }
    }
}
