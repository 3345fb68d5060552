//! Every Ingress gets the annotation `foo: bar`.
//!
//! The smallest controller that does something: it watches one kind and writes only where something is missing, so that
//! its own write leads to no other. Run it against the cluster of your kubeconfig:
//!
//! ```sh
//! cargo run -p rkube-operator --example ingress_annotator
//! kubectl create ingress web --rule=example.com/=web:80
//! kubectl get ingress web -o jsonpath={.metadata.annotations}
//! ```

use rkube_operator::k8s_openapi::api::networking::v1::Ingress;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Patch, PatchParams};
use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Predicate, Watch};
use serde_json::json;

const ANNOTATION: (&str, &str) = ("foo", "bar");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut operator = Operator::connect("ingress-annotator").await?;
    start(&mut operator);
    operator.run().await
}

/// Changes of anything else are none of its business.
pub fn start(operator: &mut Operator) {
    let ingresses = Watch::<Ingress>::objects().when(Predicate::annotations());
    operator.controller(Controller::of(ingresses, "ingress-annotator"), reconcile);
}

async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
    let Some(ingress) = context.get::<Ingress>(&key).await else { return Ok(Action::done()) };
    let (name, value) = ANNOTATION;
    if ingress.annotations().get(name).is_some_and(|there| there == value) {
        return Ok(Action::done());
    }
    let patch = json!({ "metadata": { "annotations": { name: value } } });
    let api = context.api::<Ingress>(&key.namespace);
    api.patch_metadata(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Action::wrote())
}
