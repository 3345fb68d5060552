//! The types of all parts of an expression, and what is wrong with them.

mod literals;
mod unify;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Kind, Literal};
use crate::declarations::Overload;
use crate::environment::{Environment, Types};
use crate::parse::Tree;
use crate::source::{Issues, Source};
use crate::types::Type;
use unify::{Bindings, more_general};

/// A tree of which all types are known. Names in it are those of what they mean.
#[derive(Debug)]
pub struct Checked {
    pub root: Expr,
    /// By the id of a part.
    pub types: Vec<Type>,
    /// The signatures that fit a call, by its id.
    pub overloads: HashMap<usize, Vec<&'static str>>,
}

/// Finds the types of all parts.
pub fn check(environment: &Environment<'_>, source: &Source, tree: Tree) -> Result<Checked, Issues> {
    let mut checker = Checker {
        environment,
        scopes: Vec::new(),
        types: vec![Type::Dyn; tree.ids + 1],
        overloads: HashMap::new(),
        bindings: Bindings::default(),
        faults: Vec::new(),
    };
    let mut root = tree.root;
    checker.check(&mut root);
    if !checker.faults.is_empty() {
        return Err(source.issues(checker.faults));
    }
    let types = checker.types.iter().map(|found| checker.bindings.substitute(found, true)).collect();
    let checked = Checked { root, types, overloads: checker.overloads };
    let faults = literals::validate(&checked);
    if faults.is_empty() { Ok(checked) } else { Err(source.issues(faults)) }
}

/// The types that mutating policies make: `Object` with any fields and `JSONPatch`.
pub struct PatchTypes;

impl Types for PatchTypes {
    fn contains(&self, name: &str) -> bool {
        name == "JSONPatch" || name == "Object" || name.starts_with("Object.")
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        match (name, field) {
            ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
            ("JSONPatch", "value") => Some(Type::Dyn),
            ("JSONPatch", _) => Some(Type::opaque("")),
            _ => Some(Type::Dyn),
        }
    }
}

struct Checker<'a> {
    environment: &'a Environment<'a>,
    /// The variables of the folds around, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    types: Vec<Type>,
    overloads: HashMap<usize, Vec<&'static str>>,
    bindings: Bindings,
    faults: Vec<(Option<usize>, String)>,
}

