//! Where volumes of a class may be.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::meta;

/// So many errors at most say that one term is there more than once.
const DUPLICATES_MAX: usize = 100;

type Term<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn validate(path: Path<'_>, terms: &[Value], errors: &mut Errors) {
    let mut seen: BTreeMap<Term<'_>, usize> = BTreeMap::new();
    // Upstream compares each term with as many empty ones as there are terms.
    seen.insert(Term::new(), terms.len());
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("matchLabelExpressions");
        let count = seen.entry(validate_term(path, term, errors)).or_default();
        for _ in 0..(*count).min(DUPLICATES_MAX) {
            errors.duplicate(path, "");
        }
        *count += 1;
    }
}

/// Answers with the values by key; of keys that are there twice the last one counts.
fn validate_term<'a>(path: Path<'_>, term: &'a Value, errors: &mut Errors) -> Term<'a> {
    let mut whole = Term::new();
    for (index, requirement) in term.list("matchLabelExpressions").iter().enumerate() {
        let path = path.index(index);
        let values = requirement.list("values");
        let values_path = path.child("values");
        if values.is_empty() {
            errors.required(values_path, "");
        }
        let mut set = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            if !set.insert(value.as_str()) {
                errors.duplicate(values_path.index(index), value);
            }
        }
        let key = requirement.str("key");
        meta::validate_label_name(path.child("key"), key, errors);
        if whole.insert(key, set).is_some() {
            errors.duplicate(path.child("key"), key);
        }
    }
    whole
}
