//! Whether rules say nothing that others do not say as well: who gives rights must have them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rkube_machinery::field::quote;
use rkube_machinery::{Text, Value};

use super::rule::{Asked, AskedResource, Rule};
use super::table::Table;

/// Rules are taken apart into at most so many combinations of group, resource, verb and name. Who writes a role with
/// more must be allowed to escalate.
pub const COMBINATIONS_MAX: usize = 100_000;

/// Rules to be compared with others.
pub struct Coverage(Table);

/// What is missing.
#[derive(Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// Rules of one group, resource, verb and name each.
    Rules(Vec<Rule>),
    /// There are more than [`COMBINATIONS_MAX`].
    TooMany,
}

impl Coverage {
    /// What a role allows.
    pub fn of_role(role: &Value) -> Coverage {
        let rules: Vec<Arc<Rule>> = Rule::all_of(role).into_iter().map(Arc::new).collect();
        Coverage(Table::of(&rules))
    }

    pub fn covers(&self, rules: &[Rule]) -> Result<(), Uncovered> {
        covers(&self.0, rules)
    }
}

pub(super) fn covers(owned: &Table, rules: &[Rule]) -> Result<(), Uncovered> {
    let combinations = rules.iter().fold(0_usize, |sum, rule| sum.saturating_add(combinations(rule)));
    if combinations > COMBINATIONS_MAX {
        return Err(Uncovered::TooMany);
    }
    let mut missing = Vec::new();
    for rule in rules {
        for one in taken_apart(rule) {
            if !owned.allows(&asked(&one)) {
                missing.push(one);
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Uncovered::Rules(missing)) }
}

fn combinations(rule: &Rule) -> usize {
    let of_resources = [rule.groups.len(), rule.resources.len(), rule.verbs.len(), rule.names.len().max(1)];
    let of_resources = of_resources.into_iter().fold(1_usize, usize::saturating_mul);
    of_resources.saturating_add(rule.paths.len().saturating_mul(rule.verbs.len()))
}

/// The rule as rules of at most one group, resource, verb and name each.
fn taken_apart(rule: &Rule) -> Vec<Rule> {
    let one = |text: &Text| vec![text.clone()];
    let mut parts = Vec::new();
    for (group, resource) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one))) {
        for verb in &rule.verbs {
            let part = Rule { groups: one(group), resources: one(resource), verbs: one(verb), ..Rule::default() };
            match rule.names.is_empty() {
                true => parts.push(part),
                false => parts.extend(rule.names.iter().map(|name| Rule { names: one(name), ..part.clone() })),
            }
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| Rule { paths: one(path), verbs: one(verb), ..Rule::default() }));
    }
    parts
}

/// The question that only those rules allow who cover this part of one. Stars stand for themselves.
fn asked(part: &Rule) -> Asked<'_> {
    let verb = part.verbs.first().map_or("", Text::as_str);
    if let Some(path) = part.paths.first() {
        return Asked::Path { verb, path };
    }
    let resource = part.resources.first().map_or("", Text::as_str);
    Asked::Resource(AskedResource {
        verb,
        group: part.groups.first().map_or("", Text::as_str),
        resource: Cow::Borrowed(resource),
        any_part: resource.split_once('/').map(|(_, part)| ["*/", part].concat()),
        name: part.names.first().map(Text::as_str),
    })
}

impl Uncovered {
    /// The missing rules in words, one a line: those that differ in nothing but the verb are one.
    pub fn describe(&self) -> String {
        let rules = match self {
            Uncovered::TooMany => return format!("more than {COMBINATIONS_MAX} combinations of rules"),
            Uncovered::Rules(rules) => rules,
        };
        let mut by_resource: BTreeMap<Vec<&Text>, Rule> = BTreeMap::new();
        let mut lines = BTreeSet::new();
        for rule in rules {
            if !rule.paths.is_empty() {
                lines.insert(describe(rule));
                continue;
            }
            let place = [&rule.groups, &rule.resources, &rule.names].into_iter().flatten().collect();
            let same = by_resource.entry(place);
            same.and_modify(|same| same.verbs.extend(rule.verbs.iter().cloned())).or_insert_with(|| rule.clone());
        }
        lines.extend(by_resource.values().map(describe));
        lines.into_iter().collect::<Vec<_>>().join("\n")
    }
}

fn describe(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.paths),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let given = parts.into_iter().filter(|(_, texts)| !texts.is_empty());
    let given: Vec<String> = given.map(|(name, texts)| format!("{name}:{}", quoted_list(texts))).collect();
    format!("{{{}}}", given.join(", "))
}

/// Texts as Go's `%q` shows a list of them.
pub fn quoted_list(texts: &[Text]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}
