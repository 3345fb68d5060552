//! What the server itself writes into metadata: uid, times, generated names, namespaces.

use std::collections::HashSet;

use rkube_machinery::host::Entropy;
use rkube_machinery::value::Distinct;
use rkube_machinery::{Status, Value, time};

/// Letters for generated names: no vowels and no digits that look like them, so that no words come out.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH: usize = 5;
const GENERATED_MAX: usize = 63;

/// Takes away what clients may not set on a new object.
pub fn wipe(metadata: &mut Value) {
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

pub fn fill(metadata: &mut Value, entropy: &dyn Entropy, now: i64) {
    metadata.set("creationTimestamp", time::format_seconds(now));
    metadata.set("uid", uuid(entropy));
}

/// A name from `generateName`: its prefix, shortened to leave room, and five random letters.
pub fn generate_name(prefix: &str, entropy: &dyn Entropy) -> String {
    let mut end = prefix.len().min(GENERATED_MAX - RANDOM_LENGTH);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    let mut random = entropy.next_u64();
    for _ in 0..RANDOM_LENGTH {
        name.push(LETTERS[(random % LETTERS.len() as u64) as usize] as char);
        random /= LETTERS.len() as u64;
    }
    name
}

/// A random UUID (version 4).
pub fn uuid(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut out = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    out
}

/// Makes the object's namespace that of the request, or objects.
pub fn place(metadata: &mut Value, namespace: &str) -> Result<(), Status> {
    let given = metadata.str("namespace");
    if given == namespace {
        return Ok(());
    }
    if given.is_empty() {
        metadata.set("namespace", namespace);
    } else if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// When owner references are looked at, as warnings about them say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Sent,
    Mutated,
}

/// Owner references that are the same count once. Says, as a warning, which stood twice.
pub fn dedup_owners(metadata: &mut Value, stage: Stage) -> Option<String> {
    let Some(Value::Array(owners)) = metadata.find_mut("ownerReferences") else { return None };
    if owners.len() < 2 {
        return None;
    }
    let mut seen = Distinct::new();
    let fresh: Vec<bool> = owners.iter().map(|owner| seen.add(owner)).collect();
    if fresh.iter().all(|fresh| *fresh) {
        return None;
    }
    let mut known = HashSet::new();
    let repeated = owners.iter().zip(&fresh).filter(|(_, fresh)| !**fresh).map(|(owner, _)| owner.str("uid"));
    let twice: Vec<String> = repeated.filter(|uid| known.insert(*uid)).map(str::to_owned).collect();
    let mut fresh = fresh.into_iter();
    owners.retain(|_| fresh.next().unwrap_or(true));
    let when = match stage {
        Stage::Sent => "",
        Stage::Mutated => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xab);
        }
    }

    #[test]
    fn owners_count_once() {
        let owner = |name: &str| rkube_machinery::object! { "name": name, "uid": "u" };
        let mut metadata = rkube_machinery::object! { "ownerReferences": vec![owner("a"), owner("b"), owner("a")] };
        let warning = dedup_owners(&mut metadata, Stage::Mutated).unwrap();
        assert!(
            warning.starts_with(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API"
            )
        );
        assert!(warning.ends_with("observed: u"));
        assert_eq!(metadata.list("ownerReferences"), [owner("a"), owner("b")]);
        assert_eq!(dedup_owners(&mut metadata, Stage::Sent), None);
    }

    #[test]
    fn uuids_and_names_have_their_shape() {
        let id = uuid(&Fixed);
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        let name = generate_name(&"x".repeat(100), &Fixed);
        assert_eq!(name.len(), GENERATED_MAX);
        assert!(generate_name("ä".repeat(40).as_str(), &Fixed).len() <= GENERATED_MAX);
    }
}
