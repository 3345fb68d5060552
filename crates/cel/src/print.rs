//! A tree as text. Folds are written as the macros that they come from, so that what is printed can be read again.

use std::fmt::{self, Display, Formatter, Write};

use crate::ast::{Comprehension, Entry, Expr, Kind, Literal};
use crate::parse::{ACCUMULATOR, SORT_INPUT, UNUSED};

impl Display for Expr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Unspecified => out.write_str("<<error>>"),
            Kind::Literal(literal) => write_literal(literal, out),
            Kind::Ident(name) => out.write_str(name),
            Kind::Select { operand, field, test: true } => write!(out, "has({}.{field})", Operand(operand)),
            Kind::Select { operand, field, test: false } => write!(out, "{}.{field}", Operand(operand)),
            Kind::Call { function, target, arguments } => write_call(function, target.as_deref(), arguments, out),
            Kind::List { elements, optional } => {
                out.write_char('[')?;
                for (index, element) in elements.iter().enumerate() {
                    let mark = if optional.contains(&index) { "?" } else { "" };
                    write!(out, "{}{mark}{element}", separator(index))?;
                }
                out.write_char(']')
            }
            Kind::Map(entries) => {
                out.write_char('{')?;
                for (index, Entry { key, value, optional, .. }) in entries.iter().enumerate() {
                    let mark = if *optional { "?" } else { "" };
                    write!(out, "{}{mark}{key}: {value}", separator(index))?;
                }
                out.write_char('}')
            }
            Kind::Struct { name, fields } => {
                write!(out, "{name}{{")?;
                for (index, field) in fields.iter().enumerate() {
                    let mark = if field.optional { "?" } else { "" };
                    write!(out, "{}{mark}{}: {}", separator(index), field.name, field.value)?;
                }
                out.write_char('}')
            }
            Kind::Comprehension(fold) => write_fold(fold, out),
        }
    }
}

/// What an operator works on: in parentheses, unless it is one word or call.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let plain = match &self.0.kind {
            Kind::Literal(Literal::Int(value)) => *value >= 0,
            Kind::Literal(Literal::Double(value)) => value.is_sign_positive(),
            Kind::Call { function, .. } => !is_operator(function),
            _ => true,
        };
        if plain { write!(out, "{}", self.0) } else { write!(out, "({})", self.0) }
    }
}

fn is_operator(function: &str) -> bool {
    function.starts_with('_') && function.ends_with(['_', ']']) || matches!(function, "!_" | "-_" | "@in")
}

fn separator(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

fn write_call(function: &str, target: Option<&Expr>, arguments: &[Expr], out: &mut Formatter<'_>) -> fmt::Result {
    match (function, target, arguments) {
        ("!_", None, [operand]) => return write!(out, "!{}", Operand(operand)),
        // Without the parentheses a number would take the sign for its own.
        ("-_", None, [operand @ Expr { kind: Kind::Literal(_), .. }]) => return write!(out, "-({operand})"),
        ("-_", None, [operand]) => return write!(out, "-{}", Operand(operand)),
        ("_?_:_", None, [condition, one, other]) => {
            return write!(out, "{} ? {} : {}", Operand(condition), Operand(one), Operand(other));
        }
        ("_[_]", None, [operand, index]) => return write!(out, "{}[{index}]", Operand(operand)),
        ("_[?_]", None, [operand, index]) => return write!(out, "{}[?{index}]", Operand(operand)),
        ("_?._", None, [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }]) => {
            return write!(out, "{}.?{field}", Operand(operand));
        }
        ("@in", None, [one, other]) => return write!(out, "{} in {}", Operand(one), Operand(other)),
        (operator, None, [one, other]) if is_operator(operator) => {
            return write!(out, "{} {} {}", Operand(one), operator.trim_matches('_'), Operand(other));
        }
        _ => {}
    }
    if let Some(target) = target {
        write!(out, "{}.", Operand(target))?;
    }
    write!(out, "{function}(")?;
    for (index, argument) in arguments.iter().enumerate() {
        write!(out, "{}{argument}", separator(index))?;
    }
    out.write_char(')')
}

