//! What one mode asks for before it lets somebody act as another.

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Text, names};

use super::{Allows, Denied, Mode, account_of, node_of};
use crate::authorize::{Attributes, ResourceAttributes};
use crate::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

/// Of so many groups or extra values, whether all are allowed is asked first.
const MANY: usize = 4;

const GROUP: &str = "authentication.k8s.io";

/// One mode's way to find out.
pub(super) struct Check<'a> {
    pub mode: Mode,
    pub requester: &'a User,
    pub allows: &'a Allows<'a>,
}

impl Check<'_> {
    /// The wanted user with the groups that come with it.
    pub fn run(&self, wanted: &User, attributes: &Attributes<'_>) -> Result<User, Denied> {
        if self.mode.is_constrained() {
            self.may_be_done(attributes)?;
        }
        let mut user = wanted.clone();
        self.name(wanted, &mut user)?;
        if !wanted.uid.is_empty() {
            self.ask(&self.about(GROUP, "uids", &wanted.uid))?;
        }
        self.groups(&wanted.groups)?;
        self.extra(&wanted.extra)?;
        let mut ensure = |group: &str| {
            if !user.is_in(group) {
                user.groups.push(group.into());
            }
        };
        if wanted.name == User::ANONYMOUS {
            ensure(UNAUTHENTICATED);
        } else if !wanted.groups.iter().any(|group| group == UNAUTHENTICATED) {
            ensure(AUTHENTICATED);
        }
        Ok(user)
    }

    /// Whether what the request wants may be done as such a user.
    fn may_be_done(&self, attributes: &Attributes<'_>) -> Result<(), Denied> {
        let prefix = self.mode.verb().replacen("impersonate:", "impersonate-on:", 1);
        match *attributes {
            Attributes::Path { verb, path } => self.ask(&Attributes::Path { verb: &format!("{prefix}:{verb}"), path }),
            Attributes::Resource(asked) => {
                let verb = format!("{prefix}:{}", asked.verb);
                self.ask(&Attributes::Resource(ResourceAttributes { verb: &verb, ..asked }))
            }
        }
    }

    /// Whether the name may be had. Nodes and service accounts have groups that nobody chooses.
    fn name(&self, wanted: &User, user: &mut User) -> Result<(), Denied> {
        if self.mode.is_constrained()
            && let Some(name) = node_of(&wanted.name)
        {
            user.groups = vec!["system:nodes".into()];
            // What holds for one node's own account holds for each of its kind.
            let name = if self.mode == Mode::AssociatedNode { "*" } else { name };
            return self.ask(&self.about(GROUP, "nodes", name));
        }
        if let Some((namespace, name)) = account_of(&wanted.name) {
            if wanted.groups.is_empty() {
                user.groups = User::account_groups(namespace);
            }
            let Attributes::Resource(about) = self.about(self.group(), "serviceaccounts", name) else { return Ok(()) };
            return self.ask(&Attributes::Resource(ResourceAttributes { namespace, ..about }));
        }
        self.ask(&self.about(self.group(), "users", &wanted.name))
    }

    fn groups(&self, groups: &[Text]) -> Result<(), Denied> {
        if self.mode.is_constrained() {
            if groups.iter().any(|group| group.is_empty()) {
                let why = "impersonating the empty string group is not allowed";
                return Err(self.denied(&self.about(GROUP, "groups", ""), why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.denied(&self.about(GROUP, "groups", MASTERS), why));
            }
            if groups.len() >= MANY && self.ask(&self.about(GROUP, "groups", "*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.ask(&self.about(self.group(), "groups", group)))
    }

    fn extra(&self, extra: &[(Text, Vec<Text>)]) -> Result<(), Denied> {
        let about = |key, name| {
            let asked = ResourceAttributes { subresource: key, ..self.resource(GROUP, "userextras", name) };
            Attributes::Resource(asked)
        };
        if self.mode.is_constrained() {
            check_extra(extra).map_err(|why| self.denied(&about("", ""), &why))?;
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            if values.max(extra.len()) >= MANY && self.ask(&about("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            values.iter().try_for_each(|value| self.ask(&about(key, value)))?;
        }
        Ok(())
    }

    /// The group of users, groups and service accounts as this mode asks for them.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { GROUP } else { "" }
    }

    fn about<'b>(&self, group: &'b str, resource: &'b str, name: &'b str) -> Attributes<'b> {
        Attributes::Resource(self.resource(group, resource, name))
    }

    fn resource<'b>(&self, group: &'b str, resource: &'b str, name: &'b str) -> ResourceAttributes<'b> {
        let verb = self.mode.verb();
        ResourceAttributes { verb, group, version: "v1", resource, name, ..ResourceAttributes::default() }
    }

    fn ask(&self, attributes: &Attributes<'_>) -> Result<(), Denied> {
        let allowed = match self.mode {
            Mode::AssociatedNode => (self.allows)(&any_node_of(self.requester), attributes),
            _ => (self.allows)(self.requester, attributes),
        };
        allowed.map_err(|reason| self.denied(attributes, &reason))
    }

    fn denied(&self, attributes: &Attributes<'_>, reason: &str) -> Denied {
        let why = attributes.refusal(self.requester, reason);
        let (group, resource, name) = match attributes {
            Attributes::Path { .. } => ("", "", ""),
            Attributes::Resource(asked) => (asked.group, asked.resource, asked.name),
        };
        Denied { group: group.to_owned(), resource: resource.to_owned(), name: name.to_owned(), why }
    }
}

/// The account without what tells its nodes apart; of its extra facts only the keys are left.
fn any_node_of(requester: &User) -> User {
    let mut keys: Vec<Text> = requester.extra.iter().map(|(key, _)| key.clone()).collect();
    keys.sort();
    User { extra: vec![("authentication.kubernetes.io/associated-node-keys".into(), keys)], ..requester.clone() }
}

fn check_extra(extra: &[(Text, Vec<Text>)]) -> Result<(), String> {
    let place = Path::new("extra");
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let mut errors = Errors::new();
        names::domain_prefixed_path(place.child("key"), key, &mut errors);
        if !errors.is_empty() {
            return Err(format!("impersonating an invalid key in extra is not allowed: {}", errors.summary()));
        }
        if key.as_str() != key.to_lowercase() {
            return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed".to_owned());
        }
        if values.iter().any(|value| value.is_empty()) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}
