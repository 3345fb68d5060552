//! Rules arranged so that only those are looked at that may allow what is asked: whether a thousand roles give something
//! costs about what it costs for one.
//!
//! A table is as large as its rules: each stands under its object names, or under its resources, or under its paths, and
//! equal ones stand there once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rkube_machinery::Text;

use super::rule::{Asked, AskedResource, Rule};

#[derive(Debug, Default)]
pub struct Table {
    /// Rules for some objects, by their names.
    named: Places,
    /// Rules for all objects, by resource as the rule has it: `pods`, `pods/log`, `*/scale`, `*`.
    resources: Places,
    paths: Places,
    /// Rules with paths that end in `*`.
    path_patterns: Vec<Arc<Rule>>,
}

#[derive(Debug, Default)]
struct Places(HashMap<Text, Vec<Arc<Rule>>>);

impl Table {
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a Arc<Rule>>) -> Table {
        let mut table = Table::default();
        let mut seen: HashSet<&Rule> = HashSet::new();
        for rule in rules {
            if seen.insert(rule) {
                table.add(rule);
            }
        }
        table
    }

    fn add(&mut self, rule: &Arc<Rule>) {
        match rule.names.is_empty() {
            true => self.resources.add(&rule.resources, rule),
            false => self.named.add(&rule.names, rule),
        }
        let is_pattern = |path: &&Text| path.ends_with('*');
        self.paths.add(rule.paths.iter().filter(|path| !is_pattern(path)), rule);
        if rule.paths.iter().any(|path| is_pattern(&path)) {
            self.path_patterns.push(rule.clone());
        }
    }

    /// Whether one of the rules allows this.
    pub fn allows(&self, asked: &Asked<'_>) -> bool {
        match asked {
            Asked::Resource(resource) => self.allows_resource(resource, asked),
            Asked::Path { path, .. } => {
                self.paths.allows(path, asked) || self.path_patterns.iter().any(|rule| rule.allows(asked))
            }
        }
    }

    fn allows_resource(&self, resource: &AskedResource<'_>, asked: &Asked<'_>) -> bool {
        self.resources.allows(&resource.resource, asked)
            || self.resources.allows("*", asked)
            || resource.any_part.as_deref().is_some_and(|part| self.resources.allows(part, asked))
            || resource.name.is_some_and(|name| self.named.allows(name, asked))
    }
}

impl Places {
    fn add<'a>(&mut self, keys: impl IntoIterator<Item = &'a Text>, rule: &Arc<Rule>) {
        for key in keys {
            self.0.entry(key.clone()).or_default().push(rule.clone());
        }
    }

    fn allows(&self, key: &str, asked: &Asked<'_>) -> bool {
        !self.0.is_empty() && self.0.get(key).is_some_and(|rules| rules.iter().any(|rule| rule.allows(asked)))
    }
}
