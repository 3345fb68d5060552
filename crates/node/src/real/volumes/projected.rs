//! `projected`: several sources in one directory, in memory.

use std::collections::BTreeSet;

use rkube_machinery::Value;
use rkube_machinery::selector::labels::Selector;

use super::objects::Missing;
use super::payload::{self, File, Payload};
use super::{Content, Failure, Gather, Gathered, aggregate, config_map, downward_api, secret};

const TRUST_BUNDLES: &str = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
const PEM_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const PEM_END: &str = "-----END CERTIFICATE-----";

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let source = volume.get("projected");
    let default_mode = payload::default_mode(source);
    let (mut all, mut errors) = (Payload::new(), Vec::new());
    for source in source.list("sources") {
        match files(gather, source, default_mode).await {
            Ok(files) => all.extend(files),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(Failure::set_up(volume, aggregate(errors)));
    }
    let content = Content::Files { plugin: "kubernetes.io~projected", in_memory: true, payload: all };
    Ok(Gathered { read_only: true, ..Gathered::new(volume, content) })
}

async fn files(gather: &Gather<'_>, source: &Value, default_mode: u32) -> Result<Payload, String> {
    if source.has("secret") {
        let source = source.get("secret");
        return secret::files(gather, source, source.str("name"), default_mode).await;
    }
    if source.has("configMap") {
        return config_map::files(gather, source.get("configMap"), default_mode).await;
    }
    if source.has("downwardAPI") {
        return downward_api::files(gather, source.get("downwardAPI").list("items"), default_mode);
    }
    let (path, bytes) = if source.has("serviceAccountToken") {
        let projection = source.get("serviceAccountToken");
        (projection.str("path"), gather.tokens.get(gather.pod, projection).await?.to_string())
    } else if source.has("clusterTrustBundle") {
        let projection = source.get("clusterTrustBundle");
        (projection.str("path"), trust_bundle(gather, projection).await?)
    } else {
        return Err("this node does not know that kind of projected source".to_owned());
    };
    // The group's rights, if there is a group, come with its ownership.
    let is_owned = gather.user.is_some() || gather.group.is_some();
    let mode = if is_owned { 0o600 } else { default_mode };
    let file = File { bytes: bytes.into_bytes(), mode, owner: gather.user };
    Ok(Payload::from([(path.to_owned(), file)]))
}

async fn trust_bundle(gather: &Gather<'_>, projection: &Value) -> Result<String, String> {
    let optional = projection.bool("optional");
    let name = projection.str("name");
    if !name.is_empty() {
        return match gather.objects.get(&format!("{TRUST_BUNDLES}/{name}")).await {
            Ok(bundle) => Ok(normalized([bundle.get("spec").str("trustBundle")].into_iter())),
            Err(Missing::NotFound) if optional => Ok(String::new()),
            Err(missing) => {
                let why = missing.say("clustertrustbundle.certificates.k8s.io", name);
                Err(format!("while getting ClusterTrustBundle: {why}"))
            }
        };
    }
    let signer = projection.str("signerName");
    if signer.is_empty() {
        return Err("ClusterTrustBundle projection requires either name or signerName to be set".to_owned());
    }
    let found = gather.objects.get(TRUST_BUNDLES).await;
    let found = found.map_err(|missing| {
        format!("while listing ClusterTrustBundles: {}", missing.say("clustertrustbundles.certificates.k8s.io", signer))
    })?;
    let selector = projection.get("labelSelector");
    let selected = found.list("items").iter().filter(|bundle| {
        bundle.get("spec").str("signerName") == signer && is_selected(selector, bundle.get("metadata"))
    });
    let bundles: Vec<&str> = selected.map(|bundle| bundle.get("spec").str("trustBundle")).collect();
    if bundles.is_empty() && !optional {
        return Err("combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned());
    }
    Ok(normalized(bundles.into_iter()))
}

/// No selector selects nothing, an empty one everything.
fn is_selected(selector: &Value, metadata: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    match Selector::from_label_selector(selector) {
        Ok(selector) => selector.matches(metadata.map("labels")),
        Err(_) => false,
    }
}

/// Each certificate once; their order is not to be relied upon.
fn normalized<'a>(bundles: impl Iterator<Item = &'a str>) -> String {
    let mut certificates = BTreeSet::new();
    for bundle in bundles {
        let mut rest = bundle;
        while let Some(start) = rest.find(PEM_BEGIN) {
            let Some(length) = rest[start..].find(PEM_END) else { break };
            let end = start + length + PEM_END.len();
            certificates.insert(rest[start..end].to_owned());
            rest = &rest[end..];
        }
    }
    certificates.into_iter().map(|certificate| certificate + "\n").collect()
}
