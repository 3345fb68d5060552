//! In which order the items of a merged list stand.
//!
//! Items that the patch names stand in the patch's order, the others in the order in which they were; the two are
//! interleaved so that, as far as that goes, everything stays where it was.

use std::collections::HashMap;

use super::super::PatchError;
use super::index::{Among, Index};
use super::lists::key_of;
use super::{DELETE, DIRECTIVE, find_item, no_merge_key, not_a_map};
use crate::value::Value;

/// Brings merged items into order. With an empty `key` the items are scalars.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
    scalars: bool,
) -> Result<Vec<Value>, PatchError> {
    partition(merged, patch_order, key)?.arrange(patch_order, server_order, key, scalars)
}

/// Merged items, those that the patch names apart from the others.
pub(super) struct Parts {
    patch: Vec<Value>,
    server: Vec<Value>,
}

/// Splits off the items that `named` has.
pub(super) fn partition(items: Vec<Value>, named: &[Value], key: &str) -> Result<Parts, PatchError> {
    let mut parts = Parts { patch: Vec::new(), server: Vec::new() };
    if key.is_empty() && items.iter().chain(named).any(|item| matches!(item, Value::Array(_) | Value::Object(_))) {
        return Err(PatchError::Crash);
    }
    let scalars = Among::new(if key.is_empty() { named } else { &[] });
    let keyed = Named::new(if key.is_empty() { &[] } else { named }, key);
    for item in items {
        let found = if key.is_empty() {
            scalars.contains(&item)
        } else {
            let Value::Object(map) = &item else { return Err(not_a_map(&item)) };
            let wanted = map.get(key).ok_or_else(|| no_merge_key(&item, key))?;
            keyed.has(named, key, wanted)?
        };
        let part = if found { &mut parts.patch } else { &mut parts.server };
        part.push(item);
    }
    Ok(parts)
}

/// The items that a patch names by a key.
enum Named {
    Maps(Index),
    /// Not all of them are objects: who looks gets an error, unless what he looks for comes before.
    Mixed,
}

impl Named {
    fn new(named: &[Value], key: &str) -> Named {
        if named.iter().any(|item| !matches!(item, Value::Object(_))) {
            return Named::Mixed;
        }
        Named::Maps(Index::new(named.iter().map(|item| key_of(item, key)), named.len()))
    }

    fn has(&self, named: &[Value], key: &str, wanted: &Value) -> Result<bool, PatchError> {
        match self {
            Named::Maps(index) => index.find(named, |item| key_of(item, key), wanted).map(|found| found.is_some()),
            Named::Mixed => find_item(named, key, wanted).map(|found| found.is_some()),
        }
    }
}

impl Parts {
    pub(super) fn arrange(
        self,
        patch_order: &[Value],
        server_order: &[Value],
        key: &str,
        scalars: bool,
    ) -> Result<Vec<Value>, PatchError> {
        let identity = Identity { key, scalars };
        let patch = identity.sort(self.patch, patch_order)?;
        let server = identity.sort(self.server, server_order)?;
        identity.interleave(server, patch, server_order)
    }
}

/// What makes two items the same.
#[derive(Clone, Copy)]
struct Identity<'a> {
    key: &'a str,
    scalars: bool,
}

impl Identity<'_> {
    fn of<'v>(&self, item: &'v Value) -> &'v Value {
        if self.scalars { item } else { item.get(self.key) }
    }

    fn index(&self, list: &[Value]) -> Index {
        Index::new(list.iter().map(|item| Some(self.of(item))), list.len())
    }

    fn position(&self, list: &[Value], index: &Index, item: &Value) -> Result<Option<usize>, PatchError> {
        index.find(list, |item| Some(self.of(item)), self.of(item))
    }

    /// Sorts by position in `order`; items that are to be deleted go last.
    fn sort(&self, mut items: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, PatchError> {
        let mut deleted = Vec::new();
        if !self.scalars {
            for item in items.iter().chain(order) {
                let Value::Object(map) = item else { return Err(not_a_map(item)) };
                if !map.contains(self.key) {
                    return Err(no_merge_key(item, self.key));
                }
            }
            deleted = items.extract_if(.., |item| item.str(DIRECTIVE) == DELETE).collect();
        }
        if items.len() > 1 {
            items = self.insertion_sort(items, order)?;
        }
        items.append(&mut deleted);
        Ok(items)
    }

    /// As insertion would sort, when items without a position count as less than every other one and every other one
    /// as less than they: such an item goes to the front of all that came before it, and stays before the item that
    /// was the least then, or last where there was none.
    fn insertion_sort(&self, items: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, PatchError> {
        let index = self.index(order);
        let mut placed: Vec<(usize, usize, Value)> = Vec::with_capacity(items.len());
        // What stands before the item of this number, the latest last.
        let mut before: HashMap<Option<usize>, Vec<Value>> = HashMap::new();
        let mut least: Option<(usize, usize)> = None;
        for (number, item) in items.into_iter().enumerate() {
            match self.position(order, &index, &item)? {
                Some(position) => {
                    least = Some(least.map_or((position, number), |least| least.min((position, number))));
                    placed.push((position, number, item));
                }
                None => before.entry(least.map(|(_, number)| number)).or_default().push(item),
            }
        }
        placed.sort_by_key(|(position, number, _)| (*position, *number));
        let mut sorted = Vec::with_capacity(placed.len());
        for (_, number, item) in placed {
            sorted.extend(before.remove(&Some(number)).into_iter().flatten().rev());
            sorted.push(item);
        }
        sorted.extend(before.remove(&None).into_iter().flatten().rev());
        Ok(sorted)
    }

    /// Puts each of `left` before the first of `right` that stands behind it in `order`.
    fn interleave(&self, left: Vec<Value>, right: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, PatchError> {
        let mut all = Vec::with_capacity(left.len() + right.len());
        let index = self.index(order);
        let mut left = left.into_iter().peekable();
        for item in right {
            while let Some(candidate) = left.peek() {
                match (self.position(order, &index, candidate)?, self.position(order, &index, &item)?) {
                    (Some(position), Some(limit)) if position < limit => all.extend(left.next()),
                    _ => break,
                }
            }
            all.push(item);
        }
        all.extend(left);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn precedes(left: Option<usize>, right: Option<usize>) -> bool {
        match (left, right) {
            (Some(left), Some(right)) => left < right,
            _ => true,
        }
    }

    #[test]
    fn items_are_sorted_as_insertion_sorts_them() {
        let mut state = 11_u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let identity = Identity { key: "", scalars: true };
        for length in 0..120_u64 {
            let order: Vec<Value> = (0..1 + next(30)).map(|_| Value::Int(next(30) as i64)).collect();
            let items: Vec<Value> = (0..length).map(|_| Value::Int(next(40) as i64)).collect();
            let mut slowly: Vec<_> =
                items.iter().map(|item| (order.iter().position(|other| other == item), item.clone())).collect();
            for end in 1..slowly.len() {
                let mut at = end;
                while at > 0 && precedes(slowly[at].0, slowly[at - 1].0) {
                    slowly.swap(at, at - 1);
                    at -= 1;
                }
            }
            let slowly: Vec<Value> = slowly.into_iter().map(|(_, item)| item).collect();
            // Items without a position are told apart by their values, so that their order counts, too.
            assert_eq!(identity.insertion_sort(items, &order).unwrap(), slowly);
        }
    }
}
