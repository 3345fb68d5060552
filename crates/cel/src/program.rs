//! Evaluation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use rkube_machinery::Value as Data;

use crate::cost::{self, Budget};
use crate::equality::equal;
use crate::functions::operators::key_text;
use crate::functions::{EvalError, Outcome, failed, no_overload, no_signature, regexes};
use crate::parse::ACCUMULATOR;
use crate::plan::{Attribute, Fold, Node, Root};
use crate::types::Type;
use crate::value::{Map, Object, Value};

/// An expression that can be evaluated, as often as one likes.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    pub(crate) result: Type,
}

/// The values of the variables. What comes from objects is converted when it is first used.
#[derive(Default)]
pub struct Activation<'a> {
    variables: HashMap<&'a str, Binding<'a>>,
}

enum Binding<'a> {
    Value(Value),
    Data(&'a Data, OnceLock<Value>),
}

impl<'a> Activation<'a> {
    pub fn new() -> Self {
        Activation::default()
    }

    #[must_use]
    pub fn value(mut self, name: &'a str, value: Value) -> Self {
        self.variables.insert(name, Binding::Value(value));
        self
    }

    /// A variable that is an object, or a part of one, without a schema.
    #[must_use]
    pub fn data(mut self, name: &'a str, data: &'a Data) -> Self {
        self.variables.insert(name, Binding::Data(data, OnceLock::new()));
        self
    }

    fn get(&self, name: &str) -> Option<Value> {
        Some(match self.variables.get(name)? {
            Binding::Value(value) => value.clone(),
            Binding::Data(data, converted) => converted.get_or_init(|| Value::from_data(data)).clone(),
        })
    }
}

impl Program {
    /// The type of what it evaluates to.
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    pub fn evaluate(&self, activation: &Activation<'_>, budget: &mut Budget) -> Outcome {
        Evaluation { activation, budget, locals: Vec::new() }.node(&self.root)
    }
}

struct Evaluation<'a> {
    activation: &'a Activation<'a>,
    budget: &'a mut Budget,
    /// The variables of the folds around, the innermost last. An error in one is one when it is used.
    locals: Vec<(Arc<str>, Outcome)>,
}

