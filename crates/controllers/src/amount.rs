//! A number, or a percentage of another: how many pods may be missing, or be there beyond those that are wanted.

use std::borrow::Cow;

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Count(i64),
    Percent(i64),
}

impl Amount {
    pub fn of(self, total: i64, round_up: bool) -> i64 {
        match self {
            Amount::Count(count) => count,
            Amount::Percent(percent) => {
                let hundredths = percent.saturating_mul(total);
                if round_up { hundredths.saturating_add(99).div_euclid(100) } else { hundredths.div_euclid(100) }
            }
        }
    }
}

/// An amount as it stands in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum RawAmount<'a> {
    Count(i64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

impl RawAmount<'_> {
    pub fn read(&self) -> Amount {
        match self {
            RawAmount::Count(count) => Amount::Count(*count),
            RawAmount::Text(text) => {
                Amount::Percent(text.strip_suffix('%').and_then(|percent| percent.parse().ok()).unwrap_or(0))
            }
        }
    }
}
