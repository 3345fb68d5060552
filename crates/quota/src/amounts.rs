//! Amounts of resources, by their names.

use std::collections::BTreeMap;

use rkube_machinery::quantity::{Format, Quantity};
use rkube_machinery::{Map, Text, Value};

pub type Amounts = BTreeMap<Text, Quantity>;

/// The amounts of a list; what cannot be read is left out.
pub fn read(list: &Map) -> Amounts {
    list.iter().filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()).ok()?))).collect()
}

/// As they stand in an object.
pub fn to_value(amounts: &Amounts) -> Value {
    let entries = amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_text())));
    Value::Object(Map::in_order(entries.collect()))
}

/// As refusals name them.
pub fn to_text(amounts: &Amounts) -> String {
    let parts: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={}", amount.to_text())).collect();
    parts.join(",")
}

/// A number of objects.
pub fn count(number: i64) -> Quantity {
    Quantity::new(number, Format::DecimalSi)
}

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        add_one(total, name, amount);
    }
}

/// The same with what is needed for nothing else.
pub fn add_all(total: &mut Amounts, more: Amounts) {
    if total.is_empty() {
        *total = more;
    } else {
        add(total, &more);
    }
}

pub fn add_one(total: &mut Amounts, name: &Text, amount: &Quantity) {
    match total.get_mut(name) {
        Some(known) => *known = known.add(amount),
        None => {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// What is not there counts as zero.
pub fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let known = total.entry(name.clone()).or_insert(Quantity::ZERO);
        *known = known.sub(amount);
    }
}

/// Each becomes at least what the other is.
pub fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|known| amount > known) {
            total.insert(name.clone(), amount.clone());
        }
    }
}
