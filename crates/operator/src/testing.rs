//! A source for tests: it tells what it is told to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::source::{Discovered, Event, Selection, Source};

#[derive(Default)]
pub struct Script {
    told: Mutex<HashMap<String, mpsc::UnboundedSender<Event>>>,
    /// How often a resource was asked for.
    pub followed: AtomicUsize,
}

impl Script {
    /// Tells those who follow the resource.
    pub fn tell(&self, plural: &str, event: Event) {
        if let Some(sender) = self.told.lock().get(plural) {
            let _ = sender.send(event);
        }
    }

    /// Whether anybody follows the resource.
    pub fn is_followed(&self, plural: &str) -> bool {
        self.told.lock().get(plural).is_some_and(|sender| !sender.is_closed())
    }
}

impl Source for Script {
    fn follow(&self, resource: &ApiResource, _: &Selection) -> BoxStream<'static, Event> {
        self.followed.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        self.told.lock().insert(resource.plural.clone(), sender);
        futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
            .boxed()
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        futures::stream::pending().boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}
