//! Owns the ConfigMap `kube-root-ca.crt` of every namespace, by which pods know the API server. Watches namespaces and
//! config maps; creates what is missing and restores what was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::Outcome;
use rkube_operator::kube::api::{Api, ObjectMeta, PostParams};

use crate::{Context, namespaced};

const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION_KEY: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub async fn run(context: Context, root_ca: Arc<str>) {
    namespaced::run(
        "root-ca-certificate-publisher-controller",
        context,
        NAME,
        move |client, namespace, current: Option<Arc<ConfigMap>>| {
            let root_ca = root_ca.clone();
            async move {
                let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
                match plan(current.as_deref(), &root_ca) {
                    Plan::Nothing => return Ok(Outcome::Unchanged),
                    Plan::Create(map) => api.create(&PostParams::default(), &map).await?,
                    Plan::Replace(map) => api.replace(NAME, &PostParams::default(), &map).await?,
                };
                Ok(Outcome::Wrote)
            }
        },
    )
    .await;
}

#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(ConfigMap),
    Replace(ConfigMap),
}

fn plan(current: Option<&ConfigMap>, root_ca: &str) -> Plan {
    let data = BTreeMap::from([(KEY.to_owned(), root_ca.to_owned())]);
    let annotations = BTreeMap::from([(DESCRIPTION_KEY.to_owned(), DESCRIPTION.to_owned())]);
    let Some(current) = current else {
        let metadata =
            ObjectMeta { name: Some(NAME.to_owned()), annotations: Some(annotations), ..ObjectMeta::default() };
        return Plan::Create(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() });
    };
    let description = current.metadata.annotations.as_ref().and_then(|found| found.get(DESCRIPTION_KEY));
    let described = description.is_some_and(|text| !text.is_empty());
    if current.data.as_ref() == Some(&data) && described {
        return Plan::Nothing;
    }
    let mut map = current.clone();
    map.data = Some(data);
    map.metadata.annotations.get_or_insert_default().extend(annotations);
    Plan::Replace(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_and_what_was_changed_restored() {
        let Plan::Create(map) = plan(None, "ca") else { panic!("nothing there") };
        assert_eq!(plan(Some(&map), "ca"), Plan::Nothing);
        assert!(matches!(plan(Some(&map), "another"), Plan::Replace(_)));
        let mut touched = map;
        for annotations in [None, Some(BTreeMap::from([(DESCRIPTION_KEY.to_owned(), String::new())]))] {
            touched.metadata.annotations = annotations;
            assert!(matches!(plan(Some(&touched), "ca"), Plan::Replace(_)));
        }
    }
}
