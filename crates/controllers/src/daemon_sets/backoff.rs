//! How long a node is without a daemon after its last one failed.

use std::collections::HashMap;
use std::time::Duration;

use rkube_machinery::Text;

/// The first delay; doubled with each failure, up to the other.
const FIRST_MICROS: i64 = 1_000_000;
const MAX_MICROS: i64 = 15 * 60 * 1_000_000;
/// Failures that are older than this are forgotten.
const FORGOTTEN_MICROS: i64 = 2 * MAX_MICROS;
/// Beyond so many nodes those are looked for that can be forgotten.
const REMEMBERED_MAX: usize = 1024;

/// A set at a generation, and a node.
pub type Place = (Text, i64, Text);

#[derive(Debug, Default)]
pub struct Backoffs(HashMap<Place, (i64, i64)>);

impl Backoffs {
    /// A failed pod was found. None: it may be replaced, and that is noted; else when to look again.
    pub fn fail(&mut self, place: &Place, now_micros: i64) -> Option<Duration> {
        let known = self.0.get(place).filter(|(_, since)| now_micros - since <= FORGOTTEN_MICROS).copied();
        let delay = match known {
            Some((delay, since)) if now_micros - since < delay => {
                return Some(Duration::from_micros((delay - (now_micros - since)).unsigned_abs()));
            }
            Some((delay, _)) => (delay * 2).min(MAX_MICROS),
            None => FIRST_MICROS,
        };
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, (_, since)| now_micros - *since <= FORGOTTEN_MICROS);
        }
        self.0.insert(place.clone(), (delay, now_micros));
        None
    }

    /// A set is gone.
    pub fn forget(&mut self, set: &str) {
        self.0.retain(|(uid, _, _), _| uid != set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_take_longer() {
        let (mut backoffs, place) = (Backoffs::default(), ("u".into(), 1, "n".into()));
        let seconds = |seconds: i64| seconds * 1_000_000;
        assert_eq!(backoffs.fail(&place, 0), None);
        assert_eq!(backoffs.fail(&place, seconds(0)), Some(Duration::from_secs(1)));
        assert_eq!(backoffs.fail(&place, seconds(1)), None);
        assert_eq!(backoffs.fail(&place, seconds(2)), Some(Duration::from_secs(1)));
        assert_eq!(backoffs.fail(&place, seconds(3)), None);
        assert_eq!(backoffs.fail(&place, seconds(3)), Some(Duration::from_secs(4)));
        assert_eq!(backoffs.fail(&place, seconds(3600)), None);
        assert_eq!(backoffs.fail(&place, seconds(3600)), Some(Duration::from_secs(1)), "long ago is forgotten");
        backoffs.forget("u");
        assert!(backoffs.0.is_empty());
    }
}
