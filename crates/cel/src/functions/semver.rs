//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Function, Outcome, failed, unfit};
use crate::value::Value;

/// A version; what it was built from does not count when versions are compared.
#[derive(Clone, Debug)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    prerelease: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Number(u64),
    Text(String),
}

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => |arguments| match parsed(arguments) {
            Some(Ok(version)) => Ok(Value::Semver(Arc::new(version))),
            Some(Err(message)) => failed(message),
            None => unfit(),
        },
        "isSemver" => |arguments| match parsed(arguments) {
            Some(version) => Ok(Value::Bool(version.is_ok())),
            None => unfit(),
        },
        "major" => |arguments| number(arguments, |version| version.major),
        "minor" => |arguments| number(arguments, |version| version.minor),
        "patch" => |arguments| number(arguments, |version| version.patch),
        _ => return None,
    })
}

fn parsed(arguments: &[Value]) -> Option<Result<Semver, String>> {
    match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Some(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Some(normalized(text).and_then(|text| Semver::parse(&text))),
        _ => None,
    }
}

fn number<'a>(arguments: &[Value<'a>], of: fn(&Semver) -> u64) -> Outcome<'a> {
    match &arguments[0] {
        Value::Semver(version) => Ok(Value::Int(of(version) as i64)),
        _ => unfit(),
    }
}

impl Semver {
    pub fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else { return Err("No Major.Minor.Patch elements found".to_owned()) };
        let (major, minor) = (component(major, "major")?, component(minor, "minor")?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let patch = component(patch, "patch")?;
        let prerelease = prerelease.map_or(Ok(Vec::new()), |text| text.split('.').map(part).collect())?;
        for identifier in build.into_iter().flat_map(|build| build.split('.')) {
            if identifier.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(identifier) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(identifier)));
            }
        }
        Ok(Semver { major, minor, patch, prerelease })
    }

    pub fn precedence(&self, other: &Semver) -> Ordering {
        let numbers = |version: &Semver| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.prerelease.len(), other.prerelease.len()) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (one, two) => self
                .prerelease
                .iter()
                .zip(&other.prerelease)
                .map(|(one, other)| compare_parts(one, other))
                .find(|order| order.is_ne())
                .unwrap_or(one.cmp(&two)),
        })
    }
}

fn compare_parts(one: &Part, other: &Part) -> Ordering {
    match (one, other) {
        (Part::Number(one), Part::Number(other)) => one.cmp(other),
        (Part::Number(_), Part::Text(_)) => Ordering::Less,
        (Part::Text(_), Part::Number(_)) => Ordering::Greater,
        (Part::Text(one), Part::Text(other)) => one.cmp(other),
    }
}

fn quote(text: &str) -> String {
    rkube_machinery::field::quote(text)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn component(text: &str, name: &str) -> Result<u64, String> {
    let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| match text {
        "" => format!("strconv.ParseUint: parsing {}: invalid syntax", quote(text)),
        _ => format!("strconv.ParseUint: parsing {}: value out of range", quote(text)),
    })
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_number(text) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(text)));
        }
        return match text.parse() {
            Ok(number) => Ok(Part::Number(number)),
            Err(_) => Err(format!("strconv.ParseUint: parsing {}: value out of range", quote(text))),
        };
    }
    match is_identifier(text) {
        true => Ok(Part::Text(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {}", quote(text))),
    }
}

/// Without a `v` before it and zeros before its numbers, with all three of them.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.to_owned();
            }
            let trimmed = part.trim_start_matches('0');
            if trimmed.starts_with(|letter: char| letter.is_ascii_digit()) {
                trimmed.to_owned()
            } else {
                format!("0{trimmed}")
            }
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}
