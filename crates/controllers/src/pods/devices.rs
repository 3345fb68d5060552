//! The devices that pods claim: hardly any pod does.

use std::borrow::Cow;

use rkube_machinery::Text;
use rkube_operator::{Index, Key};

use super::Pod;
use super::raw::{RawSpec, RawStatus};

/// The claims of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    pub claims: Box<[DeviceClaim]>,
    /// The claim that the scheduler made for extended resources.
    pub extended: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClaim {
    /// What the pod calls it.
    pub name: Text,
    pub named: Option<Text>,
    pub template: Option<Text>,
    /// What the pod's status says was made of the template; None within: nothing is needed.
    pub made: Option<Option<Text>>,
}

/// Which object is meant by a claim of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant<'a> {
    /// Somebody's, by name.
    Named(&'a Text),
    /// One that was made for the pod: it is meant only if it is the pod's.
    Made(&'a Text),
    NotNeeded,
    /// It was not made yet.
    NotYet,
}

impl DeviceClaim {
    pub fn meant(&self) -> Meant<'_> {
        match (&self.named, &self.template, &self.made) {
            (Some(name), ..) => Meant::Named(name),
            (None, Some(_), Some(Some(name))) => Meant::Made(name),
            (None, Some(_), None) => Meant::NotYet,
            _ => Meant::NotNeeded,
        }
    }

    /// The name of the object, if there may be one.
    pub fn object(&self) -> Option<&Text> {
        match self.meant() {
            Meant::Named(name) | Meant::Made(name) => Some(name),
            Meant::NotNeeded | Meant::NotYet => None,
        }
    }
}

impl Devices {
    pub(super) fn of(spec: &RawSpec<'_>, status: &RawStatus<'_>) -> Option<Box<Devices>> {
        let text = |text: &Option<Cow<'_, str>>| text.as_deref().map(Text::new);
        let extended = status.extended_resource_claim_status.as_ref();
        let extended = extended.map(|extended| Text::new(&extended.resource_claim_name));
        let claims: Box<[DeviceClaim]> = spec
            .resource_claims
            .iter()
            .flatten()
            .map(|claim| {
                let mut statuses = status.resource_claim_statuses.iter().flatten();
                let made = statuses.find(|made| made.name == claim.name);
                DeviceClaim {
                    name: Text::new(&claim.name),
                    named: text(&claim.resource_claim_name),
                    template: text(&claim.resource_claim_template_name),
                    made: made.map(|made| text(&made.resource_claim_name)),
                }
            })
            .collect();
        (!claims.is_empty() || extended.is_some()).then(|| Box::new(Devices { claims, extended }))
    }

    /// The names of all objects that are meant.
    pub fn objects(&self) -> impl Iterator<Item = &Text> {
        self.claims.iter().filter_map(DeviceClaim::object).chain(&self.extended)
    }
}

/// Pods by the claims that they use.
pub struct ByDeviceClaim;

impl Index<Pod> for ByDeviceClaim {
    type Key = Key;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Key> {
        let names = pod.devices.iter().flat_map(|devices| devices.claims.iter().filter_map(DeviceClaim::object));
        names.map(|name| key(pod, name)).collect::<Vec<_>>()
    }
}

/// Pods by the templates of their claims.
pub struct ByClaimTemplate;

impl Index<Pod> for ByClaimTemplate {
    type Key = Key;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Key> {
        let claims = pod.devices.iter().flat_map(|devices| devices.claims.iter());
        claims.filter_map(|claim| claim.template.as_ref()).map(|name| key(pod, name)).collect::<Vec<_>>()
    }
}

fn key(pod: &Pod, name: &Text) -> Key {
    Key { namespace: pod.namespace.to_string(), name: name.to_string() }
}
