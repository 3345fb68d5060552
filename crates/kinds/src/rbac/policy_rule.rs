//! A rule of a role: verbs on resources, or on paths that are no resources.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

const RULES: Path<'static> = Path::new("rules");

/// The rules of a role; those of a namespace cannot speak of paths.
pub fn validate_all(role: &Value, namespaced: bool, errors: &mut Errors) {
    for (index, rule) in role.list("rules").iter().enumerate() {
        validate(RULES.index(index), rule, namespaced, errors);
    }
}

fn validate(path: Path<'_>, rule: &Value, namespaced: bool, errors: &mut Errors) {
    let lacks = |field: &str| rule.list(field).is_empty();
    if lacks("verbs") {
        errors.required(path.child("verbs"), "verbs must contain at least one value");
    }
    if !lacks("nonResourceURLs") {
        let (path, urls) = (path.child("nonResourceURLs"), rule.get("nonResourceURLs"));
        if namespaced {
            errors.invalid(path, urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if !(lacks("apiGroups") && lacks("resources") && lacks("resourceNames")) {
            errors.invalid(path, urls, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if lacks("apiGroups") {
        errors.required(path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if lacks("resources") {
        errors.required(path.child("resources"), "resource rules must supply at least one resource");
    }
}
