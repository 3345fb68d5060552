//! A rule of a role, and what it is asked.

use std::borrow::Cow;

use rkube_machinery::{Text, Value};

use crate::authorize::Attributes;

/// Everything, wherever it stands in a rule.
const ALL: &str = "*";

/// What a role says in one place: verbs on resources, or on paths that are no resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    pub verbs: Vec<Text>,
    pub groups: Vec<Text>,
    pub resources: Vec<Text>,
    /// Without any, every object is meant.
    pub names: Vec<Text>,
    pub paths: Vec<Text>,
}

impl Rule {
    /// The rules of a Role or ClusterRole.
    pub fn all_of(role: &Value) -> Vec<Rule> {
        role.list("rules").iter().map(Rule::read).collect()
    }

    fn read(rule: &Value) -> Rule {
        let texts = |field: &str| rule.list(field).iter().map(|text| Text::new(text.as_str())).collect();
        Rule {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Whether the rule allows this.
    pub fn allows(&self, asked: &Asked<'_>) -> bool {
        if !has(&self.verbs, asked.verb()) {
            return false;
        }
        match asked {
            Asked::Path { path, .. } => self.paths.iter().any(|pattern| path_matches(pattern, path)),
            Asked::Resource(asked) => {
                let of_part = |given: &Text| asked.any_part.as_deref().is_some_and(|part| given == part);
                let is_meant = |given: &Text| given == ALL || **given == *asked.resource || of_part(given);
                has(&self.groups, asked.group)
                    && self.resources.iter().any(is_meant)
                    && (self.names.is_empty()
                        || asked.name.is_some_and(|name| self.names.iter().any(|one| one == name)))
            }
        }
    }
}

fn has(given: &[Text], wanted: &str) -> bool {
    given.iter().any(|one| one == ALL || one == wanted)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// What rules are asked.
#[derive(Clone, Debug)]
pub enum Asked<'a> {
    Resource(AskedResource<'a>),
    Path { verb: &'a str, path: &'a str },
}

#[derive(Clone, Debug)]
pub struct AskedResource<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// With its subresource: `pods/log`.
    pub resource: Cow<'a, str>,
    /// The subresource of whatever resource: `*/log`.
    pub any_part: Option<String>,
    /// None: all objects, which rules for some do not cover.
    pub name: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub fn of(attributes: &Attributes<'a>) -> Asked<'a> {
        let asked = match *attributes {
            Attributes::Path { verb, path } => return Asked::Path { verb, path },
            Attributes::Resource(asked) => asked,
        };
        let (resource, any_part) = match asked.subresource {
            "" => (Cow::Borrowed(asked.resource), None),
            part => (Cow::Owned([asked.resource, "/", part].concat()), Some(["*/", part].concat())),
        };
        Asked::Resource(AskedResource {
            verb: asked.verb,
            group: asked.group,
            resource,
            any_part,
            name: Some(asked.name),
        })
    }

    pub fn verb(&self) -> &'a str {
        match self {
            Asked::Resource(asked) => asked.verb,
            Asked::Path { verb, .. } => verb,
        }
    }
}