impl Evaluation<'_> {
    fn node(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Call { function, overload, run, arguments } => {
                if let Some(result) = self.append(function, arguments) {
                    return result;
                }
                let values = self.arguments(arguments)?;
                let result = run(&values).map_err(|error| worded(error, function, &values));
                self.budget.charge(cost::call(function, overload, &values, result.as_ref().ok()))?;
                result
            }
            Node::Match { function, overload, pattern, arguments } => {
                let values = self.arguments(arguments)?;
                let result = regexes::apply(function, Some(pattern), &values);
                let result = result.map_err(|error| worded(error, function, &values));
                self.budget.charge(cost::call(function, overload, &values, result.as_ref().ok()))?;
                result
            }
            Node::Logic { shortcut, terms } => self.logic(*shortcut, terms),
            Node::Member(item, list) => {
                let item = self.node(item)?;
                let Value::List(list) = list else { return no_overload() };
                Ok(Value::Bool(list.items.iter().any(|known| equal(&item, known))))
            }
            Node::NotStrictlyFalse(inner) => {
                let result = match self.node(inner) {
                    Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                    Ok(Value::Bool(value)) => value,
                    _ => true,
                };
                self.budget.charge(1)?;
                Ok(Value::Bool(result))
            }
            Node::Or { optional, other, unwrap } => match self.node(optional)? {
                Value::Optional(Some(inner)) if *unwrap => Ok(inner.as_ref().clone()),
                Value::Optional(Some(inner)) => Ok(Value::Optional(Some(inner))),
                Value::Optional(None) => self.node(other),
                // What is no optional stands for itself.
                value => Ok(value),
            },
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => self.message(name, fields),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// All of them are evaluated; the first error counts.
    fn arguments(&mut self, arguments: &[Node]) -> Result<Vec<Value>, EvalError> {
        let mut values = Vec::with_capacity(arguments.len());
        let mut error = None;
        for argument in arguments {
            match self.node(argument) {
                Ok(value) => values.push(value),
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Err(other) if arguments.len() > 2 => return Err(other),
                Err(other) => error = error.or(Some(other)),
            }
        }
        match error {
            None => Ok(values),
            Some(error) => {
                self.budget.charge(1)?;
                Err(error)
            }
        }
    }

    /// `@result + [element]` without copying what was collected before.
    fn append(&mut self, function: &str, arguments: &[Node]) -> Option<Outcome> {
        let [Node::Attribute(Attribute { root: Root::Variable(name), qualifiers, .. }), Node::List(_)] = arguments
        else {
            return None;
        };
        if function != "_+_" || name.as_ref() != ACCUMULATOR || !qualifiers.is_empty() {
            return None;
        }
        let more = match self.node(&arguments[1]) {
            Ok(Value::List(list)) => list.items,
            Ok(_) => return Some(no_overload()),
            Err(error) => return Some(Err(error)),
        };
        let local = self.locals.iter_mut().rev().find(|(known, _)| known == name)?;
        let mut collected = match std::mem::replace(&mut local.1, Ok(Value::Null)) {
            Ok(Value::List(list)) => list,
            Ok(_) => return Some(no_overload()),
            Err(error) => return Some(Err(error)),
        };
        Arc::make_mut(&mut collected.items).extend(more.iter().cloned());
        // One for the variable, one for the addition.
        Some(self.budget.charge(2).map(|()| Value::List(collected)))
    }

    fn logic(&mut self, shortcut: bool, terms: &[Node]) -> Outcome {
        let mut error = None;
        for term in terms {
            match self.node(term) {
                Ok(Value::Bool(value)) if value == shortcut => return Ok(Value::Bool(shortcut)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(no_overload().err()),
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Err(other) => error = error.or(Some(other)),
            }
        }
        error.map_or(Ok(Value::Bool(!shortcut)), Err)
    }

    fn attribute(&mut self, attribute: &Attribute) -> Outcome {
        let result = self.resolve(attribute);
        let free = attribute.test || matches!(attribute.root, Root::Conditional { .. });
        if !free {
            self.budget.charge(cost::SELECT)?;
        }
        result
    }

    fn resolve(&mut self, attribute: &Attribute) -> Outcome {
        let mut value = match &attribute.root {
            Root::Variable(name) => self.variable(name)?,
            Root::Value(node) => self.node(node)?,
            Root::Conditional { condition, then, otherwise } => {
                let branch = match self.node(condition)? {
                    Value::Bool(true) => then,
                    Value::Bool(false) => otherwise,
                    _ => return no_overload(),
                };
                match branch.as_ref() {
                    Node::Attribute(inner) if !inner.test => self.resolve(inner)?,
                    other => self.node(other)?,
                }
            }
        };
        if attribute.qualifiers.is_empty() {
            return Ok(value);
        }
        let mut optional = false;
        let last = attribute.qualifiers.len() - 1;
        for (index, qualifier) in attribute.qualifiers.iter().enumerate() {
            if let Value::Optional(inner) = &value {
                let Some(inner) = inner.clone() else { return absent(attribute.test && index == last) };
                optional = true;
                value = inner.as_ref().clone();
            }
            let key = match &qualifier.key {
                Node::Attribute(inner) if !inner.test => self.resolve(inner)?,
                other => self.node(other)?,
            };
            let test = attribute.test && index == last;
            let if_present = optional || qualifier.optional || test;
            let found = part(&value, &key, if_present);
            if test {
                self.budget.charge(cost::SELECT)?;
                return found.map(|found| Value::Bool(found.is_some()));
            }
            if !matches!(found, Ok(None)) {
                self.budget.charge(cost::SELECT)?;
            }
            optional |= qualifier.optional;
            match found? {
                Some(found) => value = found,
                None => return Ok(Value::Optional(None)),
            }
        }
        Ok(if optional && !matches!(value, Value::Optional(_)) { Value::some(value) } else { value })
    }

    fn variable(&self, name: &str) -> Outcome {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| known.as_ref() == name) {
            return value.clone();
        }
        match self.activation.get(name) {
            Some(value) => Ok(value),
            None => failed(format!("no such attribute(s): {name}")),
        }
    }

    fn list(&mut self, elements: &[(Node, bool)]) -> Outcome {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            match (self.node(element)?, optional) {
                (value, false) => items.push(value),
                (Value::Optional(Some(inner)), true) => items.push(inner.as_ref().clone()),
                (Value::Optional(None), true) => {}
                (_, true) => return failed("cannot initialize optional list element from non-optional value"),
            }
        }
        self.budget.charge(cost::CREATE_LIST)?;
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Outcome {
        let mut map = Map::default();
        for (key, value, optional) in entries {
            let key = self.node(key)?;
            let value = match (self.node(value)?, optional) {
                (value, false) => value,
                (Value::Optional(Some(inner)), true) => inner.as_ref().clone(),
                (Value::Optional(None), true) => continue,
                (_, true) => return failed("cannot initialize optional entry from non-optional value"),
            };
            let kind = key.type_of();
            if !map.insert(key, value) {
                return failed(format!("unsupported key type: {kind}"));
            }
        }
        self.budget.charge(cost::CREATE_MAP)?;
        Ok(Value::map(map))
    }

    fn message(&mut self, name: &Arc<str>, fields: &[(Arc<str>, Node, bool)]) -> Outcome {
        let mut set = BTreeMap::new();
        for (field, value, optional) in fields {
            let value = match (self.node(value)?, optional) {
                (value, false) => value,
                (Value::Optional(Some(inner)), true) => inner.as_ref().clone(),
                (Value::Optional(None), true) => continue,
                (_, true) => return failed("cannot initialize optional entry from non-optional value"),
            };
            set.insert(field.clone(), value);
        }
        self.budget.charge(cost::CREATE_STRUCT)?;
        Ok(Value::Object(Arc::new(Object { name: name.clone(), fields: set })))
    }

    fn fold(&mut self, fold: &Fold) -> Outcome {
        let range = self.node(&fold.range)?;
        let outside = self.locals.len();
        let turns = turns(&range, fold.variable2.is_some())?;
        let initial = self.node(&fold.initial);
        self.locals.push((fold.accumulator.clone(), initial));
        for (first, second) in turns {
            self.locals.push((fold.variable.clone(), Ok(first)));
            if let (Some(name), Some(second)) = (&fold.variable2, second) {
                self.locals.push((name.clone(), Ok(second)));
            }
            let turn = self.turn(fold);
            self.locals.truncate(outside + 1);
            match turn {
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Ok(None) => break,
                Ok(Some(value)) => self.locals[outside].1 = Ok(value),
                Err(error) => self.locals[outside].1 = Err(error),
            }
        }
        let result = self.node(&fold.result);
        self.locals.truncate(outside);
        result
    }

    /// What is collected after one turn; none where it is time to stop.
    fn turn(&mut self, fold: &Fold) -> Result<Option<Value>, EvalError> {
        match self.node(&fold.condition) {
            Ok(Value::Bool(false)) => Ok(None),
            Err(EvalError::CostLimit) => Err(EvalError::CostLimit),
            _ => self.node(&fold.step).map(Some),
        }
    }
}

