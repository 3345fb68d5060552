//! `secret`: the keys of a secret as files, in memory.

use std::sync::Arc;

use rkube_machinery::Value;

use super::objects::Missing;
use super::payload::{self, Payload};
use super::{Content, Failure, Gather, Gathered};

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let source = volume.get("secret");
    let files = files(gather, source, source.str("secretName"), payload::default_mode(source)).await;
    let payload = files.map_err(|why| Failure::set_up(volume, why))?;
    let content = Content::Files { plugin: "kubernetes.io~secret", in_memory: true, payload };
    Ok(Gathered { read_only: true, ..Gathered::new(volume, content) })
}

pub async fn files(gather: &Gather<'_>, source: &Value, name: &str, default_mode: u32) -> Result<Payload, String> {
    let optional = source.bool("optional");
    let object = match gather.objects.secret(gather.pod.get("metadata").str("namespace"), name).await {
        Err(Missing::NotFound) if optional => Arc::new(Value::object()),
        found => found.map_err(|missing| missing.say("secret", name))?,
    };
    payload::of_secret(source.list("items"), &object, default_mode, optional)
}
