//! What a controller watches: a kind, which objects of it, in what form, and which changes count.

use std::any::TypeId;

use kube::Resource;
use kube::core::{ApiResource, PartialObjectMeta};
use rkube_machinery::Text;
use serde::de::DeserializeOwned;

use crate::controller::Predicate;
use crate::informer::{Caches, Informer, MakeView, typed};
use crate::source::{Item, Selection};

/// A watch. Whoever asks for the same objects in the same form shares one cache.
///
/// ```
/// use rkube_operator::{Predicate, Watch};
/// use rkube_operator::k8s_openapi::api::core::v1::{Pod, Secret};
/// use rkube_operator::kube::core::PartialObjectMeta;
///
/// let pods = Watch::<Pod>::objects().labels("app=web").when(Predicate::generation());
/// let secrets = Watch::<PartialObjectMeta<Secret>>::metadata().namespace("kube-system");
/// # let _ = (pods, secrets);
/// ```
pub struct Watch<V> {
    resource: ApiResource,
    selection: Selection,
    make: MakeView<V>,
    /// Which cache it is, of those that have such objects.
    form: TypeId,
    predicate: Option<Predicate<V>>,
}

impl<V> Clone for Watch<V> {
    fn clone(&self) -> Self {
        Watch {
            resource: self.resource.clone(),
            selection: self.selection.clone(),
            predicate: self.predicate.clone(),
            ..*self
        }
    }
}

/// Changes an object before it is kept, to leave out what nobody looks at.
pub trait Transform<K>: 'static {
    fn transform(object: &mut K);
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    /// All objects of a kind, as they are.
    pub fn objects() -> Self {
        Watch::view(ApiResource::erase::<K>(&()), typed)
    }

    /// The same, as `T` leaves them.
    pub fn transformed<T: Transform<K>>() -> Self {
        fn make<K, T: Transform<K>>(item: &Item) -> Option<K>
        where
            K: Resource<DynamicType = ()> + DeserializeOwned,
        {
            let mut object = typed::<K>(item)?;
            T::transform(&mut object);
            Some(object)
        }
        let form = TypeId::of::<(K, fn(T))>();
        Watch { form, make: make::<K, T>, ..Watch::objects() }
    }
}

impl<K> Watch<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()> + 'static,
    PartialObjectMeta<K>: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync,
{
    /// The metadata of all objects of a kind, and nothing else of them.
    pub fn metadata() -> Self {
        let selection = Selection { metadata_only: true, ..Selection::default() };
        Watch { selection, ..Watch::objects() }
    }
}

impl<V: Send + Sync + 'static> Watch<V> {
    /// What `make` makes of the objects of a resource. One type of view has one function that makes it.
    pub fn view(resource: ApiResource, make: MakeView<V>) -> Self {
        Watch { resource, selection: Selection::default(), make, form: TypeId::of::<V>(), predicate: None }
    }

    /// Only objects of this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Only objects of this name.
    pub fn name(mut self, name: &'static str) -> Self {
        self.selection.name = Some(name);
        self
    }

    /// Only objects that this label selector selects, such as `app=web,tier in (a,b)`.
    pub fn labels(mut self, selector: &str) -> Self {
        self.selection.labels = Some(Text::from(selector));
        self
    }

    /// Only objects that this field selector selects, such as `spec.nodeName=n`.
    pub fn fields(mut self, selector: &str) -> Self {
        self.selection.fields = Some(Text::from(selector));
        self
    }

    /// Only changes that pass. Called again, a change has to pass all.
    pub fn when(mut self, predicate: Predicate<V>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    pub(super) fn predicate(&self) -> Option<Predicate<V>> {
        self.predicate.clone()
    }

    pub(super) fn informer(&self, caches: &Caches) -> Informer<V> {
        caches.view_as(&self.resource, self.selection.clone(), self.make, self.form)
    }
}
