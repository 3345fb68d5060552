//! The parts of the tree, with what is wrong in them beyond the grammar.

use std::sync::Arc;

use super::token::{Kind, Token};
use super::{Part, literals, macros};
use crate::ast::{self, Entry, Expr, Field, Literal};
use crate::source::Source;

/// Words that are no names of variables, though the grammar takes them.
pub const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that are values or operators.
const KEYWORDS: &[&str] = &["true", "false", "null", "in"];

/// Whether a variable or a field can be called so.
pub fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&name)
        && !KEYWORDS.contains(&name)
}

#[derive(Debug, Default)]
pub struct Builder {
    /// Whether there is the macro `cel.bind`.
    pub bind: bool,
    pub ids: usize,
    pub faults: Vec<(Option<usize>, String)>,
}

/// The function that an operator between two values calls.
pub fn operator_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Less => "_<_",
        Kind::LessEquals => "_<=_",
        Kind::GreaterEquals => "_>=_",
        Kind::Greater => "_>_",
        Kind::Equals => "_==_",
        Kind::NotEquals => "_!=_",
        Kind::In => "@in",
        Kind::Star => "_*_",
        Kind::Slash => "_/_",
        Kind::Percent => "_%_",
        Kind::Plus => "_+_",
        _ => "_-_",
    }
}

impl Builder {
    pub fn expr(&mut self, offset: Option<usize>, kind: ast::Kind) -> Expr {
        self.ids += 1;
        Expr { id: self.ids, offset, kind }
    }

    /// What stands where an operand should be.
    pub fn missing(&mut self, start: usize) -> Part {
        Part { expr: self.expr(Some(start), ast::Kind::Unspecified), height: 0 }
    }

    fn fault(&mut self, offset: Option<usize>, message: impl Into<String>) -> Expr {
        self.faults.push((offset, message.into()));
        self.expr(offset, ast::Kind::Unspecified)
    }

    /// An operator that counts as a level of the tree.
    pub fn operator(&mut self, token: &Token, function: &str, operands: Vec<Part>) -> Part {
        let mut part = self.call(token.start, function, operands);
        part.height += 1;
        part
    }

    pub fn call(&mut self, offset: usize, function: &str, operands: Vec<Part>) -> Part {
        let height = height(&operands);
        let arguments = operands.into_iter().map(|operand| operand.expr).collect();
        let kind = ast::Kind::Call { function: function.into(), target: None, arguments };
        Part { expr: self.expr(Some(offset), kind), height }
    }

    /// `a && b && c` as a tree that is as flat as can be.
    pub fn balanced(&mut self, function: &str, terms: Vec<Part>, operators: &[usize]) -> Part {
        let height = height(&terms);
        let mut terms: Vec<Option<Expr>> = terms.into_iter().map(|term| Some(term.expr)).collect();
        let expr = self.balance(function, &mut terms, operators, 0);
        Part { expr, height }
    }

    /// `first` is the index of the first term that the operators join.
    fn balance(&mut self, function: &str, terms: &mut [Option<Expr>], operators: &[usize], first: usize) -> Expr {
        if operators.is_empty() {
            return terms[first].take().unwrap_or_else(|| Part::default().expr);
        }
        let middle = operators.len() / 2;
        let left = self.balance(function, terms, &operators[..middle], first);
        let right = self.balance(function, terms, &operators[middle + 1..], first + middle + 1);
        let kind = ast::Kind::Call { function: function.into(), target: None, arguments: vec![left, right] };
        self.expr(Some(operators[middle]), kind)
    }

    pub fn ident(&mut self, start: usize, offset: usize, name: &str, full: &str) -> Part {
        if RESERVED.contains(&name) {
            return Part { expr: self.fault(Some(start), format!("reserved identifier: {name}")), height: 0 };
        }
        Part { expr: self.expr(Some(offset), ast::Kind::Ident(full.into())), height: 0 }
    }

    pub fn global_call(&mut self, start: usize, open: usize, name: &str, full: &str, arguments: Vec<Part>) -> Part {
        if RESERVED.contains(&name) {
            return Part { expr: self.fault(Some(start), format!("reserved identifier: {name}")), height: 0 };
        }
        let height = height(&arguments);
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        Part { expr: self.called(open, full, None, arguments), height }
    }

