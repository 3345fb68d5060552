//! What the status of a quota is to be. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use rkube_machinery::quantity::Quantity;
use rkube_quota::{Amounts, Quota, amounts};
use tokio::time::Instant;

/// For so long what was charged may be for an object that is not there yet: it is charged before it is stored.
pub const SETTLING: Duration = Duration::from_millis(200);
/// Charges within this time of each other are kept as one.
const TOGETHER: Duration = Duration::from_millis(10);
/// So many are kept of a quota; then the oldest become one, and count for as long as the younger of them.
const CHARGES_MAX: usize = 100;

/// What to do with a quota.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is used, if that or the limits are to be written.
    pub used: Option<Amounts>,
    /// More was charged than is seen, and part of it may only be on its way.
    pub is_settling: bool,
}

/// `counted`: what objects take that are seen, of the resources that can be counted; `recent`: what was charged for objects
/// that may not be among them.
pub fn plan(quota: &Quota, counted: &Amounts, recent: &Amounts) -> Plan {
    let none = Amounts::new();
    let known = quota.used.as_ref().unwrap_or(&none);
    let mut plan = Plan::default();
    let mut used = Amounts::new();
    for name in quota.wanted.keys() {
        let amount = match (counted.get(name), known.get(name)) {
            (None, None) => continue,
            // Nobody can tell: what was known stays.
            (None, Some(known)) => known.clone(),
            (Some(counted), Some(known)) if counted < known => {
                let most = recent.get(name).map_or_else(|| counted.clone(), |recent| counted.add(recent));
                plan.is_settling |= most > *counted;
                most.min(known.clone())
            }
            (Some(counted), _) => counted.clone(),
        };
        used.insert(name.clone(), amount);
    }
    let is_said = quota.hard.as_ref().unwrap_or(&none) == &quota.wanted && *known == used;
    let is_first = (quota.hard.is_none() || quota.used.is_none()) && !used.is_empty();
    plan.used = (!is_said || is_first).then_some(used);
    plan
}

/// What was charged to a quota for objects that may not be counted yet.
#[derive(Debug)]
pub struct Recent {
    charges: VecDeque<Charged>,
    /// Since when the limits, those that are wanted and those that count, are what they are.
    limits_since: Instant,
}

/// What was charged within [`TOGETHER`].
#[derive(Debug)]
struct Charged {
    first: Instant,
    last: Instant,
    amounts: Amounts,
}

impl Recent {
    pub fn new(now: Instant) -> Recent {
        Recent { charges: VecDeque::new(), limits_since: now }
    }

    /// The quota is another than it was.
    pub fn note(&mut self, before: &Quota, after: &Quota, now: Instant) {
        if before.wanted != after.wanted || before.hard != after.hard {
            self.limits_since = now;
        }
        let Some(mut raised) = after.used.clone() else { return };
        for (name, amount) in &mut raised {
            let before = before.used.as_ref().and_then(|before| before.get(name)).unwrap_or(&Quantity::ZERO);
            *amount = amount.sub(before);
        }
        raised.retain(|_, amount| *amount > Quantity::ZERO);
        if raised.is_empty() {
            return;
        }
        match self.charges.back_mut() {
            // Not of the last: charges that never cease would never be forgotten.
            Some(charged) if now.duration_since(charged.first) < TOGETHER => {
                charged.last = now;
                amounts::add(&mut charged.amounts, &raised);
            }
            _ => self.charges.push_back(Charged { first: now, last: now, amounts: raised }),
        }
        if self.charges.len() > CHARGES_MAX
            && let Some(oldest) = self.charges.pop_front()
            && let Some(next) = self.charges.front_mut()
        {
            amounts::add(&mut next.amounts, &oldest.amounts);
        }
    }

    /// What was charged for objects that may not be counted, where all are that were there at this time.
    pub fn sum(&mut self, as_of: Option<Instant>) -> Amounts {
        let is_counted = |charged: &Charged| as_of.is_some_and(|as_of| charged.last + SETTLING <= as_of);
        while self.charges.front().is_some_and(is_counted) {
            self.charges.pop_front();
        }
        let mut sum = Amounts::new();
        self.charges.iter().for_each(|charged| amounts::add(&mut sum, &charged.amounts));
        sum
    }

    /// What was there when limits came that do not count yet was charged to nobody: all of it has to be counted.
    pub fn can_begin(&self, quota: &Quota, as_of: Option<Instant>) -> bool {
        let is_new = |name| quota.hard.as_ref().is_none_or(|hard| !hard.contains_key(name));
        !quota.wanted.keys().any(is_new) || as_of.is_some_and(|as_of| as_of >= self.limits_since)
    }

