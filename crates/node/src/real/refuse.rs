//! What pods may ask for and this node does not have: such a pod fails, and says why, instead of running without it.

use rkube_machinery::Value;

use super::prepare_api::Problem;
use crate::pod::spec;

/// Sysctls that are the pod's own, and harm nobody else.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// What is said for nodes of Windows means nothing here, and is left alone: one pod may be written for both.
///
/// `app_armor`: whether the machine has it.
pub fn check(pod: &Value, app_armor: bool) -> Result<(), Problem> {
    let spec = pod.get("spec");
    if !app_armor && wants_app_armor(pod) {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        return Err(Problem::new("AppArmor", message));
    }
    if spec.get("hostUsers").as_bool() == Some(false) {
        return Err(missing("UserNamespacesNotSupported", "user namespaces (spec.hostUsers: false)"));
    }
    if !spec.list("resourceClaims").is_empty() {
        return Err(missing("DynamicResourcesNotSupported", "claims of devices (spec.resourceClaims)"));
    }
    for volume in spec.list("volumes") {
        if volume.has("image") {
            let what = format!("image volumes (volume \"{}\")", volume.str("name"));
            return Err(missing("ImageVolumesNotSupported", &what));
        }
    }
    check_sysctls(spec)?;
    for container in spec::containers(pod) {
        if container.value.list("volumeDevices").iter().next().is_some() {
            return Err(missing("BlockVolumesNotSupported", "raw block volumes (volumeDevices)"));
        }
    }
    Ok(())
}

fn wants_app_armor(pod: &Value) -> bool {
    let own = |security: &Value| security.get("appArmorProfile").str("type").to_owned();
    let of_pod = own(pod.get("spec").get("securityContext"));
    spec::containers(pod).iter().any(|container| {
        let of_container = own(container.value.get("securityContext"));
        let profile = if of_container.is_empty() { of_pod.as_str() } else { of_container.as_str() };
        !matches!(profile, "" | "Unconfined")
    })
}

fn check_sysctls(spec: &Value) -> Result<(), Problem> {
    let (host_network, host_ipc) = (spec.bool("hostNetwork"), spec.bool("hostIPC"));
    for sysctl in spec.get("securityContext").list("sysctls") {
        let name = sysctl.str("name").replace('/', ".");
        let host = if name.starts_with("net.") { host_network } else { host_ipc };
        let why = match (SAFE_SYSCTLS.contains(&name.as_str()), host) {
            (true, false) => continue,
            (false, _) => "not allowlisted",
            (true, true) if name.starts_with("net.") => "not allowed with host net enabled",
            (true, true) => "not allowed with host ipc enabled",
        };
        let message = format!("forbidden sysctl: \"{name}\" {why}");
        return Err(Problem::new("SysctlForbidden", message));
    }
    Ok(())
}

fn missing(reason: &str, what: &str) -> Problem {
    Problem::new(reason, format!("this node does not have {what} yet"))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn what_is_missing_is_refused() {
        for (spec, reason) in [
            (r#"{"containers":[{"name":"a"}]}"#, ""),
            (r#"{"hostUsers":true}"#, ""),
            (r#"{"containers":[{"name":"a","securityContext":{"windowsOptions":{"hostProcess":true}}}]}"#, ""),
            (
                r#"{"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"a"}]}"#,
                "AppArmor",
            ),
            (r#"{"hostUsers":false}"#, "UserNamespacesNotSupported"),
            (r#"{"resourceClaims":[{"name":"a"}]}"#, "DynamicResourcesNotSupported"),
            (r#"{"volumes":[{"name":"v","image":{"reference":"x"}}]}"#, "ImageVolumesNotSupported"),
            (r#"{"securityContext":{"sysctls":[{"name":"kernel.shm_rmid_forced","value":"1"}]}}"#, ""),
            (r#"{"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}}"#, "SysctlForbidden"),
            (
                r#"{"hostNetwork":true,"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_syncookies","value":"1"}]}}"#,
                "SysctlForbidden",
            ),
        ] {
            let pod = json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
            let found = check(&pod, false).err().map(|problem| problem.reason.to_string()).unwrap_or_default();
            assert_eq!(found, reason, "{spec}");
        }
    }
}
