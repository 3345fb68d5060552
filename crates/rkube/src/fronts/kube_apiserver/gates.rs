//! `--feature-gates` as kube-apiserver takes it: its gates are known, those that rkube has do what they say, the others
//! are said to do nothing unless they are as they are by default.

use anyhow::{Context, bail};
use rkube_apiserver::Features;

use crate::fronts::Front;
use crate::fronts::flags::Given;

/// Every gate of kube-apiserver 1.36 with its default, a line each.
const KNOWN: &str = include_str!("gates.txt");

pub fn features(given: &Given) -> anyhow::Result<Features> {
    let mut features = Features::default();
    for item in given.list("feature-gates") {
        let (name, value) = item.split_once('=').with_context(|| format!("missing bool value for {item}"))?;
        let name = name.trim().strip_prefix("kube:").unwrap_or(name.trim());
        let value = value.trim();
        let on = match value.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            _ => bail!("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"),
        };
        if features.set(name, on) {
            continue;
        }
        match default_of(name) {
            None => bail!("unrecognized feature gate: {name}"),
            Some(default) if default == on => {}
            Some(_) => {
                eprintln!("{}: --feature-gates={name}={on} has no effect in rkube", Front::KubeApiserver.name());
            }
        }
    }
    Ok(features)
}

fn default_of(name: &str) -> Option<bool> {
    KNOWN.lines().filter_map(|line| line.split_once(' ')).find(|known| known.0 == name).map(|known| known.1 == "on")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fronts::flags;

    fn parse(value: &str) -> anyhow::Result<Features> {
        let arguments = vec![format!("--feature-gates={value}")];
        features(&flags::parse("kube-apiserver", super::super::table::FLAGS, arguments).unwrap())
    }

    #[test]
    fn gates_are_known_by_their_names() {
        assert!(Features::NAMES.iter().all(|name| default_of(name).is_some()), "ours are theirs");
        assert!(!parse("kube:WatchList=false").unwrap().watch_list);
        assert_eq!(parse("AllAlpha=false,InPlacePodVerticalScaling=True").unwrap(), Features::default());
        for (value, expected) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=maybe",
                "invalid value of WatchList=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
        ] {
            assert_eq!(parse(value).unwrap_err().to_string(), expected);
        }
    }
}
