//! Small checks that many parts of a pod spec share.

use std::collections::BTreeSet;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";
const FILE_MODE_WORDS: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// One error per message.
pub(crate) fn each(path: Path<'_>, value: &str, messages: Vec<String>, errors: &mut Errors) {
    for message in messages {
        errors.invalid(path, value, message);
    }
}

pub(crate) fn dns_label(path: Path<'_>, value: &str, errors: &mut Errors) {
    each(path, value, names::dns1123_label(value), errors);
}

pub(crate) fn dns_subdomain(path: Path<'_>, value: &str, errors: &mut Errors) {
    each(path, value, names::dns1123_subdomain(value), errors);
}

pub(crate) fn qualified_name(path: Path<'_>, value: &str, errors: &mut Errors) {
    each(path, value, names::qualified_name(value), errors);
}

/// The text field is there and not empty; says whether it is.
pub(crate) fn require(parent: &Value, path: Path<'_>, field: &str, errors: &mut Errors) -> bool {
    let there = !parent.str(field).is_empty();
    if !there {
        errors.required(path.child(field), "");
    }
    there
}

/// The text is one of those supported, which are named in this order.
pub(crate) fn one_of(path: Path<'_>, value: &str, supported: &[&str], errors: &mut Errors) {
    if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// [`one_of`] where the field is there.
pub(crate) fn one_of_if_set(parent: &Value, path: Path<'_>, field: &str, supported: &[&str], errors: &mut Errors) {
    if parent.has(field) {
        one_of(path.child(field), parent.str(field), supported, errors);
    }
}

/// [`one_of`] for a field that must be there.
pub(crate) fn required_one_of(path: Path<'_>, value: &str, supported: &[&str], errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        one_of(path, value, supported, errors);
    }
}

pub(crate) fn not_negative(parent: &Value, path: Path<'_>, field: &str, errors: &mut Errors) {
    let number = parent.int(field);
    if number < 0 {
        errors.invalid(path.child(field), number, NOT_NEGATIVE);
    }
}

pub(crate) fn positive(path: Path<'_>, number: i64, errors: &mut Errors) {
    if number <= 0 {
        errors.invalid(path, number, NOT_POSITIVE);
    }
}

/// The mode bits of a file, where the field is there.
pub(crate) fn file_mode(parent: &Value, path: Path<'_>, field: &str, errors: &mut Errors) {
    if let Some(mode) = parent.get(field).as_int()
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path.child(field), mode, FILE_MODE_WORDS);
    }
}

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path that does not climb.
pub(crate) fn no_backsteps(path: Path<'_>, value: &str, errors: &mut Errors) {
    if has_backsteps(value) {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// A path below some folder.
pub(crate) fn local_descending_path(path: Path<'_>, value: &str, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    no_backsteps(path, value, errors);
}

/// A path below some folder whose first part does not begin with `..`, which the node keeps for itself.
pub(crate) fn local_non_reserved_path(path: Path<'_>, value: &str, errors: &mut Errors) {
    local_descending_path(path, value, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// Whether the path passes [`local_non_reserved_path`].
pub(crate) fn is_local_non_reserved_path(value: &str) -> bool {
    !value.starts_with('/') && !value.starts_with("..") && !has_backsteps(value)
}

const SEEN_FEW: usize = 16;

/// Texts, numbers or tuples of them met so far. The first few cost no memory.
pub(crate) struct Seen<T> {
    few: [T; SEEN_FEW],
    count: usize,
    many: BTreeSet<T>,
}

impl<T: Copy + Default + Ord> Seen<T> {
    pub(crate) fn new() -> Self {
        Seen { few: [T::default(); SEEN_FEW], count: 0, many: BTreeSet::new() }
    }

    /// All of these.
    pub(crate) fn of(all: impl IntoIterator<Item = T>) -> Self {
        let mut seen = Seen::new();
        for one in all {
            seen.add(one);
        }
        seen
    }

    pub(crate) fn has(&self, one: T) -> bool {
        self.few[..self.count].contains(&one) || self.many.contains(&one)
    }

    /// Remembers it; says whether it is new.
    pub(crate) fn add(&mut self, one: T) -> bool {
        if self.has(one) {
            return false;
        }
        if self.count < SEEN_FEW {
            self.few[self.count] = one;
            self.count += 1;
        } else {
            self.many.insert(one);
        }
        true
    }
}

/// Whether two of these are the same.
pub(crate) fn has_repeated<T: Copy + Default + Ord>(all: impl IntoIterator<Item = T>) -> bool {
    let mut seen = Seen::new();
    all.into_iter().any(|one| !seen.add(one))
}

/// All containers of a pod spec in the order of their start, with their paths.
pub(crate) fn visit_containers<'a>(spec: &'a Value, path: Path<'_>, mut visit: impl FnMut(&'a Value, Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let list_path = path.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            visit(container, list_path.index(index));
        }
    }
}

/// Whether any container of the pod spec is so.
pub(crate) fn any_container(spec: &Value, mut is: impl FnMut(&Value) -> bool) -> bool {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().any(|list| spec.list(list).iter().any(&mut is))
}

/// An init container that runs as long as the pod.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.str("restartPolicy") == "Always"
}
