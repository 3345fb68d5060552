//! What becomes of an event before it is written: pure, with upstream's numbers.

use std::hash::{BuildHasher as _, Hash};

use rkube_machinery::Text;

use super::lru::Lru;
use super::{EventType, Reference, event_name};

/// So many groups of events are remembered, of each sort.
const REMEMBERED_MAX: usize = 4096;
/// Events that differ by their messages alone are combined from so many on ...
const SIMILAR_MAX: usize = 10;
/// ... unless there was none for so long.
const SIMILAR_FORGOTTEN_MICROS: i64 = 600 * 1_000_000;
/// So many events about an object are written at once, and then one each time:
const SPAM_BURST: f64 = 25.0;
const SPAM_REFILL_MICROS: f64 = 300.0 * 1_000_000.0;

const COMBINED: &str = "(combined from similar events): ";

/// What somebody said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    pub about: Reference,
    pub event_type: EventType,
    pub reason: Text,
    pub message: String,
    pub at_nanos: i64,
    /// Where, of a component that runs on a host.
    pub host: Text,
}

/// What to write of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub said: Said,
    pub name: String,
    /// How often it was said. Above one the event is there already.
    pub count: u32,
    pub first_nanos: i64,
    pub is_combined: bool,
}

pub(super) struct Correlator {
    similar: Lru<u64, Similar>,
    known: Lru<u64, Option<Known>>,
    spam: Lru<u64, Bucket>,
    /// Keys are kept as numbers: they are long, and there are many.
    hashing: foldhash::quality::RandomState,
}

struct Similar {
    messages: Vec<u64>,
    last_micros: i64,
}

#[derive(Clone)]
struct Known {
    name: String,
    count: u32,
    first_nanos: i64,
}

struct Bucket {
    tokens: f64,
    last_micros: i64,
}

impl Correlator {
    pub fn new() -> Correlator {
        let max = REMEMBERED_MAX;
        Correlator { similar: Lru::new(max), known: Lru::new(max), spam: Lru::new(max), hashing: Default::default() }
    }

    /// None: too much is said about this object.
    pub fn correlate(&mut self, said: Said) -> Option<Record> {
        let (key, mut record) = self.combine(said);
        let known = self.known.entry(key, || None);
        if let Some(known) = known {
            known.count += 1;
            record.name.clone_from(&known.name);
            record.count = known.count;
            record.first_nanos = known.first_nanos;
        } else {
            *known = Some(Known { name: record.name.clone(), count: 1, first_nanos: record.first_nanos });
        }
        self.may_be_written(&record.said).then_some(record)
    }

    /// The event, or one for all that are similar; and the key under which it is counted.
    fn combine(&mut self, said: Said) -> (u64, Record) {
        let Said { about, event_type, reason, message, at_nanos, host: _ } = &said;
        let now = at_nanos / 1000;
        let group = self.hashing.hash_one((0, identity(about), event_type, reason));
        let similar = self.similar.entry(group, || Similar { messages: Vec::new(), last_micros: i64::MIN });
        if now.saturating_sub(similar.last_micros) > SIMILAR_FORGOTTEN_MICROS {
            similar.messages.clear();
        }
        let hashed = self.hashing.hash_one(message);
        if !similar.messages.contains(&hashed) {
            similar.messages.push(hashed);
        }
        similar.last_micros = now;
        let is_combined = similar.messages.len() >= SIMILAR_MAX;
        if is_combined {
            similar.messages.remove(0);
            let name = format!("{}.{at_nanos:x}", about.name);
            let said = Said { message: format!("{COMBINED}{message}"), ..said.clone() };
            let first_nanos = said.at_nanos;
            return (group, Record { said, name, count: 1, first_nanos, is_combined });
        }
        let key = self.hashing.hash_one((1, identity(about), &about.field_path, event_type, reason, message));
        let name = event_name(&about.name, *at_nanos);
        let first_nanos = *at_nanos;
        (key, Record { said, name, count: 1, first_nanos, is_combined })
    }

    fn may_be_written(&mut self, said: &Said) -> bool {
        let now = said.at_nanos / 1000;
        let key = self.hashing.hash_one((identity(&said.about), said.event_type));
        let bucket = self.spam.entry(key, || Bucket { tokens: SPAM_BURST, last_micros: now });
        let elapsed = now.saturating_sub(bucket.last_micros).max(0);
        #[allow(clippy::cast_precision_loss)]
        let refilled = elapsed as f64 / SPAM_REFILL_MICROS;
        bucket.tokens = (bucket.tokens + refilled).min(SPAM_BURST);
        bucket.last_micros = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }
}

/// Which object it is, in whatever state.
fn identity(about: &Reference) -> impl Hash + '_ {
    (&about.kind, &about.namespace, &about.name, &about.uid, &about.api_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn said(message: &str, at_nanos: i64) -> Said {
        let about = Reference { kind: "Pod".into(), name: "p".into(), ..Reference::default() };
        let (event_type, reason) = (EventType::Normal, "Pulled".into());
        Said { about, event_type, reason, message: message.to_owned(), at_nanos, host: Text::default() }
    }

    #[test]
    fn what_is_said_again_is_counted() {
        let mut correlator = Correlator::new();
        let first = correlator.correlate(said("a", SECOND)).unwrap();
        assert_eq!((first.name.as_str(), first.count), ("p.3b9aca00", 1));
        let mut moved = said("a", 2 * SECOND);
        moved.about.resource_version = "7".into();
        let second = correlator.correlate(moved).unwrap();
        assert_eq!((second.name, second.count, second.first_nanos), (first.name, 2, SECOND));
        let mut warning = said("a", 3 * SECOND);
        warning.event_type = EventType::Warning;
        assert_eq!(correlator.correlate(warning).unwrap().count, 1, "another type is another event");
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_on() {
        let mut correlator = Correlator::new();
        for number in 0..9 {
            let record = correlator.correlate(said(&number.to_string(), number)).unwrap();
            assert!(!record.is_combined && record.count == 1);
        }
        let tenth = correlator.correlate(said("9", 9)).unwrap();
        assert_eq!((tenth.said.message.as_str(), tenth.count), ("(combined from similar events): 9", 1));
        let next = correlator.correlate(said("10", 10)).unwrap();
        assert_eq!((next.said.message.as_str(), next.count), ("(combined from similar events): 10", 2));
        assert_eq!(next.name, tenth.name);
        let later = correlator.correlate(said("11", 601 * SECOND)).unwrap();
        assert!(!later.is_combined, "after ten quiet minutes they are told apart again");
    }

    #[test]
    fn too_much_about_one_object_is_not_heard() {
        let mut correlator = Correlator::new();
        let heard = |correlator: &mut Correlator, at| correlator.correlate(said("a", at)).map(|record| record.count);
        for count in 1..=25 {
            assert_eq!(heard(&mut correlator, 0), Some(count));
        }
        assert_eq!(heard(&mut correlator, SECOND), None);
        assert_eq!(heard(&mut correlator, 301 * SECOND), Some(27), "what was not written counts");
        assert_eq!(heard(&mut correlator, 302 * SECOND), None);
        let mut other = said("a", 302 * SECOND);
        other.about.name = "q".into();
        assert!(correlator.correlate(other).is_some());
    }
}
