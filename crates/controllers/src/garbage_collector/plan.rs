//! What to do with an object whose owners were looked up, as a pure function.

use rkube_machinery::Text;

/// How an owner that an object names is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It is there.
    Solid,
    /// It does not exist.
    Absent,
    /// It is there, and waits for its dependents to go.
    Waiting,
}

/// What is known of an object that names owners.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// Its owners by uid, each with its state.
    pub owners: Vec<(Text, OwnerState)>,
    pub has_dependents: bool,
    /// Whether one of its dependents waits for its own dependents, of which this object may be one.
    pub has_waiting_dependent: bool,
    /// The finalizers by which somebody said what is to become of the object's dependents.
    pub has_orphan_finalizer: bool,
    pub has_foreground_finalizer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl Policy {
    /// As `DeleteOptions` name it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Background => "Background",
            Policy::Foreground => "Foreground",
            Policy::Orphan => "Orphan",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    Keep,
    /// It stays, without its references to these owners.
    Detach(Vec<Text>),
    /// `unblock`: its references are made to block no owner first, since it may wait for its own owner in a circle.
    Delete {
        policy: Policy,
        unblock: bool,
    },
}

pub fn decide(situation: &Situation) -> Plan {
    let is = |state: OwnerState| situation.owners.iter().any(|owner| owner.1 == state);
    if situation.owners.is_empty() {
        return Plan::Keep;
    }
    if is(OwnerState::Solid) {
        let others = situation.owners.iter().filter(|owner| owner.1 != OwnerState::Solid);
        let others: Vec<Text> = others.map(|owner| owner.0.clone()).collect();
        return if others.is_empty() { Plan::Keep } else { Plan::Detach(others) };
    }
    if is(OwnerState::Waiting) && situation.has_dependents {
        return Plan::Delete { policy: Policy::Foreground, unblock: situation.has_waiting_dependent };
    }
    let policy = match (situation.has_orphan_finalizer, situation.has_foreground_finalizer) {
        (true, _) => Policy::Orphan,
        (false, true) => Policy::Foreground,
        (false, false) => Policy::Background,
    };
    Plan::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_go_when_no_owner_is_left() {
        use OwnerState::{Absent, Solid, Waiting};
        use Policy::{Background, Foreground, Orphan};
        let delete = |policy| Plan::Delete { policy, unblock: false };
        let detach = |uids: &[&str]| Plan::Detach(uids.iter().map(|uid| (*uid).into()).collect());
        // Owners 0, 1, …; d: has dependents, w: one of them waits, o and f: the finalizers that it has.
        let table: [(&[OwnerState], &str, Plan); 14] = [
            (&[], "", Plan::Keep),
            (&[], "of", Plan::Keep),
            (&[Solid], "", Plan::Keep),
            (&[Solid, Absent], "", detach(&["1"])),
            (&[Absent, Solid, Waiting], "dw", detach(&["0", "2"])),
            (&[Absent], "", delete(Background)),
            (&[Absent, Absent], "d", delete(Background)),
            (&[Absent], "o", delete(Orphan)),
            (&[Absent], "of", delete(Orphan)),
            (&[Absent], "f", delete(Foreground)),
            (&[Waiting], "", delete(Background)),
            (&[Waiting], "o", delete(Orphan)),
            (&[Waiting, Absent], "do", delete(Foreground)),
            (&[Waiting], "dw", Plan::Delete { policy: Foreground, unblock: true }),
        ];
        for (owners, marks, expected) in table {
            let owners = owners.iter().enumerate().map(|(uid, state)| (uid.to_string().into(), *state));
            let situation = Situation {
                owners: owners.collect(),
                has_dependents: marks.contains('d'),
                has_waiting_dependent: marks.contains('w'),
                has_orphan_finalizer: marks.contains('o'),
                has_foreground_finalizer: marks.contains('f'),
            };
            assert_eq!(decide(&situation), expected, "{situation:?}");
        }
    }
}