impl Checker<'_> {
    fn check(&mut self, expr: &mut Expr) {
        let found = match &mut expr.kind {
            Kind::Unspecified => Type::Error,
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(_) => self.ident(expr),
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List { elements, optional } => {
                let optional = optional.clone();
                self.list(elements, &optional)
            }
            Kind::Map(_) => self.map(expr),
            Kind::Struct { .. } => self.message(expr),
            Kind::Comprehension(fold) => self.fold(fold),
        };
        self.types[expr.id] = found;
    }

    fn fault(&mut self, offset: Option<usize>, message: String) {
        self.faults.push((offset, message));
    }

    fn undeclared(&mut self, offset: Option<usize>, name: &str) -> Type {
        self.fault(offset, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, offset: Option<usize>, expected: &Type, found: &Type) {
        self.fault(offset, format!("expected type '{}' but found '{}'", expected.shown(), found.shown()));
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    /// The variable or the type of this name, and its full name.
    fn lookup(&self, name: &str) -> Option<(Arc<str>, Type)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = self.scopes.iter().rev().find(|(known, _)| known.as_ref() == name).map(|(_, found)| found.clone());
        let found = found.or_else(|| self.environment.variables.get(name).cloned());
        let found = found.or_else(|| type_by_name(name).map(Type::of_type));
        let found = found.or_else(|| self.environment.named(name).map(Type::of_type));
        found.map(|found| (name.into(), found))
    }

    fn ident(&mut self, expr: &mut Expr) -> Type {
        let Kind::Ident(name) = &mut expr.kind else { return Type::Error };
        match self.lookup(name) {
            Some((full, found)) => {
                *name = full;
                found
            }
            None => {
                let name = name.clone();
                self.undeclared(expr.offset, &name)
            }
        }
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some((full, found)) = expr.qualified_name().and_then(|name| self.lookup(&name)) {
            expr.kind = Kind::Ident(full);
            return found;
        }
        let offset = expr.offset;
        let Kind::Select { operand, field, test } = &mut expr.kind else { return Type::Error };
        let found = self.field(offset, operand, field, false);
        if *test { Type::Bool } else { self.bindings.substitute(&found, false) }
    }

    fn field(&mut self, offset: Option<usize>, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.bindings.substitute(&self.type_of(operand), false);
        let inner = operand.unwrap_optional();
        let target = inner.unwrap_or(&operand);
        let found = match target {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Object(name) if !self.environment.is_type(name) => {
                self.fault(offset, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Object(name) => self.environment.field(name, field).unwrap_or_else(|| {
                self.fault(offset, format!("undefined field '{field}'"));
                Type::Error
            }),
            Type::Variable(_) => {
                self.bindings.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
            other => {
                self.fault(offset, format!("type '{}' does not support field selection", other.shown()));
                Type::Dyn
            }
        };
        if inner.is_some() || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, offset) = (expr.id, expr.offset);
        let Kind::Call { function, target, arguments } = &mut expr.kind else { return Type::Error };
        if function.as_ref() == "_?._" {
            return self.optional_select(id, offset, arguments);
        }
        arguments.iter_mut().for_each(|argument| self.check(argument));
        let functions = self.environment.functions;
        if let Some(prefix) = target.as_ref().and_then(|target| target.qualified_name()) {
            let prefix = prefix.strip_prefix('.').unwrap_or(&prefix);
            if let Some((name, overloads)) = functions.get(&format!("{prefix}.{function}")) {
                *function = name.into();
                *target = None;
                return self.resolve(id, offset, name, overloads, None, arguments);
            }
        }
        if let Some(target) = target.as_mut() {
            self.check(target);
        }
        let name = match target {
            None => function.strip_prefix('.').unwrap_or(function),
            Some(_) => function,
        };
        match functions.get(name) {
            Some((name, overloads)) => {
                *function = name.into();
                let target = target.as_deref();
                self.resolve(id, offset, name, overloads, target, arguments)
            }
            None => {
                let name = function.clone();
                self.undeclared(offset, &name)
            }
        }
    }

    fn optional_select(&mut self, id: usize, offset: Option<usize>, arguments: &mut [Expr]) -> Type {
        let [operand, field] = arguments else { return Type::Error };
        let Kind::Literal(Literal::String(name)) = &field.kind else { return Type::Error };
        let name = name.clone();
        self.types[field.id] = Type::String;
        let found = self.field(offset, operand, &name, true);
        self.overloads.insert(id, vec!["select_optional_field"]);
        self.bindings.substitute(&found, false)
    }

    /// The type that the signatures that fit give; dynamic when they differ.
    fn resolve(
        &mut self,
        id: usize,
        offset: Option<usize>,
        name: &'static str,
        overloads: &'static [Overload],
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Type {
        if matches!(name, "_&&_" | "_||_") {
            return self.logic(id, overloads, arguments);
        }
        let given: Vec<Type> = target.into_iter().chain(arguments).map(|part| self.type_of(part)).collect();
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let fresh: HashMap<&str, Type> =
                overload.parameters.iter().map(|name| (name.as_str(), self.bindings.fresh())).collect();
            let wanted: Vec<Type> = overload.arguments.iter().map(|part| instantiate(part, &fresh)).collect();
            if !self.bindings.all_assignable(&given, &wanted) {
                continue;
            }
            fitting.push(overload.name);
            let found = self.bindings.substitute(&instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => found,
                Some(before) if before.is_dyn() || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let mut shown: Vec<String> =
                given.iter().map(|part| self.bindings.substitute(part, true).shown()).collect();
            let receiver = if target.is_some() { format!("{}.", shown.remove(0)) } else { String::new() };
            let signature = format!("{receiver}({})", shown.join(", "));
            self.fault(offset, format!("found no matching overload for '{name}' applied to '{signature}'"));
            return Type::Error;
        };
        self.overloads.insert(id, fitting);
        result
    }

    fn logic(&mut self, id: usize, overloads: &'static [Overload], arguments: &[Expr]) -> Type {
        let mut wrong = false;
        for argument in arguments {
            let given = self.type_of(argument);
            if !self.bindings.assignable(&given, &Type::Bool) {
                self.mismatch(argument.offset, &Type::Bool, &given);
                wrong = true;
            }
        }
        self.overloads.insert(id, overloads.iter().map(|overload| overload.name).collect());
        if wrong { Type::Error } else { Type::Bool }
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[usize]) -> Type {
        let mut common = None;
        for (index, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let found = self.element_type(element, optional.contains(&index));
            common = Some(self.join(common, found));
        }
        Type::list(common.unwrap_or_else(|| self.bindings.fresh()))
    }

    /// The type of an element; of one with a question mark the type that it may hold.
    fn element_type(&mut self, element: &Expr, optional: bool) -> Type {
        let found = self.type_of(element);
        if !optional {
            return found;
        }
        match found.unwrap_optional() {
            Some(inner) => inner.clone(),
            None => {
                if !found.is_dyn() {
                    self.mismatch(element.offset, &Type::optional(found.clone()), &found);
                }
                found
            }
        }
    }

    fn map(&mut self, expr: &mut Expr) -> Type {
        let Kind::Map(entries) = &mut expr.kind else { return Type::Error };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.type_of(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let value = self.element_type(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        Type::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    /// The more general of the types of elements. That they must fit is for the check of literals to say.
    fn join(&mut self, before: Option<Type>, found: Type) -> Type {
        match before {
            None => found,
            Some(before) if self.bindings.assignable(&before, &found) => more_general(&before, &found),
            Some(_) => Type::Dyn,
        }
    }

    fn message(&mut self, expr: &mut Expr) -> Type {
        let (id, offset) = (expr.id, expr.offset);
        let Kind::Struct { name, fields } = &mut expr.kind else { return Type::Error };
        let Some((full, found)) = self.lookup(name) else {
            let name = name.clone();
            return self.undeclared(offset, &name);
        };
        *name = full;
        let result = match &found {
            Type::Error => Type::Error,
            Type::Type(Some(of)) if matches!(of.as_ref(), Type::Object(_)) => of.as_ref().clone(),
            Type::Type(of) => {
                let shown = of.as_ref().map_or_else(|| "type".to_owned(), |of| of.name().to_owned());
                self.fault(offset, format!("'{shown}' is not a message type"));
                Type::Error
            }
            other => {
                self.fault(offset, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.types[id] = result.clone();
        let type_name = name.clone();
        for field in fields {
            self.check(&mut field.value);
            let wanted = match self.environment.is_type(&type_name) {
                true => self.environment.field(&type_name, &field.name).unwrap_or_else(|| {
                    self.fault(field.offset, format!("undefined field '{}'", field.name));
                    Type::Error
                }),
                false => {
                    self.fault(field.offset, format!("unexpected failed resolution of '{type_name}'"));
                    Type::Error
                }
            };
            let given = self.element_type(&field.value, field.optional);
            if !self.bindings.assignable(&wanted, &given) {
                let (wanted, given) = (wanted.shown(), given.shown());
                let message =
                    format!("expected type of field '{}' is '{wanted}' but provided type is '{given}'", field.name);
                self.fault(field.offset, message);
            }
        }
        result
    }

    fn fold(&mut self, fold: &mut Comprehension) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.initial);
        let range = self.bindings.substitute(&self.type_of(&fold.range), false);
        let accumulated = self.type_of(&fold.initial);
        let outside = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulated.clone()));
        let two = fold.variable2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.bindings.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.shown()
                );
                self.fault(fold.range.offset, message);
                (Type::Error, Type::Error)
            }
        };
        let inside = self.scopes.len();
        self.scopes.push((fold.variable.clone(), first));
        if let Some(variable) = &fold.variable2 {
            self.scopes.push((variable.clone(), second));
        }
        self.check(&mut fold.condition);
        self.must_be(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.must_be(&fold.step, &accumulated);
        self.scopes.truncate(inside);
        self.check(&mut fold.result);
        self.scopes.truncate(outside);
        self.bindings.substitute(&self.type_of(&fold.result), false)
    }

    fn must_be(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.type_of(expr);
        if !self.bindings.assignable(wanted, &found) {
            self.mismatch(expr.offset, wanted, &found);
        }
    }
}

fn instantiate(part: &Type, fresh: &HashMap<&str, Type>) -> Type {
    match part {
        Type::Parameter(name) => fresh.get(name.as_ref()).cloned().unwrap_or(Type::Dyn),
        other => other.with(&mut |inner| instantiate(inner, fresh)),
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The types that stand as values.
pub fn type_by_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Parameter("A".into())),
        "map" => Type::map(Type::Parameter("A".into()), Type::Parameter("B".into())),
        "type" => Type::Type(None),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" | "net.IP" | "net.CIDR" => Type::opaque(name),
        _ => return None,
    })
}
