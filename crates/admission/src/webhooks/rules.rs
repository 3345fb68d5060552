//! The rules of a webhook: which operations on which resources it asks for. Pure.

// tidy: types RuleWithOperations

use rkube_machinery::{Text, Value};

use crate::Operation;

/// What is asked for by a request, or would be if it named another version of the same objects.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub operation: Operation,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Of a namespace itself it is its name.
    pub namespace: &'a str,
}

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(u8);

impl Operations {
    const ALL: Operations = Operations(0b1111);

    fn of(operation: Operation) -> Operations {
        Operations(1 << operation as u8)
    }

    fn named(name: &str) -> Operations {
        let all = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
        match all.into_iter().find(|operation| operation.name() == name) {
            Some(operation) => Operations::of(operation),
            None if name == "*" => Operations::ALL,
            None => Operations::default(),
        }
    }

    pub fn has(self, operation: Operation) -> bool {
        self.0 & Operations::of(operation).0 != 0
    }

    pub fn add(&mut self, others: Operations) {
        self.0 |= others.0;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// A word that nobody knows: no request has that scope.
    Unknown,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    pub operations: Operations,
    groups: Vec<Text>,
    versions: Vec<Text>,
    /// Resource and subresource.
    resources: Vec<(Text, Text)>,
    scope: Scope,
}

impl Rule {
    pub fn read(rule: &Value) -> Rule {
        let texts =
            |field: &str| -> Vec<Text> { rule.list(field).iter().map(|text| Text::new(text.as_str())).collect() };
        let mut operations = Operations::default();
        for operation in rule.list("operations") {
            operations.add(Operations::named(operation.as_str()));
        }
        let parts = |text: &Text| match text.split_once('/') {
            Some((resource, subresource)) => (resource.into(), subresource.into()),
            None => (text.clone(), Text::default()),
        };
        Rule {
            operations,
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").iter().map(parts).collect(),
            scope: match rule.str("scope") {
                "" | "*" => Scope::All,
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => Scope::Unknown,
            },
        }
    }

    /// The names of resources that the rule is about; `*` stands for all.
    pub fn resources(&self) -> impl Iterator<Item = &Text> {
        self.resources.iter().map(|(resource, _)| resource)
    }

    pub fn matches(&self, asked: &Asked<'_>) -> bool {
        self.operations.has(asked.operation)
            && self.resources.iter().any(|(resource, subresource)| {
                fits(resource, asked.resource) && (subresource == "*" || subresource == asked.subresource)
            })
            && self.groups.iter().any(|group| fits(group, asked.group))
            && self.versions.iter().any(|version| fits(version, asked.version))
            && self.has_scope(asked)
    }

    fn has_scope(&self, asked: &Asked<'_>) -> bool {
        // A request about a namespace has that namespace, but is none within it.
        let is_namespace = (asked.group, asked.version, asked.resource) == ("", "v1", "namespaces");
        let is_namespaced = !is_namespace && !asked.namespace.is_empty();
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => is_namespaced,
            Scope::Cluster => !is_namespaced,
            Scope::Unknown => false,
        }
    }
}

fn fits(wanted: &str, given: &str) -> bool {
    wanted == "*" || wanted == given
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn rule(operations: &str, groups: &str, versions: &str, resources: &str, scope: &str) -> Rule {
        let list = |text: &str| text.split(' ').map(|one| format!("{one:?}")).collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"operations":[{}],"apiGroups":[{}],"apiVersions":[{}],"resources":[{}],"scope":"{scope}"}}"#,
            list(operations),
            list(groups),
            list(versions),
            list(resources)
        );
        Rule::read(&json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn rules_match() {
        use Operation::{Connect, Create, Delete, Update};
        let asked = |operation, (group, version): (&'static str, &'static str), path: &'static str, namespace| {
            let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
            Asked { operation, group, version, resource, subresource, namespace }
        };
        let (core, apps) = (("", "v1"), ("apps", "v1"));
        let all = || rule("*", "*", "*", "*/*", "*");
        let table = [
            (all(), asked(Create, core, "pods", "a"), true),
            (all(), asked(Connect, core, "pods/exec", "a"), true),
            (rule("*", "*", "*", "*", ""), asked(Create, core, "pods", "a"), true),
            (rule("*", "*", "*", "*", ""), asked(Update, core, "pods/status", "a"), false),
            (rule("*", "*", "*", "pods/*", ""), asked(Create, core, "pods", "a"), true),
            (rule("*", "*", "*", "pods/*", ""), asked(Update, core, "pods/status", "a"), true),
            (rule("*", "*", "*", "pods/*", ""), asked(Update, core, "services/status", "a"), false),
            (rule("*", "*", "*", "*/scale", ""), asked(Update, apps, "deployments/scale", "a"), true),
            (rule("*", "*", "*", "*/scale", ""), asked(Update, apps, "deployments", "a"), false),
            (rule("CREATE UPDATE", "*", "*", "*", ""), asked(Update, core, "pods", "a"), true),
            (rule("CREATE UPDATE", "*", "*", "*", ""), asked(Delete, core, "pods", "a"), false),
            (rule("create", "*", "*", "*", ""), asked(Create, core, "pods", "a"), false),
            (rule("*", "apps", "v1", "deployments", ""), asked(Create, apps, "deployments", "a"), true),
            (rule("*", "apps", "v1beta1", "deployments", ""), asked(Create, apps, "deployments", "a"), false),
            (rule("*", "batch apps", "v2 v1", "a deployments", ""), asked(Create, apps, "deployments", "a"), true),
            (rule("*", "", "v1", "pods", ""), asked(Create, core, "pods", "a"), true),
            (rule("*", "", "v1", "pods", ""), asked(Create, apps, "pods", "a"), false),
            (rule("*", "*", "*", "*", "Namespaced"), asked(Create, core, "pods", "a"), true),
            (rule("*", "*", "*", "*", "Namespaced"), asked(Create, core, "nodes", ""), false),
            (rule("*", "*", "*", "*", "Namespaced"), asked(Create, core, "namespaces", "a"), false),
            (rule("*", "*", "*", "*", "Namespaced"), asked(Create, apps, "namespaces", "a"), true),
            (rule("*", "*", "*", "*", "Cluster"), asked(Create, core, "namespaces", "a"), true),
            (rule("*", "*", "*", "*", "Cluster"), asked(Create, core, "nodes", ""), true),
            (rule("*", "*", "*", "*", "Cluster"), asked(Create, core, "pods", "a"), false),
            (rule("*", "*", "*", "*", "Nowhere"), asked(Create, core, "pods", "a"), false),
        ];
        for (rule, asked, matches) in table {
            assert_eq!(rule.matches(&asked), matches, "{rule:?} {asked:?}");
        }
    }
}
