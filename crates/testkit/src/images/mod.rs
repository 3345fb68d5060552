//! Images for tests: layers of any content ([`Layer`]), and archives of them as Docker and OCI have it ([`ImageBuilder`]),
//! and one with a program that does what tests of a node need ([`test_image`]).

mod archive;
mod layer;
mod program;
mod registry;

pub use archive::{ImageBuilder, Packed, Packing, gzip, oci};
pub use layer::Layer;
pub use program::{TEST_IMAGE, program, test_image};
pub use registry::{Access, Behaviour, Registry};

/// `sha256:…` of some content.
pub fn digest(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