/// The arguments of a call of this function.
fn call<'a>(expr: &'a Expr, wanted: &str) -> Option<&'a [Expr]> {
    match &expr.kind {
        Kind::Call { function, target: None, arguments } if function.as_ref() == wanted => Some(arguments),
        _ => None,
    }
}

fn write_fold(fold: &Comprehension, out: &mut Formatter<'_>) -> fmt::Result {
    if fold.variable.as_ref() == UNUSED {
        return write_binding(fold, out);
    }
    let variables = match &fold.variable2 {
        Some(second) => format!("{}, {second}", fold.variable),
        None => fold.variable.to_string(),
    };
    let range = Operand(&fold.range);
    let (filter, step) = match call(&fold.step, "_?_:_") {
        Some([filter, step, _]) => (Some(filter), step),
        _ => (None, &fold.step),
    };
    if let (Some([_, predicate]), None) = (call(step, "_&&_"), filter) {
        return write!(out, "{range}.all({variables}, {predicate})");
    }
    if let (Some([_, predicate]), None) = (call(step, "_||_"), filter) {
        return write!(out, "{range}.exists({variables}, {predicate})");
    }
    let filtered = filter.map_or_else(String::new, |filter| format!("{filter}, "));
    match (call(step, "_+_"), call(step, "cel.@mapInsert")) {
        (Some([_, Expr { kind: Kind::List { elements, .. }, .. }]), _) => {
            let name = if fold.variable2.is_some() { "transformList" } else { "map" };
            let element = elements.first().map_or_else(String::new, Expr::to_string);
            write!(out, "{range}.{name}({variables}, {filtered}{element})")
        }
        (Some(_), _) => {
            let predicate = filter.map_or_else(String::new, Expr::to_string);
            write!(out, "{range}.exists_one({variables}, {predicate})")
        }
        (_, Some([_, _, value])) => write!(out, "{range}.transformMap({variables}, {filtered}{value})"),
        (_, Some([_, entry])) => write!(out, "{range}.transformMapEntry({variables}, {filtered}{entry})"),
        _ => write!(out, "{range}.{ACCUMULATOR}({variables}, {filtered}{step})"),
    }
}

fn write_binding(fold: &Comprehension, out: &mut Formatter<'_>) -> fmt::Result {
    if fold.accumulator.as_ref() != SORT_INPUT {
        return write!(out, "cel.bind({}, {}, {})", fold.accumulator, fold.initial, fold.result);
    }
    let keys = match &fold.result.kind {
        Kind::Call { arguments, .. } => arguments.first().map(|keys| &keys.kind),
        _ => None,
    };
    let Some(Kind::Comprehension(keys)) = keys else { return out.write_str("<<error>>") };
    let key = match call(&keys.step, "_+_") {
        Some([_, Expr { kind: Kind::List { elements, .. }, .. }]) => elements.first(),
        _ => None,
    };
    let key = key.map_or_else(String::new, Expr::to_string);
    write!(out, "{}.sortBy({}, {key})", Operand(&fold.initial), keys.variable)
}

fn write_literal(literal: &Literal, out: &mut Formatter<'_>) -> fmt::Result {
    match literal {
        Literal::Null => out.write_str("null"),
        Literal::Bool(value) => write!(out, "{value}"),
        Literal::Int(value) => write!(out, "{value}"),
        Literal::Uint(value) => write!(out, "{value}u"),
        Literal::Double(value) => write!(out, "{value:e}"),
        Literal::String(text) => {
            out.write_char('"')?;
            for letter in text.chars() {
                match letter {
                    '"' | '\\' => write!(out, "\\{letter}")?,
                    letter if letter.is_control() => write!(out, "\\U{:08x}", u32::from(letter))?,
                    letter => out.write_char(letter)?,
                }
            }
            out.write_char('"')
        }
        Literal::Bytes(bytes) => {
            out.write_str("b\"")?;
            bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))?;
            out.write_char('"')
        }
    }
}
