//! How a simulated container behaves: by its command, its probes, and what annotations of the pod say.
//!
//! Annotations stand under `sim.rkube.io/` for the main containers of the pod, and under `NAME.sim.rkube.io/` for one of
//! its containers.

use std::time::Duration;

use rkube_machinery::{Text, Value, time};

use super::commands;
use crate::pod::spec::{Container, Role};

pub const PREFIX: &str = "sim.rkube.io/";

/// How long a container runs that is told to fail, and not when.
const FAILS_AFTER: Duration = Duration::from_secs(1);
/// How long a slow start takes if nothing says it.
const SLOW_START: Duration = Duration::from_secs(10);
/// What a shell says of a process that was killed.
const KILLED: i64 = 137;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it takes until it is there.
    pub start_delay: Duration,
    pub can_be_pulled: bool,
    /// When it ends by itself, counted from its start; code and reason.
    pub ending: Option<(Duration, i64, Text)>,
    /// When its startup probe succeeds.
    pub started_after: Duration,
    /// When it is ready. None: never.
    pub ready_after: Option<Duration>,
    /// The code that it ends with when it is stopped.
    pub stop_code: i64,
}

/// What a pod's annotations say.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    annotations: &'a Value,
}

impl<'a> Settings<'a> {
    pub fn of(object: &'a Value) -> Settings<'a> {
        Settings { annotations: object.get("metadata").get("annotations") }
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        if self.annotations.is_null() {
            return None;
        }
        self.annotations.as_map().get(&format!("{PREFIX}{name}")).map(Value::as_str)
    }

    /// What is said of the pod as a whole is about its main containers.
    pub fn of_container(&self, container: Container<'_>, name: &str) -> Option<&'a str> {
        if self.annotations.is_null() {
            return None;
        }
        let own = self.annotations.as_map().get(&format!("{}.{PREFIX}{name}", container.name())).map(Value::as_str);
        own.or_else(|| self.text(name).filter(|_| container.role == Role::Main))
    }

    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.text(name).and_then(duration)
    }
}

/// `1500ms`, `10s`, `1h30m`, or a number of seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let seconds = || text.parse::<u64>().ok().map(Duration::from_secs);
    seconds().or_else(|| {
        time::parse_duration(text).ok().and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos)
    })
}

pub fn behaviour(settings: Settings<'_>, container: Container<'_>) -> Behaviour {
    let setting = |name: &str| settings.of_container(container, name);
    let span = |name: &str| setting(name).and_then(duration);
    let fault = setting("fault").unwrap_or_default();
    let ending = commands::ending(container).map(|ending| (ending.after, ending.code));
    let stop_code = if ending.is_some() { KILLED } else { 0 };
    let told_code = setting("exit-code").and_then(|code| code.parse().ok());
    let told = match (span("run-for"), told_code) {
        (None, None) => None,
        (after, code) => Some((after.unwrap_or_default(), code.unwrap_or(0))),
    };
    let fails_after = span("run-for").unwrap_or(FAILS_AFTER);
    let ending = match fault {
        "crash-loop" => Some((fails_after, told_code.unwrap_or(1), reason(told_code.unwrap_or(1)))),
        "oom" => Some((fails_after, KILLED, "OOMKilled".into())),
        _ => told.or(ending).map(|(after, code)| (after, code, reason(code))),
    };
    let started_after = probe_delay(container.value.get("startupProbe"));
    let ready_after = started_after.max(probe_delay(container.value.get("readinessProbe")));
    Behaviour {
        start_delay: span("start-delay").unwrap_or(if fault == "slow-start" { SLOW_START } else { Duration::ZERO }),
        can_be_pulled: fault != "image-pull",
        ending,
        started_after,
        ready_after: (setting("ready") != Some("false")).then(|| span("ready-delay").unwrap_or(ready_after)),
        stop_code,
    }
}

pub fn reason(code: i64) -> Text {
    if code == 0 { "Completed".into() } else { "Error".into() }
}

/// When a probe that succeeds whenever it is asked has done so often enough.
fn probe_delay(probe: &Value) -> Duration {
    let number = |field: &str| u64::try_from(probe.int(field)).unwrap_or(0);
    let more = number("successThreshold").saturating_sub(1);
    Duration::from_secs(number("initialDelaySeconds") + more * number("periodSeconds"))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;
    use crate::pod::spec::containers;

    fn of(annotations: &str, container: &str) -> Behaviour {
        let text = format!(
            r#"{{"metadata":{{"annotations":{{{annotations}}}}},"spec":{{"containers":[{{"name":"a","image":"web"{container}}}]}}}}"#
        );
        let pod = json::parse(text.as_bytes()).unwrap();
        behaviour(Settings::of(&pod), containers(&pod)[0])
    }

    #[test]
    fn annotations_say_how_a_container_behaves() {
        let plain = of("", "");
        assert_eq!((plain.ending, plain.ready_after, plain.stop_code), (None, Some(Duration::ZERO), 0));
        let ending = |annotations: &str| {
            of(annotations, "").ending.map(|(after, code, reason)| (after.as_secs(), code, reason.to_string()))
        };
        let table = [
            (r#""sim.rkube.io/run-for":"5s""#, (5, 0, "Completed")),
            (r#""sim.rkube.io/run-for":"5","sim.rkube.io/exit-code":"3""#, (5, 3, "Error")),
            (r#""a.sim.rkube.io/exit-code":"3","sim.rkube.io/exit-code":"4""#, (0, 3, "Error")),
            (r#""sim.rkube.io/fault":"crash-loop""#, (1, 1, "Error")),
            (r#""sim.rkube.io/fault":"oom","sim.rkube.io/run-for":"2m""#, (120, 137, "OOMKilled")),
        ];
        for (annotations, (after, code, reason)) in table {
            assert_eq!(ending(annotations), Some((after, code, reason.to_owned())), "{annotations}");
        }
        assert_eq!(of(r#""sim.rkube.io/fault":"slow-start""#, "").start_delay, SLOW_START);
        assert!(!of(r#""sim.rkube.io/fault":"image-pull""#, "").can_be_pulled);
        assert_eq!(of(r#""sim.rkube.io/ready":"false""#, "").ready_after, None);
    }

    #[test]
    fn probes_delay() {
        let probes = r#","startupProbe":{"initialDelaySeconds":7},"readinessProbe":{"initialDelaySeconds":3,"periodSeconds":4,"successThreshold":2}"#;
        let behaviour = of("", probes);
        assert_eq!(behaviour.started_after.as_secs(), 7);
        assert_eq!(behaviour.ready_after.map(|after| after.as_secs()), Some(7));
        assert_eq!(of(r#""sim.rkube.io/ready-delay":"1s""#, probes).ready_after.map(|after| after.as_secs()), Some(1));
    }
}
