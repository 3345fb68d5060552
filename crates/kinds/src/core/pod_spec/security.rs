//! What containers may do: users, groups, profiles, kernel settings.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, names};

use super::checks::{self, Seen, local_descending_path, one_of, one_of_if_set};
use super::go_form::go_json;
use super::options::PodOptions;
use super::windows;

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE_PATH_MAX_BYTES: usize = 4095;
const SYSCTL_MAX_BYTES: usize = 253;
const SYSCTL_WORDS: &str = "must have at most 253 characters and match regex \
                            ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a container.
pub(super) fn validate_container(path: Path<'_>, context: &Value, host_users: bool, errors: &mut Errors) {
    validate_id(path, context, "runAsUser", errors);
    validate_id(path, context, "runAsGroup", errors);
    if context.has("procMount") {
        let path = path.child("procMount");
        let mount = context.str("procMount");
        one_of(path, mount, &["Default", "Unmasked"], errors);
        if host_users && mount == "Unmasked" {
            errors.invalid(path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp_profile(path.child("seccompProfile"), context.get("seccompProfile"), errors);
    if context.get("allowPrivilegeEscalation") == &Value::Bool(false) {
        let shown = || BadValue::Text(go_json("SecurityContext", context));
        if context.bool("privileged") {
            let words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, shown(), words);
        }
        for capability in context.get("capabilities").list("add") {
            if capability.as_str() == "CAP_SYS_ADMIN" {
                let words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                errors.invalid(path, shown(), words);
            }
        }
    }
    windows::validate_options(path.child("windowsOptions"), context.get("windowsOptions"), errors);
    validate_app_armor_profile(path.child("appArmorProfile"), context.get("appArmorProfile"), errors);
}

/// The security context of a pod; `spec` is the pod's, which holds some of it.
pub(super) fn validate_pod(path: Path<'_>, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let context = spec.get("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(path, context, field, errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        let group = group.as_int().unwrap_or(0);
        for message in names::group_id(group) {
            errors.invalid(groups.index(index), group, message);
        }
    }
    if spec.bool("shareProcessNamespace") && spec.bool("hostPID") {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.child("shareProcessNamespace"), true, words);
    }
    validate_sysctls(path.child("sysctls"), spec, options, errors);
    one_of_if_set(context, path, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    validate_seccomp_profile(path.child("seccompProfile"), context.get("seccompProfile"), errors);
    windows::validate_options(path.child("windowsOptions"), context.get("windowsOptions"), errors);
    validate_app_armor_profile(path.child("appArmorProfile"), context.get("appArmorProfile"), errors);
    one_of_if_set(context, path, "supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    let policies: &[&str] =
        if options.any_selinux_change_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    one_of_if_set(context, path, "seLinuxChangePolicy", policies, errors);
}

fn validate_id(path: Path<'_>, context: &Value, field: &str, errors: &mut Errors) {
    if let Some(id) = context.get(field).as_int() {
        for message in names::user_id(id) {
            errors.invalid(path.child(field), id, message);
        }
    }
}

fn validate_seccomp_profile(path: Path<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let kind = profile.str("type");
    if kind.is_empty() {
        errors.required(path.child("type"), "type is required when seccompProfile is set");
    } else {
        one_of(path.child("type"), kind, PROFILE_TYPES, errors);
    }
    let path = path.child("localhostProfile");
    match (kind == "Localhost", profile.has("localhostProfile")) {
        (true, false) => errors.required(path, "must be set when seccomp type is Localhost"),
        (true, true) => local_descending_path(path, profile.str("localhostProfile"), errors),
        (false, true) => {
            let shown = BadValue::Text(go_json("SeccompProfile", profile));
            errors.invalid(path, shown, "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

/// Which AppArmor profile applies.
pub(crate) fn validate_app_armor_profile(path: Path<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let file = profile.str("localhostProfile");
    let file_path = path.child("localhostProfile");
    match profile.str("type") {
        "Localhost" => {
            if file.is_empty() {
                errors.required(file_path, "must be set when AppArmor type is Localhost");
            } else if file.trim() != file {
                errors.invalid(file_path, file, "must not be padded with whitespace");
            }
            if file.len() > PROFILE_PATH_MAX_BYTES {
                errors.too_long(file_path, PROFILE_PATH_MAX_BYTES);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.has("localhostProfile") {
                errors.invalid(file_path, file, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(path.child("type"), other, PROFILE_TYPES),
    }
}

fn validate_sysctls(path: Path<'_>, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, sysctl) in spec.get("securityContext").list("sysctls").iter().enumerate() {
        let path = path.index(index);
        let path = path.child("name");
        let name = sysctl.str("name");
        if name.is_empty() {
            errors.required(path, "");
        } else if !is_sysctl(name) {
            errors.invalid(path, name, SYSCTL_WORDS);
        } else if seen.has(name) {
            errors.duplicate(path, name);
        }
        if !options.host_sysctls
            && let Some(words) = host_sysctl(spec, name)
        {
            errors.invalid(path, name, words);
        }
        seen.add(name);
    }
}

/// Segments of letters, digits, dashes and underscores with dots or slashes between them.
fn is_sysctl(name: &str) -> bool {
    let plain = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = |segment: &str| {
        plain(segment.bytes().next())
            && plain(segment.bytes().last())
            && segment.bytes().all(|byte| plain(Some(byte)) || byte == b'-' || byte == b'_')
    };
    name.len() <= SYSCTL_MAX_BYTES && name.split(['.', '/']).all(fits)
}

/// Why the setting cannot be the pod's own: it shares the host's namespace.
fn host_sysctl(spec: &Value, name: &str) -> Option<&'static str> {
    const IPC: &[&str] = &[
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    if !spec.bool("hostNetwork") && !spec.bool("hostIPC") {
        return None;
    }
    let name = normalize_sysctl(name);
    let name = name.split('*').next().unwrap_or_default();
    if spec.bool("hostNetwork") && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    if spec.bool("hostIPC") && (IPC.contains(&name) || name.starts_with("fs.mqueue.")) {
        return Some("may not be specified when 'hostIPC' is true");
    }
    None
}

/// With dots between the segments, where slashes stand: then dots mean slashes.
fn normalize_sysctl(name: &str) -> String {
    match name.find(['.', '/']).map(|index| name.as_bytes()[index]) {
        Some(b'/') => name
            .chars()
            .map(|letter| match letter {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Whether the old pod has settings that need a namespace it does not have.
pub(super) fn has_host_sysctls(spec: &Value) -> bool {
    let sysctls = spec.get("securityContext").list("sysctls");
    sysctls.iter().any(|sysctl| host_sysctl(spec, sysctl.str("name")).is_some())
}

/// What a pod in a user namespace of its own cannot share with its host.
pub(super) fn validate_host_users(path: Path<'_>, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    const WORDS: &str = "when `hostUsers` is false";
    if spec.get("hostUsers") != &Value::Bool(false) {
        return;
    }
    if spec.bool("hostNetwork") && !options.host_network_in_user_namespaces {
        errors.forbidden(path.child("hostNetwork"), WORDS);
    }
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.bool(field) {
            errors.forbidden(path.child(shown), WORDS);
        }
    }
    if !options.devices_in_user_namespaces {
        checks::visit_containers(spec, path, |container, path| {
            if !container.list("volumeDevices").is_empty() {
                errors.forbidden(path.child("volumeDevices"), WORDS);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn sysctl_names() {
        for (name, fits) in [("net.ipv4.a_b", true), ("kernel/shm", true), ("a..b", false), ("A", false), ("-a", false)]
        {
            assert_eq!(is_sysctl(name), fits, "{name}");
        }
        let spec = object! { "hostNetwork": true };
        assert!(host_sysctl(&spec, "net.ipv4.x").is_some());
        assert!(host_sysctl(&spec, "net/ipv4.x").is_some());
        assert!(host_sysctl(&spec, "kernel.shm").is_none());
        assert!(host_sysctl(&object! { "hostIPC": true }, "kernel.shm*").is_some());
    }
}
