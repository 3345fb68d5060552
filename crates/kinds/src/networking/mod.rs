//! The kinds of `networking.k8s.io`.

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

use rkube_machinery::Value;

use crate::kind::RowConversion;

const GROUP: &str = "networking.k8s.io";

/// Forms of `v1beta1` are those of `v1`.
const FROM_BETA: RowConversion = RowConversion {
    group: GROUP,
    to_stored: |object| in_version(object, "networking.k8s.io/v1"),
    from_stored: |object| in_version(object, "networking.k8s.io/v1beta1"),
};

fn in_version(mut object: Value, version: &'static str) -> Value {
    object.set("apiVersion", version);
    object
}
