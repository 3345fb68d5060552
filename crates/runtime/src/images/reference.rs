//! Names of images, as Docker and Kubernetes read them: `busybox` is `docker.io/library/busybox:latest`.

use std::fmt;
use std::str::FromStr;

use super::digest::Digest;
use super::{Error, Result};

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";

const MAX_NAME_LENGTH: usize = 255;
const MAX_TAG_LENGTH: usize = 128;

/// A whole name: with its registry, and with a tag or a digest. Where a name has both, the digest counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    domain: String,
    path: String,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Version {
    Tag(String),
    Digest(Digest),
}

impl Reference {
    /// The registry, as `docker.io` or `localhost:5000`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// What the registry calls the repository, as `library/busybox`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Both.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Version::Tag(tag) => write!(formatter, "{}/{}:{tag}", self.domain, self.path),
            Version::Digest(digest) => write!(formatter, "{}/{}@{digest}", self.domain, self.path),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reference> {
        if is_hex(text) {
            return Err(invalid(format!(
                "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            )));
        }
        let (domain, rest) = split_domain(text);
        let (name_and_tag, digest) = match rest.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (rest.as_str(), None),
        };
        let (path, tag) = match name_and_tag.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (name_and_tag, None),
        };
        if path.chars().any(|letter| letter.is_ascii_uppercase()) {
            return Err(invalid(format!("invalid reference format: repository name ({path}) must be lowercase")));
        }
        let valid = is_domain(&domain) && path.split('/').all(is_path_component) && tag.is_none_or(is_tag);
        if !valid {
            return Err(invalid("invalid reference format".to_owned()));
        }
        if domain.len() + 1 + path.len() > MAX_NAME_LENGTH {
            return Err(invalid(format!("repository name must not be more than {MAX_NAME_LENGTH} characters")));
        }
        let version = match digest {
            Some(digest) => {
                Version::Digest(digest.parse().map_err(|_| invalid("invalid reference format".to_owned()))?)
            }
            None => Version::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
        };
        Ok(Reference { domain, path: path.to_owned(), version })
    }
}

/// What stands before the first slash is a registry if it could not be a user's name.
fn split_domain(text: &str) -> (String, String) {
    let (domain, rest) = match text.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.chars().any(|letter| letter.is_ascii_uppercase()) =>
        {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, text),
    };
    let domain = if domain == LEGACY_DOMAIN { DEFAULT_DOMAIN } else { domain };
    let official = domain == DEFAULT_DOMAIN && !rest.contains('/');
    (domain.to_owned(), if official { format!("{OFFICIAL}{rest}") } else { rest.to_owned() })
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let hex = address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            return hex && address.contains(':') && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let label = |label: &str| {
        let alphanumeric = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && alphanumeric(label.bytes().next())
            && alphanumeric(label.bytes().last())
    };
    host.split('.').all(label) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Letters and digits, with single dots, one or two underscores, or any number of dashes between them.
fn is_path_component(component: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    let separators = bytes.split(plain).filter(|separator| !separator.is_empty());
    let allowed =
        |separator: &[u8]| matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-');
    plain(first) && plain(last) && separators.into_iter().all(allowed)
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG_LENGTH
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn invalid(text: String) -> Error {
    Error::InvalidReference(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_made_whole() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let pinned = format!("docker.io/library/busybox@{digest}");
        for (text, whole) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("me/tool", "docker.io/me/tool:latest"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
            ("localhost/tool", "localhost/tool:latest"),
            ("localhost:5000/a/b:v1", "localhost:5000/a/b:v1"),
            ("127.0.0.1:5000/a__b/c--d:V_1.2", "127.0.0.1:5000/a__b/c--d:V_1.2"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
            ("registry.k8s.io/e2e-test-images/agnhost:2.53", "registry.k8s.io/e2e-test-images/agnhost:2.53"),
            (&format!("busybox@{digest}"), &pinned),
            (&format!("busybox:1.36@{digest}"), &pinned),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), whole, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_in_the_usual_words() {
        for (text, words) in [
            ("", "invalid reference format"),
            ("a b", "invalid reference format"),
            ("busybox:", "invalid reference format"),
            ("busybox:-a", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("a___b", "invalid reference format"),
            ("-a", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a/b@sha256:12", "invalid reference format"),
            ("../etc", "invalid reference format"),
            ("Busybox", "invalid reference format: repository name (library/Busybox) must be lowercase"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap_err().to_string(), words, "{text}");
        }
    }
}
