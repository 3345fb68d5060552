//! Names that nobody chose: uids, and what `generateName` becomes.

use crate::host::Entropy;

/// Letters for generated names: no vowels and no digits that look like them, so that no words come out.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH: usize = 5;
const GENERATED_MAX: usize = 63;

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
    fn uuids_and_names_have_their_shape() {
        let id = uuid(&Fixed);
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        let name = generate_name(&"x".repeat(100), &Fixed);
        assert_eq!(name.len(), GENERATED_MAX);
        assert!(generate_name("ä".repeat(40).as_str(), &Fixed).len() <= GENERATED_MAX);
    }
}