    /// Whether all is counted that was let in before the limits counted.
    pub fn has_begun(&self, as_of: Option<Instant>) -> bool {
        as_of.is_some_and(|as_of| as_of >= self.limits_since + SETTLING)
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{Value, object};

    use super::*;

    fn read(value: &Value) -> Amounts {
        amounts::read(value.as_map())
    }

    fn pods(amount: &str) -> Value {
        object! { "pods": amount }
    }

    #[test]
    fn what_is_used_is_what_is_counted_and_what_may_be_on_its_way() {
        let none = || Value::Null;
        let nothing = || object! {};
        // Limits of the spec and the status, what the status says is used, what is counted, what was charged of late; and what
        // is written, and whether another look is needed.
        let table = [
            (pods("2"), none(), none(), pods("1"), nothing(), Some(pods("1")), false),
            (pods("2"), pods("2"), pods("1"), pods("1"), nothing(), None, false),
            (pods("2"), pods("2"), pods("1"), pods("2"), pods("1"), Some(pods("2")), false),
            (pods("2"), pods("2"), pods("2"), pods("0"), nothing(), Some(pods("0")), false),
            // Charged just now, and not there yet.
            (pods("2"), pods("2"), pods("2"), pods("1"), pods("1"), None, true),
            (pods("9"), pods("9"), pods("5"), pods("1"), pods("2"), Some(pods("3")), true),
            (pods("9"), pods("9"), pods("5"), pods("1"), pods("9"), None, true),
            // The limits are others, and so are the resources.
            (pods("1"), pods("2"), pods("2"), pods("2"), nothing(), Some(pods("2")), false),
            (pods("1"), object! { "cpu": "1" }, object! { "cpu": "1" }, pods("2"), nothing(), Some(pods("2")), false),
            // Nobody counts them.
            (object! { "x.example.com/y": "1" }, none(), none(), nothing(), nothing(), Some(nothing()), false),
            (pods("2"), pods("2"), pods("1"), nothing(), nothing(), None, false),
            (nothing(), none(), none(), nothing(), nothing(), None, false),
            // The same amount in other words.
            (
                object! { "cpu": "1" },
                object! { "cpu": "1000m" },
                pods("0"),
                nothing(),
                nothing(),
                Some(nothing()),
                false,
            ),
        ];
        for (wanted, hard, used, counted, recent, expected, settles) in table {
            let part = |value: &Value| (!value.is_null()).then(|| read(value));
            let quota = Quota { requirements: Vec::new(), wanted: read(&wanted), hard: part(&hard), used: part(&used) };
            let expected = Plan { used: expected.as_ref().map(read), is_settling: settles };
            assert_eq!(plan(&quota, &read(&counted), &read(&recent)), expected, "{quota:?} {counted:?} {recent:?}");
        }
    }

    fn said(hard: Option<&str>, used: Option<&str>) -> Quota {
        let of = |amount: &str| read(&pods(amount));
        Quota { requirements: Vec::new(), wanted: of("9"), hard: hard.map(of), used: used.map(of) }
    }

    #[test]
    fn charges_count_until_all_are_seen_that_were_there_then() {
        let start = Instant::now();
        let after = |millis: u64| start + Duration::from_millis(millis);
        let mut recent = Recent::new(start);
        let of = |used| said(Some("9"), Some(used));
        recent.note(&said(Some("9"), None), &of("1"), after(0));
        recent.note(&of("1"), &of("3"), after(5));
        recent.note(&of("3"), &of("1"), after(50));
        recent.note(&of("1"), &of("2"), after(100));
        assert_eq!(recent.charges.len(), 2);
        // However late it is: what counts is how far the caches have come.
        assert_eq!(recent.sum(None), read(&pods("4")));
        assert_eq!(recent.sum(Some(after(204))), read(&pods("4")));
        assert_eq!(recent.sum(Some(after(205))), read(&pods("1")));
        assert_eq!(recent.sum(Some(after(300))), Amounts::new());
        assert!(recent.charges.is_empty());
    }

    #[test]
    fn charges_that_never_cease_are_kept_within_bounds() {
        let start = Instant::now();
        let mut recent = Recent::new(start);
        let of = |number: u64| said(Some("9"), Some(&number.to_string()));
        let after = |number: u64| start + Duration::from_millis(number);
        for number in 0..10_000 {
            recent.note(&of(number), &of(number + 1), after(number));
        }
        assert!(recent.charges.len() <= CHARGES_MAX);
        assert_eq!(recent.sum(Some(start)), read(&pods("10000")));
        // Those of a while ago are forgotten all the same.
        let most = u64::try_from((SETTLING + TOGETHER).as_millis()).unwrap();
        assert!(recent.sum(Some(after(9_999))) <= read(&pods(&most.to_string())));
    }

    #[test]
    fn limits_begin_with_all_that_was_there() {
        let start = Instant::now();
        let after = |millis: u64| Some(start + Duration::from_millis(millis));
        let mut recent = Recent::new(start);
        recent.note(&said(None, None), &said(None, None), start);
        let new = said(None, None);
        assert!(!recent.can_begin(&new, None) && recent.can_begin(&new, after(0)));
        recent.note(&new, &said(Some("8"), Some("1")), start + Duration::from_millis(10));
        // Only the number is another.
        assert!(recent.can_begin(&said(Some("8"), Some("1")), None));
        assert!(!recent.has_begun(None) && !recent.has_begun(after(209)) && recent.has_begun(after(210)));
        recent.note(&said(Some("8"), Some("1")), &said(Some("8"), Some("2")), start + Duration::from_millis(50));
        assert!(recent.has_begun(after(210)));
    }
}
