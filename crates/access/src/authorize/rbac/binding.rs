//! A binding: who gets which role.

use std::collections::HashSet;

use rkube_machinery::field::quote;
use rkube_machinery::{Text, Value};

use super::index::ObjectName;
use crate::User;

/// What stands before namespace and name in the user name of a service account.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Who is bound. A service account is a user with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    User(Text),
    Group(Text),
}

#[derive(Debug)]
pub struct Binding {
    /// Without a namespace: of the whole cluster.
    pub name: ObjectName,
    /// A ClusterRole has no namespace.
    pub role: ObjectName,
    subjects: Vec<Bound>,
}

#[derive(Debug)]
struct Bound {
    subject: Subject,
    is_service_account: bool,
}

impl Binding {
    pub fn read(name: &ObjectName, binding: &Value) -> Binding {
        let reference = binding.get("roleRef");
        let namespace = if reference.str("kind") == "Role" { name.namespace.clone() } else { Text::default() };
        let role = ObjectName { namespace, name: reference.str("name").into() };
        let subjects = binding.list("subjects").iter().filter_map(|subject| Bound::read(subject, &name.namespace));
        Binding { name: name.clone(), role, subjects: subjects.collect() }
    }

    pub fn distinct_subjects(&self) -> HashSet<Subject> {
        self.subjects.iter().map(|bound| bound.subject.clone()).collect()
    }

    /// The binding and the first of its subjects that is the user, in words.
    pub fn describe(&self, user: &User) -> String {
        let bound = self.subjects.iter().find(|bound| bound.is(user));
        let (kind, name) = match self.name.namespace.as_str() {
            "" => ("ClusterRoleBinding", quote(&self.name.name)),
            namespace => ("RoleBinding", quote(&format!("{}/{namespace}", self.name.name))),
        };
        let role_kind = if self.role.namespace.is_empty() { "ClusterRole" } else { "Role" };
        let subject = bound.map(Bound::describe).unwrap_or_default();
        format!("{kind} {name} of {role_kind} {} to {subject}", quote(&self.role.name))
    }
}

impl Bound {
    /// Who it is; nobody where that cannot be.
    fn read(subject: &Value, binding_namespace: &str) -> Option<Bound> {
        let name = subject.str("name");
        let (subject, is_service_account) = match subject.str("kind") {
            "User" => (Subject::User(name.into()), false),
            "Group" => (Subject::Group(name.into()), false),
            "ServiceAccount" => {
                let own = subject.str("namespace");
                let namespace = if own.is_empty() { binding_namespace } else { own };
                if namespace.is_empty() {
                    return None;
                }
                (Subject::User(format!("{SERVICE_ACCOUNT}{namespace}:{name}").into()), true)
            }
            _ => return None,
        };
        Some(Bound { subject, is_service_account })
    }

    fn is(&self, user: &User) -> bool {
        match &self.subject {
            Subject::User(name) => *name == user.name,
            Subject::Group(name) => user.is_in(name),
        }
    }

    fn describe(&self) -> String {
        match &self.subject {
            Subject::Group(name) => format!("Group {}", quote(name)),
            Subject::User(name) if self.is_service_account => {
                let place = name.strip_prefix(SERVICE_ACCOUNT).and_then(|place| place.split_once(':'));
                let (namespace, name) = place.unwrap_or_default();
                format!("ServiceAccount {}", quote(&format!("{name}/{namespace}")))
            }
            Subject::User(name) => format!("User {}", quote(name)),
        }
    }
}
