//! The rules of custom resources: `x-kubernetes-validations`, as Kubernetes 1.36 has them.
//!
//! A schema's rules are compiled once ([`Rules::compile`]) and evaluated on each object that is written
//! ([`Rules::validate`]); a definition's rules are checked, with what they can cost, when it is written ([`Context`]).
//! Rules and schema are two values, because others use the schema too; they belong together.
//!
//! What holds:
//! - An evaluation reads the object where it lies; nothing of it is copied but what a rule reads.
//! - One rule on one value may cost [`rkube_cel::PER_CALL_LIMIT`], all rules on one object [`BUDGET`]. What is spent ends
//!   the evaluation with an error; no rule passes unseen.
//! - Errors come in the order of the object's entries, where upstream has none.

mod check;
mod compile;
mod correlate;
mod declared;
mod evaluate;
mod field_path;
mod tree;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;

pub use check::{Context, RULE_COST_MAX, TOTAL_COST_MAX, TotalCost};
pub use field_path::{PathError, resolve as resolve_field_path};

use correlate::{Correlated, Ratchet};

/// What all rules may cost on one object.
pub const BUDGET: i64 = 10_000_000;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules(tree::Node);

/// What is validated.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Where the object stands; [`Path::ROOT`] for one of its own.
    pub path: Path<'a>,
    pub object: &'a Value,
    /// What it replaces, which transition rules call `oldSelf`.
    pub old: Option<&'a Value>,
    /// Whether errors in what did not change are only warnings, as they are in updates of objects that are stored.
    pub ratcheting: bool,
}

/// What rules say of an object.
#[derive(Debug, Default)]
pub struct Verdict {
    pub errors: Errors,
    /// Errors in what did not change.
    pub warnings: Vec<String>,
    /// What is left of the budget; negative where it was spent.
    pub remaining: i64,
}

impl Rules {
    /// The rules of the schema; none where it has none. `is_resource` is true for a resource of its own or one that is
    /// embedded, which has a name and a kind that rules can speak of.
    pub fn compile(schema: &Structural, is_resource: bool) -> Option<Rules> {
        tree::compile(schema, is_resource).map(Rules)
    }

    /// Evaluates the rules. `schema` is the one that they were compiled of.
    pub fn validate(&self, schema: &Structural, subject: Subject<'_>, budget: i64) -> Verdict {
        let Subject { path, object, old, ratcheting } = subject;
        let mut walk = evaluate::Walk::new(budget);
        let correlated = old.filter(|_| ratcheting).map(|old| Correlated::new(object, old, schema));
        let ratchet = correlated.as_ref().map_or_else(Ratchet::default, Ratchet::root);
        let root = evaluate::Position { node: &self.0, source: tree::Source::Schema(schema), schema, path };
        walk.validate(root, object, old, ratchet);
        walk.verdict()
    }
}
