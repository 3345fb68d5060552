//! The security context of a container, from the pod's and its own.

use std::path::Path;

use rkube_machinery::Value;
use rkube_runtime::api::{Capabilities, Confinement, Image, NamespaceMode, Namespaces, Security, Supplement};

use crate::pod::spec::display_name;

const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// The largest user id that counts as one.
const USER_MAX: i64 = i32::MAX as i64;

/// Who an image runs as, where nobody says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ImageUser {
    Number(i64),
    Name(String),
}

/// A container's. `profiles`: where the seccomp profiles of the node are.
pub fn of_container(pod: &Value, container: &Value, image: &Image, profiles: &Path) -> Result<Security, String> {
    let own = container.get("securityContext");
    let of_pod = pod.get("spec").get("securityContext");
    let image_user = user_of(image);
    check_not_root(pod, container, &image_user)?;
    let is_unmasked = own.str("procMount") == "Unmasked";
    let paths = |paths: &[&str]| match is_unmasked {
        true => Vec::new(),
        false => paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let (user, user_name) = match (either(own, of_pod, "runAsUser").as_int(), image_user) {
        (Some(user), _) | (None, ImageUser::Number(user)) => (Some(id(user)?), String::new()),
        (None, ImageUser::Name(name)) => (None, name),
    };
    let group = either(own, of_pod, "runAsGroup").as_int().map(id).transpose()?;
    Ok(Security {
        user,
        user_name,
        group,
        supplemental_groups: supplemental_groups(of_pod)?,
        supplement: supplement(of_pod)?,
        capabilities: capabilities(own.get("capabilities")),
        privileged: own.bool("privileged"),
        read_only_root: own.bool("readOnlyRootFilesystem"),
        no_new_privileges: own.get("allowPrivilegeEscalation").as_bool() == Some(false),
        seccomp: seccomp(either(own, of_pod, "seccompProfile"), profiles)?,
        apparmor: apparmor(pod, container)?,
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
    })
}

/// That of the process that holds the pod's namespaces.
pub fn of_sandbox(pod: &Value) -> Result<Security, String> {
    let spec = pod.get("spec");
    let of_pod = spec.get("securityContext");
    let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
    let privileged = containers.into_iter().any(|container| container.get("securityContext").bool("privileged"));
    Ok(Security {
        user: of_pod.get("runAsUser").as_int().map(id).transpose()?,
        group: of_pod.get("runAsGroup").as_int().map(id).transpose()?,
        supplemental_groups: supplemental_groups(of_pod)?,
        supplement: supplement(of_pod)?,
        privileged,
        seccomp: Confinement::RuntimeDefault,
        ..Security::default()
    })
}

pub fn namespaces(pod: &Value) -> Namespaces {
    let spec = pod.get("spec");
    let mode = |host: &str| if spec.bool(host) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = match (spec.bool("hostPID"), spec.bool("shareProcessNamespace")) {
        (true, _) => NamespaceMode::Node,
        (false, true) => NamespaceMode::Pod,
        (false, false) => NamespaceMode::Container,
    };
    Namespaces { network: mode("hostNetwork"), pid, ipc: mode("hostIPC") }
}

/// The group that volumes belong to.
pub fn volume_group(pod: &Value) -> Option<u32> {
    pod.get("spec").get("securityContext").get("fsGroup").as_int().and_then(|group| id(group).ok())
}

/// The user that the tokens of a pod belong to: that of all its containers, if it is the same.
pub fn volume_user(pod: &Value) -> Option<u32> {
    let of_pod = pod.get("spec").get("securityContext");
    let users = crate::pod::spec::containers(pod);
    let mut users =
        users.iter().map(|container| either(container.value.get("securityContext"), of_pod, "runAsUser").as_int());
    let first = users.next()??;
    if users.all(|user| user == Some(first)) { id(first).ok() } else { None }
}

/// The container's own where it has one, or the pod's.
fn either<'a>(own: &'a Value, of_pod: &'a Value, field: &str) -> &'a Value {
    if own.has(field) { own.get(field) } else { of_pod.get(field) }
}

fn id(number: i64) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{number} is no user or group"))
}

