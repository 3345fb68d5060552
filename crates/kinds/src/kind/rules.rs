//! What is a kind's own in how its objects are made, changed and checked.

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

/// What a table says about a row beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    pub reason: &'static str,
    pub message: &'static str,
}

/// Which write the rules are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Main,
    Status,
    /// Any other subresource that writes the object, by name: `ephemeralcontainers`, `resize`, `finalize`.
    Other(&'static str),
}

/// Who makes a request, and when.
pub struct Requester<'a> {
    /// Makes a `UserInfo` object: `username`, `uid`, `groups`, `extra`.
    pub user: &'a dyn Fn() -> Value,
    /// In seconds since 1970.
    pub now: i64,
    /// Whether a new object came without labels.
    pub gave_no_labels: bool,
}

/// How a kind's objects are made, changed and checked. Called in this order: `default`, (admission), `prepare_*`,
/// `validate_*`. Objects are decoded: known fields only, right types, schema order. Metadata common to all kinds is
/// validated by [`Kind::validate_create`] and [`Kind::validate_update`], by which callers reach `validate_*`.
/// Where the kind has a [`Conversion`], `default` sees this version's form and everything else the stored one.
pub trait Rules: Send + Sync + 'static {
    /// Fills in what a client may leave out. Also run on objects read in another version. Must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Drops what clients may not set on create: status, fields behind feature gates.
    fn prepare_create(&self, _object: &mut Value) {}

    fn validate_create(&self, _object: &Value, _errors: &mut Errors) {}

    /// What is wrong with an object because of the namespace that it is in, which `namespace` gives; its errors come
    /// before those of `validate_*`. `old` on update.
    fn validate_in_namespace(
        &self,
        _part: Part,
        _object: &Value,
        _old: Option<&Value>,
        _namespace: &dyn Fn() -> Value,
        _errors: &mut Errors,
    ) {
    }

    /// Carries over from `old` what this write may not change.
    fn prepare_update(&self, _part: Part, _object: &mut Value, _old: &Value) {}

    /// Writes down who asked and when, where the kind keeps that; called after `prepare_*`. `part` and `old` on update.
    fn stamp(&self, _object: &mut Value, _change: Option<(Part, &Value)>, _requester: &Requester<'_>) {}

    fn validate_update(&self, _part: Part, _object: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Last touch before storing, after validation (upstream's canonicalisation).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Texts for `Warning` headers when the object itself is written; `old` on update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Texts for `Warning` headers when the object's status is written.
    fn status_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The seconds for a graceful deletion of this object, `None` where deletion is immediate.
    fn grace_period_seconds(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Touches an object that is marked for deletion but has to wait for its finalizers.
    fn prepare_deletion(&self, _object: &mut Value) {}

    /// Finalizers for a new object beyond those of the client (`kubernetes` in a namespace's spec is `prepare_create`'s).
    fn keep_until_finalized(&self, _object: &Value) -> bool {
        false
    }

    /// Why such annotations cannot be read, if so.
    fn unreadable(&self, _object: &Value) -> Option<String> {
        None
    }

    /// That this object has come to its end, as tables mark it.
    fn row_completed(&self, _object: &Value) -> Option<RowCondition> {
        None
    }
}

/// Of kinds that take any object.
pub struct NoRules;
impl Rules for NoRules {}
