//! Addresses and address families of a service: the checks that allocation and validation share, and the defaults that
//! depend on which families the cluster has.

use std::net::IpAddr;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;

use super::{HEADLESS, SPEC, is_headless};
use crate::core::pod_spec::checks::Seen;
use crate::fields::texts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub fn of(address: IpAddr) -> Family {
        if address.to_canonical().is_ipv4() { Family::V4 } else { Family::V6 }
    }

    fn of_text(address: &str) -> Family {
        address::parse_sloppy(address).map_or(Family::V6, Family::of)
    }

    fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }
}

/// `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` must fit each other.
pub fn validate(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    if spec.str("type") == "ExternalName" {
        return;
    }
    let list = spec.get("clusterIPs");
    let path = SPEC.child("clusterIPs");
    match (spec.str("clusterIP"), list.items().first()) {
        ("", None) => {}
        ("", Some(_)) => errors.invalid(path, list, "must be empty when `clusterIP` is not specified"),
        (_, None) => errors.required(path, ""),
        (single, Some(first)) if first.as_str() != single => {
            errors.invalid(path, list, "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(spec, errors);
    if !validate_addresses(spec, old, errors) {
        return;
    }
    let v6 = texts(spec, "clusterIPs").filter(|ip| Family::of_text(ip) == Family::V6).count();
    if list.items().len() > 1 && (v6 == 0 || v6 == list.items().len()) {
        errors.invalid(path, list, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in texts(spec, "clusterIPs").zip(texts(spec, "ipFamilies")).enumerate() {
        let actual = Family::of_text(ip);
        if actual.name() != family && (family == "IPv4" || family == "IPv6") {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(path.index(index), ip, detail);
        }
    }
}

fn validate_families(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("ipFamilies");
    let mut seen = Seen::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        if family != "IPv4" && family != "IPv6" {
            errors.not_supported(path.index(index), family, &["IPv4", "IPv6"]);
        }
        if !seen.add(family) {
            errors.duplicate(path.index(index), family);
        }
    }
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = spec.str("ipFamilyPolicy");
    if spec.has("ipFamilyPolicy") && !POLICIES.contains(&policy) {
        errors.not_supported(SPEC.child("ipFamilyPolicy"), policy, &POLICIES);
    }
}

/// Whether every address is one, so that further checks make sense.
fn validate_addresses(spec: &Value, old: Option<&Value>, errors: &mut Errors) -> bool {
    let path = SPEC.child("clusterIPs");
    let list = spec.get("clusterIPs");
    let mut valid = true;
    let old = Seen::of(old.into_iter().flat_map(|old| texts(old, "clusterIPs")));
    for (index, ip) in texts(spec, "clusterIPs").enumerate() {
        if index == 0 && ip == HEADLESS {
            if list.items().len() > 1 {
                valid = false;
                errors.invalid(path, list, "'None' must be the first and only value");
            }
            continue;
        }
        if old.has(ip) {
            continue;
        }
        let before = errors.len();
        address::ip_for_legacy_field(path.index(index), ip, errors);
        valid &= errors.len() == before;
    }
    if list.items().len() > 2 {
        errors.invalid(path, list, "may only hold up to 2 values");
    }
    valid
}

/// Fills in the families and their policy from what the cluster has, first the one that services get by default.
/// `old` on update.
pub fn initialize(spec: &mut Value, old: Option<&Value>, cluster: &[Family]) -> Result<(), Errors> {
    if spec.str("type") == "ExternalName" || old.is_some_and(|old| prefers_the_same(spec, old)) {
        return Ok(());
    }
    let selectorless = spec.str("clusterIP") == HEADLESS && spec.map("selector").is_empty();
    if !spec.has("ipFamilyPolicy") {
        let policy = match old.map(|old| old.str("ipFamilyPolicy")) {
            Some(policy) if !policy.is_empty() => policy,
            _ if selectorless => "RequireDualStack",
            _ => "SingleStack",
        };
        spec.set("ipFamilyPolicy", policy);
    }
    let mut errors = Errors::new();
    validate(spec, old, &mut errors);
    stop(errors)?;
    let mut errors = Errors::new();
    if let Some(old) = old {
        follow_policy(spec, old, &mut errors);
    }
    infer_families(spec, cluster, &mut errors);
    stop(errors)?;
    let single = spec.str("ipFamilyPolicy") == "SingleStack";
    let default = cluster.first().copied().unwrap_or(Family::V4);
    if selectorless {
        if spec.list("ipFamilies").is_empty() {
            spec.set("ipFamilies", vec![default.name().into()]);
        }
        if !single {
            add_other_family(spec);
        }
        return Ok(());
    }
    check_cluster(spec, cluster)?;
    if spec.list("ipFamilies").is_empty() {
        spec.set("ipFamilies", vec![default.name().into()]);
    }
    if !single && cluster.len() == 2 {
        add_other_family(spec);
    }
    Ok(())
}

fn stop(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A service that prefers two families stays as it is when the cluster gains or loses one.
fn prefers_the_same(spec: &Value, old: &Value) -> bool {
    spec.str("ipFamilyPolicy") == "PreferDualStack"
        && (old.str("ipFamilyPolicy") == "PreferDualStack" || !old.has("ipFamilyPolicy"))
        && spec.str("type") == old.str("type")
        && matches!(spec.str("type"), "ClusterIP" | "NodePort" | "LoadBalancer")
        && spec.list("clusterIPs") == old.list("clusterIPs")
        && spec.list("ipFamilies") == old.list("ipFamilies")
}

/// On update: going to one family drops the second address; dropping it needs that policy.
fn follow_policy(spec: &mut Value, old: &Value, errors: &mut Errors) {
    const LISTS: [(&str, &str); 2] = [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")];
    for (field, what) in LISTS {
        let (now, before) = (spec.list(field).len(), old.list(field).len());
        if spec.str("ipFamilyPolicy") == "SingleStack" {
            if now > 1 && spec.list(field) == old.list(field) {
                spec.array_mut(field).truncate(1);
            }
        } else if now > 0 && now < before {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid(SPEC.child("ipFamilyPolicy"), spec.get("ipFamilyPolicy"), detail);
        }
    }
}

fn infer_families(spec: &mut Value, cluster: &[Family], errors: &mut Errors) {
    let path = SPEC.child("ipFamilyPolicy");
    if spec.str("ipFamilyPolicy") == "SingleStack" {
        for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if spec.list(field).len() == 2 {
                let detail =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.invalid(path, spec.get("ipFamilyPolicy"), detail);
            }
        }
    }
    let known = spec.list("ipFamilies").len();
    let addresses: Vec<Family> =
        texts(spec, "clusterIPs").take_while(|ip| *ip != HEADLESS).map(Family::of_text).collect();
    for (index, family) in addresses.into_iter().enumerate().skip(known) {
        if cluster.contains(&family) {
            spec.array_mut("ipFamilies").push(family.name().into());
        } else {
            let detail = format!("{} is not configured on this cluster", family.name());
            let path = SPEC.child("clusterIPs");
            errors.invalid(path.index(index), spec.get("clusterIPs"), detail);
        }
    }
}

fn check_cluster(spec: &Value, cluster: &[Family]) -> Result<(), Errors> {
    let mut errors = Errors::new();
    if spec.str("ipFamilyPolicy") == "RequireDualStack" && cluster.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(SPEC.child("ipFamilyPolicy"), "RequireDualStack", detail);
    }
    let path: Path<'_> = SPEC.child("ipFamilies");
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        if !cluster.iter().any(|known| known.name() == family) {
            errors.invalid(path.index(index), family, "not configured on this cluster");
        }
    }
    stop(errors)
}

fn add_other_family(spec: &mut Value) {
    if let [only] = spec.list("ipFamilies") {
        let other = if only.as_str() == "IPv4" { Family::V4.other() } else { Family::V6.other() };
        spec.array_mut("ipFamilies").push(other.name().into());
    }
}
