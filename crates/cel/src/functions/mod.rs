//! The functions of expressions. Where one is called on a value, that is its first argument.

pub mod authorization;
pub mod conversions;
pub mod format;
mod formats;
mod go_syntax;
mod lists;
pub mod network;
mod numbers;
pub mod operators;
mod optional;
mod quantity;
pub mod regexes;
pub mod semver;
mod strings;
mod times;
pub mod url;

use crate::value::Value;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// What went wrong, in the words of cel-go.
    #[error("{0}")]
    Failed(String),
    /// The types of the arguments fit no signature; it is replaced by words that say so.
    #[error("no such overload")]
    Unfit,
    /// It cost more than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}

pub type Outcome<'a> = Result<Value<'a>, EvalError>;
pub type Function = for<'a> fn(&[Value<'a>]) -> Outcome<'a>;

/// The function of this name.
pub fn lookup(name: &str) -> Option<Function> {
    operators::lookup(name)
        .or_else(|| conversions::lookup(name))
        .or_else(|| strings::lookup(name))
        .or_else(|| lists::lookup(name))
        .or_else(|| times::lookup(name))
        .or_else(|| optional::lookup(name))
        .or_else(|| quantity::lookup(name))
        .or_else(|| network::lookup(name))
        .or_else(|| semver::lookup(name))
        .or_else(|| url::lookup(name))
        .or_else(|| formats::lookup(name))
        .or_else(|| regexes::lookup(name))
        .or_else(|| authorization::lookup(name))
}

pub fn failed(message: impl Into<String>) -> Outcome<'static> {
    Err(EvalError::Failed(message.into()))
}

/// What is said where values that belong together have types that do not.
pub fn no_overload() -> Outcome<'static> {
    failed("no such overload")
}

/// The types of the arguments fit no signature.
fn unfit() -> Outcome<'static> {
    Err(EvalError::Unfit)
}

/// The error of a call whose arguments fit no signature.
pub fn no_signature(function: &str, arguments: &[Value]) -> EvalError {
    let first = &arguments[0];
    let receives = matches!(first, Value::String(_) | Value::Timestamp(_) | Value::Duration(_));
    let operand = match function {
        "_+_" => matches!(first, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bytes(_) | Value::List(_)),
        "_-_" | "_*_" | "_/_" => matches!(first, Value::Int(_) | Value::Uint(_) | Value::Double(_)),
        "_%_" => matches!(first, Value::Int(_) | Value::Uint(_)),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            matches!(first, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bytes(_))
        }
        "-_" => matches!(first, Value::Bool(_) | Value::Int(_) | Value::Double(_)),
        "size" => false,
        "!_" | "@in" | "startsWith" | "endsWith" | "contains" | "matches" => true,
        _ => {
            let types: Vec<String> = arguments.iter().map(|argument| argument.type_of().name().to_owned()).collect();
            return EvalError::Failed(format!("no such overload: {function}({})", types.join(", ")));
        }
    };
    EvalError::Failed(match operand || receives {
        true => "no such overload".to_owned(),
        false => format!("no such overload: {function}"),
    })
}
