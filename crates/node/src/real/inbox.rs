//! What a pod's worker has not heard of yet. What comes twice is kept once, so that it cannot grow beyond the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::{Text, Value};
use rkube_runtime::api::{ContainerStatus, SandboxStatus};
use tokio::sync::Notify;

use super::probes::Kind;

/// News of a pod.
#[derive(Debug, Default)]
pub struct News {
    /// As the API, or the file of a static pod, has it now.
    pub pod: Option<Arc<Value>>,
    /// The object that stands in the API for a static pod.
    pub mirror: Option<Option<Arc<Value>>>,
    /// It is in neither any more.
    pub gone: bool,
    /// Containers to which something happened.
    pub touched: BTreeSet<String>,
    pub sandbox_lost: Option<String>,
    /// All that the runtime has of the pod.
    pub found: Option<Found>,
    /// By container and probe, with the id of the container that was probed.
    pub probes: BTreeMap<(Text, Kind), (String, bool)>,
}

/// What a runtime has of a pod.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub sandboxes: Vec<SandboxStatus>,
    pub containers: Vec<ContainerStatus>,
}

#[derive(Default)]
pub struct Inbox {
    news: Mutex<News>,
    arrived: Notify,
}

impl Inbox {
    pub fn tell(&self, what: impl FnOnce(&mut News)) {
        what(&mut self.news.lock());
        self.arrived.notify_one();
    }

    pub fn take(&self) -> News {
        std::mem::take(&mut self.news.lock())
    }

    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
