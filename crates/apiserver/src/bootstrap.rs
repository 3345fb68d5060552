//! What every cluster has from the start: its first namespaces, the range of service addresses and
//! the `kubernetes` service. Made through the same road as everything else, by the server itself.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, try_join, try_join_all};
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json, object};

use crate::default_range::DefaultRange;
use crate::features::Features;
use crate::internal_client::{InternalClient, failed};
use crate::registry::Registry;
use crate::{default_roles, initial_config_maps};

/// How often to look whether something is missing.
const INTERVAL: Duration = Duration::from_secs(10);

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub struct Bootstrap {
    pub client: InternalClient,
    /// The service `kubernetes`.
    pub service: Value,
    /// PEM of the authority whose client certificates are taken.
    pub client_authority: String,
    pub features: Features,
}

impl Bootstrap {
    pub async fn run(&self, registry: &Registry, range: &mut DefaultRange) -> Result<(), Status> {
        let client = &self.client;
        let namespaces = NAMESPACES.iter().map(|name| {
            let namespace = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": *name } };
            create(client, "/api/v1/namespaces", name, namespace)
        });
        try_join(try_join_all(namespaces), try_join(priority_classes(client), range.settle(client))).await?;
        if !client.is_served("networking.k8s.io", "v1", "ipaddresses") {
            tracing::warn!("no service can have an address: networking.k8s.io/v1 is not served");
            return self.settle_defaults(registry).await;
        }
        let service = create_kubernetes_service(client, &self.service);
        let (service, defaults) = join(service, self.settle_defaults(registry)).await;
        defaults?;
        match service {
            // Its address is of the flags, which differ from what is stored: people have been told.
            Err(status) if range.differs() => {
                tracing::warn!(why = status.message, "there is no service `kubernetes`");
                Ok(())
            }
            made => made,
        }
    }

    /// What needs no address.
    async fn settle_defaults(&self, registry: &Registry) -> Result<(), Status> {
        try_join(default_roles::settle(&self.client, registry, &self.features), self.settle_config_maps(registry))
            .await
            .map(drop)
    }

    async fn settle_config_maps(&self, registry: &Registry) -> Result<(), Status> {
        initial_config_maps::settle(&self.client, registry, &self.client_authority).await
    }

    /// Makes the range of service addresses, the `kubernetes` service and the ConfigMaps again should somebody remove
    /// them, until the server is gone.
    pub async fn keep(self, registry: Weak<Registry>, mut range: DefaultRange) {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut settled = None;
        loop {
            ticks.tick().await;
            let Some(registry) = registry.upgrade() else { return };
            let mut kept = range.settle(&self.client).await;
            let is_missing = self.client.cached(("", "services"), "default", "kubernetes").is_none();
            if kept.is_ok() && is_missing && self.client.is_served("networking.k8s.io", "v1", "ipaddresses") {
                kept = create_kubernetes_service(&self.client, &self.service).await;
            }
            let found = initial_config_maps::revisions(&self.client);
            if found.is_none() || found != settled {
                let maps = self.settle_config_maps(&registry).await;
                settled = found.filter(|_| maps.is_ok());
                kept = kept.and(maps);
            }
            if let Err(status) = kept {
                tracing::warn!(why = status.message, "something that every cluster has is missing");
            }
        }
    }
}

async fn create_kubernetes_service(client: &InternalClient, service: &Value) -> Result<(), Status> {
    create(client, "/api/v1/namespaces/default/services", "kubernetes", service.clone()).await
}

async fn priority_classes(client: &InternalClient) -> Result<(), Status> {
    if !client.is_served("scheduling.k8s.io", "v1", "priorityclasses") {
        return Ok(());
    }
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let classes = PRIORITY_CLASSES.iter().map(|(name, value, description)| {
        let class = object! {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": object! { "name": *name },
            "value": *value,
            "description": *description,
        };
        create(client, path, name, class)
    });
    try_join_all(classes).await.map(drop)
}

/// The service `kubernetes`, at this address, which leads to this port.
pub fn kubernetes_service(address: &str, port: u16) -> Value {
    let labels = object! { "component": "apiserver", "provider": "kubernetes" };
    let port = object! { "name": "https", "protocol": "TCP", "port": 443, "targetPort": i64::from(port) };
    object! {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object! { "name": "kubernetes", "labels": labels },
        "spec": object! {
            "clusterIP": address,
            "ipFamilyPolicy": "SingleStack",
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ports": vec![port],
        },
    }
}

/// Makes the object unless it is there.
async fn create(client: &InternalClient, path: &str, name: &str, object: Value) -> Result<(), Status> {
    let found = client.ask(Method::GET, &format!("{path}/{name}"), "", Bytes::new()).await?;
    if found.0 == StatusCode::OK {
        return Ok(());
    }
    let (code, body) = client.ask(Method::POST, path, "application/json", json::to_string(&object).into()).await?;
    match code {
        StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
        _ => Err(failed(&format!("{path}/{name}"), &body)),
    }
}
