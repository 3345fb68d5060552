//! What the restricted level forbids beyond the baseline: pods must say that they need nothing special.

// tidy: types Pod

use std::collections::BTreeSet;

use rkube_machinery::Value;

use super::Violation;
use super::baseline::{bad_seccomp, containers, names, plural, proc_mount, quoted, setters, uses, violation};
use super::policy::Pod;

type Check = fn(&Pod<'_>) -> Option<Violation>;

/// By their names, which are the order of what they find, and since which version they are part of the level.
const CHECKS: [(u32, Check); 7] = [
    (8, privilege_escalation),
    (22, capabilities),
    (35, proc_mount),
    (0, volumes),
    (0, run_as_non_root),
    (23, run_as_user),
    (19, seccomp),
];

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub fn check(pod: &Pod<'_>) -> Vec<Violation> {
    let ours = CHECKS.iter().filter(|(since, _)| pod.minor >= *since);
    ours.filter_map(|(_, check)| check(pod)).collect()
}

/// The baseline's checks that this level has in its own form.
pub fn replaces(minor: u32) -> &'static [&'static str] {
    match minor {
        0..19 => &["hostPathVolumes"],
        19..22 => &["hostPathVolumes", "seccompProfile_baseline"],
        22..35 => &["hostPathVolumes", "seccompProfile_baseline", "capabilities_baseline"],
        _ => &["hostPathVolumes", "seccompProfile_baseline", "capabilities_baseline", "procMount"],
    }
}

/// Newer versions do not ask of Windows what it does not have.
fn is_excused(pod: &Pod<'_>) -> bool {
    pod.minor >= 25 && pod.is_windows()
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    if is_excused(pod) {
        return None;
    }
    let names = names(pod, |container| {
        container.get("securityContext").get("allowPrivilegeEscalation").as_bool() != Some(false)
    });
    violation(!names.is_empty(), "allowPrivilegeEscalation != false", || {
        format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names))
    })
}

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if is_excused(pod) {
        return None;
    }
    let of = |container: &Value, list: &str| -> Vec<String> {
        let all = container.at(&["securityContext", "capabilities"]).list(list).iter();
        all.map(|one| one.as_str().to_owned()).collect()
    };
    let keeping = names(pod, |container| !of(container, "drop").iter().any(|one| one == "ALL"));
    let added = |container: &Value| of(container, "add").into_iter().filter(|one| one != "NET_BIND_SERVICE");
    let adding = names(pod, |container| added(container).next().is_some());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let forbidden: BTreeSet<String> = pod.containers().flat_map(added).collect();
        let forbidden: Vec<String> = forbidden.into_iter().collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(&forbidden)
        ));
    }
    violation(!details.is_empty(), "unrestricted capabilities", || details.join("; "))
}

fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let all = pod.spec.list("volumes").iter();
    let bad: Vec<&Value> = all.filter(|volume| !ALLOWED_VOLUMES.iter().any(|kind| volume.has(kind))).collect();
    let kind = |volume: &&Value| {
        let kinds = volume.as_map().keys().find(|key| key.as_str() != "name");
        kinds.map_or_else(|| "unknown".to_owned(), ToString::to_string)
    };
    let names: Vec<String> = bad.iter().map(|volume| volume.str("name").to_owned()).collect();
    let kinds: BTreeSet<String> = bad.iter().map(kind).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    violation(!bad.is_empty(), "restricted volume types", || {
        let word = plural("restricted volume type", kinds.len());
        format!("{} {} {} {word} {}", plural("volume", names.len()), quoted(&names), uses(&names), quoted(&kinds))
    })
}

fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let reason = "runAsNonRoot != true";
    let of = |context: &Value| context.get("runAsNonRoot").as_bool();
    let (wrong, _) = setters(pod, |context| (of(context) == Some(false)).then(String::new));
    if !wrong.is_empty() {
        let detail = format!("{} must not set securityContext.runAsNonRoot=false", wrong.join(" and "));
        return Some(Violation { reason, detail });
    }
    let silent = names(pod, |container| of(container.get("securityContext")).is_none());
    let silent = if of(pod.context()) == Some(true) { Vec::new() } else { silent };
    violation(!silent.is_empty(), reason, || {
        format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent))
    })
}

fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let (wrong, _) = setters(pod, |context| (context.get("runAsUser").as_int() == Some(0)).then(String::new));
    violation(!wrong.is_empty(), "runAsUser=0", || format!("{} must not set runAsUser=0", wrong.join(" and ")))
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if is_excused(pod) {
        return None;
    }
    let reason = "seccompProfile";
    let (wrong, values) = setters(pod, bad_seccomp);
    if !wrong.is_empty() {
        let wrong = wrong.join(" and ");
        let detail = format!("{wrong} must not set securityContext.seccompProfile.type to {}", quoted(&values));
        return Some(Violation { reason, detail });
    }
    let silent = names(pod, |container| !container.get("securityContext").has("seccompProfile"));
    let silent = if pod.context().has("seccompProfile") { Vec::new() } else { silent };
    violation(!silent.is_empty(), reason, || {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        )
    })
}
