//! Which kinds are served, and with which features: what `--runtime-config` and `--feature-gates` say.

use std::collections::BTreeMap;
use std::sync::Arc;

use rkube_apiserver::Features;
use rkube_kinds::Kind;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("--feature-gates: there is no gate {name}; the gates are {}", Features::NAMES.join(", "))]
    UnknownGate { name: String },
    #[error(
        "--runtime-config: {name} is neither api/all, api/ga, api/beta, api/alpha nor a served group and version such as {example}"
    )]
    UnknownVersion { name: String, example: String },
    #[error("--runtime-config: {name} is either true or false, not {value:?}")]
    NotBoolean { name: String, value: String },
}

pub fn features(gates: &BTreeMap<String, bool>) -> Result<Features, Error> {
    let mut features = Features::default();
    for (name, on) in gates {
        if !features.set(name, *on) {
            return Err(Error::UnknownGate { name: name.clone() });
        }
    }
    Ok(features)
}

/// The kinds that are left: those that are on by default or turned on, without those turned off. A group and version by name comes before `api/beta` and the like, and that before `api/all`.
pub fn kinds(all: &[Arc<Kind>], config: &BTreeMap<String, String>) -> Result<Vec<Arc<Kind>>, Error> {
    let mut rules: Vec<(u8, &str, bool)> = Vec::new();
    for (name, value) in config {
        let on = match value.as_str() {
            "true" | "" => true,
            "false" => false,
            _ => return Err(Error::NotBoolean { name: name.clone(), value: value.clone() }),
        };
        let rank = match name.as_str() {
            "api/all" => 0,
            "api/ga" | "api/beta" | "api/alpha" => 1,
            other if all.iter().any(|kind| version_name(kind) == other || kind.api_version() == other) => 2,
            _ => {
                return Err(Error::UnknownVersion {
                    name: name.clone(),
                    example: all.last().map(|kind| version_name(kind)).unwrap_or_default(),
                });
            }
        };
        rules.push((rank, name, on));
    }
    rules.sort();
    let served =
        |kind: &&Arc<Kind>| rules.iter().rfind(|rule| covers(rule.1, kind)).map_or(!kind.off_by_default, |rule| rule.2);
    Ok(all.iter().filter(served).cloned().collect())
}

/// `api/v1`, `apps/v1`.
fn version_name(kind: &Kind) -> String {
    if kind.group.is_empty() { format!("api/{}", kind.version) } else { kind.api_version() }
}

fn covers(rule: &str, kind: &Kind) -> bool {
    let stage = |word: &str| kind.version.contains(word);
    match rule {
        "api/all" => true,
        "api/ga" => !stage("alpha") && !stage("beta"),
        "api/beta" => stage("beta"),
        "api/alpha" => stage("alpha"),
        name => version_name(kind) == name || kind.api_version() == name,
    }
}

#[cfg(test)]
mod tests {
    use rkube_kinds::Row;

    use super::*;

    fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn versions_are_turned_off_and_on() {
        let all = rkube_kinds::all();
        let on = all.iter().filter(|kind| !kind.off_by_default).count();
        assert_eq!(kinds(all, &BTreeMap::new()).unwrap().len(), on);
        assert_eq!(kinds(all, &config(&[("api/all", "true")])).unwrap().len(), all.len());
        let without = kinds(all, &config(&[("events.k8s.io/v1", "false")])).unwrap();
        assert!(without.iter().all(|kind| kind.group != "events.k8s.io"));
        let core = kinds(all, &config(&[("api/all", "false"), ("api/v1", "true")])).unwrap();
        assert!(!core.is_empty() && core.iter().all(|kind| kind.group.is_empty()));
        assert!(matches!(kinds(all, &config(&[("nothing/v1", "true")])), Err(Error::UnknownVersion { .. })));
        assert!(matches!(kinds(all, &config(&[("api/all", "maybe")])), Err(Error::NotBoolean { .. })));
    }

    #[test]
    fn some_wait_to_be_turned_on() {
        const WAITING: Row = Row {
            group: "example.io",
            resource: "things",
            type_name: "io.k8s.api.core.v1.ConfigMap",
            off_by_default: true,
            ..Row::DEFAULTS
        };
        static STABLE: Row = Row { off_by_default: false, ..WAITING };
        static BETA: Row = Row { version: "v1beta1", ..WAITING };
        static ALPHA: Row = Row { version: "v1alpha1", ..WAITING };
        let all = [&STABLE, &BETA, &ALPHA].map(|row| Arc::new(Kind::of(row)));
        for (pairs, expected) in [
            (&[][..], &["v1"][..]),
            (&[("api/all", "true")], &["v1", "v1beta1", "v1alpha1"]),
            (&[("api/ga", "true")], &["v1"]),
            (&[("api/beta", "true")], &["v1", "v1beta1"]),
            (&[("api/alpha", "true")], &["v1", "v1alpha1"]),
            (&[("example.io/v1alpha1", "true")], &["v1", "v1alpha1"]),
            (&[("api/all", "true"), ("example.io/v1beta1", "false")], &["v1", "v1alpha1"]),
            (&[("api/beta", "false"), ("example.io/v1beta1", "true")], &["v1", "v1beta1"]),
            (&[("api/all", "false")], &[]),
        ] {
            let served = kinds(&all, &config(pairs)).unwrap();
            let versions: Vec<_> = served.iter().map(|kind| kind.version.as_str()).collect();
            assert_eq!(versions, expected, "{pairs:?}");
        }
    }

    #[test]
    fn unknown_gates_are_refused() {
        assert!(!features(&[("WatchList".to_owned(), false)].into()).unwrap().watch_list);
        assert!(matches!(features(&[("X".to_owned(), true)].into()), Err(Error::UnknownGate { .. })));
    }
}
