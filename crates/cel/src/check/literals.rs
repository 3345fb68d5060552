//! Literals that are right by their type, but can mean nothing.

use super::Checked;
use crate::ast::{Expr, Kind, Literal};
use crate::functions::format::{self, Clause};
use crate::functions::regexes;
use crate::time;
use crate::types::Type;

/// In a call of this function a list may have elements of different types.
const MIXED: &str = "format";

pub fn validate(checked: &Checked) -> Vec<(Option<usize>, String)> {
    let mut faults = Vec::new();
    for (function, is_valid) in
        [("duration", is_duration as fn(&Literal) -> bool), ("timestamp", is_timestamp), ("matches", is_regex)]
    {
        checked.root.walk(&mut |expr| {
            let Kind::Call { function: called, arguments, .. } = &expr.kind else { return };
            let Some(Expr { kind: Kind::Literal(literal), offset, .. }) = arguments.first() else { return };
            if called.as_ref() == function && !is_valid(literal) {
                faults.push((*offset, format!("invalid {function} argument")));
            }
        });
    }
    uniform(checked, &checked.root, &mut faults);
    checked.root.walk(&mut |expr| faults.extend(format_fault(checked, expr)));
    faults
}

/// What is wrong with a call of `format` of which the pattern and the arguments are written out.
fn format_fault(checked: &Checked, expr: &Expr) -> Option<(Option<usize>, String)> {
    let Kind::Call { function, target: Some(target), arguments } = &expr.kind else { return None };
    let Kind::Literal(Literal::String(pattern)) = &target.kind else { return None };
    let [Expr { kind: Kind::List { elements, .. }, .. }] = &arguments[..] else { return None };
    if function.as_ref() != MIXED {
        return None;
    }
    let (mut rest, mut index) = (pattern.as_ref(), 0);
    while !rest.is_empty() {
        let (piece, after) = match format::next_piece(rest, index, elements.len()) {
            Ok(next) => next,
            Err(message) => return Some((expr.offset, message)),
        };
        if let format::Piece::Clause(clause) = piece {
            if let Some(wrong) = unwritable(checked, clause, &elements[index]) {
                return Some((wrong.offset, clause.refusal(checked.types[wrong.id].name())));
            }
            index += 1;
        }
        rest = after;
    }
    let message = || format!("too many arguments supplied to string.format (expected {index}, got {})", elements.len());
    (elements.len() > index).then(|| (expr.offset, message()))
}

/// The part that the clause cannot write.
fn unwritable<'a>(checked: &Checked, clause: Clause, argument: &'a Expr) -> Option<&'a Expr> {
    if !clause.takes(&checked.types[argument.id]) {
        return Some(argument);
    }
    match &argument.kind {
        Kind::List { .. } | Kind::Map(_) if clause == Clause::String => {
            children(argument).into_iter().find_map(|child| unwritable(checked, clause, child))
        }
        _ => None,
    }
}

fn is_duration(literal: &Literal) -> bool {
    match literal {
        Literal::String(text) => time::parse_duration(text).is_some(),
        Literal::Int(_) => false,
        _ => true,
    }
}

fn is_timestamp(literal: &Literal) -> bool {
    match literal {
        Literal::String(text) => time::Timestamp::parse(text).is_some(),
        Literal::Int(seconds) => time::Timestamp::from_seconds(*seconds).is_some(),
        _ => true,
    }
}

fn is_regex(literal: &Literal) -> bool {
    match literal {
        Literal::String(pattern) => regexes::compile(pattern).is_ok(),
        _ => true,
    }
}

/// All elements of a list, keys of a map and values of a map must have one type.
fn uniform(checked: &Checked, expr: &Expr, faults: &mut Vec<(Option<usize>, String)>) {
    let type_of = |part: &Expr, optional: bool| {
        let found = &checked.types[part.id];
        if optional { found.unwrap_optional().unwrap_or(found).clone() } else { found.clone() }
    };
    let differ = |first: &Type, part: &Expr, found: &Type| {
        let message = format!("expected type '{}' but found '{}'", first.shown(), found.shown());
        (!equivalent(first, found)).then_some((part.offset, message))
    };
    match &expr.kind {
        Kind::Call { function, .. } if function.as_ref() == MIXED => return,
        Kind::List { elements, optional } => {
            let found: Vec<Type> =
                elements.iter().enumerate().map(|(at, part)| type_of(part, optional.contains(&at))).collect();
            faults.extend(elements.iter().zip(&found).find_map(|(part, other)| differ(&found[0], part, other)));
        }
        Kind::Map(entries) => {
            let mut first = None;
            for entry in entries {
                let (key, value) = (type_of(&entry.key, false), type_of(&entry.value, entry.optional));
                let (keys, values) = first.get_or_insert_with(|| (key.clone(), value.clone()));
                faults.extend(differ(keys, &entry.key, &key));
                faults.extend(differ(values, &entry.value, &value));
            }
        }
        _ => {}
    }
    children(expr).into_iter().for_each(|child| uniform(checked, child, faults));
}

fn equivalent(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Parameter(_), Type::Parameter(_)) => true,
        _ if one.name() != other.name() => false,
        _ => {
            let (ones, others) = (one.parameters(), other.parameters());
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| equivalent(one, other))
        }
    }
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
        Kind::Select { operand, .. } => vec![operand],
        Kind::Call { target, arguments, .. } => target.as_deref().into_iter().chain(arguments).collect(),
        Kind::List { elements, .. } => elements.iter().collect(),
        Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
        Kind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
        Kind::Comprehension(fold) => {
            vec![&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result]
        }
    }
}