fn worded(error: EvalError, function: &str, arguments: &[Value]) -> EvalError {
    match error {
        EvalError::Unfit => no_signature(function, arguments),
        other => other,
    }
}

fn absent(test: bool) -> Outcome {
    Ok(if test { Value::Bool(false) } else { Value::Optional(None) })
}

/// What is at this key or index. Where it need not be there, there is none instead of an error.
fn part(value: &Value, key: &Value, if_present: bool) -> Result<Option<Value>, EvalError> {
    let found = match value {
        Value::Map(map) => map.get(key).cloned(),
        Value::Object(object) => match key {
            Value::String(name) => object.fields.get(name).cloned(),
            _ => None,
        },
        Value::List(list) => {
            let index = index(key)?;
            let found = usize::try_from(index).ok().and_then(|index| list.items.get(index)).cloned();
            if found.is_none() && !if_present {
                return Err(EvalError::Failed(format!("index out of bounds: {index}")));
            }
            found
        }
        _ => None,
    };
    match found {
        None if !if_present => Err(EvalError::Failed(format!("no such key: {}", key_text(key)))),
        found => Ok(found),
    }
}

fn index(key: &Value) -> Result<i64, EvalError> {
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        Value::Double(index) if index.fract() == 0.0 => Ok(*index as i64),
        other => Err(EvalError::Failed(format!("unsupported index type '{}' in list", other.type_of().name()))),
    }
}

type Turns = Vec<(Value, Option<Value>)>;

/// What the variables of a fold are at each turn.
fn turns(range: &Value, two: bool) -> Result<Turns, EvalError> {
    Ok(match range {
        Value::List(list) if two => {
            list.items.iter().enumerate().map(|(at, item)| (Value::Int(at as i64), Some(item.clone()))).collect()
        }
        Value::List(list) => list.items.iter().map(|item| (item.clone(), None)).collect(),
        Value::Map(map) => map.iter().map(|(key, value)| (key.clone(), two.then(|| value.clone()))).collect(),
        Value::Object(object) => object
            .fields
            .iter()
            .map(|(name, value)| (Value::String(name.clone()), two.then(|| value.clone())))
            .collect(),
        other => {
            let message = match two {
                true => format!("unsupported comprehension range type: {}", native_name(other)),
                false => format!("got '{}', expected iterable type", native_name(other)),
            };
            return Err(EvalError::Failed(message));
        }
    })
}

/// The type as messages about folds name it.
fn native_name(value: &Value) -> String {
    let name = match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Int(_) => "Int",
        Value::Uint(_) => "Uint",
        Value::Double(_) => "Double",
        Value::String(_) => "String",
        Value::Bytes(_) => "Bytes",
        Value::Timestamp(_) => "Timestamp",
        Value::Duration(_) => "Duration",
        Value::Optional(_) => return "*types.Optional".to_owned(),
        other => return other.type_of().name().to_owned(),
    };
    format!("types.{name}")
}
