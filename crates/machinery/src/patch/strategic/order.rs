//! In which order the items of a merged list stand.
//!
//! Items that the patch names stand in the patch's order, the others in the order in which they were; the two are
//! interleaved so that, as far as that goes, everything stays where it was.

use super::super::PatchError;
use super::{DELETE, DIRECTIVE, find_item, no_merge_key, not_a_map, same};
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
    for item in items {
        let found = if key.is_empty() {
            named.contains(&item)
        } else {
            let Value::Object(map) = &item else { return Err(not_a_map(&item)) };
            let wanted = map.get(key).ok_or_else(|| no_merge_key(&item, key))?;
            find_item(named, key, wanted)?.is_some()
        };
        let part = if found { &mut parts.patch } else { &mut parts.server };
        part.push(item);
    }
    Ok(parts)
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

    fn position(&self, list: &[Value], item: &Value) -> Result<Option<usize>, PatchError> {
        let wanted = self.of(item);
        for (position, candidate) in list.iter().enumerate() {
            if same(self.of(candidate), wanted)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
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

    /// Insertion, because items without a position count as less than every other one: what becomes of them depends
    /// on the way of sorting.
    fn insertion_sort(&self, items: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, PatchError> {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            keyed.push((self.position(order, &item)?, item));
        }
        for end in 1..keyed.len() {
            let mut at = end;
            while at > 0 && precedes(keyed[at].0, keyed[at - 1].0) {
                keyed.swap(at, at - 1);
                at -= 1;
            }
        }
        Ok(keyed.into_iter().map(|(_, item)| item).collect())
    }

    /// Puts each of `left` before the first of `right` that stands behind it in `order`.
    fn interleave(&self, left: Vec<Value>, right: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, PatchError> {
        let mut all = Vec::with_capacity(left.len() + right.len());
        let mut left = left.into_iter().peekable();
        for item in right {
            while let Some(candidate) = left.peek() {
                match (self.position(order, candidate)?, self.position(order, &item)?) {
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

fn precedes(left: Option<usize>, right: Option<usize>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left < right,
        _ => true,
    }
}
