//! What the baseline level forbids: known ways out of a container.

// tidy: types Pod

use std::collections::BTreeSet;

use rkube_machinery::Value;
use rkube_machinery::field::quote;

use super::Violation;
use super::policy::Pod;

type Check = fn(&Pod<'_>) -> Option<Violation>;

/// By their names, which are the order of what they find.
const CHECKS: [(&str, Check); 12] = [
    ("appArmorProfile", app_armor),
    ("capabilities_baseline", capabilities),
    ("hostNamespaces", host_namespaces),
    ("hostPathVolumes", host_paths),
    ("hostPorts", host_ports),
    ("hostProbesAndHostLifecycle", probe_hosts),
    ("privileged", privileged),
    ("procMount", proc_mount_unless_own_users),
    ("seLinuxOptions", selinux),
    ("seccompProfile_baseline", seccomp),
    ("sysctls", sysctls),
    ("windowsHostProcess", host_process),
];

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Safe settings of the kernel, and since which version they count as such.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Everything that is forbidden, but for the checks that a stricter level has in its own form.
pub fn check(pod: &Pod<'_>, replaced: &[&str]) -> Vec<Violation> {
    let ours = CHECKS.iter().filter(|(name, _)| !replaced.contains(name));
    ours.filter_map(|(_, check)| check(pod)).collect()
}

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let bad = |context: &Value| {
        let profile = context.get("appArmorProfile");
        let allowed = matches!(profile.str("type"), "RuntimeDefault" | "Localhost");
        (!profile.is_null() && !allowed).then(|| profile.str("type").to_owned())
    };
    let (mut setters, mut values) = setters(pod, bad);
    let annotations = pod.annotations.iter().filter(|(key, value)| {
        let value = value.as_str();
        key.starts_with(APP_ARMOR_ANNOTATION)
            && !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"))
    });
    let mut annotations: Vec<String> =
        annotations.map(|(key, value)| format!("{key}={}", quote(value.as_str()))).collect();
    if !annotations.is_empty() {
        annotations.sort();
        setters.push(plural("annotation", annotations.len()));
        values.extend(annotations);
    }
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    violation(!setters.is_empty(), reason, || {
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values))
    })
}

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let (names, values) = collect(pod, |container| {
        let added = container.at(&["securityContext", "capabilities"]).list("add").iter().map(Value::as_str);
        added.filter(|one| !CAPABILITIES.contains(one)).map(str::to_owned).collect()
    });
    violation(!names.is_empty(), "non-default capabilities", || {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(&values))
    })
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec.bool(field));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    violation(!shared.is_empty(), "host namespaces", || shared.join(", "))
}

fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.list("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<String> = volumes.map(|volume| volume.str("name").to_owned()).collect();
    violation(!names.is_empty(), "hostPath volumes", || format!("{} {}", plural("volume", names.len()), quoted(&names)))
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let (names, ports) = collect(pod, |container| {
        let ports = container.list("ports").iter().map(|port| port.int("hostPort"));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    });
    violation(!names.is_empty(), "hostPort", || {
        format!("{} {} {} {}", containers(&names), uses(&names), plural("hostPort", ports.len()), ports.join(", "))
    })
}

fn probe_hosts(pod: &Pod<'_>) -> Option<Violation> {
    if pod.minor < 34 {
        return None;
    }
    let (mut names, hosts) = collect(pod, |container| {
        let lifecycle = container.get("lifecycle");
        let handlers = [
            container.get("livenessProbe"),
            container.get("readinessProbe"),
            container.get("startupProbe"),
            lifecycle.get("postStart"),
            lifecycle.get("preStop"),
        ];
        let hosts = handlers.iter().flat_map(|one| [one.get("httpGet").str("host"), one.get("tcpSocket").str("host")]);
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    });
    names.sort();
    names.dedup();
    violation(!names.is_empty(), "probe or lifecycle host", || {
        let word = plural("probe or lifecycle host", hosts.len());
        format!("{} {} {word} {}", containers(&names), uses(&names), quoted(&hosts))
    })
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = names(pod, |container| container.get("securityContext").bool("privileged"));
    violation(!names.is_empty(), "privileged", || {
        format!("{} must not set securityContext.privileged=true", containers(&names))
    })
}

fn proc_mount_unless_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let (names, values) = collect(pod, |container| {
        let context = container.get("securityContext");
        let kind = context.str("procMount");
        if context.has("procMount") && kind != "Default" { vec![kind.to_owned()] } else { Vec::new() }
    });
    violation(!names.is_empty(), "procMount", || {
        format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(&values))
    })
}

