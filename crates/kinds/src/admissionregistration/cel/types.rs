//! Which type an expression has, as far as that is sure, and which names it may use.

use std::fmt;

use super::functions::{self, is_one_of};
use super::lexer::Kind;
use super::parser::{Expression, Node};
use super::{Declarations, Fault};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    /// Known only when the expression runs.
    Dynamic,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// An object whose fields are known.
    Message(&'static str),
    /// Something that is not looked into here.
    Unknown,
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Null => "null_type",
            Type::Dynamic | Type::Unknown => "dyn",
            Type::List(item) => return write!(formatter, "list({item})"),
            Type::Map(key, value) => return write!(formatter, "map({key}, {value})"),
            Type::Message(name) => name,
        };
        formatter.write_str(name)
    }
}

impl Type {
    /// Whether nothing more is to be learnt about it, inside and out.
    fn is_sure(&self) -> bool {
        match self {
            Type::Dynamic | Type::Unknown => false,
            Type::List(item) => item.is_sure(),
            Type::Map(key, value) => key.is_sure() && value.is_sure(),
            _ => true,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Uint | Type::Double)
    }
}

const REQUEST: Type = Type::Message("kubernetes.AdmissionRequest");
const NAMESPACE: Type = Type::Message("kubernetes.Namespace");

/// The type of a message's field, where it has such a field.
fn field_type(message: &str, field: &str) -> Option<Type> {
    let list = |item: Type| Type::List(Box::new(item));
    let map = |value: Type| Type::Map(Box::new(Type::String), Box::new(value));
    Some(match (message, field) {
        ("kubernetes.AdmissionRequest", "kind" | "requestKind") => Type::Message("kubernetes.GroupVersionKind"),
        ("kubernetes.AdmissionRequest", "resource" | "requestResource") => {
            Type::Message("kubernetes.GroupVersionResource")
        }
        ("kubernetes.AdmissionRequest", "subResource" | "requestSubResource" | "name" | "namespace" | "operation")
        | ("kubernetes.GroupVersionKind", "group" | "version" | "kind")
        | ("kubernetes.GroupVersionResource", "group" | "version" | "resource")
        | ("kubernetes.UserInfo", "username" | "uid")
        | ("kubernetes.NamespaceStatus", "phase")
        | ("kubernetes.NamespaceMetadata", "name" | "generateName" | "namespace" | "UID" | "resourceVersion") => {
            Type::String
        }
        ("kubernetes.AdmissionRequest", "userInfo") => Type::Message("kubernetes.UserInfo"),
        ("kubernetes.AdmissionRequest", "dryRun") => Type::Bool,
        ("kubernetes.AdmissionRequest", "options") => Type::Dynamic,
        ("kubernetes.UserInfo", "groups")
        | ("kubernetes.NamespaceSpec" | "kubernetes.NamespaceMetadata", "finalizers") => list(Type::String),
        ("kubernetes.UserInfo", "extra") => map(list(Type::String)),
        ("kubernetes.Namespace", "metadata") => Type::Message("kubernetes.NamespaceMetadata"),
        ("kubernetes.Namespace", "spec") => Type::Message("kubernetes.NamespaceSpec"),
        ("kubernetes.Namespace", "status") => Type::Message("kubernetes.NamespaceStatus"),
        ("kubernetes.NamespaceMetadata", "labels" | "annotations") => map(Type::String),
        ("kubernetes.NamespaceMetadata", "generation" | "deletionGracePeriodSeconds") => Type::Int,
        ("kubernetes.NamespaceMetadata", "creationTimestamp" | "deletionTimestamp")
        | ("kubernetes.NamespaceStatus", "conditions") => Type::Unknown,
        _ => return None,
    })
}

pub struct Checker<'c, 'a> {
    declarations: &'c Declarations<'c>,
    scope: Vec<&'a str>,
    pub faults: Vec<Fault>,
}

impl<'c, 'a> Checker<'c, 'a> {
    pub fn new(declarations: &'c Declarations<'c>) -> Self {
        Checker { declarations, scope: Vec::new(), faults: Vec::new() }
    }

