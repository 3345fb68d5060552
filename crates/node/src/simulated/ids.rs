//! Identifiers of what does not exist: the same each time, so that a node that starts again finds what it knew.

use rkube_machinery::Text;

use crate::digest::digest;

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
