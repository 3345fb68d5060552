//! From a checked tree to what is evaluated: names are looked up, constants computed, patterns compiled.

use std::sync::Arc;

use regex::Regex;

use crate::ast::{Expr, Kind, Literal};
use crate::check::{Checked, type_by_name};
use crate::functions::{self, EvalError, Function, regexes};
use crate::types::Type;
use crate::value::{Map, Value};

/// A part of a program.
#[derive(Debug)]
pub enum Node {
    Constant(Value<'static>),
    /// A variable or a value, with what is taken out of it.
    Attribute(Attribute),
    Call {
        function: Arc<str>,
        run: Function,
        /// The signature, where only one fits.
        overload: &'static str,
        arguments: Vec<Node>,
    },
    /// A call with a pattern that is known.
    Match {
        function: Arc<str>,
        overload: &'static str,
        pattern: Regex,
        arguments: Vec<Node>,
    },
    /// `&&` where `shortcut` is false, `||` where it is true.
    Logic {
        shortcut: bool,
        terms: Vec<Node>,
    },
    /// Whether a value is in a list that is known.
    Member(Box<Node>, Value<'static>),
    NotStrictlyFalse(Box<Node>),
    /// `optional.or(other)`, or with `unwrap` `optional.orValue(other)`.
    Or {
        optional: Box<Node>,
        other: Box<Node>,
        unwrap: bool,
    },
    /// Elements, and whether they have a question mark.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Struct {
        name: Arc<str>,
        fields: Vec<(Arc<str>, Node, bool)>,
    },
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub struct Attribute {
    pub root: Root,
    pub qualifiers: Vec<Qualifier>,
    /// Whether only the presence of the last one is asked for.
    pub test: bool,
}

#[derive(Debug)]
pub enum Root {
    Variable(Arc<str>),
    Value(Box<Node>),
    Conditional { condition: Box<Node>, then: Box<Node>, otherwise: Box<Node> },
}

#[derive(Debug)]
pub struct Qualifier {
    pub key: Node,
    pub optional: bool,
}

#[derive(Debug)]
pub struct Fold {
    pub range: Node,
    pub variable: Arc<str>,
    pub variable2: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub initial: Node,
    pub condition: Node,
    pub step: Node,
    pub result: Node,
}

/// The plan of the tree; fails where a constant cannot be computed.
pub fn plan(checked: &Checked) -> Result<Node, EvalError> {
    Planner { checked }.node(&checked.root)
}

struct Planner<'a> {
    checked: &'a Checked,
}

impl Planner<'_> {
    fn node(&self, expr: &Expr) -> Result<Node, EvalError> {
        Ok(match &expr.kind {
            Kind::Unspecified => Node::Constant(Value::Null),
            Kind::Literal(literal) => Node::Constant(constant(literal)),
            Kind::Ident(name) => self.ident(expr, name)?,
            Kind::Select { operand, field, test } => {
                let mut attribute = self.attribute(operand)?;
                let key = Node::Constant(Value::String(field.clone()));
                attribute.qualifiers.push(Qualifier { key, optional: false });
                attribute.test = *test;
                Node::Attribute(attribute)
            }
            Kind::Call { function, target, arguments } => self.call(expr, function, target.as_deref(), arguments)?,
            Kind::List { elements, optional } => {
                let nodes: Result<Vec<Node>, EvalError> = elements.iter().map(|element| self.node(element)).collect();
                list(nodes?, optional)
            }
            Kind::Map(entries) => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    nodes.push((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional));
                }
                map(nodes)
            }
            Kind::Struct { name, fields } => {
                let mut nodes = Vec::with_capacity(fields.len());
                for field in fields {
                    nodes.push((field.name.clone(), self.node(&field.value)?, field.optional));
                }
                Node::Struct { name: name.clone(), fields: nodes }
            }
            Kind::Comprehension(fold) => Node::Fold(Box::new(Fold {
                range: self.node(&fold.range)?,
                variable: fold.variable.clone(),
                variable2: fold.variable2.clone(),
                accumulator: fold.accumulator.clone(),
                initial: self.node(&fold.initial)?,
                condition: self.node(&fold.condition)?,
                step: self.node(&fold.step)?,
                result: self.node(&fold.result)?,
            })),
        })
    }

    /// A variable, or a type that stands as a value.
    fn ident(&self, expr: &Expr, name: &Arc<str>) -> Result<Node, EvalError> {
        if let Type::Type(Some(of)) = &self.checked.types[expr.id]
            && (type_by_name(name).is_some() || of.name() == name.as_ref())
        {
            return Ok(Node::Constant(Value::Type(of.clone())));
        }
        // Types that schemas know by these names; no value stands for them.
        if matches!(name.as_ref(), "duration" | "timestamp")
            && matches!(self.checked.types[expr.id], Type::Type(Some(_)))
        {
            return Err(EvalError::Failed(format!("reference to undefined type: {name}")));
        }
        if name.as_ref() == "type" {
            return Ok(Node::Constant(Value::Type(Arc::new(Type::Type(None)))));
        }
        let root = Root::Variable(name.clone());
        Ok(Node::Attribute(Attribute { root, qualifiers: Vec::new(), test: false }))
    }

    /// What qualifiers can be added to.
    fn attribute(&self, operand: &Expr) -> Result<Attribute, EvalError> {
        Ok(match self.node(operand)? {
            Node::Attribute(attribute) if !attribute.test => attribute,
            other => Attribute { root: Root::Value(Box::new(other)), qualifiers: Vec::new(), test: false },
        })
    }

    fn call(
        &self,
        expr: &Expr,
        function: &Arc<str>,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Result<Node, EvalError> {
        if matches!(function.as_ref(), "_[_]" | "_[?_]" | "_?._") {
            let mut attribute = self.attribute(&arguments[0])?;
            let key = self.node(&arguments[1])?;
            attribute.qualifiers.push(Qualifier { key, optional: function.as_ref() != "_[_]" });
            return Ok(Node::Attribute(attribute));
        }
        let nodes: Result<Vec<Node>, EvalError> =
            target.into_iter().chain(arguments).map(|part| self.node(part)).collect();
        let mut nodes = nodes?;
        let overloads = self.checked.overloads.get(&expr.id).map_or(&[][..], Vec::as_slice);
        let overload = if overloads.len() == 1 { overloads[0] } else { "" };
        Ok(match (function.as_ref(), nodes.len()) {
            ("_&&_", _) => Node::Logic { shortcut: false, terms: nodes },
            ("_||_", _) => Node::Logic { shortcut: true, terms: nodes },
            ("@not_strictly_false", 1) => Node::NotStrictlyFalse(Box::new(nodes.remove(0))),
            ("_?_:_", 3) => {
                let otherwise = Box::new(nodes.remove(2));
                let then = Box::new(nodes.remove(1));
                let condition = Box::new(nodes.remove(0));
                let root = Root::Conditional { condition, then, otherwise };
                Node::Attribute(Attribute { root, qualifiers: Vec::new(), test: false })
            }
            (name @ ("or" | "orValue"), 2) if target.is_some() => {
                let other = Box::new(nodes.remove(1));
                Node::Or { optional: Box::new(nodes.remove(0)), other, unwrap: name == "orValue" }
            }
            ("@in", 2) if overload == "in_list" && is_plain_list(&nodes[1]) => match nodes.remove(1) {
                Node::Constant(Value::List(list)) if list.items.is_empty() => Node::Constant(Value::Bool(false)),
                Node::Constant(list) => Node::Member(Box::new(nodes.remove(0)), list),
                other => other,
            },
            _ => self.plain_call(function, overload, nodes)?,
        })
    }

    fn plain_call(&self, function: &Arc<str>, overload: &'static str, arguments: Vec<Node>) -> Result<Node, EvalError> {
        if let (Some(Node::Constant(Value::String(text))), "matches" | "find" | "findAll") =
            (arguments.get(1), function.as_ref())
        {
            let pattern = regexes::compile(text).map_err(EvalError::Failed)?;
            return Ok(Node::Match { function: function.clone(), overload, pattern, arguments });
        }
        let Some(run) = functions::lookup(function) else {
            return Err(EvalError::Failed(format!("no such overload: {function}")));
        };
        let conversion = matches!(
            function.as_ref(),
            "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
        );
        if let ([Node::Constant(value)], true) = (&arguments[..], conversion) {
            let values = std::slice::from_ref(value);
            let computed = run(values).map_err(|error| match error {
                EvalError::Unfit => functions::no_signature(function, values),
                other => other,
            });
            return computed.map(Node::Constant);
        }
        Ok(Node::Call { function: function.clone(), run, overload, arguments })
    }
}

/// Whether it is known and has nothing but simple values.
fn is_plain_list(node: &Node) -> bool {
    let Node::Constant(Value::List(list)) = node else { return false };
    list.items.iter().all(|item| {
        matches!(item, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
    })
}

fn list(nodes: Vec<Node>, optional: &[usize]) -> Node {
    if nodes.iter().all(|node| matches!(node, Node::Constant(_))) && optional.is_empty() {
        let values = nodes.into_iter().filter_map(|node| match node {
            Node::Constant(value) => Some(value),
            _ => None,
        });
        return Node::Constant(Value::list(values.collect()));
    }
    Node::List(nodes.into_iter().enumerate().map(|(at, node)| (node, optional.contains(&at))).collect())
}

fn map(nodes: Vec<(Node, Node, bool)>) -> Node {
    let mut known = Map::default();
    for (key, value, optional) in &nodes {
        match (key, value) {
            (Node::Constant(key), Node::Constant(value)) if !optional && known.insert(key.clone(), value.clone()) => {}
            _ => return Node::Map(nodes),
        }
    }
    Node::Constant(Value::map(known))
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
