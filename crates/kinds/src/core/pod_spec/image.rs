//! Which tag an image reference names.
//!
//! Follows the grammar of container image references: an optional domain, path components, an optional tag and an
//! optional digest. A reference that does not follow it has no tag.

const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

/// Whether images of this reference are pulled anew each time: the tag is `latest`, or nothing is said.
pub fn is_latest(reference: &str) -> bool {
    tag(reference) == Some("latest")
}

/// The tag, `latest` where neither tag nor digest is given; `None` where there is only a digest, or nothing sensible.
fn tag(reference: &str) -> Option<&str> {
    if reference.len() == 64 && reference.bytes().all(is_lower_hex) {
        return None;
    }
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let name_end = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[name_end..].split_once(':') {
        Some((last, tag)) => (&rest[..name_end + last.len()], Some(tag)),
        None => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) || !is_name(name) {
        return None;
    }
    match (tag, digest) {
        (Some(tag), _) => Some(tag),
        (None, Some(_)) => None,
        (None, None) => Some("latest"),
    }
}

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if looks_like_domain(first) => (first, rest),
        _ => ("docker.io", name),
    };
    if domain.len() + 1 + path.len() > NAME_MAX || !path.split('/').all(is_path_component) {
        return false;
    }
    is_domain(domain) || is_path_component(domain)
}

fn looks_like_domain(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let host = match domain.strip_prefix('[') {
        Some(address) => {
            let Some((address, port)) = address.split_once(']') else { return false };
            let hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
            return !address.is_empty()
                && address.bytes().all(hex)
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_digits));
        }
        None => match domain.split_once(':') {
            Some((host, port)) if is_digits(port) => host,
            Some(_) => return false,
            None => domain,
        },
    };
    host.split('.').all(|label| {
        let bytes = label.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower case letters and digits with separators between them: `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let bytes = component.as_bytes();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut index = 0;
    loop {
        let start = index;
        while index < bytes.len() && plain(bytes[index]) {
            index += 1;
        }
        if index == start {
            return false;
        }
        if index == bytes.len() {
            return true;
        }
        let separator = bytes[index];
        let run = bytes[index..].iter().take_while(|byte| **byte == separator).count();
        let fits = match separator {
            b'.' => run == 1,
            b'_' => run <= 2,
            b'-' => true,
            _ => false,
        };
        if !fits {
            return false;
        }
        index += run;
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_MAX
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", _)) => 64,
        Some(("sha384", _)) => 96,
        Some(("sha512", _)) => 128,
        _ => return false,
    };
    let hex = &digest[7..];
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found() {
        let digest = format!("img@sha256:{}", "a".repeat(64));
        let tagged_digest = format!("img:v1@sha256:{}", "a".repeat(64));
        let table: &[(&str, Option<&str>)] = &[
            ("img", Some("latest")),
            ("img:1", Some("1")),
            ("img:latest", Some("latest")),
            ("registry:5000/team/img", Some("latest")),
            ("registry:5000/team/img:v1", Some("v1")),
            ("gcr.io/a__b/c--d:x", Some("x")),
            ("[::1]:5000/img", Some("latest")),
            (&digest, None),
            (&tagged_digest, Some("v1")),
            ("", None),
            ("-1", None),
            ("IMG", None),
            ("img:", None),
            ("a//b", None),
            ("a..b", None),
            ("img@sha256:12", None),
        ];
        for (reference, want) in table {
            assert_eq!(tag(reference), *want, "{reference:?}");
        }
        assert_eq!(tag(&"a".repeat(64)), None);
        assert_eq!(tag(&"x".repeat(300)), None);
    }
}