    pub fn check(&mut self, expression: &Expression<'a>) -> Type {
        match &expression.node {
            Node::Literal(Kind::Int) => Type::Int,
            Node::Literal(Kind::Uint) => Type::Uint,
            Node::Literal(Kind::Float) => Type::Double,
            Node::Literal(Kind::Bytes) => Type::Bytes,
            Node::Literal(_) => Type::String,
            Node::Bool => Type::Bool,
            Node::Null => Type::Null,
            Node::Name(name) => self.name(name, expression.offset),
            Node::Select { operand, field, optional } => self.select(operand, field, *optional, expression.offset),
            Node::Index { operand, index } => {
                self.check(index);
                match self.check(operand) {
                    Type::Dynamic => Type::Dynamic,
                    Type::List(item) => *item,
                    Type::Map(_, value) => *value,
                    _ => Type::Unknown,
                }
            }
            Node::Call { target, function, arguments } => {
                self.call(target.as_deref(), function, arguments, expression.offset)
            }
            Node::Not(operand) => {
                let found = self.check(operand);
                self.require_bool("!_", &[found], expression.offset);
                Type::Bool
            }
            Node::Minus(operand) => self.minus(operand, expression.offset),
            Node::Binary { operator, left, right } => {
                let (left, right) = (self.check(left), self.check(right));
                self.binary(operator, left, right, expression.offset)
            }
            Node::Choice { condition, then, otherwise } => {
                let types = [self.check(condition), self.check(then), self.check(otherwise)];
                self.choice(types, expression.offset)
            }
            Node::List(items) => Type::List(Box::new(self.common(items.iter()))),
            Node::Map(entries) => {
                let key = self.common(entries.iter().map(|(key, _)| key));
                let value = self.common(entries.iter().map(|(_, value)| value));
                Type::Map(Box::new(key), Box::new(value))
            }
            Node::Message { fields } => {
                for field in fields {
                    self.check(field);
                }
                Type::Unknown
            }
        }
    }

    fn fault(&mut self, offset: usize, message: String) {
        self.faults.push(Fault { offset, message });
    }

    fn undeclared(&mut self, name: &str, offset: usize) -> Type {
        self.fault(offset, format!("undeclared reference to '{name}' (in container '')"));
        Type::Unknown
    }

    fn undefined(&mut self, field: &str, offset: usize) -> Type {
        self.fault(offset, format!("undefined field '{field}'"));
        Type::Unknown
    }

    fn name(&mut self, name: &str, offset: usize) -> Type {
        if self.scope.contains(&name) {
            return Type::Unknown;
        }
        let declared = self.declarations;
        match name {
            "object" | "oldObject" => Type::Dynamic,
            "params" if declared.params => Type::Dynamic,
            "request" => REQUEST,
            "namespaceObject" => NAMESPACE,
            "authorizer" if declared.authorizer => Type::Unknown,
            "variables" if declared.composed => Type::Unknown,
            "Object" | "JSONPatch" if declared.patch_types => Type::Unknown,
            _ if is_one_of(functions::TYPE_NAMES, name) => Type::Unknown,
            _ => self.undeclared(name, offset),
        }
    }

    fn select(&mut self, operand: &Expression<'a>, field: &str, optional: bool, offset: usize) -> Type {
        if let Node::Name("variables") = operand.node
            && self.declarations.composed
            && !self.scope.contains(&"variables")
        {
            let variables = &self.declarations.variables;
            return match variables.iter().rev().find(|(name, _)| *name == field) {
                Some((_, found)) if !optional => found.clone(),
                Some(_) => Type::Unknown,
                None => self.undefined(field, offset),
            };
        }
        match self.check(operand) {
            _ if optional => Type::Unknown,
            Type::Dynamic => Type::Dynamic,
            Type::Message(message) => match field_type(message, field) {
                Some(found) => found,
                None => self.undefined(field, offset),
            },
            Type::Map(_, value) => *value,
            found @ (Type::Bool | Type::Int | Type::Uint | Type::Double | Type::String | Type::Bytes) => {
                self.fault(offset, format!("type '{found}' does not support field selection"));
                Type::Unknown
            }
            _ => Type::Unknown,
        }
    }

