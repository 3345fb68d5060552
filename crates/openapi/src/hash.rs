//! Marks by which documents are told apart.

/// FNV-1a with 128 bits: not for secrets, only to tell documents apart.
#[derive(Clone)]
pub(crate) struct Fnv(u128);

impl Fnv {
    pub(crate) fn new() -> Self {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds bytes and that they end here.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0]) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    pub(crate) fn value(&self) -> u128 {
        self.0
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032X}", self.0)
    }
}
