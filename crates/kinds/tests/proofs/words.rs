//! Texts that make sense in a field: what the examples have in fields of that name, and the words of enumerations.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rkube_machinery::Value;

use crate::examples;

/// Words by field name, for fields in which few texts make sense.
const WORDS: &[(&str, &[&str])] = &[
    ("operator", &["In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt"]),
    ("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ("protocol", &["TCP", "UDP", "SCTP"]),
    ("restartPolicy", &["Always", "OnFailure", "Never"]),
    ("dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("status", &["True", "False", "Unknown"]),
    ("scheme", &["HTTP", "HTTPS"]),
    ("whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    ("sessionAffinity", &["None", "ClientIP"]),
    ("externalTrafficPolicy", &["Cluster", "Local"]),
    ("internalTrafficPolicy", &["Cluster", "Local"]),
    ("ipFamilyPolicy", &["SingleStack", "PreferDualStack", "RequireDualStack"]),
    ("ipFamilies", &["IPv4", "IPv6"]),
    ("concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    ("completionMode", &["Indexed", "NonIndexed"]),
    ("podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("reclaimPolicy", &["Delete", "Retain"]),
    ("persistentVolumeReclaimPolicy", &["Delete", "Retain", "Recycle"]),
    ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ("volumeMode", &["Block", "Filesystem"]),
    ("accessModes", &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]),
    ("failurePolicy", &["Fail", "Ignore"]),
    ("matchPolicy", &["Exact", "Equivalent"]),
    ("sideEffects", &["None", "NoneOnDryRun"]),
    ("pathType", &["Exact", "Prefix", "ImplementationSpecific"]),
    ("policyTypes", &["Ingress", "Egress"]),
    ("addressType", &["IPv4", "IPv6", "FQDN"]),
    ("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    ("fsGroupPolicy", &["None", "File", "ReadWriteOnceWithFSType"]),
    ("image", &["nginx", "nginx:1.29", "registry.example.com/team/app@sha256:0123", "a:latest"]),
    ("ip", &["10.0.0.7", "fd00::7"]),
    ("cidr", &["10.0.0.0/8", "fd00::/8"]),
    ("podCIDR", &["10.244.0.0/24", "fd00::/64"]),
    ("host", &["a.example.com", "*.example.com"]),
    ("uid", &["6f6e2f5e-0000-4000-8000-000000000009", "u"]),
    ("mountPath", &["/a", "/b/c"]),
    ("path", &["/a", "a/b"]),
    ("apiVersion", &["v1", "apps/v1"]),
    ("kind", &["Pod", "ConfigMap", "User"]),
    ("verbs", &["get", "list", "*"]),
    ("finalizers", &["example.com/hold", "foregroundDeletion", "orphan"]),
    ("expression", &["true", "object.metadata.name != 'x'"]),
];

/// Texts for any field.
const ANY: &[&str] =
    &["a", "name-1", "example.com", "example.com/thing", "x.y", "ü\u{1f600}", "with \"quotes\" and \\", "1", "A_b"];
const LABELS: &[&str] = &["app", "tier", "example.com/part", "zone"];

/// A few texts for a field of this name.
pub fn for_field(name: &str) -> Vec<&'static str> {
    let words = WORDS.iter().find(|(field, _)| *field == name).map_or(&[][..], |(_, words)| words);
    let seen = seen().get(name).into_iter().flatten().map(String::as_str);
    words
        .iter()
        .copied()
        .chain(seen)
        .chain(ANY.iter().copied().take(if words.is_empty() { ANY.len() } else { 1 }))
        .collect()
}

/// A key for a map in a field of this name.
pub fn keys_for(name: &str) -> &'static [&'static str] {
    match name {
        "limits" | "requests" | "capacity" | "allocatable" | "min" | "max" | "default" | "defaultRequest"
        | "podFixed" => &["cpu", "memory", "ephemeral-storage", "example.com/device", "storage"],
        "hard" | "used" => &["pods", "requests.cpu", "count/jobs.batch", "limits.memory"],
        _ => LABELS,
    }
}

/// The texts of the examples by the field in which they stand.
fn seen() -> &'static BTreeMap<String, Vec<String>> {
    static SEEN: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    SEEN.get_or_init(|| {
        let mut seen = BTreeMap::new();
        for example in examples::written() {
            collect(&example.document, "", &mut seen);
        }
        seen
    })
}

fn collect(value: &Value, field: &str, seen: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::String(text) if !field.is_empty() => {
            let texts = seen.entry(field.to_owned()).or_default();
            if !texts.iter().any(|known| known == text.as_str()) {
                texts.push(text.to_string());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, field, seen)),
        Value::Object(map) => map.iter().for_each(|(key, child)| collect(child, key, seen)),
        _ => {}
    }
}
