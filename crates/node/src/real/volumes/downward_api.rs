//! `downwardAPI`: what a pod may know of itself as files, in memory.

use rkube_machinery::Value;

use super::payload::{self, File, Payload, mode_of};
use super::{Content, Failure, Gather, Gathered, aggregate};
use crate::real::prepare::fields;

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let source = volume.get("downwardAPI");
    let files = files(gather, source.list("items"), payload::default_mode(source));
    let payload = files.map_err(|why| Failure::set_up(volume, why))?;
    let content = Content::Files { plugin: "kubernetes.io~downward-api", in_memory: true, payload };
    Ok(Gathered { read_only: true, ..Gathered::new(volume, content) })
}

pub fn files(gather: &Gather<'_>, items: &[Value], default_mode: u32) -> Result<Payload, String> {
    let (mut payload, mut errors) = (Payload::new(), Vec::new());
    for item in items {
        let text = if item.has("fieldRef") {
            fields::of_metadata(gather.pod, item.get("fieldRef").str("fieldPath"))
        } else {
            fields::of_resources(gather.pod, None, item.get("resourceFieldRef"), gather.allocatable)
        };
        match text {
            Ok(text) => {
                payload.insert(item.str("path").to_owned(), File::new(text, mode_of(item, default_mode)));
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(payload) } else { Err(aggregate(errors)) }
}
