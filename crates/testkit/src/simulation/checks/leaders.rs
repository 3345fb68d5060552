//! Who does not hold the lease writes nothing: no two leaders at a time.

use std::collections::HashMap;

use super::view::Lease;
use crate::Writer;

/// Where the leases of candidates are.
const NAMESPACE: &str = "/kube-system/";

#[derive(Default)]
pub(super) struct Leaders {
    /// By the lease's name.
    holders: HashMap<String, String>,
}

impl Leaders {
    pub fn lease(&mut self, key: &str, lease: Option<Lease>) {
        if let (Some((_, name)), Some(lease)) = (key.split_once(NAMESPACE), lease) {
            self.holders.insert(name.to_owned(), lease.spec.holder_identity);
        }
    }

    pub fn write(&self, kind: &str, writer: &Writer<'_>) -> Option<String> {
        // Candidates write the lease itself, and say who leads.
        if matches!(kind, "leases" | "events") {
            return None;
        }
        let holder = self.holders.get(writer.lease?)?;
        (*holder != writer.identity).then(|| format!("is written by {}, and {holder} leads", writer.identity))
    }
}
