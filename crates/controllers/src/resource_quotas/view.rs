//! Quotas and what they count, as caches keep them.

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1;
use rkube_machinery::{Text, json};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use rkube_quota::{Evaluator, Measure, kind_of};

use crate::metadata::Interner;

/// Group and resource.
pub type Kind = (Text, Text);

/// Pods of one template take the same.
static MEASURES: LazyLock<Interner<Measure>> = LazyLock::new(Interner::default);

pub struct Quota {
    pub item: Item,
    pub said: rkube_quota::Quota,
    /// The kinds that it counts, as far as there are such.
    pub kinds: Box<[Kind]>,
}

impl Quota {
    fn read(item: &Item) -> Option<Quota> {
        let value = json::parse(&item.json).ok()?;
        let said = rkube_quota::Quota::read(&value);
        let kinds = said.wanted.keys().filter_map(|name| kind_of(name));
        let mut kinds: Vec<Kind> = kinds.map(|(group, resource)| (Text::new(group), Text::new(resource))).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Some(Quota { item: item.clone(), said, kinds: kinds.into() })
    }

    pub fn counts(&self, kind: &Kind) -> bool {
        self.kinds.contains(kind)
    }
}

pub fn quotas(caches: &Caches) -> Informer<Quota> {
    caches.view(&ApiResource::erase::<v1::ResourceQuota>(&()), Selection::default(), Quota::read)
}

/// What an object takes. There is a form of it for each kind that is not only counted.
pub struct Taken<const EVALUATOR: usize>(pub Arc<Measure>);

pub const MEASURED: [Evaluator; 4] =
    [Evaluator::Pods, Evaluator::Services, Evaluator::VolumeClaims, Evaluator::ResourceClaims];

impl<const EVALUATOR: usize> Taken<EVALUATOR> {
    pub fn read(item: &Item) -> Option<Self> {
        let value = json::parse(&item.json).ok()?;
        Some(Taken(MEASURES.share(MEASURED[EVALUATOR].measure(&value))))
    }
}

/// An object that is only counted.
pub struct Present;

impl Present {
    pub fn read(_: &Item) -> Option<Present> {
        Some(Present)
    }
}
