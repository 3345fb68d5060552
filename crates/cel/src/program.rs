//! Evaluation.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rkube_machinery::Value as Data;

use crate::cost::{self, Budget};
use crate::equality::equal;
use crate::functions::operators::{MAP_INSERT, map_insert};
use crate::functions::{EvalError, Function, Outcome, failed, no_overload, no_signature, regexes};
use crate::parse::ACCUMULATOR;
use crate::parts::{absent, native_name, part};
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
    /// Few enough to be searched from front to back.
    variables: Vec<(&'a str, Binding<'a>)>,
}

enum Binding<'a> {
    Value(Outcome<'a>),
    Data(&'a Data, OnceLock<Value<'static>>),
}

impl<'a> Activation<'a> {
    pub fn new() -> Self {
        Activation::default()
    }

    #[must_use]
    pub fn value(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.variables.push((name, Binding::Value(Ok(value))));
        self
    }

    /// A variable that is an error when it is used, where it is one.
    #[must_use]
    pub fn outcome(mut self, name: &'a str, value: Result<Value<'a>, EvalError>) -> Self {
        self.variables.push((name, Binding::Value(value)));
        self
    }

    /// A variable that is an object, or a part of one, without a schema.
    #[must_use]
    pub fn data(mut self, name: &'a str, data: &'a Data) -> Self {
        self.variables.push((name, Binding::Data(data, OnceLock::new())));
        self
    }

    fn get(&self, name: &str) -> Option<Outcome<'a>> {
        let (_, binding) = self.variables.iter().rev().find(|(known, _)| *known == name)?;
        Some(match binding {
            Binding::Value(value) => value.clone(),
            Binding::Data(data, converted) => Ok(converted.get_or_init(|| Value::from_data(data)).clone()),
        })
    }
}

impl Program {
    /// The type of what it evaluates to.
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    pub fn evaluate<'a>(&self, activation: &Activation<'a>, budget: &mut Budget) -> Outcome<'a> {
        Evaluation { activation, budget, locals: Vec::new() }.node(&self.root)
    }
}

/// Adding to what a fold collects: one for the variable, one for the addition.
const APPEND: u64 = 2;

struct Evaluation<'e, 'a> {
    activation: &'e Activation<'a>,
    budget: &'e mut Budget,
    /// The variables of the folds around, the innermost last. An error in one is one when it is used.
    locals: Vec<(Arc<str>, Outcome<'a>)>,
}

impl<'a> Evaluation<'_, 'a> {
    fn node(&mut self, node: &Node) -> Outcome<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Call { function, overload, run, arguments } => self.call(function, overload, *run, arguments),
            Node::Match { function, overload, pattern, arguments } => {
                let values = self.pattern_arguments(arguments)?;
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

    fn call(&mut self, function: &str, overload: &str, run: Function, arguments: &[Node]) -> Outcome<'a> {
        if let Some(result) = self.append(function, arguments) {
            return result;
        }
        let mut values = self.arguments(function, overload, arguments)?;
        open(function, &mut values)?;
        let by_result = cost::is_by_result(function, overload);
        if !by_result {
            self.budget.charge(cost::call(function, overload, &values, None))?;
        }
        if function == MAP_INSERT {
            // The fold gives up what it collected, so that it is not copied; it gets the result instead.
            let collected = self.locals.iter_mut().rev().find(|(name, _)| name.as_ref() == ACCUMULATOR);
            collected.into_iter().for_each(|(_, value)| *value = Ok(Value::Null));
            return map_insert(values);
        }
        let result = run(&values).map_err(|error| worded(error, function, &values));
        if by_result {
            self.budget.charge(cost::call(function, overload, &values, result.as_ref().ok()))?;
        }
        result
    }

    /// All of them are evaluated, up to the first error where there are more than two; the first error counts. The call
    /// costs what it does with values of size one, where all were evaluated.
    fn arguments(&mut self, function: &str, overload: &str, arguments: &[Node]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(arguments.len());
        let mut error = None;
        for argument in arguments {
            match self.node(argument) {
                Ok(value) => values.push(value),
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Err(other) => {
                    values.push(Value::Null);
                    if arguments.len() > 2 && values.len() < arguments.len() {
                        return Err(other);
                    }
                    error = error.or(Some(other));
                }
            }
        }
        match error {
            None => Ok(values),
            Some(error) => {
                self.budget.charge(cost::call(function, overload, &values, None))?;
                Err(error)
            }
        }
    }

