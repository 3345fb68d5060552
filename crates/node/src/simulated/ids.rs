//! Identifiers of what does not exist: the same each time, so that a node that starts again finds what it knew.

use rkube_machinery::Text;

/// The name of the container runtime, as container ids carry it.
pub const RUNTIME: &str = "simulated";

/// Of a container's run of this number.
pub fn container(pod_uid: &str, container: &str, run: u32) -> Text {
    format!("{RUNTIME}://{}", digest(&[pod_uid, container, &run.to_string()])).into()
}

/// Of an image, as registries write it.
pub fn image(image: &str) -> Text {
    let name = image.split('@').next().unwrap_or_default();
    let tag = name.rfind(':').filter(|place| !name[*place..].contains('/'));
    let repository = tag.map_or(name, |place| &name[..place]);
    format!("{repository}@sha256:{}", digest(&[image])).into()
}

/// 64 hexadecimal digits that look random. Nobody relies on them being hard to guess.
pub fn digest(parts: &[&str]) -> String {
    let mut text = String::with_capacity(64);
    for seed in 0..4_u64 {
        // FNV-1a, begun at another place for each quarter, and mixed at the end.
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in parts {
            for byte in part.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash = (hash ^ (hash >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
        text.push_str(&format!("{:016x}", hash ^ (hash >> 27)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_stable_and_differ() {
        let id = container("u", "a", 0);
        assert_eq!(id, container("u", "a", 0));
        assert_eq!(id.len(), "simulated://".len() + 64);
        assert_ne!(id, container("u", "a", 1));
        assert_ne!(container("u", "ab", 0), container("ua", "b", 0));
        assert!(image("registry:5000/web:1").starts_with("registry:5000/web@sha256:"));
        assert!(image("web").starts_with("web@sha256:"));
    }
}