fn selinux(pod: &Pod<'_>) -> Option<Violation> {
    let allowed = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (pod.minor >= 31 && kind == "container_engine_t")
    };
    let options = |holder: &'_ Value| holder.at(&["securityContext", "seLinuxOptions"]).clone();
    let is_bad = |options: &Value| {
        !allowed(options.str("type")) || !options.str("user").is_empty() || !options.str("role").is_empty()
    };
    let all: Vec<Value> = std::iter::once(options(pod.spec)).chain(pod.containers().map(options)).collect();
    let mut setters = Vec::new();
    if is_bad(&all[0]) {
        setters.push("pod".to_owned());
    }
    let names = names(pod, |container| is_bad(&options(container)));
    if !names.is_empty() {
        setters.push(containers(&names));
    }
    let types = all.iter().map(|options| options.str("type").to_owned()).filter(|kind| !allowed(kind));
    let types: BTreeSet<String> = types.collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        let types: Vec<String> = types.into_iter().collect();
        data.push(format!("{} {}", plural("type", types.len()), quoted(&types)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| !options.str(field).is_empty()) {
            data.push(format!("{field} may not be set"));
        }
    }
    violation(!setters.is_empty(), "seLinuxOptions", || {
        format!("{} set forbidden securityContext.seLinuxOptions: {}", setters.join(" and "), data.join("; "))
    })
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if pod.minor < 19 {
        return seccomp_annotations(pod);
    }
    let (setters, values) = setters(pod, bad_seccomp);
    violation(!setters.is_empty(), "seccompProfile", || {
        format!("{} must not set securityContext.seccompProfile.type to {}", setters.join(" and "), quoted(&values))
    })
}

/// The kind of profile that a security context sets, where it is none of those that are allowed.
pub fn bad_seccomp(context: &Value) -> Option<String> {
    let profile = context.get("seccompProfile");
    let allowed = matches!(profile.str("type"), "RuntimeDefault" | "Localhost");
    (!profile.is_null() && !allowed).then(|| profile.str("type").to_owned())
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let of_containers =
        pod.containers().map(|container| format!("{SECCOMP_CONTAINER_ANNOTATION}{}", container.str("name")));
    let keys = std::iter::once(SECCOMP_POD_ANNOTATION.to_owned()).chain(of_containers);
    let bad = keys.filter_map(|key| {
        let value = pod.annotations.get(&key)?.as_str();
        let allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        (!allowed).then(|| format!("{key}={}", quote(value)))
    });
    let bad: BTreeSet<String> = bad.collect();
    violation(!bad.is_empty(), "seccompProfile", || {
        let listed = bad.iter().cloned().collect::<Vec<_>>().join(", ");
        format!("forbidden {} {listed}", plural("annotation", bad.len()))
    })
}

fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let allowed = |name: &&str| SYSCTLS.iter().any(|(known, since)| known == name && pod.minor >= *since);
    let names = pod.context().list("sysctls").iter().map(|one| one.str("name")).filter(|name| !allowed(name));
    let names: Vec<&str> = names.collect();
    violation(!names.is_empty(), "forbidden sysctls", || names.join(", "))
}

fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |holder: &Value| holder.at(&["securityContext", "windowsOptions"]).bool("hostProcess");
    let mut setters = Vec::new();
    if is_bad(pod.spec) {
        setters.push("pod".to_owned());
    }
    let names = names(pod, is_bad);
    if !names.is_empty() {
        setters.push(containers(&names));
    }
    violation(!setters.is_empty(), "hostProcess", || {
        format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "))
    })
}

pub fn violation(found: bool, reason: &'static str, detail: impl FnOnce() -> String) -> Option<Violation> {
    found.then(|| Violation { reason, detail: detail() })
}

/// Names of the containers of which this holds.
pub fn names(pod: &Pod<'_>, bad: impl Fn(&Value) -> bool) -> Vec<String> {
    pod.containers().filter(|one| bad(one)).map(|one| one.str("name").to_owned()).collect()
}

/// Names of the containers with bad values, and the values, sorted and each once.
pub fn collect(pod: &Pod<'_>, bad: impl Fn(&Value) -> Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut values = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let found = bad(container);
        if !found.is_empty() {
            names.push(container.str("name").to_owned());
            values.extend(found);
        }
    }
    (names, values.into_iter().collect())
}

/// Who sets a bad value in a security context, the pod or containers, and the values.
pub fn setters(pod: &Pod<'_>, bad: impl Fn(&Value) -> Option<String>) -> (Vec<String>, Vec<String>) {
    let of_pod = bad(pod.context());
    let (names, values) = collect(pod, |container| bad(container.get("securityContext")).into_iter().collect());
    let mut setters = Vec::new();
    if of_pod.is_some() {
        setters.push("pod".to_owned());
    }
    if !names.is_empty() {
        setters.push(containers(&names));
    }
    let values: BTreeSet<String> = values.into_iter().chain(of_pod).collect();
    (setters, values.into_iter().collect())
}

pub fn containers(names: &[String]) -> String {
    format!("{} {}", plural("container", names.len()), quoted(names))
}

pub fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

pub fn uses(names: &[String]) -> &'static str {
    if names.len() == 1 { "uses" } else { "use" }
}

pub fn quoted(items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("\"{}\"", items.join("\", \"")) }
}
