//! The storage class of volumes that are directories of nodes: the default, where nodes are.

use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rkube_controllers::LOCAL_PATH;
use rkube_operator::kube;
use rkube_operator::kube::api::{Api, PostParams};

use crate::host::{Host, component_user};

const AGENT: &str = "kube-controller-manager";
/// Controllers make no classes: this is made for whoever has nodes, as other distributions bring one along.
const USER: &str = "system:kube-controller-manager";
const GROUPS: [&str; 1] = ["system:masters"];
const NAME: &str = "local-path";

/// Claims that say no class have this one. It cannot grow: nobody enforces a size.
pub async fn create_class(host: &Host) {
    let is_default = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            annotations: Some([is_default].into()),
            ..ObjectMeta::default()
        },
        provisioner: LOCAL_PATH.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        allow_volume_expansion: Some(false),
        ..StorageClass::default()
    };
    let classes: Api<StorageClass> = Api::all(host.client(component_user(USER, &GROUPS), AGENT));
    match classes.create(&PostParams::default(), &class).await {
        Ok(_) => {}
        // What people made of it stays.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => tracing::warn!(%error, "the storage class of local volumes cannot be made"),
    }
}
