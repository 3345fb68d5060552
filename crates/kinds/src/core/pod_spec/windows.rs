//! What differs between operating systems.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks::{dns_subdomain, one_of, visit_containers};

const CREDENTIAL_SPEC_MAX_BYTES: usize = 64 * 1024;
const DOMAIN_MAX_BYTES: usize = 256;
const USER_MAX_BYTES: usize = 104;
const NET_BIOS_MAX: usize = 15;

/// Fields of a pod's security context that Windows does not know; those marked stand in the spec itself.
const POD_FIELDS: &[(&str, bool)] = &[
    ("appArmorProfile", false),
    ("seLinuxOptions", false),
    ("hostUsers", true),
    ("hostPID", true),
    ("hostIPC", true),
    ("seccompProfile", false),
    ("fsGroup", false),
    ("fsGroupChangePolicy", false),
    ("sysctls", false),
    ("shareProcessNamespace", true),
    ("runAsUser", false),
    ("runAsGroup", false),
    ("supplementalGroups", false),
    ("supplementalGroupsPolicy", false),
    ("seLinuxChangePolicy", false),
];

/// Fields of a container's security context that Windows does not know.
const CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// The operating system that the pod is made for, and what it cannot have there.
pub(super) fn validate_os(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let name = spec.get("os").str("name");
    match name {
        "" => errors.required(path.child("os").child("name"), ""),
        "linux" => validate_linux(path, spec, errors),
        "windows" => validate_windows(path, spec, errors),
        other => one_of(path.child("os"), other, &["linux", "windows"], errors),
    }
}

fn validate_linux(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    const WORDS: &str = "windows options cannot be set for a linux pod";
    if spec.get("securityContext").has("windowsOptions") {
        errors.forbidden(path.child("securityContext").child("windowsOptions"), WORDS);
    }
    visit_containers(spec, path, |container, path| {
        if container.get("securityContext").has("windowsOptions") {
            errors.forbidden(path.child("securityContext").child("windowsOptions"), WORDS);
        }
    });
}

fn validate_windows(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    const WORDS: &str = "cannot be set for a windows pod";
    let context = spec.get("securityContext");
    for (field, in_spec) in POD_FIELDS {
        let value = if *in_spec { spec.get(field) } else { context.get(field) };
        let set = match *field {
            "hostPID" | "hostIPC" | "sysctls" => !value.is_empty(),
            _ => !value.is_null(),
        };
        if set && *in_spec {
            errors.forbidden(path.child(field), WORDS);
        } else if set {
            errors.forbidden(path.child("securityContext").child(field), WORDS);
        }
    }
    visit_containers(spec, path, |container, path| {
        let context = container.get("securityContext");
        for field in CONTAINER_FIELDS {
            if context.has(field) {
                errors.forbidden(path.child("securityContext").child(field), WORDS);
            }
        }
    });
}

/// All containers of a pod are processes of the host, or none.
pub(super) fn validate_host_process(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let of_pod = spec.get("securityContext").get("windowsOptions").get("hostProcess").as_bool();
    let (mut containers, mut processes) = (0, 0);
    visit_containers(spec, path, |container, path| {
        containers += 1;
        let own = container.get("securityContext").get("windowsOptions").get("hostProcess").as_bool();
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let words = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            let path = path.child("securityContext");
            errors.invalid(path.child("windowsOptions").child("hostProcess"), own, words);
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    });
    if processes == 0 {
        return;
    }
    if processes != containers {
        let words = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", words);
    }
    if !spec.bool("hostNetwork") {
        let words = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(path.child("hostNetwork"), false, words);
    }
}

pub(super) fn validate_options(path: Path<'_>, options: &Value, errors: &mut Errors) {
    if options.is_null() {
        return;
    }
    if options.has("gmsaCredentialSpecName") {
        dns_subdomain(path.child("gmsaCredentialSpecName"), options.str("gmsaCredentialSpecName"), errors);
    }
    if options.has("gmsaCredentialSpec") {
        let (path, spec) = (path.child("gmsaCredentialSpec"), options.str("gmsaCredentialSpec"));
        if spec.is_empty() {
            errors.invalid(path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_SPEC_MAX_BYTES {
            errors.invalid(path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if options.has("runAsUserName") {
        validate_user_name(path.child("runAsUserName"), options.str("runAsUserName"), errors);
    }
}

fn validate_user_name(path: Path<'_>, name: &str, errors: &mut Errors) {
    let mut wrong = |is: bool, words: &str| {
        if is {
            errors.invalid(path, name, words);
        }
        is
    };
    let control = name.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
    if wrong(name.is_empty(), "runAsUserName cannot be an empty string")
        || wrong(control, "runAsUserName cannot contain control characters")
        || wrong(name.matches('\\').count() > 1, "runAsUserName cannot contain more than one backslash")
    {
        return;
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if let Some(domain) = domain {
        let long = domain.len() >= DOMAIN_MAX_BYTES;
        wrong(long, "runAsUserName's Domain length must be under 256 characters");
        let known = is_net_bios(domain) || is_dns_domain(domain);
        wrong(!known, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if !wrong(user.is_empty(), "runAsUserName's User cannot be empty") {
        let long = user.len() > USER_MAX_BYTES;
        wrong(long, "runAsUserName's User length must not be longer than 104 characters");
        let blank = user.chars().all(|letter| letter == '.' || letter == ' ');
        wrong(blank, "runAsUserName's User cannot contain only periods or spaces");
    }
    let bad = user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']);
    wrong(bad, r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
}

fn is_net_bios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=NET_BIOS_MAX).contains(&count)
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names() {
        let table =
            [("user", 0), ("", 1), ("a\\b\\c", 1), ("dom\\", 1), ("dom\\us:er", 1), ("...", 1), ("a.b.c\\u", 0)];
        for (name, wrong) in table {
            let mut errors = Errors::new();
            validate_user_name(Path::ROOT, name, &mut errors);
            assert_eq!(errors.len(), wrong, "{name}: {errors:?}");
        }
    }
}
