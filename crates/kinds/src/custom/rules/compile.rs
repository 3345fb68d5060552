//! One rule: its program, that of its message, and where its errors are reported.

use std::sync::Arc;

use rkube_cel::ast::Kind;
use rkube_cel::{Checked, Environment, Program, Type};
use rkube_machinery::schema::structural::{Rule, Structural};
use rkube_machinery::value::Text;

use super::declared::{Declared, SELF_TYPE};
use super::field_path;

pub const SELF: &str = "self";
pub const OLD_SELF: &str = "oldSelf";

/// A rule that can be evaluated, or why it cannot.
#[derive(Debug, Default)]
pub struct Compiled {
    /// None where the rule is empty or wrong.
    pub program: Option<Program>,
    /// What is wrong with the rule.
    pub error: Option<Box<str>>,
    /// Whether it speaks of `oldSelf`.
    pub is_transition: bool,
    pub message: Option<Program>,
    pub message_error: Option<Box<str>>,
    /// Where errors are reported, below the value; empty: at the value itself.
    pub field_path: Text,
}

/// What the rule and its message can cost at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    pub rule: u64,
    pub message: u64,
}

/// The environments of the rules of one position.
pub struct Compiler<'a> {
    schema: &'a Structural,
    declared: Declared<'a>,
    plain: Environment<'a>,
    optional: Environment<'a>,
}

impl<'a> Compiler<'a> {
    /// None where expressions cannot speak of values of the schema.
    pub fn new(schema: &'a Structural, declared: Declared<'a>) -> Option<Self> {
        let of = declared.type_named(SELF_TYPE)?;
        let base = Environment::new().types(Arc::new(declared)).variable(SELF, of.clone());
        let plain = base.clone().variable(OLD_SELF, of.clone());
        let optional = base.variable(OLD_SELF, Type::optional(of));
        Some(Compiler { schema, declared, plain, optional })
    }

    pub fn compile(&self, rule: &Rule) -> Compiled {
        self.run(rule, &mut None)
    }

    /// With what it can cost.
    pub fn estimate(&self, rule: &Rule) -> (Compiled, Costs) {
        let mut costs = Some(Costs::default());
        let compiled = self.run(rule, &mut costs);
        (compiled, costs.unwrap_or_default())
    }

    fn run(&self, rule: &Rule, costs: &mut Option<Costs>) -> Compiled {
        let mut compiled = Compiled::default();
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let environment = if rule.optional_old_self == Some(true) { &self.optional } else { &self.plain };
        let checked = match environment.check(&rule.rule) {
            Ok(checked) => checked,
            Err(issues) => {
                compiled.error = Some(format!("compilation failed: {issues}").into());
                return compiled;
            }
        };
        if *checked.result_type() != Type::Bool {
            compiled.error = Some("cel expression must evaluate to a bool".into());
            return compiled;
        }
        compiled.is_transition = speaks_of(&checked, OLD_SELF);
        match checked.program() {
            Ok(program) => compiled.program = Some(program),
            Err(error) => {
                compiled.error = Some(format!("program instantiation failed: {error}").into());
                return compiled;
            }
        }
        if let Some(costs) = costs {
            costs.rule = checked.estimate(&self.declared).max;
        }
        if !rule.message_expression.is_empty() {
            match message(environment, &rule.message_expression) {
                Ok((checked, program)) => {
                    compiled.message = Some(program);
                    if let Some(costs) = costs {
                        costs.message = checked.estimate(&self.declared).max;
                    }
                }
                Err(wrong) => {
                    compiled.message_error = Some(wrong.into());
                    return compiled;
                }
            }
        }
        if let Ok((path, _)) = field_path::resolve(&rule.field_path, self.schema, true) {
            compiled.field_path = path.into();
        }
        compiled
    }
}

fn message(environment: &Environment<'_>, text: &str) -> Result<(Checked, Program), String> {
    let checked =
        environment.check(text).map_err(|issues| format!("messageExpression compilation failed: {issues}"))?;
    if *checked.result_type() != Type::String {
        return Err("messageExpression must evaluate to a string".to_owned());
    }
    let program = checked.program().map_err(|error| format!("messageExpression instantiation failed: {error}"))?;
    Ok((checked, program))
}

fn speaks_of(checked: &Checked, name: &str) -> bool {
    let mut found = false;
    checked.tree().walk(&mut |part| found |= matches!(&part.kind, Kind::Ident(known) if known.as_ref() == name));
    found
}
