//! The rules of a definition, when it is written: whether they compile, and what they can cost.
//!
//! The walk over the schema is the caller's, who checks other things on it too: he begins with [`Context::root`], goes
//! down with [`Context::property`], [`Context::items`] and [`Context::values`], and calls [`Context::check`] where the
//! schema has rules and nothing else is wrong at that position or below it. At the end [`TotalCost::report`] says
//! whether all rules together cost too much.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::object;
use rkube_machinery::schema::structural::{AdditionalProperties, JsonType, Rule, Structural};

use super::compile::{Compiled, Compiler, Costs};
use super::declared::Declared;

/// What a rule may cost, with all values that it can be evaluated on.
pub const RULE_COST_MAX: u64 = 10_000_000;
/// What all rules of a schema may cost together.
pub const TOTAL_COST_MAX: u64 = 100_000_000;
/// So many of the most expensive rules are named where the sum is too large.
const NAMED_MAX: usize = 4;

/// A position of the schema, with what its surroundings say of it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    schema: &'a Structural,
    /// How expressions know it; none where they do not know it, or one of the positions around.
    declared: Option<Declared<'a>>,
    /// Whether there are rules here or around.
    is_within_rules: bool,
    /// How many values there can be at this position; none where nothing bounds them.
    cardinality: Option<u64>,
}

impl<'a> Context<'a> {
    pub fn root(schema: &'a Structural) -> Self {
        let is_within_rules = !schema.rules.is_empty();
        Context { schema, declared: exposed(Declared::new(schema, true)), is_within_rules, cardinality: Some(1) }
    }

    /// The position of a property; none where the schema has none of this name.
    pub fn property(&self, name: &str) -> Option<Context<'a>> {
        let schema = self.schema.property(name)?;
        Some(self.below(schema))
    }

    /// The position of the items of a list.
    pub fn items(&self) -> Option<Context<'a>> {
        let schema = self.schema.items.as_deref()?;
        Some(self.below(schema))
    }

    /// The position of the values of a map.
    pub fn values(&self) -> Option<Context<'a>> {
        let schema = self.schema.map_values()?;
        Some(self.below(schema))
    }

    fn below(&self, schema: &'a Structural) -> Context<'a> {
        let declared = Declared::new(schema, schema.extensions.embedded_resource);
        let is_known = !self.is_within_rules || self.declared.is_some();
        let bounds = self.cardinality.zip(elements_max(self.schema));
        Context {
            schema,
            declared: exposed(declared).filter(|_| is_known),
            is_within_rules: self.is_within_rules || !schema.rules.is_empty(),
            cardinality: bounds.map(|(outer, inner)| product(outer, inner)),
        }
    }

    /// Checks the rules of this position. `uncorrelatable` is the path of the list or map around whose parts cannot be
    /// told apart after an update; `suppress_cost` lets single rules cost more than they may, because they did before.
    pub fn check(
        &self,
        path: Path<'_>,
        uncorrelatable: Option<&str>,
        suppress_cost: bool,
        total: &mut TotalCost,
        errors: &mut Errors,
    ) {
        let path = path.child("x-kubernetes-validations");
        let Some(compiler) = self.declared.and_then(|declared| Compiler::new(self.schema, declared)) else {
            let reason = "unable to convert structural schema to CEL declarations";
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules";
            return errors.internal(path, format!("{detail}: {reason}"));
        };
        let unbounded = self.declared.map_or(1, Declared::cardinality_max);
        for (index, rule) in self.schema.rules.iter().enumerate() {
            let path = path.index(index);
            let (compiled, costs) = compiler.estimate(rule);
            let costs = Costs { rule: product(costs.rule, self.cardinality.unwrap_or(unbounded)), ..costs };
            check_costs(path, &compiled, costs, suppress_cost, total, errors, rule);
            check_old_self(path, rule, &compiled, uncorrelatable, errors);
        }
    }
}

