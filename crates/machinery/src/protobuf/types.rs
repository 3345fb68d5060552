//! Which type stands behind an apiVersion and kind, for objects inside objects.

use crate::schema::{Type, TypeRef};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta";

/// Groups whose package is not the first label of their name.
const PACKAGES: &[(&str, &str)] = &[
    ("", "io.k8s.api.core"),
    ("internal.apiserver.k8s.io", "io.k8s.api.apiserverinternal"),
    ("apiextensions.k8s.io", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"),
    ("apiregistration.k8s.io", "io.k8s.kube-aggregator.pkg.apis.apiregistration"),
    ("metrics.k8s.io", "io.k8s.metrics.pkg.apis.metrics"),
    ("meta.k8s.io", META),
];

/// The built-in type of this apiVersion and kind. Types that every group has (`Status`, `DeleteOptions`, …) are found
/// in any.
pub fn type_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let package = match PACKAGES.iter().find(|(name, _)| *name == group) {
        Some((_, package)) => (*package).to_owned(),
        None => format!("io.k8s.api.{}", group.split('.').next().unwrap_or(group)),
    };
    TypeRef::find(&format!("{package}.{version}.{kind}"))
        .or_else(|| TypeRef::find(&format!("{META}.v1.{kind}")))
        .map(TypeRef::get)
}
