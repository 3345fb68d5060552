//! Probes and lifecycle hooks: what a node runs or asks to learn how a container is.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names;

use super::checks::{each, not_negative, one_of, require};

const LINUX_SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
const WINDOWS_SIGNALS: &[&str] = &["SIGKILL", "SIGTERM"];

/// What of the pod the hooks of its containers depend on.
#[derive(Clone, Copy)]
pub(super) struct PodFacts<'a> {
    pub grace_period_seconds: Option<i64>,
    /// The operating system's name, where the pod says one.
    pub os: Option<&'a str>,
}

pub(super) fn validate_probes(path: Path<'_>, container: &Value, facts: PodFacts<'_>, errors: &mut Errors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(field);
        if probe.is_null() {
            continue;
        }
        let path = path.child(field);
        validate_probe(path, probe, facts, errors);
        if field == "readinessProbe" {
            if let Some(seconds) = probe.get("terminationGracePeriodSeconds").as_int() {
                let path = path.child("terminationGracePeriodSeconds");
                errors.invalid(path, seconds, "must not be set for readinessProbes");
            }
        } else if probe.int("successThreshold") != 1 {
            errors.invalid(path.child("successThreshold"), probe.int("successThreshold"), "must be 1");
        }
    }
}

fn validate_probe(path: Path<'_>, probe: &Value, facts: PodFacts<'_>, errors: &mut Errors) {
    validate_handler(path, probe, &["exec", "httpGet", "tcpSocket", "grpc"], facts, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        not_negative(probe, path, field, errors);
    }
    if let Some(seconds) = probe.get("terminationGracePeriodSeconds").as_int()
        && seconds <= 0
    {
        errors.invalid(path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

pub(super) fn validate_lifecycle(path: Path<'_>, lifecycle: &Value, facts: PodFacts<'_>, errors: &mut Errors) {
    for field in ["postStart", "preStop"] {
        if lifecycle.has(field) {
            let kinds = &["exec", "httpGet", "tcpSocket", "sleep"];
            validate_handler(path.child(field), lifecycle.get(field), kinds, facts, errors);
        }
    }
    if lifecycle.has("stopSignal") {
        let (path, signal) = (path.child("stopSignal"), lifecycle.str("stopSignal"));
        match facts.os {
            None => errors.forbidden(path, "may not be set for containers with empty `spec.os.name`"),
            Some("windows") => one_of(path, signal, WINDOWS_SIGNALS, errors),
            Some("linux") => one_of(path, signal, LINUX_SIGNALS, errors),
            Some(_) => {}
        }
    }
}

fn validate_handler(path: Path<'_>, handler: &Value, kinds: &[&str], facts: PodFacts<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let action = handler.get(kind);
        if action.is_null() {
            continue;
        }
        let path = path.child(kind);
        if found {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" if action.list("command").is_empty() => errors.required(path.child("command"), ""),
            "httpGet" => validate_http_get(path, action, errors),
            "tcpSocket" | "grpc" => validate_port(path.child("port"), action.get("port"), errors),
            "sleep" => validate_sleep(path, action.int("seconds"), facts, errors),
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(path: Path<'_>, action: &Value, errors: &mut Errors) {
    require(action, path, "path", errors);
    validate_port(path.child("port"), action.get("port"), errors);
    one_of(path.child("scheme"), action.str("scheme"), &["HTTP", "HTTPS"], errors);
    for header in action.list("httpHeaders") {
        let name = header.str("name");
        each(path.child("httpHeaders"), name, names::http_header_name(name), errors);
    }
}

/// A port by its number or by its name.
fn validate_port(path: Path<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => each(path, name, names::port_name(name), errors),
        other => {
            let number = other.as_int().unwrap_or(0);
            for message in names::port_number(number) {
                errors.invalid(path, BadValue::from(number), message);
            }
        }
    }
}

fn validate_sleep(path: Path<'_>, seconds: i64, facts: PodFacts<'_>, errors: &mut Errors) {
    if let Some(grace) = facts.grace_period_seconds
        && (seconds < 0 || seconds > grace)
    {
        let words = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, words);
    }
}
