//! An operator as people write them with `kube`: every namespace has a label that says whose it is. It knows nothing of
//! rkube; its tests do.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

pub const LABEL: &str = "example.com/team";
/// Whose a namespace is that says nothing.
pub const NOBODY: &str = "nobody";

/// When something goes wrong it is tried again after so long.
const AGAIN: Duration = Duration::from_secs(60 * 60);

/// Runs until it is dropped.
pub async fn run(client: Client) {
    let namespaces = Api::<Namespace>::all(client.clone());
    let controller = Controller::new(namespaces, Default::default());
    let again = |_: Arc<Namespace>, _: &kube::Error, _: Arc<Client>| Action::requeue(AGAIN);
    controller.run(reconcile, again, Arc::new(client)).for_each(|_| std::future::ready(())).await;
}

async fn reconcile(namespace: Arc<Namespace>, client: Arc<Client>) -> Result<Action, kube::Error> {
    if !namespace.labels().contains_key(LABEL) {
        let patch = json!({ "metadata": { "labels": { LABEL: NOBODY } } });
        let namespaces = Api::<Namespace>::all(Client::clone(&client));
        namespaces.patch(&namespace.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}
