//! Which changes are worth a look.

use std::sync::Arc;

use kube::Resource;

use crate::informer::Change;

/// A test of a change, with the object as it was and as it is.
///
/// ```
/// use rkube_operator::Predicate;
/// use rkube_operator::k8s_openapi::api::core::v1::Pod;
///
/// let spec_or_labels = Predicate::<Pod>::generation().or(Predicate::labels());
/// let ours = Predicate::<Pod>::new(|change| {
///     change.new.is_some_and(|pod| pod.metadata.name.as_deref() != Some("not-ours"))
/// });
/// let wanted = spec_or_labels.and(ours).and(Predicate::deleted().negated());
/// # let _ = wanted;
/// ```
pub struct Predicate<V>(Arc<Test<V>>);

type Test<V> = dyn Fn(&Change<'_, V>) -> bool + Send + Sync;

impl<V> Clone for Predicate<V> {
    fn clone(&self) -> Self {
        Predicate(self.0.clone())
    }
}

impl<V: 'static> Predicate<V> {
    pub fn new(test: impl Fn(&Change<'_, V>) -> bool + Send + Sync + 'static) -> Self {
        Predicate(Arc::new(test))
    }

    pub fn holds(&self, change: &Change<'_, V>) -> bool {
        (self.0)(change)
    }

    /// Objects that are new, or were there when the watch began.
    pub fn created() -> Self {
        Predicate::new(|change| change.old.is_none())
    }

    /// Objects that were there and still are.
    pub fn updated() -> Self {
        Predicate::new(|change| change.old.is_some() && change.new.is_some())
    }

    /// Objects that are gone.
    pub fn deleted() -> Self {
        Predicate::new(|change| change.new.is_none())
    }

    pub fn and(self, other: Self) -> Self {
        Predicate::new(move |change| self.holds(change) && other.holds(change))
    }

    pub fn or(self, other: Self) -> Self {
        Predicate::new(move |change| self.holds(change) || other.holds(change))
    }

    pub fn negated(self) -> Self {
        Predicate::new(move |change| !self.holds(change))
    }
}

impl<K: Resource + 'static> Predicate<K> {
    /// What was asked for has changed, not what became of it. Objects that come and go always pass, here and below.
    pub fn generation() -> Self {
        changed(|object: &K| object.meta().generation)
    }

    pub fn labels() -> Self {
        changed(|object: &K| object.meta().labels.clone())
    }

    pub fn annotations() -> Self {
        changed(|object: &K| object.meta().annotations.clone())
    }

    /// The object is to go, or no longer held up by a finalizer.
    pub fn finalizers() -> Self {
        changed(|object: &K| (object.meta().deletion_timestamp.clone(), object.meta().finalizers.clone()))
    }

    /// What is told again without a change does not pass.
    pub fn resource_version() -> Self {
        changed(|object: &K| object.meta().resource_version.clone())
    }
}

fn changed<K: 'static, T: PartialEq + 'static>(part: fn(&K) -> T) -> Predicate<K> {
    Predicate::new(move |change| match (change.old, change.new) {
        (Some(old), Some(new)) => part(old) != part(new),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::Key;

    fn map(generation: i64, label: &str) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.generation = Some(generation);
        map.metadata.labels = Some([("l".to_owned(), label.to_owned())].into());
        Arc::new(map)
    }

    #[test]
    fn predicates_see_what_was_and_what_is() {
        let key = Key { namespace: String::new(), name: "x".to_owned() };
        let (one, relabelled, newer) = (map(1, "a"), map(1, "b"), map(2, "a"));
        let holds = |predicate: Predicate<ConfigMap>| {
            let changes =
                [(None, Some(&one)), (Some(&one), Some(&relabelled)), (Some(&one), Some(&newer)), (Some(&one), None)];
            changes.map(|(old, new)| predicate.holds(&Change { key: &key, old, new, listed: false }))
        };
        assert_eq!(holds(Predicate::generation()), [true, false, true, true]);
        assert_eq!(holds(Predicate::labels()), [true, true, false, true]);
        assert_eq!(holds(Predicate::annotations()), [true, false, false, true]);
        assert_eq!(holds(Predicate::created()), [true, false, false, false]);
        assert_eq!(holds(Predicate::deleted().or(Predicate::updated())), [false, true, true, true]);
        assert_eq!(holds(Predicate::updated().and(Predicate::labels().negated())), [false, false, true, false]);
    }
}
