//! Warnings of ports that containers of a pod define more than once.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{Path, quote};

use super::checks::visit_containers;

pub(super) fn warn(path: Path<'_>, spec: &Value, out: &mut Vec<String>) {
    let mut count = 0;
    visit_containers(spec, path, |container, _| count += container.list("ports").len());
    if count == 0 {
        return;
    }
    let mut all: Vec<(String, &Value)> = Vec::new();
    let mut same: BTreeMap<(i64, &str), Vec<usize>> = BTreeMap::new();
    visit_containers(spec, path, |container, path| {
        let path = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let here = path.index(index);
            if !port.str("hostIP").is_empty() && port.int("hostPort") == 0 {
                out.push(format!("{here}: hostIP set without hostPort: {}", shown(port)));
            }
            let alike = same.entry((port.int("containerPort"), port.str("protocol"))).or_default();
            for position in alike.iter() {
                let (there, other): &(String, &Value) = &all[*position];
                if let Some(how) = conflict(port, other) {
                    out.push(format!("{here}: {how} port definition with {there}"));
                }
            }
            alike.push(all.len());
            if count > 1 {
                all.push((here.to_string(), port));
            }
        }
    });
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (here, port) in all.iter().filter(|(_, port)| !port.str("name").is_empty()) {
        let name = port.str("name");
        let there = *first.entry(name).or_insert(here);
        if there != here {
            let name = quote(name);
            out.push(format!(
                "{here}: duplicate port name {name} with {there}, services and probes that select ports by name will \
                 use {there}"
            ));
        }
    }
}

fn conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let (address, other_address) = (port.str("hostIP"), other.str("hostIP"));
    let (number, other_number) = (port.int("hostPort"), other.int("hostPort"));
    if address == other_address && number == other_number {
        Some("duplicate")
    } else if number == 0 || other_number == 0 {
        Some("overlapping")
    } else if number == other_number && address.is_empty() != other_address.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// The port as Go prints its struct.
fn shown(port: &Value) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.str("name"),
        port.int("hostPort"),
        port.int("containerPort"),
        port.str("protocol"),
        port.str("hostIP")
    )
}