    pub fn member_call(&mut self, open: usize, name: &str, target: Part, arguments: Vec<Part>) -> Part {
        let height = height(&arguments).max(target.height) + 1;
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        Part { expr: self.called(open, name, Some(target.expr), arguments), height }
    }

    /// A call, or what the macro of its name makes of it.
    fn called(&mut self, open: usize, name: &str, target: Option<Expr>, arguments: Vec<Expr>) -> Expr {
        match macros::expand(self, open, name, target, arguments) {
            macros::Expanded::Done(expr) => expr,
            macros::Expanded::Wrong(offset, message) => self.fault(offset, message),
            macros::Expanded::NoMacro(target, arguments) => {
                let kind = ast::Kind::Call { function: name.into(), target: target.map(Box::new), arguments };
                self.expr(Some(open), kind)
            }
        }
    }

    /// `offsets` are those of the dot and of the name.
    pub fn select(
        &mut self,
        offsets: (usize, usize),
        operand: Part,
        name: Option<Token>,
        optional: bool,
        source: &Source,
    ) -> Part {
        let height = operand.height + 1;
        let field = self.name_text(offsets.1, name, source).unwrap_or_default();
        let operand = operand.expr;
        let kind = if optional {
            let field = self.expr(Some(offsets.1), ast::Kind::Literal(Literal::String(field)));
            ast::Kind::Call { function: "_?._".into(), target: None, arguments: vec![operand, field] }
        } else {
            ast::Kind::Select { operand: Box::new(operand), field, test: false }
        };
        Part { expr: self.expr(Some(offsets.0), kind), height }
    }

    /// Names in backticks are not enabled.
    fn name_text(&mut self, offset: usize, name: Option<Token>, source: &Source) -> Option<Arc<str>> {
        let message = match &name {
            None => "unsupported ident kind",
            Some(name) if name.kind == Kind::Escaped => "unsupported syntax: '`'",
            Some(name) => return Some(source.slice(name.start, name.end).into()),
        };
        self.faults.push((Some(offset), message.to_owned()));
        None
    }

    pub fn list(&mut self, bracket: usize, elements: Vec<(bool, Part)>) -> Part {
        let height = elements.iter().map(|(_, part)| part.height).max().unwrap_or(0);
        let optional = elements.iter().enumerate().filter(|(_, (optional, _))| *optional).map(|(at, _)| at).collect();
        let elements = elements.into_iter().map(|(_, part)| part.expr).collect();
        Part { expr: self.expr(Some(bracket), ast::Kind::List { elements, optional }), height }
    }

    pub fn entry(&mut self, colon: Option<usize>, key: Part, value: Part, optional: bool) -> (Entry, usize) {
        self.ids += 1;
        let height = key.height.max(value.height);
        (Entry { id: self.ids, offset: colon, key: key.expr, value: value.expr, optional }, height)
    }

    pub fn map(&mut self, brace: usize, entries: Vec<(Entry, usize)>) -> Part {
        let height = entries.iter().map(|(_, height)| *height).max().unwrap_or(0);
        let entries = entries.into_iter().map(|(entry, _)| entry).collect();
        Part { expr: self.expr(Some(brace), ast::Kind::Map(entries)), height }
    }

    /// `start` is where the fields begin.
    pub fn field(
        &mut self,
        (start, colon): (usize, Option<usize>),
        name: Option<Token>,
        value: Part,
        optional: bool,
        source: &Source,
    ) -> Option<(Field, usize)> {
        let name = self.name_text(start, name, source)?;
        self.ids += 1;
        Some((Field { id: self.ids, offset: colon, name, value: value.expr, optional }, value.height))
    }

    pub fn message(&mut self, brace: usize, name: &str, fields: Vec<(Field, usize)>) -> Part {
        let height = fields.iter().map(|(_, height)| *height).max().unwrap_or(0);
        let fields = fields.into_iter().map(|(field, _)| field).collect();
        Part { expr: self.expr(Some(brace), ast::Kind::Struct { name: name.into(), fields }), height }
    }

    pub fn literal(&mut self, start: usize, kind: Kind, negative: bool, text: &str) -> Part {
        let expr = match literals::literal(kind, negative, text) {
            Ok(literal) => self.expr(Some(start), ast::Kind::Literal(literal)),
            Err(message) => self.fault(Some(start), message),
        };
        Part { expr, height: 0 }
    }
}

fn height(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.height).max().unwrap_or(0)
}
