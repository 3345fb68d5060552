//! From the least to the most.

/// A size or a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub const ZERO: Range = Range::exactly(0);
    pub const ONE: Range = Range::exactly(1);
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub const fn exactly(value: u64) -> Range {
        Range { min: value, max: value }
    }

    /// What the union over so many elements begins with.
    pub(super) fn none(elements: usize) -> Range {
        Range { min: if elements == 0 { 0 } else { u64::MAX }, max: 0 }
    }

    pub(super) fn plus(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Each unit costs so much; rounded up.
    pub(super) fn scaled(self, factor: f64) -> Range {
        // From a float that is too large this is the largest integer.
        let scale = |value: u64| (value as f64 * factor).ceil() as u64;
        Range { min: scale(self.min), max: scale(self.max) }
    }

    pub(super) fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
