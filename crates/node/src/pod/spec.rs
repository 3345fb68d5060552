//! A pod's spec as a node reads it: its containers by the part that they play.

use rkube_machinery::{Text, Value};

/// The part that a container plays in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on running: the next one starts when it has started.
    Sidecar,
    Main,
    /// Added while the pod runs; never restarted.
    Ephemeral,
}

#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    pub role: Role,
    pub value: &'a Value,
}

impl<'a> Container<'a> {
    pub fn name(&self) -> &'a str {
        self.value.str("name")
    }

    pub fn image(&self) -> &'a str {
        self.value.str("image")
    }

    /// Where events say that it stands.
    pub fn field_path(&self) -> String {
        let list = match self.role {
            Role::Init | Role::Sidecar => "initContainers",
            Role::Main => "containers",
            Role::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{}}}", self.name())
    }
}

/// A pod's containers: init containers and sidecars in their order, then the others.
pub fn containers(pod: &Value) -> Vec<Container<'_>> {
    let spec = pod.get("spec");
    let init = spec.list("initContainers").iter().map(|value| {
        let role = if value.str("restartPolicy") == "Always" { Role::Sidecar } else { Role::Init };
        Container { role, value }
    });
    let main = spec.list("containers").iter().map(|value| Container { role: Role::Main, value });
    let ephemeral = spec.list("ephemeralContainers").iter().map(|value| Container { role: Role::Ephemeral, value });
    init.chain(main).chain(ephemeral).collect()
}

/// Whether a container that ended with this code is to be started again: its own rules and policy come before the pod's.
pub fn should_restart(pod: &Value, container: Container<'_>, exit_code: i64) -> bool {
    if container.role == Role::Ephemeral {
        return false;
    }
    let own = container.value.str("restartPolicy");
    if !own.is_empty() && restart_rule_matches(container.value, exit_code) {
        return true;
    }
    let policy = if own.is_empty() { pod.get("spec").str("restartPolicy") } else { own };
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// Whether this exit has all containers of the pod begin anew.
pub fn restarts_all(container: &Value, exit_code: i64) -> bool {
    let rules = container.list("restartPolicyRules").iter();
    let first = rules.clone().find(|rule| rule_matches(rule, exit_code));
    first.is_some_and(|rule| rule.str("action") == "RestartAllContainers")
}

/// Both actions that there are restart the container.
fn restart_rule_matches(container: &Value, exit_code: i64) -> bool {
    container.list("restartPolicyRules").iter().any(|rule| rule_matches(rule, exit_code))
}

fn rule_matches(rule: &Value, exit_code: i64) -> bool {
    let codes = rule.get("exitCodes");
    let listed = codes.list("values").iter().any(|value| value.as_int() == Some(exit_code));
    match codes.str("operator") {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// The pod, as messages name it.
pub fn display_name(pod: &Value) -> String {
    let metadata = pod.get("metadata");
    format!("{}_{}({})", metadata.str("name"), metadata.str("namespace"), metadata.str("uid"))
}

/// How long the pod may take to end, of a deletion or by its own wish.
pub fn grace_seconds(pod: &Value) -> i64 {
    let given = pod.get("metadata").get("deletionGracePeriodSeconds").as_int();
    given.or_else(|| pod.get("spec").get("terminationGracePeriodSeconds").as_int()).unwrap_or(30)
}

pub fn is_deleted(pod: &Value) -> bool {
    pod.get("metadata").has("deletionTimestamp")
}

pub fn is_host_network(pod: &Value) -> bool {
    pod.get("spec").bool("hostNetwork")
}

/// Whether a pod in this phase will never run again.
pub fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

pub fn uid(pod: &Value) -> Text {
    pod.get("metadata").str("uid").into()
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn rules_and_policies_of_a_container_come_before_those_of_the_pod() {
        let rules = r#""restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]"#;
        let table = [
            ("Always", "", 0, true),
            ("OnFailure", "", 0, false),
            ("OnFailure", "", 1, true),
            ("Never", "", 1, false),
            ("Never", r#""restartPolicy":"Always""#, 0, true),
            ("Always", r#""restartPolicy":"Never""#, 1, false),
            ("Never", &format!(r#""restartPolicy":"Never",{rules}"#), 42, true),
            ("Always", &format!(r#""restartPolicy":"Never",{rules}"#), 1, false),
        ];
        for (policy, own, code, expected) in table {
            let own = if own.is_empty() { String::new() } else { format!(",{own}") };
            let text = format!(r#"{{"spec":{{"restartPolicy":"{policy}","containers":[{{"name":"a"{own}}}]}}}}"#);
            let pod = json::parse(text.as_bytes()).unwrap();
            assert_eq!(should_restart(&pod, containers(&pod)[0], code), expected, "{text} {code}");
        }
    }
}
