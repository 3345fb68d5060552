//! What the status of a quota is to be. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use rkube_machinery::quantity::Quantity;
use rkube_quota::{Amounts, Quota, amounts};
use tokio::time::Instant;

/// For so long what was charged may be for an object that is not seen yet: it is charged before it is stored.
pub const SETTLING: Duration = Duration::from_millis(200);
/// Charges within this time of each other are kept as one.
const TOGETHER: Duration = Duration::from_millis(10);

/// What to do with a quota.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is used, if that or the limits are to be written.
    pub used: Option<Amounts>,
    /// More was charged than is seen, and part of it may only be on its way.
    pub is_settling: bool,
}

/// `counted`: what objects take that are seen, of the resources that can be counted; `recent`: what was charged of late.
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

/// What was charged to a quota within the time that it may take to be seen.
#[derive(Debug, Default)]
pub struct Recent {
    charges: VecDeque<Charged>,
}

/// What was charged within [`TOGETHER`].
#[derive(Debug)]
struct Charged {
    first: Instant,
    last: Instant,
    amounts: Amounts,
}

impl Recent {
    /// What is used of it was raised.
    pub fn note(&mut self, before: Option<&Amounts>, after: &Amounts, now: Instant) {
        let mut raised = after.clone();
        for (name, amount) in &mut raised {
            let before = before.and_then(|before| before.get(name)).unwrap_or(&Quantity::ZERO);
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
        self.forget(now);
    }

    pub fn sum(&mut self, now: Instant) -> Amounts {
        self.forget(now);
        let mut sum = Amounts::new();
        self.charges.iter().for_each(|charged| amounts::add(&mut sum, &charged.amounts));
        sum
    }

    fn forget(&mut self, now: Instant) {
        while self.charges.front().is_some_and(|charged| now.duration_since(charged.last) >= SETTLING) {
            self.charges.pop_front();
        }
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

    #[test]
    fn charges_are_recent_for_a_while() {
        let start = Instant::now();
        let after = |millis: u64| start + Duration::from_millis(millis);
        let mut recent = Recent::default();
        recent.note(None, &read(&pods("1")), after(0));
        recent.note(Some(&read(&pods("1"))), &read(&pods("3")), after(5));
        recent.note(Some(&read(&pods("3"))), &read(&pods("1")), after(50));
        recent.note(Some(&read(&pods("1"))), &read(&pods("2")), after(100));
        assert_eq!(recent.charges.len(), 2);
        assert_eq!(recent.sum(after(100)), read(&pods("4")));
        assert_eq!(recent.sum(after(250)), read(&pods("1")));
        assert_eq!(recent.sum(after(300)), Amounts::new());
        assert!(recent.charges.is_empty());
    }

    #[test]
    fn charges_that_never_cease_are_forgotten_all_the_same() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let count = |number: u64| read(&pods(&number.to_string()));
        for number in 0..1000 {
            recent.note(Some(&count(number)), &count(number + 1), start + Duration::from_millis(number));
        }
        let most = u64::try_from((SETTLING + TOGETHER).as_millis()).unwrap();
        assert!(recent.sum(start + Duration::from_millis(999)) <= count(most));
    }
}