/// What all rules of a definition cost.
#[derive(Clone, Debug, Default)]
pub struct TotalCost {
    total: u64,
    /// The most expensive first.
    most_expensive: Vec<(String, u64)>,
}

impl TotalCost {
    fn observe(&mut self, path: Path<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < TOTAL_COST_MAX / 100 {
            return;
        }
        self.most_expensive.push((path.to_string(), cost));
        self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(NAMED_MAX);
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Reports that the rules together cost too much. `path` is that of the schema's root.
    pub fn report(&self, path: Path<'_>, errors: &mut Errors) {
        if self.total <= TOTAL_COST_MAX {
            return;
        }
        let share = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        for (expensive, _) in &self.most_expensive {
            errors.forbidden(Path::new(expensive), share);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, too_expensive(what, self.total, TOTAL_COST_MAX));
    }
}

fn check_costs(
    path: Path<'_>,
    compiled: &Compiled,
    costs: Costs,
    suppress_cost: bool,
    total: &mut TotalCost,
    errors: &mut Errors,
    rule: &Rule,
) {
    let (rule_path, message_path) = (path.child("rule"), path.child("messageExpression"));
    if !suppress_cost && costs.rule > RULE_COST_MAX {
        errors.forbidden(rule_path, too_expensive("estimated rule cost", costs.rule, RULE_COST_MAX));
    }
    total.observe(rule_path, costs.rule);
    if let Some(error) = &compiled.error {
        errors.invalid(rule_path, shown(rule), error);
    }
    if let Some(error) = &compiled.message_error {
        errors.invalid(message_path, shown(rule), error);
    } else if compiled.message.is_some() {
        if !suppress_cost && costs.message > RULE_COST_MAX {
            let detail = too_expensive("estimated messageExpression cost", costs.message, RULE_COST_MAX);
            errors.forbidden(message_path, detail);
        }
        total.observe(message_path, costs.message);
    }
}

fn check_old_self(path: Path<'_>, rule: &Rule, compiled: &Compiled, uncorrelatable: Option<&str>, errors: &mut Errors) {
    if compiled.is_transition {
        if let Some(within) = uncorrelatable {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            errors.invalid(path.child("rule"), rule.rule.as_str(), detail);
        }
    } else if let Some(optional) = rule.optional_old_self {
        errors.invalid(path.child("optionalOldSelf"), optional, "may not be set if oldSelf is not used in rule");
    }
}

/// The rule as errors show it.
fn shown(rule: &Rule) -> BadValue {
    let reason = if rule.reason.is_empty() { Value::Null } else { Value::from(rule.reason.clone()) };
    BadValue::from(&object! {
        "Rule": rule.rule.clone(),
        "Message": rule.message.clone(),
        "MessageExpression": rule.message_expression.clone(),
        "Reason": reason,
        "FieldPath": rule.field_path.clone(),
        "OptionalOldSelf": rule.optional_old_self.map_or(Value::Null, Value::Bool),
    })
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                  strings are declared)";
    format!("{what} exceeds budget by factor of {factor} {advice}")
}

fn exposed(declared: Declared<'_>) -> Option<Declared<'_>> {
    Some(declared).filter(|declared| declared.is_exposed())
}

/// How many parts a value of this schema can have; none where nothing bounds them.
fn elements_max(schema: &Structural) -> Option<u64> {
    let validation = schema.validation.as_deref();
    let said = |most: Option<i64>| most.map(|most| most.max(0) as u64);
    match schema.json_type {
        JsonType::Object if schema.additional_properties != AdditionalProperties::Absent => {
            said(validation.and_then(|validation| validation.max_properties))
        }
        JsonType::Array => said(validation.and_then(|validation| validation.max_items)),
        _ => Some(1),
    }
}

fn product(cost: u64, cardinality: u64) -> u64 {
    cost.saturating_mul(cardinality)
}
