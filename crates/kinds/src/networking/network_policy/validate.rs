//! What a network policy must look like.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::{Value, names};

use super::{DIRECTIONS, SPEC};
use crate::core::pod_spec::checks::{Seen, each};
use crate::fields::texts;
use crate::meta;

/// The spec; `old` on update: its subnets and its bad labels stay fine.
pub fn spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let lenient = old.is_some_and(|old| {
        let mut errors = Errors::new();
        meta::validate_label_selector(Path::ROOT, old.get("podSelector"), false, &mut errors);
        !errors.is_empty()
    });
    let subnets = |block| std::iter::once(Value::str(block, "cidr")).chain(texts(block, "except"));
    let known = Seen::of(old.into_iter().flat_map(blocks).flat_map(subnets));
    let context = Context { known, lenient };
    meta::validate_label_selector(SPEC.child("podSelector"), spec.get("podSelector"), lenient, errors);
    for (direction, side) in DIRECTIONS {
        let path = SPEC.child(direction);
        for (index, rule) in spec.list(direction).iter().enumerate() {
            context.rule(path.index(index), rule, side, errors);
        }
    }
    let types = spec.list("policyTypes");
    let path = SPEC.child("policyTypes");
    if types.len() > DIRECTIONS.len() {
        return errors.invalid(path, spec.get("policyTypes"), "may not specify more than two policyTypes");
    }
    for (index, value) in texts(spec, "policyTypes").enumerate() {
        if !matches!(value, "Ingress" | "Egress") {
            errors.not_supported(path.index(index), value, &["Ingress", "Egress"]);
        }
    }
}

/// What the object was before.
struct Context<'a> {
    /// Its subnets.
    known: Seen<&'a str>,
    lenient: bool,
}

impl Context<'_> {
    fn rule(&self, path: Path<'_>, rule: &Value, side: &str, errors: &mut Errors) {
        let ports = path.child("ports");
        for (index, value) in rule.list("ports").iter().enumerate() {
            port(ports.index(index), value, errors);
        }
        let peers = path.child(side);
        for (index, peer) in rule.list(side).iter().enumerate() {
            self.peer(peers.index(index), peer, errors);
        }
    }

    fn peer(&self, path: Path<'_>, peer: &Value, errors: &mut Errors) {
        let mut count = 0;
        for field in ["podSelector", "namespaceSelector"] {
            if peer.has(field) {
                count += 1;
                meta::validate_label_selector(path.child(field), peer.get(field), self.lenient, errors);
            }
        }
        if peer.has("ipBlock") {
            self.block(path.child("ipBlock"), peer.get("ipBlock"), errors);
            if count > 0 {
                errors.forbidden(path, "may not specify both ipBlock and another peer");
            }
        } else if count == 0 {
            errors.required(path, "must specify a peer");
        }
    }

    fn block(&self, path: Path<'_>, block: &Value, errors: &mut Errors) {
        let cidr = block.str("cidr");
        if cidr.is_empty() {
            return errors.required(path.child("cidr"), "");
        }
        let Some(subnet) = self.cidr(path.child("cidr"), cidr, errors) else { return };
        let path = path.child("except");
        for (index, except) in texts(block, "except").enumerate() {
            let path = path.index(index);
            let Some(inner) = self.cidr(path, except, errors) else { continue };
            if !subnet.contains(inner.masked()) || subnet.length >= inner.length {
                errors.invalid(path, except, "must be a strict subset of `cidr`");
            }
        }
    }

    /// The subnet, where one can be made out.
    fn cidr(&self, path: Path<'_>, cidr: &str, errors: &mut Errors) -> Option<Subnet> {
        if self.known.has(cidr) {
            Subnet::parse_sloppy(cidr)
        } else {
            address::cidr_for_legacy_field(path, cidr, errors)
        }
    }
}

/// All subnets of the policy.
fn blocks(spec: &Value) -> impl Iterator<Item = &Value> {
    let peers = |(direction, side): (&'static str, &'static str)| {
        spec.list(direction).iter().flat_map(move |rule| rule.list(side)).map(|peer| peer.get("ipBlock"))
    };
    DIRECTIONS.into_iter().flat_map(peers).filter(|block| !block.is_null())
}

fn port(path: Path<'_>, port: &Value, errors: &mut Errors) {
    if port.has("protocol") && !matches!(port.str("protocol"), "TCP" | "UDP" | "SCTP") {
        errors.not_supported(path.child("protocol"), port.str("protocol"), &["TCP", "UDP", "SCTP"]);
    }
    let end = port.get("endPort").as_int();
    match port.get("port") {
        Value::Int(number) => {
            for message in names::port_number(*number) {
                errors.invalid(path.child("port"), *number, message);
            }
            let Some(end) = end else { return };
            if end < *number {
                errors.invalid(path.child("endPort"), *number, "must be greater than or equal to `port`");
            }
            for message in names::port_number(end) {
                errors.invalid(path.child("endPort"), end, message);
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                errors.invalid(path.child("endPort"), end, "may not be specified when `port` is non-numeric");
            }
            each(path.child("port"), name, names::port_name(name), errors);
        }
        _ => {
            if let Some(end) = end {
                errors.invalid(path.child("endPort"), end, "may not be specified when `port` is not specified");
            }
        }
    }
}
