//! `configMap`: the keys of a config map as files.

use std::sync::Arc;

use rkube_machinery::Value;

use super::objects::Missing;
use super::payload::{self, Payload};
use super::{Content, Failure, Gather, Gathered};

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let source = volume.get("configMap");
    let files = files(gather, source, payload::default_mode(source)).await;
    let payload = files.map_err(|why| Failure::set_up(volume, why))?;
    // On disk, as upstream: memory would be charged to nobody.
    let content = Content::Files { plugin: "kubernetes.io~configmap", in_memory: false, payload };
    Ok(Gathered { read_only: true, ..Gathered::new(volume, content) })
}

pub async fn files(gather: &Gather<'_>, source: &Value, default_mode: u32) -> Result<Payload, String> {
    let (name, optional) = (source.str("name"), source.bool("optional"));
    let object = match gather.objects.config_map(gather.pod.get("metadata").str("namespace"), name).await {
        Err(Missing::NotFound) if optional => Arc::new(Value::object()),
        found => found.map_err(|missing| missing.say("configmap", name))?,
    };
    payload::of_config_map(source.list("items"), &object, default_mode, optional)
}
