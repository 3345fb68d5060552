//! Nobody gives rights that they do not have: who writes a role must be allowed all that it says, and who binds one all
//! that the role says, unless they may `escalate` or `bind` it.
//!
//! Looked at when all plugins have had their say on the object, and before its rules.
// tidy: types ClusterRole ClusterRoleBinding Role RoleBinding

use rkube_access::authorize::rbac::{quoted_list, together};
use rkube_access::authorize::{Attributes, ResourceAttributes, Rule, is_master};
use rkube_kinds::kind::Part;
use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status, Text, Value};

use super::write::Write;

const GROUP: &str = "rbac.authorization.k8s.io";
/// What the garbage collector changes, and what changes by itself.
const COLLECTOR_FIELDS: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];

impl Write<'_> {
    /// `old`: what an update changes.
    pub(super) fn check_escalation(&self, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        let kind = &self.request.served.kind;
        if kind.group != GROUP || self.part != Part::Main || is_master(self.request.user) {
            return Ok(());
        }
        if old.is_some_and(|old| self.changes_collector_fields_only(object, old)) {
            return Ok(());
        }
        match object.has("roleRef") {
            true => self.check_binding(object),
            false => self.check_role(object, old),
        }
    }

    fn check_role(&self, role: &Value, old: Option<&Value>) -> Result<(), Status> {
        if self.may("escalate", &self.request.served.kind.resource, &self.request.info.name) {
            return Ok(());
        }
        self.check_grant(role, &Rule::all_of(role))?;
        // It may gather anything, and keep it when others tighten it.
        let is_sum = |role: &Value| !role.get("aggregationRule").list("clusterRoleSelectors").is_empty();
        if (is_sum(role) || old.is_some_and(is_sum)) && self.check_grant(role, &everything()).is_err() {
            return Err(self.refuse_grant(role, "must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self, binding: &Value) -> Result<(), Status> {
        let reference = binding.get("roleRef");
        let (kind, name) = (reference.str("kind"), reference.str("name"));
        let (resource, namespace) = match kind {
            "ClusterRole" => ("clusterroles", ""),
            "Role" => ("roles", self.request.info.namespace.as_str()),
            _ => {
                let message = format!("unsupported role reference kind: {}", quote(kind));
                return Err(Status { code: 500, message, ..Status::default() });
            }
        };
        if reference.str("apiGroup") == GROUP && self.may("bind", resource, name) {
            return Ok(());
        }
        let rules = self.registry.authorizers.rbac().role_rules(namespace, name);
        let rules = rules.ok_or_else(|| Status::not_found(&GroupResource::new(GROUP, resource), name))?;
        self.check_grant(binding, &rules)
    }

    /// Whether the user may do this to a role in the namespace of the request.
    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let asked = ResourceAttributes {
            verb,
            group: GROUP,
            version: "*",
            resource,
            namespace: &self.request.info.namespace,
            name,
            ..ResourceAttributes::default()
        };
        self.registry.authorizers.allow(self.request.user, &Attributes::Resource(asked))
    }

    /// Whether the user may do all that these rules say.
    fn check_grant(&self, object: &Value, rules: &[Rule]) -> Result<(), Status> {
        let (rbac, user, namespace) =
            (self.registry.authorizers.rbac(), self.request.user, self.request.info.namespace.as_str());
        let Err(missing) = rbac.covers(user, namespace, rules) else { return Ok(()) };
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quote(&user.name),
            quoted_list(&user.groups),
            missing.describe()
        );
        let lost = rbac.missing(user, namespace);
        if !lost.is_empty() {
            let lost: Vec<String> =
                lost.iter().map(|role| format!("{}s.{GROUP} {} not found", role.kind(), quote(&role.name))).collect();
            why.push_str(&format!("; resolution errors: [{}]", together(&lost)));
        }
        Err(self.refuse_grant(object, &why))
    }

    fn refuse_grant(&self, object: &Value, why: &str) -> Status {
        Status::forbidden(&self.request.served.group_resource, object.get("metadata").str("name"), why)
    }

    fn changes_collector_fields_only(&self, object: &Value, old: &Value) -> bool {
        let rest = |object: &Value| {
            let mut rest = object.clone();
            let metadata = rest.object_mut("metadata");
            COLLECTOR_FIELDS.iter().for_each(|field| drop(metadata.remove(field)));
            self.request.served.stored_schema().complete(&mut rest);
            rest
        };
        rest(object) == rest(old)
    }
}

/// What a cluster's administrator may do.
fn everything() -> [Rule; 2] {
    let all = || vec![Text::new_static("*")];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

#[cfg(test)]
#[path = "escalation_tests.rs"]
mod tests;
