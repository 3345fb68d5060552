//! What evaluating an expression can cost at least and at most, told before it is evaluated.
//!
//! Sizes of what is written in the expression are known; for what it takes out of variables the caller says how large
//! that can be. What nobody knows is taken for endless.

mod calls;
mod range;

use std::collections::HashMap;
use std::sync::Arc;

pub use range::Range;

use crate::ast::{Comprehension, Expr, Kind, Literal};
use crate::check::Checked;
use crate::cost::{CREATE_LIST, CREATE_MAP, CREATE_STRUCT};
use crate::parse::ACCUMULATOR;
use crate::types::Type;

/// How large the values of variables can be.
pub trait Sizes {
    /// The size at the end of this path: a variable, then names of fields, `@items`, `@keys` or `@values`.
    fn size(&self, path: &[String]) -> Option<Range>;
}

/// The cost of the expression.
pub fn estimate(checked: &Checked, sizes: &dyn Sizes) -> Range {
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: HashMap::new(),
        locals: Vec::new(),
        known: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(&checked.root)
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(one: Option<Entries>, other: Option<Entries>) -> Option<Entries> {
        let (one, other) = (one?, other?);
        let (key, value) = (one.key.union(other.key), one.value.union(other.value));
        Some(Entries { is_list: one.is_list, key, value })
    }
}

/// A variable of a fold.
struct Local {
    name: Arc<str>,
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// A part of a call, as the costs of functions see it.
struct Part<'a> {
    path: Vec<String>,
    of: Type,
    expr: &'a Expr,
    size: Option<Range>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    sizes: &'a dyn Sizes,
    paths: HashMap<usize, Vec<String>>,
    locals: Vec<Local>,
    known: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.to_string()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::ONE
            }
            Kind::Select { operand, test: true, .. } => self.cost(operand),
            Kind::Select { operand, field, test: false } => {
                let cost = self.cost(operand);
                let mut path = self.path(operand);
                path.push(field.to_string());
                self.paths.insert(expr.id, path);
                match self.type_of(operand) {
                    Type::Map(..) | Type::Object(_) => cost.plus(Range::ONE),
                    _ => cost,
                }
            }
            Kind::Call { function, target, arguments } => self.call(expr, function, target.as_deref(), arguments),
            Kind::List { elements, .. } => self.list(expr, elements),
            Kind::Map(entries) => {
                let mut cost = Range::ZERO;
                let (mut key, mut value) = (Range::none(entries.len()), Range::none(entries.len()));
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key));
                    cost = cost.plus(self.cost(&entry.value));
                    key = key.union(self.size(&entry.key));
                    value = value.union(self.size(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                cost.plus(Range::exactly(CREATE_MAP))
            }
            Kind::Struct { fields, .. } => {
                let sum = fields.iter().fold(Range::ZERO, |sum, field| sum.plus(self.cost(&field.value)));
                sum.plus(Range::exactly(CREATE_STRUCT))
            }
            Kind::Comprehension(fold) if is_binding(fold) => self.binding(expr, fold),
            Kind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    fn list(&mut self, expr: &Expr, elements: &[Expr]) -> Range {
        let mut cost = Range::ZERO;
        let mut value = Range::none(elements.len());
        for element in elements {
            cost = cost.plus(self.cost(element));
            value = value.union(self.size(element));
        }
        self.entries.insert(expr.id, Entries { is_list: true, key: Range::ONE, value });
        cost.plus(Range::exactly(CREATE_LIST))
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Range {
        if let ("dyn", None, [argument]) = (function, target, arguments) {
            let cost = self.cost(argument);
            self.copy_sizes(expr, argument);
            return cost.plus(Range::ONE);
        }
        let mut costs = Vec::with_capacity(arguments.len());
        let mut parts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            costs.push(self.cost(argument));
            parts.push(self.part(argument));
        }
        let checked = self.checked;
        let Some(overloads) = checked.overloads.get(&expr.id) else { return Range::ZERO };
        let mut sum = Range::ZERO;
        let mut receiver = None;
        if let Some(target) = target {
            sum = self.cost(target);
            receiver = Some(self.part(target));
        }
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut result: Option<Range> = None;
        for overload in overloads {
            let (one, size) = self.function(expr, function, overload, receiver.as_ref(), &parts, &costs);
            cost = cost.union(one);
            result = match (result, size) {
                (Some(before), Some(size)) => Some(before.union(size)),
                (before, size) => before.or(size),
            };
            if let ("index_list" | "index_map", Some(container)) = (*overload, arguments.first()) {
                result = self.entries_of(container).map(|entries| entries.value);
                let mut path = self.path(container);
                path.push(if *overload == "index_list" { "@items" } else { "@values" }.to_owned());
                self.paths.insert(expr.id, path);
            }
            result = result.or_else(|| self.known_size(expr));
        }
        if let Some(size) = result {
            self.known.insert(expr.id, size);
        }
        sum.plus(cost)
    }

    fn fold(&mut self, expr: &Expr, fold: &Comprehension) -> Range {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.initial));
        let outside = self.locals.len();
        self.push_local(&fold.accumulator, &fold.initial);
        let entries = self.entries_of(&fold.range);
        let is_list =
            entries.map_or_else(|| matches!(self.type_of(&fold.range), Type::List(_)), |entries| entries.is_list);
        let path = self.path(&fold.range);
        let mut push = |name: &Arc<str>, end: &str, size: Option<Range>| {
            let mut path = path.clone();
            path.push(end.to_owned());
            self.locals.push(Local { name: name.clone(), path, size, entries: None });
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        match (&fold.variable2, is_list) {
            (Some(second), true) => {
                push(&fold.variable, "@indices", key);
                push(second, "@items", value);
            }
            (Some(second), false) => {
                push(&fold.variable, "@keys", key);
                push(second, "@values", value);
            }
            (None, true) => push(&fold.variable, "@items", value),
            (None, false) => push(&fold.variable, "@keys", key),
        }
        let turn = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(outside + 1);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(outside);
        let turns = self.size(&fold.range);
        match &fold.initial.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.known_size(&fold.initial) {
                    self.known.insert(expr.id, size);
                }
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.known.insert(expr.id, turns);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.plus(turns.times(turn))
    }

    fn binding(&mut self, expr: &Expr, fold: &Comprehension) -> Range {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.initial));
        let outside = self.locals.len();
        self.push_local(&fold.accumulator, &fold.initial);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(outside);
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn push_local(&mut self, name: &Arc<str>, value: &Expr) {
        let (path, entries, size) = (self.path(value), self.entries_of(value), self.known_size(value));
        self.locals.push(Local { name: name.clone(), path, size, entries });
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name.as_ref() == name)
    }

    fn type_of(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id]
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn part<'e>(&mut self, expr: &'e Expr) -> Part<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCUMULATOR) {
            path.clear();
        }
        Part { path, of: self.type_of(expr).clone(), expr, size: self.known_size(expr) }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.known_size(from) {
            self.known.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn size(&mut self, expr: &Expr) -> Range {
        self.known_size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn known_size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.known.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expr) {
            return Some(Range::exactly(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.sizes.size(&path).filter(|_| !path.is_empty()) {
            self.known.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.type_of(expr)) {
            return Some(Range::ONE);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }
}

fn is_binding(fold: &Comprehension) -> bool {
    let empty = matches!(&fold.range.kind, Kind::List { elements, .. } if elements.is_empty());
    empty && fold.condition.kind == Kind::Literal(Literal::Bool(false))
}

fn written_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List { elements, .. } => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.unwrap_optional().is_some_and(is_scalar),
    }
}
