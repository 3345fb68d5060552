//! The Common Expression Language, as Kubernetes 1.36 uses it: in rules of custom resources, in policies, in selectors of
//! devices.
//!
//! A text becomes a [`Program`] in three steps. `parse` makes a tree of it and expands macros; `check` finds the type
//! of each part and refuses what cannot be right; `plan` looks up functions and computes constants. What is wrong is
//! said in the words of cel-go, letter by letter, because clients and tests know them.
//!
//! ```
//! use rkube_cel::{Activation, Budget, Environment, Type, Value};
//!
//! let environment = Environment::new().variable("replicas", Type::Int);
//! let program = environment.compile("replicas > 0 && replicas < 10")?;
//! let activation = Activation::new().value("replicas", Value::Int(3));
//! assert!(matches!(program.evaluate(&activation, &mut Budget::per_call()), Ok(Value::Bool(true))));
//! # Ok::<(), rkube_cel::CompileError>(())
//! ```
//!
//! What holds: no IO, no clock, no randomness; an evaluation ends when its [`Budget`] is spent; a program can be
//! evaluated by many threads at once.
//!
//! Deliberately absent: protobuf messages other than timestamps and durations, and names in backticks, which Kubernetes
//! does not enable.

pub mod ast;
mod check;
mod cost;
mod declarations;
mod environment;
mod equality;
mod estimate;
mod functions;
mod parse;
mod parts;
mod plan;
mod print;
mod program;
mod source;
mod time;
mod types;
mod value;
mod view;
mod zones;

pub use cost::{Budget, PER_CALL_LIMIT};
pub use environment::{Checked, CompileError, Environment, ObjectTypes, Types};
pub use equality::equal;
pub use estimate::{Range, Sizes};
pub use functions::EvalError;
pub use functions::authorization::{Authorization, Authorizer, Decision, Question};
pub use functions::network::Cidr;
pub use functions::regexes::compile as compile_pattern;
pub use parse::is_identifier;
pub use program::{Activation, Program};
pub use regex::Regex;
pub use source::{Issue, Issues, Location};
pub use time::Timestamp;
pub use types::Type;
pub use value::{List, ListKind, Map, Object, Value};
pub use view::View;
pub use view::names::{escape, is_reserved, unescape};
pub use view::resource;
