//! Levels and versions of the standard, and how a namespace's labels choose them.

// tidy: types Namespace Pod

use std::fmt;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Map, Value};

/// The labels of a mode: its level, and the version of that.
const ENFORCE: [&str; 2] = ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];
const AUDIT: [&str; 2] = ["pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"];
const WARN: [&str; 2] = ["pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

/// A level as a version of Kubernetes defined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    /// The minor version; none is the latest one.
    pub version: Option<u32>,
}

impl Standard {
    const PRIVILEGED: Standard = Standard { level: Level::Privileged, version: None };

    /// The minor version whose checks apply.
    pub fn minor(self) -> u32 {
        self.version.unwrap_or(u32::MAX)
    }

    /// Whether pods that the other let in may have to stay out now.
    pub fn is_stricter_than(self, other: Standard) -> bool {
        self != other && self.level != Level::Privileged && (self.version != other.version || self.level > other.level)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Some(minor) => write!(out, "{level}:v1.{minor}"),
            None => write!(out, "{level}:latest"),
        }
    }
}

/// What a namespace wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: Standard,
    pub audit: Standard,
    pub warn: Standard,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { enforce: Standard::PRIVILEGED, audit: Standard::PRIVILEGED, warn: Standard::PRIVILEGED }
    }
}

impl Policy {
    /// Reads labels. A wrong level enforces the strictest one and warns of nothing.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Policy, Errors) {
        let mut errors = Errors::new();
        let mut policy = Policy::default();
        let mut read = |[key, version_key]: [&str; 2], standard: &mut Standard, fallback: Level| {
            let level = label(key);
            let parsed = level.and_then(Level::parse);
            if let Some(level) = level {
                standard.level = parsed.unwrap_or(fallback);
                if parsed.is_none() {
                    wrong(&mut errors, key, level, "must be one of privileged, baseline, restricted");
                }
            }
            let version = label(version_key);
            if let Some(version) = version {
                match parse_version(version) {
                    Some(found) => standard.version = found,
                    None => wrong(&mut errors, version_key, version, "must be \"latest\" or \"v1.x\""),
                }
            }
            (level.is_some(), parsed.is_some(), version.is_some())
        };
        let (_, enforced, _) = read(ENFORCE, &mut policy.enforce, Level::Restricted);
        read(AUDIT, &mut policy.audit, Level::Privileged);
        let (warn_given, _, warn_version_given) = read(WARN, &mut policy.warn, Level::Privileged);
        if !warn_given && enforced && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !warn_version_given {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }
}

/// A pod, or what is made into one, and the minor version whose checks it has to pass.
pub struct Pod<'a> {
    pub annotations: &'a Map,
    pub spec: &'a Value,
    pub minor: u32,
}

impl<'a> Pod<'a> {
    pub fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let spec = self.spec;
        lists.into_iter().flat_map(move |list| spec.list(list))
    }

    pub fn is_windows(&self) -> bool {
        self.spec.get("os").str("name") == "windows"
    }

    /// Whether root inside is nobody outside, which newer versions of the standard take into account.
    pub fn has_own_users(&self) -> bool {
        self.minor >= 35 && self.spec.get("hostUsers").as_bool() == Some(false)
    }

    pub fn context(&self) -> &'a Value {
        self.spec.get("securityContext")
    }
}

/// None: no version; `Some(None)`: the latest.
fn parse_version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    if plain { minor.parse().ok().map(Some) } else { None }
}

fn wrong(errors: &mut Errors, label: &str, value: &str, detail: &str) {
    errors.invalid(Path::new("metadata").child("labels").key(label), value, detail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_choose_the_standard() {
        let of = |pairs: &[(&str, &'static str)]| {
            let pairs: Vec<(String, &'static str)> =
                pairs.iter().map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), *value)).collect();
            Policy::of(|label| pairs.iter().find(|(key, _)| key == label).map(|(_, value)| *value))
        };
        let (policy, errors) = of(&[("enforce", "baseline"), ("enforce-version", "v1.30")]);
        assert!(errors.is_empty());
        assert_eq!(policy.enforce.to_string(), "baseline:v1.30");
        assert_eq!(policy.warn, policy.enforce);
        assert_eq!(policy.audit, Standard::PRIVILEGED);
        let (policy, errors) = of(&[("enforce", "x"), ("warn", "y"), ("audit-version", "v1.01")]);
        assert_eq!(policy.enforce.to_string(), "restricted:latest");
        assert_eq!(policy.warn, Standard::PRIVILEGED);
        assert_eq!(errors.len(), 3);
    }
}
