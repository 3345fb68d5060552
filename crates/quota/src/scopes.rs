//! Scopes: which objects a quota is about.

use rkube_machinery::{Text, Value};

/// What tells objects apart by scopes. Kinds that have none are in no scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scopes {
    #[default]
    None,
    Pod {
        terminating: bool,
        best_effort: bool,
        cross_namespace: bool,
        /// Empty where it has none.
        priority_class: Text,
    },
    /// The classes that a claim refers to, sorted.
    VolumeClaim { attributes_classes: Vec<Text> },
}

/// One of the conditions that a quota makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub scope: Text,
    pub operator: Operator,
    pub values: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Requirement {
    /// All that the spec of a quota has: its scopes, and those of its selector.
    pub fn all(spec: &Value) -> Vec<Requirement> {
        let scopes = spec.list("scopes").iter().map(|scope| Requirement {
            scope: Text::new(scope.as_str()),
            operator: Operator::Exists,
            values: Vec::new(),
        });
        let selected = spec.get("scopeSelector").list("matchExpressions").iter().map(|one| Requirement {
            scope: Text::new(one.str("scopeName")),
            operator: match one.str("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => Operator::Exists,
            },
            values: one.list("values").iter().map(|value| Text::new(value.as_str())).collect(),
        });
        scopes.chain(selected).collect()
    }

    fn allows(&self, value: Option<&Text>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Scopes {
    pub fn meet_all(&self, requirements: &[Requirement]) -> bool {
        requirements.iter().all(|requirement| self.meet(requirement))
    }

    fn meet(&self, requirement: &Requirement) -> bool {
        match self {
            Scopes::None => false,
            Scopes::Pod { terminating, best_effort, cross_namespace, priority_class } => {
                match requirement.scope.as_str() {
                    "Terminating" => *terminating,
                    "NotTerminating" => !terminating,
                    "BestEffort" => *best_effort,
                    "NotBestEffort" => !best_effort,
                    "CrossNamespacePodAffinity" => *cross_namespace,
                    "PriorityClass" => requirement.allows(Some(priority_class).filter(|class| !class.is_empty())),
                    _ => false,
                }
            }
            Scopes::VolumeClaim { attributes_classes } => {
                requirement.scope == "VolumeAttributesClass"
                    && if attributes_classes.is_empty() {
                        requirement.allows(None)
                    } else {
                        attributes_classes.iter().any(|class| requirement.allows(Some(class)))
                    }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(scope: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { scope: Text::new(scope), operator, values: values.iter().map(Text::new).collect() }
    }

    #[test]
    fn objects_are_in_scopes_or_not() {
        use Operator::{DoesNotExist, Exists, In, NotIn};
        let pod = |terminating, best_effort, cross_namespace, priority_class: &str| Scopes::Pod {
            terminating,
            best_effort,
            cross_namespace,
            priority_class: Text::new(priority_class),
        };
        let claim =
            |classes: &[&str]| Scopes::VolumeClaim { attributes_classes: classes.iter().map(Text::new).collect() };
        let plain = || pod(false, false, false, "");
        let table = [
            (pod(true, false, false, ""), "Terminating", Exists, &[][..], true),
            (plain(), "Terminating", Exists, &[], false),
            (plain(), "NotTerminating", Exists, &[], true),
            (pod(false, true, false, ""), "BestEffort", Exists, &[], true),
            (pod(false, true, false, ""), "NotBestEffort", Exists, &[], false),
            (pod(false, false, true, ""), "CrossNamespacePodAffinity", Exists, &[], true),
            (plain(), "CrossNamespacePodAffinity", Exists, &[], false),
            (pod(false, false, false, "high"), "PriorityClass", Exists, &[], true),
            (pod(false, false, false, "high"), "PriorityClass", In, &["low", "high"], true),
            (pod(false, false, false, "high"), "PriorityClass", NotIn, &["high"], false),
            (pod(false, false, false, "high"), "PriorityClass", DoesNotExist, &[], false),
            (plain(), "PriorityClass", Exists, &[], false),
            (plain(), "PriorityClass", In, &[""], false),
            (plain(), "PriorityClass", NotIn, &["high"], true),
            (plain(), "PriorityClass", DoesNotExist, &[], true),
            (plain(), "VolumeAttributesClass", Exists, &[], false),
            (claim(&[]), "VolumeAttributesClass", Exists, &[], false),
            (claim(&[]), "VolumeAttributesClass", NotIn, &["gold"], true),
            (claim(&[]), "VolumeAttributesClass", DoesNotExist, &[], true),
            (claim(&["gold"]), "VolumeAttributesClass", DoesNotExist, &[], false),
            (claim(&["gold", "silver"]), "VolumeAttributesClass", In, &["silver"], true),
            (claim(&["gold", "silver"]), "VolumeAttributesClass", NotIn, &["silver"], true),
            (claim(&["gold"]), "BestEffort", Exists, &[], false),
            (Scopes::None, "BestEffort", Exists, &[], false),
        ];
        for (scopes, scope, operator, values, expected) in table {
            let requirement = requirement(scope, operator, values);
            assert_eq!(scopes.meet_all(std::slice::from_ref(&requirement)), expected, "{scopes:?} {requirement:?}");
            assert!(scopes.meet_all(&[]));
        }
    }
}
