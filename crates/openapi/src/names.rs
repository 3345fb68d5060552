//! How groups, versions and kinds are spelled in paths, tags and operation ids.

use rkube_kinds::Kind;

/// A group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupVersionKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl GroupVersionKind {
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// `api/v1`, `apis/apps/v1`.
pub fn root_of(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// The group as a word: `core`, `apps`, `rbacAuthorization`.
pub(crate) fn group_word(group: &str) -> String {
    match group {
        "" => "core".to_owned(),
        _ => operation_word(group.strip_suffix(".k8s.io").unwrap_or(group)),
    }
}

/// What may stand in an operation id: letters, and digits but in front. What follows anything else is a capital.
pub(crate) fn operation_word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    let mut capital = false;
    for (place, letter) in text.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (place > 0 && letter.is_numeric()) {
            if capital {
                word.extend(letter.to_uppercase())
            } else {
                word.push(letter)
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    word
}

/// The tag of a group version's operations: `core_v1`.
pub(crate) fn tag(group: &str, version: &str) -> String {
    format!("{}_{}", group_word(group), operation_word(version))
}

/// The group and version within an operation id: `CoreV1`.
pub(crate) fn group_version_word(group: &str, version: &str) -> String {
    format!("{}{}", capitalized(&group_word(group)), capitalized(&operation_word(version)))
}

pub(crate) fn capitalized(word: &str) -> String {
    let mut symbols = word.chars();
    symbols.next().map_or(String::new(), |first| first.to_uppercase().chain(symbols).collect())
}

/// The word with its article: `a Pod`, `an Event`; plurals have none.
pub(crate) fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return noun.to_owned();
    }
    let vowel = noun.starts_with(|first: char| "aeiouAEIOU".contains(first));
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

/// Packages of types whose group is not `<package>.k8s.io`.
const GROUPS: &[(&str, &str)] = &[
    ("core", ""),
    ("apps", "apps"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("policy", "policy"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
    ("apiserverinternal", "internal.apiserver.k8s.io"),
    ("meta", ""),
    ("version", ""),
];

/// The group, version and kind behind an OpenAPI name: `io.k8s.api.core.v1.Pod`.
pub(crate) fn group_version_kind(type_name: &str) -> Option<GroupVersionKind> {
    let mut parts = type_name.rsplit('.');
    let (kind, version, package) = (parts.next()?, parts.next()?, parts.next()?);
    let group = match GROUPS.iter().find(|(name, _)| *name == package) {
        Some((_, group)) => (*group).to_owned(),
        None => format!("{package}.k8s.io"),
    };
    Some(GroupVersionKind { group, version: version.to_owned(), kind: kind.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(group_version_word("", "v1"), "CoreV1");
        assert_eq!(group_version_word("rbac.authorization.k8s.io", "v1"), "RbacAuthorizationV1");
        assert_eq!(tag("flowcontrol.apiserver.k8s.io", "v1"), "flowcontrolApiserver_v1");
        assert_eq!(group_version_word("my-group.3scale.net", "v1"), "MyGroup3scaleNetV1");
        assert_eq!(tag("foo-group", "foo-version"), "fooGroup_fooVersion");
        assert_eq!(with_article("Event"), "an Event");
        assert_eq!(with_article("Endpoints"), "Endpoints");
        assert_eq!(with_article("StorageClass"), "a StorageClass");
        let kind = group_version_kind("io.k8s.api.rbac.v1.Role").unwrap();
        assert_eq!(kind, GroupVersionKind::new("rbac.authorization.k8s.io", "v1", "Role"));
    }
}
