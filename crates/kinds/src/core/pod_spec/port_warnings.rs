//! Warnings of ports that containers of a pod define more than once.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{Path, quote};
use rkube_machinery::warnings::Pairs;

use super::checks::visit_containers;

pub(super) fn warn(path: Path<'_>, spec: &Value, out: &mut Vec<String>) {
    let mut count = 0;
    visit_containers(spec, path, |container, _| count += container.list("ports").len());
    if count == 0 {
        return;
    }
    let mut all: Vec<(String, &Value)> = Vec::new();
    let mut alike = Alike::default();
    let mut pairs = Pairs::new(out);
    visit_containers(spec, path, |container, path| {
        let path = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let here = path.index(index);
            if !port.str("hostIP").is_empty() && port.int("hostPort") == 0 {
                pairs.out().push(format!("{here}: hostIP set without hostPort: {}", shown(port)));
            }
            for position in if pairs.is_full() { Vec::new() } else { alike.add(port, all.len()) } {
                let (there, other): &(String, &Value) = &all[position];
                if let Some(how) = conflict(port, other).filter(|_| !pairs.is_full()) {
                    pairs.push(format!("{here}: {how} port definition with {there}"));
                }
            }
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

/// Ports by what may make them conflict, so that only those that do are looked at.
#[derive(Default)]
struct Alike<'a> {
    by_number: BTreeMap<Key<'a>, Vec<usize>>,
    by_host_port: BTreeMap<(Key<'a>, i64), Vec<usize>>,
    by_address: BTreeMap<(Key<'a>, i64, &'a str), Vec<usize>>,
}

/// The port and its protocol.
type Key<'a> = (i64, &'a str);

impl<'a> Alike<'a> {
    /// Adds a port, which is the one at this position; gives those before it that it conflicts with, in order.
    fn add(&mut self, port: &'a Value, position: usize) -> Vec<usize> {
        let key = (port.int("containerPort"), port.str("protocol"));
        let (number, address) = (port.int("hostPort"), port.str("hostIP"));
        let mut found: Vec<usize> = Vec::new();
        if number == 0 {
            found.extend(self.by_number.get(&key).into_iter().flatten());
        } else {
            found.extend(self.by_host_port.get(&(key, 0)).into_iter().flatten());
            if address.is_empty() {
                found.extend(self.by_host_port.get(&(key, number)).into_iter().flatten());
            } else {
                for address in [address, ""] {
                    found.extend(self.by_address.get(&(key, number, address)).into_iter().flatten());
                }
            }
            found.sort_unstable();
        }
        self.by_number.entry(key).or_default().push(position);
        self.by_host_port.entry((key, number)).or_default().push(position);
        self.by_address.entry((key, number, address)).or_default().push(position);
        found
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

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn conflicts_are_found_as_if_all_were_compared() {
        let mut ports = Vec::new();
        for number in 0..400_i64 {
            let address = ["", "10.0.0.1", "10.0.0.2"][number as usize * 7 / 3 % 3];
            let port = object! { "containerPort": 1 + number % 2, "hostPort": number * 11 / 4 % 3, "hostIP": address };
            ports.push(port);
        }
        let mut alike = Alike::default();
        for (index, port) in ports.iter().enumerate() {
            let same = |other: &Value| other.int("containerPort") == port.int("containerPort");
            let expected: Vec<usize> =
                (0..index).filter(|other| same(&ports[*other]) && conflict(port, &ports[*other]).is_some()).collect();
            assert_eq!(alike.add(port, index), expected);
        }
    }

    #[test]
    fn no_more_is_made_than_is_told() {
        let warnings = |port: &dyn Fn(i64) -> Value| {
            let ports: Vec<Value> = (0..40_000).map(port).collect();
            let spec = object! { "containers": vec![object! { "name": "c", "ports": ports }] };
            let mut out = Vec::new();
            warn(Path::ROOT.child("spec"), &spec, &mut out);
            out.len()
        };
        assert!((30..200).contains(&warnings(&|_| object! { "containerPort": 1 })));
        assert_eq!(warnings(&|number| object! { "containerPort": 1, "hostPort": 1 + number }), 0);
    }
}
