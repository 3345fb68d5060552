//! What a path asks for.

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

/// A container, or with an empty name a pod. The uid may be empty, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// With the name of the one check that is asked for, if any.
    Health(Option<String>),
    Pods,
    RunningPods,
    Configuration,
    Summary,
    Metrics,
    ContainerMetrics,
    ResourceMetrics,
    ProbeMetrics,
    Logs(Target),
    Run(Target),
    Exec(Target),
    Attach(Target),
    PortForward(Target),
    /// Not served here, with the words that upstream has for that.
    Disabled(&'static str),
}

/// The code of the answer where there is nothing.
pub fn parse(method: &Method, path: &str) -> Result<Route, StatusCode> {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (route, methods): (Route, &[Method]) = match segments[..] {
        ["healthz"] => (Route::Health(None), READS),
        ["healthz", check] => (Route::Health(Some(check.to_owned())), READS),
        ["pods"] => (Route::Pods, READ),
        ["runningpods"] => (Route::RunningPods, READ),
        ["configz"] => (Route::Configuration, READS),
        ["stats", "summary"] => (Route::Summary, READ),
        ["metrics"] => (Route::Metrics, READS),
        ["metrics", "cadvisor"] => (Route::ContainerMetrics, READS),
        ["metrics", "resource"] => (Route::ResourceMetrics, READS),
        ["metrics", "probes"] => (Route::ProbeMetrics, READS),
        ["containerLogs", namespace, pod, container] => (Route::Logs(target(namespace, pod, "", container)), READ),
        ["portForward", namespace, pod] => (Route::PortForward(target(namespace, pod, "", "")), BOTH),
        ["portForward", namespace, pod, uid] => (Route::PortForward(target(namespace, pod, uid, "")), BOTH),
        [what @ ("exec" | "attach" | "run"), namespace, pod, ref rest @ ..] => {
            let target = match rest {
                [container] => target(namespace, pod, "", container),
                [uid, container] => target(namespace, pod, uid, container),
                _ => return Err(StatusCode::NOT_FOUND),
            };
            match what {
                "exec" => (Route::Exec(target), BOTH),
                "attach" => (Route::Attach(target), BOTH),
                _ => (Route::Run(target), &[Method::POST]),
            }
        }
        ["logs", ..] => return Ok(Route::Disabled("logs endpoint is disabled.")),
        ["debug", "pprof", ..] => return Ok(Route::Disabled("profiling endpoint is disabled.")),
        ["debug", "flags", "v"] => return Ok(Route::Disabled("flags endpoint is disabled.")),
        _ => return Err(StatusCode::NOT_FOUND),
    };
    match methods.contains(method) {
        true => Ok(route),
        false => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

const READ: &[Method] = &[Method::GET];
const READS: &[Method] = &[Method::GET, Method::HEAD];
const BOTH: &[Method] = &[Method::GET, Method::POST];

fn target(namespace: &str, pod: &str, uid: &str, container: &str) -> Target {
    Target {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        container: container.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let get = |path: &str| parse(&Method::GET, path);
        assert_eq!(get("/healthz"), Ok(Route::Health(None)));
        assert_eq!(get("/healthz/syncloop"), Ok(Route::Health(Some("syncloop".into()))));
        assert_eq!(get("/runningpods/"), Ok(Route::RunningPods));
        assert_eq!(get("/exec/a/b/c"), Ok(Route::Exec(target("a", "b", "", "c"))));
        assert_eq!(get("/attach/a/b/u/c"), Ok(Route::Attach(target("a", "b", "u", "c"))));
        assert_eq!(get("/portForward/a/b"), Ok(Route::PortForward(target("a", "b", "", ""))));
        assert_eq!(get("/containerLogs/a/b%2Dc/d"), Ok(Route::Logs(target("a", "b-c", "", "d"))));
        assert_eq!(get("/exec/a/b"), Err(StatusCode::NOT_FOUND));
        assert_eq!(get("/checkpoint/a/b/c"), Err(StatusCode::NOT_FOUND));
        assert_eq!(get("/run/a/b/c"), Err(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(parse(&Method::POST, "/run/a/b/c"), Ok(Route::Run(target("a", "b", "", "c"))));
        assert_eq!(parse(&Method::POST, "/pods"), Err(StatusCode::METHOD_NOT_ALLOWED));
    }
}