    /// The arguments of a call with a pattern that is known: such a call costs nothing where it fails.
    fn pattern_arguments(&mut self, arguments: &[Node]) -> Result<Vec<Value<'a>>, EvalError> {
        arguments.iter().map(|argument| self.node(argument)).collect()
    }

    /// `@result + [element]` without copying what was collected before.
    fn append(&mut self, function: &str, arguments: &[Node]) -> Option<Outcome<'a>> {
        let [
            Node::Attribute(Attribute { root: Root::Variable(name), qualifiers, .. }),
            Node::List(_) | Node::Constant(Value::List(_)),
        ] = arguments
        else {
            return None;
        };
        if function != "_+_" || name.as_ref() != ACCUMULATOR || !qualifiers.is_empty() {
            return None;
        }
        let more = match self.node(&arguments[1]) {
            Ok(Value::List(list)) => list.items,
            Ok(_) => return Some(no_overload()),
            Err(error) => return Some(self.charge_for(APPEND, Err(error))),
        };
        let local = self.locals.iter_mut().rev().find(|(known, _)| known == name)?;
        let mut collected = match std::mem::replace(&mut local.1, Ok(Value::Null)) {
            Ok(Value::List(list)) => list,
            Ok(_) => return Some(no_overload()),
            Err(error) => return Some(Err(error)),
        };
        Arc::make_mut(&mut collected.items).extend(more.iter().cloned());
        Some(self.charge_for(APPEND, Ok(Value::List(collected))))
    }

    fn logic(&mut self, shortcut: bool, terms: &[Node]) -> Outcome<'a> {
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

    fn attribute(&mut self, attribute: &Attribute) -> Outcome<'a> {
        let result = self.resolve(attribute);
        let free = attribute.test || matches!(attribute.root, Root::Conditional { .. });
        if !free {
            self.budget.charge(cost::SELECT)?;
        }
        result
    }

    fn resolve(&mut self, attribute: &Attribute) -> Outcome<'a> {
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
                Node::Attribute(inner) if !inner.test => self.resolve(inner),
                other => self.node(other),
            };
            let key = match key {
                Ok(key) => key,
                Err(error) => return self.charge_for(cost::SELECT, Err(error)),
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

    fn variable(&self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| known.as_ref() == name) {
            return value.clone();
        }
        match self.activation.get(name) {
            Some(value) => value,
            None => failed(format!("no such attribute(s): {name}")),
        }
    }

    /// Making a list costs the same whether or not its elements can be had; so do maps and messages.
    fn list(&mut self, elements: &[(Node, bool)]) -> Outcome<'a> {
        let items = self.elements(elements);
        self.charge_for(cost::CREATE_LIST, items).map(Value::list)
    }

    fn elements(&mut self, elements: &[(Node, bool)]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.node(element)?;
            items.extend(given(value, *optional, "cannot initialize optional list element from non-optional value")?);
        }
        Ok(items)
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Outcome<'a> {
        let map = self.entries(entries);
        self.charge_for(cost::CREATE_MAP, map).map(Value::map)
    }

    fn entries(&mut self, entries: &[(Node, Node, bool)]) -> Result<Map<'a>, EvalError> {
        let mut map = Map::default();
        for (key, value, optional) in entries {
            let key = self.node(key)?;
            let Some(value) = given(self.node(value)?, *optional, NO_OPTIONAL_ENTRY)? else { continue };
            let kind = key.type_of();
            if !map.insert(key, value) {
                return Err(EvalError::Failed(format!("unsupported key type: {kind}")));
            }
        }
        Ok(map)
    }

    fn message(&mut self, name: &Arc<str>, fields: &[(Arc<str>, Node, bool)]) -> Outcome<'a> {
        let set = self.fields(fields);
        let fields = self.charge_for(cost::CREATE_STRUCT, set)?;
        Ok(Value::Object(Arc::new(Object { name: name.clone(), fields })))
    }

    fn fields(&mut self, fields: &[(Arc<str>, Node, bool)]) -> Result<BTreeMap<Arc<str>, Value<'a>>, EvalError> {
        let mut set = BTreeMap::new();
        for (field, value, optional) in fields {
            let Some(value) = given(self.node(value)?, *optional, NO_OPTIONAL_ENTRY)? else { continue };
            set.insert(field.clone(), value);
        }
        Ok(set)
    }

    fn charge_for<T>(&mut self, cost: u64, made: Result<T, EvalError>) -> Result<T, EvalError> {
        self.budget.charge(cost)?;
        made
    }

    fn fold(&mut self, fold: &Fold) -> Outcome<'a> {
        let range = self.node(&fold.range)?;
        let outside = self.locals.len();
        let two = fold.variable2.is_some();
        let iterable = match &range {
            Value::List(_) | Value::Map(_) | Value::Object(_) => true,
            Value::View(view) => view.is_list() || view.is_map(),
            _ => false,
        };
        if !iterable {
            return failed(match two {
                true => format!("unsupported comprehension range type: {}", native_name(&range)),
                false => format!("got '{}', expected iterable type", native_name(&range)),
            });
        }
        let initial = self.node(&fold.initial);
        self.locals.push((fold.accumulator.clone(), initial));
        self.turns(fold, &range, two)?;
        let result = self.node(&fold.result);
        self.locals.truncate(outside);
        result
    }

    /// Goes through the list or map until it is time to stop.
    fn turns(&mut self, fold: &Fold, range: &Value<'a>, two: bool) -> Result<(), EvalError> {
        let numbered = |at: usize, item: Outcome<'a>| match two {
            true => (Ok(Value::Int(at as i64)), Some(item)),
            false => (item, None),
        };
        match range {
            Value::List(list) => {
                for (at, item) in list.items.iter().enumerate() {
                    let (first, second) = numbered(at, Ok(item.clone()));
                    if !self.one_turn(fold, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if !self.one_turn(fold, Ok(key.clone()), two.then(|| Ok(value.clone())))? {
                        break;
                    }
                }
            }
            Value::Object(object) => {
                for (name, value) in &object.fields {
                    if !self.one_turn(fold, Ok(Value::String(name.clone())), two.then(|| Ok(value.clone())))? {
                        break;
                    }
                }
            }
            Value::View(view) if view.is_list() => {
                for at in 0..view.len() {
                    let Some(item) = view.item(at) else { break };
                    let (first, second) = numbered(at, item);
                    if !self.one_turn(fold, first, second)? {
                        break;
                    }
                }
            }
            Value::View(view) => {
                for (key, value) in view.entries() {
                    if !self.one_turn(fold, Ok(key), two.then_some(value))? {
                        break;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// One turn of a fold; false where it is time to stop.
    fn one_turn(&mut self, fold: &Fold, first: Outcome<'a>, second: Option<Outcome<'a>>) -> Result<bool, EvalError> {
        let inside = self.locals.len();
        self.locals.push((fold.variable.clone(), first));
        if let (Some(name), Some(second)) = (&fold.variable2, second) {
            self.locals.push((name.clone(), second));
        }
        let turn = self.turn(fold);
        self.locals.truncate(inside);
        let collected = match turn {
            Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
            Ok(None) => return Ok(false),
            Ok(Some(value)) => Ok(value),
            Err(error) => Err(error),
        };
        self.locals[inside - 1].1 = collected;
        Ok(true)
    }

    /// What is collected after one turn; none where it is time to stop.
    fn turn(&mut self, fold: &Fold) -> Result<Option<Value<'a>>, EvalError> {
        match self.node(&fold.condition) {
            Ok(Value::Bool(false)) => Ok(None),
            Err(EvalError::CostLimit) => Err(EvalError::CostLimit),
            _ => self.node(&fold.step).map(Some),
        }
    }
}

fn worded(error: EvalError, function: &str, arguments: &[Value<'_>]) -> EvalError {
    match error {
        EvalError::Unfit => no_signature(function, arguments),
        other => other,
    }
}

const NO_OPTIONAL_ENTRY: &str = "cannot initialize optional entry from non-optional value";

/// The value, or what an optional has where one is wanted.
fn given<'a>(value: Value<'a>, optional: bool, otherwise: &str) -> Result<Option<Value<'a>>, EvalError> {
    match (value, optional) {
        (value, false) => Ok(Some(value)),
        (Value::Optional(inner), true) => Ok(inner.map(|inner| inner.as_ref().clone())),
        (_, true) => Err(EvalError::Failed(otherwise.to_owned())),
    }
}

/// Lists and maps that are only looked at become ones of their own for functions that know no views.
fn open(function: &str, values: &mut [Value<'_>]) -> Result<(), EvalError> {
    if !values.iter().any(|value| matches!(value, Value::View(_))) {
        return Ok(());
    }
    let knows_views = matches!(
        function,
        "size" | "@in" | "_==_" | "_!=_" | "dyn" | "type" | "optional.of" | "optional.ofNonZeroValue"
    );
    if !knows_views {
        for value in values {
            if let Value::View(view) = value {
                *value = view.opened()?;
            }
        }
    }
    Ok(())
}
