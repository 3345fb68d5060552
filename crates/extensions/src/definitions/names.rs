//! Who has which names: within a group no two definitions share one.

// tidy: types CustomResourceDefinition

use std::collections::HashMap;

use rkube_machinery::{Text, Value};

/// The names that definitions hold, by group and definition.
#[derive(Default)]
pub struct Names {
    groups: HashMap<Text, HashMap<Text, Held>>,
}

struct Held {
    resources: Vec<Text>,
    kinds: Vec<Text>,
    /// Whether it waits for a name that another one has.
    waits: bool,
}

/// The names that are taken in a group.
#[derive(Default)]
pub struct Taken<'a> {
    resources: Vec<&'a Text>,
    kinds: Vec<&'a Text>,
}

impl Names {
    pub fn of_group(&self, group: &str) -> Taken<'_> {
        let held = || self.groups.get(group).into_iter().flat_map(HashMap::values);
        Taken {
            resources: held().flat_map(|held| &held.resources).collect(),
            kinds: held().flat_map(|held| &held.kinds).collect(),
        }
    }

    /// Notes what a definition has by its status. Gives the group if names of it may be free now.
    pub fn note(&mut self, definition: &Text, group: &str, status: &Value) -> Option<Text> {
        let accepted = status.get("acceptedNames");
        let text = |name: &str| Text::from(accepted.str(name));
        let short = accepted.list("shortNames").iter().map(|name| Text::from(name.as_str()));
        let condition = status.list("conditions").iter().find(|condition| condition.str("type") == "NamesAccepted");
        let held = Held {
            resources: [text("plural"), text("singular")].into_iter().chain(short).collect(),
            kinds: vec![text("kind"), text("listKind")],
            waits: condition.is_some_and(|condition| condition.str("status") != "True"),
        };
        let group = Text::from(group);
        let before = self.groups.entry(group.clone()).or_default();
        let has_all = |old: &Held| {
            old.resources.iter().all(|name| held.resources.contains(name))
                && old.kinds.iter().all(|name| held.kinds.contains(name))
        };
        let released = before.get(definition).is_some_and(|old| !has_all(old));
        before.insert(definition.clone(), held);
        released.then_some(group)
    }

    /// The definition is gone. Gives the group whose names are free now.
    pub fn forget(&mut self, definition: &Text) -> Option<Text> {
        let group = self.groups.iter().find(|(_, held)| held.contains_key(definition))?.0.clone();
        let held = self.groups.get_mut(&group)?;
        held.remove(definition);
        if held.is_empty() {
            self.groups.remove(&group);
        }
        Some(group)
    }

    /// The definitions of a group that wait for names.
    pub fn waiting(&self, group: &str) -> Vec<Text> {
        let held = self.groups.get(group).into_iter().flatten();
        held.filter(|(_, held)| held.waits).map(|(definition, _)| definition.clone()).collect()
    }
}

impl Taken<'_> {
    pub fn has_resource(&self, name: &str) -> bool {
        self.resources.iter().any(|taken| *taken == name)
    }

    pub fn has_kind(&self, name: &str) -> bool {
        self.kinds.iter().any(|taken| *taken == name)
    }
}