    fn call(
        &mut self,
        target: Option<&Expression<'a>>,
        function: &'a str,
        arguments: &[Expression<'a>],
        offset: usize,
    ) -> Type {
        let of_namespace = target.is_some_and(|target| self.is_namespace(target));
        let receiver = match target {
            Some(target) if !of_namespace => Some(self.check(target)),
            _ => None,
        };
        let names = self.macro_names(target, function, arguments);
        let depth = self.scope.len();
        self.scope.extend(names.iter().copied());
        for argument in &arguments[names.len().min(arguments.len())..] {
            self.check(argument);
        }
        self.scope.truncate(depth);
        let known = |words: &str| is_one_of(words, function);
        match function {
            "all" | "exists" | "exists_one" | "existsOne" if receiver.is_some() => Type::Bool,
            "contains" if of_namespace => Type::Bool,
            "min" | "max" | "sum" | "first" | "last" => Type::Unknown,
            _ if known(functions::BOOL_FUNCTIONS) => Type::Bool,
            _ if known(functions::INT_FUNCTIONS) => Type::Int,
            _ if known(functions::STRING_FUNCTIONS) => Type::String,
            _ if known(functions::OTHER_FUNCTIONS) => Type::Unknown,
            _ => self.undeclared(function, offset),
        }
    }

    /// Whether this is the first half of a function's name.
    fn is_namespace(&self, target: &Expression<'a>) -> bool {
        match &target.node {
            Node::Name(name) => is_one_of(functions::NAMESPACES, name) && !self.scope.contains(name),
            Node::Select { operand, optional: false, .. } => self.is_namespace(operand),
            _ => false,
        }
    }

    /// The names that the arguments of a macro begin with.
    fn macro_names(
        &self,
        target: Option<&Expression<'a>>,
        function: &str,
        arguments: &[Expression<'a>],
    ) -> Vec<&'a str> {
        let count = match (function, arguments.len()) {
            (_, 2) if target.is_some() && is_one_of(functions::MACROS, function) => 1,
            ("map", 3) => 1,
            (_, 3 | 4) if target.is_some() && is_one_of(functions::MACROS, function) => 2,
            _ => 0,
        };
        arguments.iter().take(count).map_while(name_of).collect()
    }

    fn minus(&mut self, operand: &Expression<'a>, offset: usize) -> Type {
        match self.check(operand) {
            found @ (Type::Int | Type::Double) => found,
            Type::Dynamic => Type::Dynamic,
            found if found.is_sure() => {
                self.overload("-_", &[found], offset);
                Type::Unknown
            }
            _ => Type::Unknown,
        }
    }

    fn binary(&mut self, operator: &str, left: Type, right: Type, offset: usize) -> Type {
        let shown = format!("_{operator}_");
        match operator {
            "&&" | "||" => self.require_bool(&shown, &[left, right], offset),
            "in" => {}
            "==" | "!=" => {
                let null = left == Type::Null || right == Type::Null;
                if left.is_sure() && right.is_sure() && left != right && !null {
                    self.overload(&shown, &[left, right], offset);
                }
            }
            "<" | "<=" | ">" | ">=" => {
                let comparable = left == right || (left.is_number() && right.is_number());
                if left.is_sure() && right.is_sure() && !comparable {
                    self.overload(&shown, &[left, right], offset);
                }
            }
            _ => return self.arithmetic(&shown, left, right, offset),
        }
        Type::Bool
    }

    fn arithmetic(&mut self, operator: &str, left: Type, right: Type, offset: usize) -> Type {
        if left == Type::Dynamic && right == Type::Dynamic {
            return Type::Dynamic;
        }
        let plain = |found: &Type| found.is_number() || (operator == "_+_" && *found == Type::String);
        match (&left, &right) {
            (Type::Dynamic, known) | (known, Type::Dynamic) if plain(known) => return known.clone(),
            _ if left.is_sure() && right.is_sure() => {}
            _ => return Type::Unknown,
        }
        let joins = operator == "_+_" && matches!(left, Type::String | Type::Bytes | Type::List(_));
        let whole = operator != "_%_" || left != Type::Double;
        if left == right && (joins || (left.is_number() && whole)) {
            return left;
        }
        self.overload(operator, &[left, right], offset);
        Type::Unknown
    }

    fn choice(&mut self, types: [Type; 3], offset: usize) -> Type {
        let [condition, then, otherwise] = &types;
        let wrong_condition = condition.is_sure() && *condition != Type::Bool;
        let null = *then == Type::Null || *otherwise == Type::Null;
        let apart = then.is_sure() && otherwise.is_sure() && then != otherwise && !null;
        if wrong_condition || apart {
            self.overload("_?_:_", &types, offset);
            return Type::Unknown;
        }
        if then == otherwise { then.clone() } else { Type::Unknown }
    }

    fn require_bool(&mut self, operator: &str, operands: &[Type], offset: usize) {
        if operands.iter().any(|found| found.is_sure() && *found != Type::Bool) {
            self.overload(operator, operands, offset);
        }
    }

    fn overload(&mut self, operator: &str, operands: &[Type], offset: usize) {
        let shown: Vec<String> = operands.iter().map(ToString::to_string).collect();
        let message = format!("found no matching overload for '{operator}' applied to '({})'", shown.join(", "));
        self.fault(offset, message);
    }

    /// The type that all of them have.
    fn common<'e>(&mut self, items: impl Iterator<Item = &'e Expression<'a>>) -> Type
    where
        'a: 'e,
    {
        let mut common: Option<Type> = None;
        for item in items {
            let found = self.check(item);
            match &common {
                None => common = Some(found),
                Some(first) if *first == found => {}
                Some(first) if first.is_sure() && found.is_sure() => {
                    let message = format!("expected type '{first}' but found '{found}'");
                    self.fault(item.offset, message);
                }
                Some(_) => common = Some(Type::Unknown),
            }
        }
        common.unwrap_or(Type::Unknown)
    }
}

fn name_of<'a>(expression: &Expression<'a>) -> Option<&'a str> {
    match expression.node {
        Node::Name(name) => Some(name),
        _ => None,
    }
}