fn user_of(image: &Image) -> ImageUser {
    // A group may follow.
    let user = image.user.split(':').next().unwrap_or_default();
    match (user, user.parse()) {
        ("", _) => ImageUser::Number(0),
        (_, Ok(number)) => ImageUser::Number(number),
        (name, Err(_)) => ImageUser::Name(name.to_owned()),
    }
}

fn check_not_root(pod: &Value, container: &Value, image_user: &ImageUser) -> Result<(), String> {
    let (own, of_pod) = (container.get("securityContext"), pod.get("spec").get("securityContext"));
    if either(own, of_pod, "runAsNonRoot").as_bool() != Some(true) {
        return Ok(());
    }
    let place = format!("(pod: {:?}, container: {})", display_name(pod), container.str("name"));
    match (either(own, of_pod, "runAsUser").as_int(), image_user) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {place}")),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Name(name)) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {place}"
        )),
        (None, ImageUser::Number(0)) => Err(format!("container has runAsNonRoot and image will run as root {place}")),
        (None, ImageUser::Number(user)) if !(0..=USER_MAX).contains(user) => Err(format!(
            "container has runAsNonRoot and image has an invalid user id ({user}). (Must be 1-({USER_MAX})): must be \
             between 0 and {USER_MAX}, inclusive {place}"
        )),
        (None, ImageUser::Number(_)) => Ok(()),
    }
}

fn supplemental_groups(of_pod: &Value) -> Result<Vec<u32>, String> {
    let groups = of_pod.get("fsGroup").as_int().into_iter();
    groups.chain(of_pod.list("supplementalGroups").iter().filter_map(Value::as_int)).map(id).collect()
}

fn supplement(of_pod: &Value) -> Result<Supplement, String> {
    match of_pod.str("supplementalGroupsPolicy") {
        "" | "Merge" => Ok(Supplement::Merge),
        "Strict" => Ok(Supplement::Strict),
        other => Err(format!("unsupported supplementalGroupsPolicy: {other}")),
    }
}

fn capabilities(given: &Value) -> Capabilities {
    let texts = |field: &str| given.list(field).iter().map(|name| name.as_str().to_owned()).collect();
    Capabilities { add: texts("add"), drop: texts("drop") }
}

