//! What a part's caches hear of changes, late or not at all.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Event, Selection, Source};

use super::parts::Instance;

/// The source of one instance of a part.
pub(crate) struct SlowSource {
    direct: Arc<dyn Source>,
    instance: Arc<Instance>,
}

impl SlowSource {
    pub fn new(direct: Arc<dyn Source>, instance: Arc<Instance>) -> SlowSource {
        SlowSource { direct, instance }
    }
}

impl Source for SlowSource {
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, Event> {
        let watch = Watch {
            events: self.direct.follow(resource, selection),
            direct: self.direct.clone(),
            instance: self.instance.clone(),
            resource: resource.clone(),
            selection: selection.clone(),
        };
        stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) }).boxed()
    }

    fn last_change(&self, resource: &ApiResource) -> Option<u64> {
        self.direct.last_change(resource)
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        let instance = self.instance.clone();
        let found = self.direct.discover().then(move |found| {
            let instance = instance.clone();
            async move {
                instance.lives().await;
                found
            }
        });
        found.boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        self.direct.resources()
    }
}

struct Watch {
    direct: Arc<dyn Source>,
    events: BoxStream<'static, Event>,
    instance: Arc<Instance>,
    resource: ApiResource,
    selection: Selection,
}

impl Watch {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.events.next().await?;
            // A list is what makes good what was missed.
            if matches!(event, Event::Applied(_) | Event::Deleted(_)) {
                let chaos = self.instance.chaos().clone();
                let plan = chaos.plan();
                if chaos.happens(plan.dropped_watches) {
                    let gap = chaos.a_while(plan.watch_delay_max);
                    self.say("watch dropped");
                    self.events = stream::pending().boxed();
                    tokio::time::sleep(gap).await;
                    self.instance.lives().await;
                    self.events = self.direct.follow(&self.resource, &self.selection);
                    continue;
                }
                if chaos.happens(plan.delayed_watches) {
                    let delay = chaos.a_while(plan.watch_delay_max);
                    self.say("watch delayed");
                    tokio::time::sleep(delay).await;
                }
            }
            self.instance.lives().await;
            return Some(event);
        }
    }

    fn say(&self, what: &str) {
        self.instance.chaos().note(&format!("{}: {what}: {}", self.instance.name, self.resource.plural));
    }
}
