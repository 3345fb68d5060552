//! Whose log is meant: the container of a pod's status, or why there is none to be read.

use rkube_machinery::Value;

/// The id of the container whose log is to be shown, as the status has it: with the runtime's name before it.
pub fn container_id<'a>(pod: &'a Value, container: &str, previous: bool) -> Result<&'a str, String> {
    let name = pod.get("metadata").str("name");
    let status = pod.get("status");
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let found = lists.iter().flat_map(|list| status.list(list)).find(|status| status.str("name") == container);
    let Some(found) = found else { return Err(format!("container {container:?} in pod {name:?} is not available")) };
    let (state, last) = (found.get("state"), found.get("lastState").get("terminated"));
    let is_terminated = || format!("container {container:?} in pod {name:?} is terminated");
    let or = |id: &'a str, why: String| if id.is_empty() { Err(why) } else { Ok(id) };
    if previous {
        let why = format!("previous terminated container {container:?} in pod {name:?} not found");
        return or(last.str("containerID"), why);
    }
    if state.has("running") {
        return Ok(found.str("containerID"));
    }
    if state.has("terminated") {
        // Where the next one could not be made, it is the last one that ran.
        return match state.get("terminated").str("containerID") {
            "" => or(last.str("containerID"), is_terminated()),
            id => Ok(id),
        };
    }
    if !last.is_null() {
        return or(last.str("containerID"), is_terminated());
    }
    if !state.has("waiting") {
        return Err(format!("container {container:?} in pod {name:?} is waiting to start - no logs yet"));
    }
    let why = match state.get("waiting").str("reason") {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    Err(format!("container {container:?} in pod {name:?} is waiting to start: {why}"))
}

/// The runtime's own name for it.
pub fn runtime_id(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn of(status: &str, previous: bool) -> Result<String, String> {
        let text = format!(r#"{{"metadata":{{"name":"p"}},"status":{{"containerStatuses":[{status}]}}}}"#);
        let pod = json::parse(text.as_bytes()).unwrap();
        container_id(&pod, "c", previous).map(|id| runtime_id(id).to_owned())
    }

    #[test]
    fn the_container_that_has_a_log() {
        let ids: [(&str, bool, &str); 5] = [
            (r#"{"name":"c","containerID":"rkube://now","state":{"running":{}}}"#, false, "now"),
            (r#"{"name":"c","state":{"terminated":{"containerID":"rkube://done"}}}"#, false, "done"),
            (
                r#"{"name":"c","state":{"terminated":{}},"lastState":{"terminated":{"containerID":"x://a"}}}"#,
                false,
                "a",
            ),
            (r#"{"name":"c","state":{"waiting":{}},"lastState":{"terminated":{"containerID":"x://b"}}}"#, false, "b"),
            (r#"{"name":"c","state":{"running":{}},"lastState":{"terminated":{"containerID":"x://c"}}}"#, true, "c"),
        ];
        for (status, previous, id) in ids {
            assert_eq!(of(status, previous), Ok(id.to_owned()), "{status}");
        }
    }

    #[test]
    fn why_there_is_none() {
        let reasons: [(&str, bool, &str); 7] = [
            (r#"{"name":"other"}"#, false, r#"container "c" in pod "p" is not available"#),
            (
                r#"{"name":"c","state":{"running":{}}}"#,
                true,
                r#"previous terminated container "c" in pod "p" not found"#,
            ),
            (r#"{"name":"c","state":{"terminated":{}}}"#, false, r#"container "c" in pod "p" is terminated"#),
            (r#"{"name":"c","state":{}}"#, false, r#"container "c" in pod "p" is waiting to start - no logs yet"#),
            (
                r#"{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}"#,
                false,
                r#"container "c" in pod "p" is waiting to start: ContainerCreating"#,
            ),
            (
                r#"{"name":"c","state":{"waiting":{"reason":"ErrImagePull"}}}"#,
                false,
                r#"container "c" in pod "p" is waiting to start: image can't be pulled"#,
            ),
            (
                r#"{"name":"c","state":{"waiting":{"reason":"ImagePullBackOff"}}}"#,
                false,
                r#"container "c" in pod "p" is waiting to start: trying and failing to pull image"#,
            ),
        ];
        for (status, previous, why) in reasons {
            assert_eq!(of(status, previous), Err(why.to_owned()));
        }
    }
}