fn seccomp(profile: &Value, profiles: &Path) -> Result<Confinement, String> {
    match (profile.str("type"), profile.str("localhostProfile")) {
        ("RuntimeDefault", _) => Ok(Confinement::RuntimeDefault),
        ("Localhost", "") => Err("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()),
        ("Localhost", name) if name.split('/').any(|part| part == "..") || name.starts_with('/') => {
            Err(format!("localhostProfile {name:?} leads out of where profiles are"))
        }
        ("Localhost", name) => Ok(Confinement::Localhost(profiles.join(name).display().to_string())),
        _ => Ok(Confinement::Unconfined),
    }
}

/// The container's field comes first, then the annotation that came before fields, then the pod's.
fn apparmor(pod: &Value, container: &Value) -> Result<Confinement, String> {
    let own = container.get("securityContext").get("appArmorProfile");
    if !own.is_null() {
        return apparmor_profile(own);
    }
    let key = format!("container.apparmor.security.beta.kubernetes.io/{}", container.str("name"));
    match pod.get("metadata").map("annotations").str(&key) {
        "runtime/default" => return Ok(Confinement::RuntimeDefault),
        "unconfined" => return Ok(Confinement::Unconfined),
        other => {
            if let Some(name) = other.strip_prefix("localhost/") {
                return Ok(Confinement::Localhost(name.to_owned()));
            }
        }
    }
    match pod.get("spec").get("securityContext").get("appArmorProfile") {
        Value::Null => Ok(Confinement::Unconfined),
        profile => apparmor_profile(profile),
    }
}

fn apparmor_profile(profile: &Value) -> Result<Confinement, String> {
    match (profile.str("type"), profile.str("localhostProfile")) {
        ("RuntimeDefault", _) => Ok(Confinement::RuntimeDefault),
        ("Unconfined", _) => Ok(Confinement::Unconfined),
        ("Localhost", "") => Err("missing localhost apparmor profile name".to_owned()),
        ("Localhost", name) => Ok(Confinement::Localhost(name.to_owned())),
        (other, _) => Err(format!("unknown apparmor profile type: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn pod(of_pod: &str, own: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u"}},
               "spec":{{"securityContext":{of_pod},"containers":[{{"name":"c","securityContext":{own}}}]}}}}"#
        );
        json::parse(text.as_bytes()).unwrap()
    }

    fn of(of_pod: &str, own: &str, user: &str) -> Result<Security, String> {
        let pod = pod(of_pod, own);
        let image = Image { user: user.to_owned(), ..Image::default() };
        of_container(&pod, &pod.get("spec").list("containers")[0], &image, Path::new("/profiles"))
    }

    #[test]
    fn users_come_from_container_pod_and_image() {
        let table = [
            ("{}", "{}", "", Some(0), ""),
            ("{}", "{}", "1000:1000", Some(1000), ""),
            ("{}", "{}", "nobody", None, "nobody"),
            (r#"{"runAsUser":5}"#, "{}", "nobody", Some(5), ""),
            (r#"{"runAsUser":5}"#, r#"{"runAsUser":6}"#, "", Some(6), ""),
        ];
        for (of_pod, own, image, user, name) in table {
            let found = of(of_pod, own, image).unwrap();
            assert_eq!((found.user, found.user_name.as_str()), (user, name), "{of_pod} {own} {image}");
        }
        let groups = of(
            r#"{"runAsGroup":7,"fsGroup":8,"supplementalGroups":[9,10],"supplementalGroupsPolicy":"Strict"}"#,
            "{}",
            "",
        );
        let groups = groups.unwrap();
        assert_eq!(
            (groups.group, groups.supplemental_groups, groups.supplement),
            (Some(7), vec![8, 9, 10], Supplement::Strict)
        );
    }

    #[test]
    fn root_is_refused_where_nobody_wants_it() {
        let place = "(pod: \"p_n(u)\", container: c)";
        let wants = r#"{"runAsNonRoot":true}"#;
        let table = [
            (wants, "{}", "", Err(format!("container has runAsNonRoot and image will run as root {place}"))),
            (
                wants,
                "{}",
                "app",
                Err(format!(
                    "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root {place}"
                )),
            ),
            (wants, r#"{"runAsUser":0}"#, "", Err(format!("container's runAsUser breaks non-root policy {place}"))),
            (wants, r#"{"runAsUser":1}"#, "", Ok(())),
            (wants, "{}", "12", Ok(())),
            (wants, r#"{"runAsNonRoot":false}"#, "", Ok(())),
        ];
        for (of_pod, own, image, expected) in table {
            assert_eq!(of(of_pod, own, image).map(drop), expected, "{of_pod} {own} {image}");
        }
    }

    #[test]
    fn confinement_is_what_is_asked_for() {
        let found = of(r#"{"seccompProfile":{"type":"RuntimeDefault"}}"#, "{}", "").unwrap();
        assert_eq!((found.seccomp, found.no_new_privileges), (Confinement::RuntimeDefault, false));
        let own =
            r#"{"seccompProfile":{"type":"Localhost","localhostProfile":"a/b.json"},"allowPrivilegeEscalation":false}"#;
        let found = of(r#"{"seccompProfile":{"type":"RuntimeDefault"}}"#, own, "").unwrap();
        assert_eq!(found.seccomp, Confinement::Localhost("/profiles/a/b.json".to_owned()));
        assert!(found.no_new_privileges);
        let out = r#"{"seccompProfile":{"type":"Localhost","localhostProfile":"../x"}}"#;
        assert!(of("{}", out, "").is_err());
        assert!(of("{}", r#"{"procMount":"Unmasked"}"#, "").unwrap().masked_paths.is_empty());
        assert_eq!(of("{}", "{}", "").unwrap().masked_paths.len(), MASKED.len());
    }

    #[test]
    fn the_user_of_tokens_is_that_of_all_containers() {
        assert_eq!(volume_user(&pod(r#"{"runAsUser":5}"#, "{}")), Some(5));
        assert_eq!(volume_user(&pod("{}", "{}")), None);
        let two = r#"{"spec":{"securityContext":{"runAsUser":5},"containers":[{"name":"a"},{"name":"b","securityContext":{"runAsUser":6}}]}}"#;
        assert_eq!(volume_user(&json::parse(two.as_bytes()).unwrap()), None);
    }
}
