//! What components in the process follow: the catalog's own objects, without bytes and without a copy. They are
//! authorised once, when they begin, as a client is by its watch.

use std::sync::Arc;
use std::time::Duration;

use rkube_access::User;
use rkube_access::authorize::{Attributes, ResourceAttributes};
use rkube_catalog::{Catalog, Items, Served, Subscription};
use rkube_machinery::{GroupResource, Status};

use crate::request::selected_name;
use crate::server::ApiServer;

/// How long to wait for what takes the place of a resource that has ended.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(1);

/// The objects of a resource, and what becomes of them.
pub struct Followed {
    pub served: Arc<Served>,
    /// All objects at the moment at which the subscription begins.
    pub items: Items,
    pub changes: Subscription,
}

/// Which objects of a resource are asked for; what is empty leaves them all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub field_selector: &'a str,
}

impl ApiServer {
    /// What is served.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.road.catalog
    }

    /// Follows the objects of a resource: all of them are handed out, and whoever asks for some keeps to these.
    /// `in_storage_form`: as they are stored, in whatever version that is; then nothing has to be converted.
    pub async fn follow(
        &self,
        user: &User,
        (group, version, resource): (&str, &str, &str),
        scope: Scope<'_>,
        in_storage_form: bool,
    ) -> Result<Followed, Status> {
        let Scope { namespace, name, field_selector } = scope;
        let selected = selected_name(field_selector);
        let name = if name.is_empty() { &selected } else { name };
        for verb in ["list", "watch"] {
            let asked =
                ResourceAttributes { verb, group, version, resource, namespace, name, field_selector, subresource: "" };
            self.authorize_following(user, asked)?;
        }
        let mut generations = self.road.catalog.generations();
        loop {
            generations.mark_unchanged();
            let served = self.road.catalog.find(group, version, resource).filter(|served| served.cache.is_some());
            let served = served.ok_or_else(|| Status::not_found(&GroupResource::new(group, resource), ""))?;
            let objects = if in_storage_form { served.stored().clone() } else { served.readable().await? };
            if objects.has_ended() {
                // Its definition changes: the next snapshot has another one, or none.
                let _ = tokio::time::timeout(SUCCESSOR_TIMEOUT, generations.changed()).await;
                continue;
            }
            let (items, revision) = objects.snapshot();
            // That so much happened in between that the revision is too old by now is hardly possible: then again.
            if let Ok(changes) = objects.subscribe("", revision) {
                return Ok(Followed { served, items, changes });
            }
        }
    }

    fn authorize_following(&self, user: &User, asked: ResourceAttributes<'_>) -> Result<(), Status> {
        let attributes = Attributes::Resource(asked);
        if self.road.authorizers.allow(user, &attributes) {
            return Ok(());
        }
        let resource = GroupResource::new(asked.group, asked.resource);
        let reason = self.road.authorizers.verdict(user, &attributes).reason;
        Err(Status::forbidden(&resource, asked.name, attributes.refusal(user, &reason)))
    }
}
