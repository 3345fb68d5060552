//! The walk over an object that evaluates the rules at each of its values.

use rkube_cel::{Activation, Budget, EvalError, PER_CALL_LIMIT, Program, Value as Cel};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Error, ErrorType, Errors, Path};
use rkube_machinery::schema::structural::{JsonType, Rule, Structural};

use super::Verdict;
use super::compile::{Compiled, OLD_SELF, SELF};
use super::correlate::{Keyed, Ratchet};
use super::tree::{Node, Source};

/// What a message may have at most; a longer one is not shown.
const MESSAGE_MAX_BYTES: usize = 5 * 1024;

/// Whether there is something left to spend.
type Flow = Result<(), Spent>;

/// The budget is spent, or nobody knows what was: no further rule is evaluated.
struct Spent;

/// What was found so far, and what may still be spent.
pub struct Walk {
    errors: Errors,
    warnings: Vec<String>,
    remaining: i64,
}

impl Walk {
    pub fn new(budget: i64) -> Self {
        Walk { errors: Errors::new(), warnings: Vec::new(), remaining: budget }
    }

    pub fn verdict(self) -> Verdict {
        Verdict { errors: self.errors, warnings: self.warnings, remaining: self.remaining }
    }

    pub fn validate<'a>(
        &mut self,
        at: Position<'_, 'a>,
        object: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) {
        if self.position(at, object, old, ratchet).is_err() {
            self.remaining = -1;
        }
    }

    fn position<'a>(
        &mut self,
        at: Position<'_, 'a>,
        object: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) -> Flow {
        // A rule on a value that may be null sees only those that are not.
        if object.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(at, object, old, ratchet)?;
        for (place, node) in &at.node.all_of {
            let Some(nested) = at.source.all_of().get(*place) else { continue };
            let inner = Position { node, source: Source::Nested(nested), ..at };
            self.position(inner, object, old, ratchet.of_all_of())?;
        }
        match object {
            Value::Array(items) => self.items(at, items, old.map_or(&[], Value::items), ratchet),
            Value::Object(_) => self.entries(at, object, old, ratchet),
            _ => Ok(()),
        }
    }

    fn items<'a>(
        &mut self,
        at: Position<'_, 'a>,
        items: &'a [Value],
        old: &'a [Value],
        ratchet: Ratchet<'_, 'a>,
    ) -> Flow {
        let (Some(node), Some(source), Some(schema)) = (&at.node.items, at.source.items(), &at.schema.items) else {
            return Ok(());
        };
        // Who neither looks at old values nor forgives needs none.
        let wanted = node.needs_old || ratchet.current().is_some();
        let known = Keyed::new(at.schema, if wanted { old } else { &[] });
        for (index, item) in items.iter().enumerate() {
            let correlated = ratchet.current().and_then(|current| current.item(index, &known));
            let inner = Position { node, source, schema, path: at.path.index(index) };
            self.position(inner, item, known.get(item), ratchet.item(correlated.as_ref()))?;
        }
        Ok(())
    }

    fn entries<'a>(
        &mut self,
        at: Position<'_, 'a>,
        object: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) -> Flow {
        let old_entry = |name: &str| old.and_then(|old| old.as_map().get(name));
        if let (Some(node), Some(source), Some(schema)) = (&at.node.values, at.source.values(), at.schema.map_values())
        {
            for (name, value) in object.as_map().iter() {
                let correlated = ratchet.current().and_then(|current| current.key(name));
                let inner = Position { node, source, schema, path: at.path.key(name) };
                self.position(inner, value, old_entry(name), ratchet.key(name, correlated.as_ref()))?;
            }
        }
        if at.node.properties.is_empty() {
            return Ok(());
        }
        for (name, node) in &at.node.properties {
            let Some(value) = object.as_map().get(name) else { continue };
            let (Some(source), Some(schema)) = (at.source.property(name), at.schema.property(name)) else { continue };
            let correlated = ratchet.current().and_then(|current| current.key(name));
            let inner = Position { node, source, schema, path: at.path.child(name) };
            self.position(inner, value, old_entry(name), ratchet.key(name, correlated.as_ref()))?;
        }
        Ok(())
    }

    /// The rules at one position.
    fn rules<'a>(
        &mut self,
        at: Position<'_, 'a>,
        object: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) -> Flow {
        if at.node.is_undeclared {
            let reason = "failed to convert to declType for CEL validation rules";
            self.wrong(at, format!("rule compiler initialization error: {reason}"));
            return Ok(());
        }
        if at.node.rules.is_empty() {
            return Ok(());
        }
        if self.remaining <= 0 {
            return self.out_of_budget(at);
        }
        let variables = Variables::new(at, object, old);
        for (rule, compiled) in at.source.rules().iter().zip(&at.node.rules) {
            if let Some(error) = &compiled.error {
                self.wrong(at, format!("rule compile error: {error}"));
                continue;
            }
            let Some(program) = &compiled.program else { continue };
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.is_transition && old.is_none() && !is_optional {
                continue;
            }
            if !self.holds(at, program, rule, variables.of(rule))? {
                self.broken(at, rule, compiled, &variables.plain, object, ratchet)?;
            }
        }
        Ok(())
    }

    /// Whether the rule holds. One that cannot be evaluated is reported, and holds.
    fn holds(
        &mut self,
        at: Position<'_, '_>,
        program: &Program,
        rule: &Rule,
        variables: &Activation<'_>,
    ) -> Result<bool, Spent> {
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let outcome = program.evaluate(variables, &mut budget);
        let cost = i64::try_from(budget.spent()).unwrap_or(i64::MAX);
        if cost > self.remaining {
            return self.out_of_budget(at).map(|()| true);
        }
        self.remaining -= cost;
        let name = if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() };
        let error = match outcome {
            Ok(value) => return Ok(matches!(value, Cel::Bool(true))),
            Err(EvalError::CostLimit) => {
                let error = EvalError::CostLimit;
                let reason = "no further validation rules will be run due to call cost exceeds limit for rule";
                self.wrong(at, format!("'{error}': {reason}: {name}"));
                return Err(Spent);
            }
            Err(error) => error.to_string(),
        };
        let detail = if error.starts_with("no such overload") {
            let reason = "call arguments did not match a supported operator, function or macro signature for rule";
            format!("'{error}': {reason}: {name}")
        } else {
            format!("{error} evaluating rule: {name}")
        };
        self.wrong(at, detail);
        Ok(true)
    }

    /// Reports a rule that does not hold.
    fn broken(
        &mut self,
        at: Position<'_, '_>,
        rule: &Rule,
        compiled: &Compiled,
        variables: &Activation<'_>,
        object: &Value,
        ratchet: Ratchet<'_, '_>,
    ) -> Flow {
        let forgiven = !compiled.is_transition && ratchet.forgives();
        let below = at.path.child(&compiled.field_path);
        let path = if compiled.field_path.is_empty() { at.path } else { below };
        let mut detail = None;
        if let Some(program) = &compiled.message {
            match self.message(program, &rule.message_expression, variables) {
                Ok(message) => detail = message,
                Err(reason) => {
                    let value = Some(BadValue::from(at.schema.json_type.name()));
                    self.report(forgiven, ErrorType::Invalid, path, value, &reason);
                    return Err(Spent);
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match rule.message.is_empty() {
            true => format!("failed rule: {}", rule.rule.trim()),
            false => rule.message.trim().to_owned(),
        });
        let value = match at.schema.json_type {
            JsonType::Object | JsonType::Array => None,
            _ => Some(BadValue::from(object)),
        };
        match rule.reason.as_str() {
            "FieldValueForbidden" => self.report(forgiven, ErrorType::Forbidden, path, None, &detail),
            "FieldValueRequired" => self.report(forgiven, ErrorType::Required, path, None, &detail),
            "FieldValueDuplicate" => self.report(forgiven, ErrorType::Duplicate, path, value, ""),
            _ => self.report(forgiven, ErrorType::Invalid, path, value, &detail),
        }
        Ok(())
    }

    /// The message that the expression makes; none where it makes none that can be shown, an error where the budget ends.
    fn message(&mut self, program: &Program, text: &str, variables: &Activation<'_>) -> Result<Option<String>, String> {
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let outcome = program.evaluate(variables, &mut budget);
        let cost = i64::try_from(budget.spent()).unwrap_or(i64::MAX);
        let ends = "no further validation rules will be run";
        if cost > self.remaining {
            return Err(format!("messageExpression evaluation failed due to running out of cost budget, {ends}"));
        }
        if matches!(outcome, Err(EvalError::CostLimit)) {
            let quoted = rkube_machinery::field::quote(text);
            return Err(format!("{ends} due to call cost exceeds limit for messageExpression: {quoted}"));
        }
        self.remaining -= cost;
        let Ok(Cel::String(message)) = outcome else { return Ok(None) };
        let message = message.trim();
        let fits = !message.is_empty() && message.len() <= MESSAGE_MAX_BYTES && !message.contains('\n');
        Ok(fits.then(|| message.to_owned()))
    }

    fn report(&mut self, forgiven: bool, kind: ErrorType, path: Path<'_>, value: Option<BadValue>, detail: &str) {
        if !forgiven {
            return self.errors.push(kind, path, value, detail);
        }
        let mut errors = Errors::new();
        errors.push(kind, path, value, detail);
        self.warnings.extend(errors.0.iter().map(Error::to_string));
    }

    /// An error of the rule itself. The value that it shows is the type, as upstream has it.
    fn wrong(&mut self, at: Position<'_, '_>, detail: String) {
        self.errors.invalid(at.path, at.schema.json_type.name(), detail);
    }

    fn out_of_budget(&mut self, at: Position<'_, '_>) -> Flow {
        let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.wrong(at, detail.to_owned());
        Err(Spent)
    }
}

/// A position of the schema with its rules, and the place in the object that is validated against it.
#[derive(Clone, Copy)]
pub struct Position<'p, 'a> {
    pub node: &'p Node,
    pub source: Source<'p>,
    pub schema: &'a Structural,
    pub path: Path<'p>,
}

/// What rules call `self` and `oldSelf`. For some rules `oldSelf` is an optional.
struct Variables<'a> {
    plain: Activation<'a>,
    /// None where no rule wants it so.
    optional: Option<Activation<'a>>,
}

impl<'a> Variables<'a> {
    fn new(at: Position<'_, 'a>, object: &'a Value, old: Option<&'a Value>) -> Self {
        let view = |data: &'a Value| Cel::typed(data, at.schema, at.node.is_resource);
        let subject = view(object);
        let old = old.filter(|_| at.node.has_transitions).map(view);
        let wants_optional = at.source.rules().iter().any(|rule| rule.optional_old_self == Some(true));
        let optional = wants_optional.then(|| {
            let variables = Activation::new().outcome(SELF, subject.clone());
            let held = old.clone().map_or(Ok(Cel::Optional(None)), |old| old.map(Cel::some));
            if at.node.has_transitions { variables.outcome(OLD_SELF, held) } else { variables }
        });
        let mut plain = Activation::new().outcome(SELF, subject);
        if let Some(old) = old {
            plain = plain.outcome(OLD_SELF, old);
        }
        Variables { plain, optional }
    }

    fn of(&self, rule: &Rule) -> &Activation<'a> {
        let optional = self.optional.as_ref().filter(|_| rule.optional_old_self == Some(true));
        optional.unwrap_or(&self.plain)
    }
}
