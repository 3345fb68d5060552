//! What runs when a container has started, and before it is stopped.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::Value;

use super::http_get::{self, Get};
use super::kubelet::Kubelet;
use crate::pod::spec;

/// No hook takes longer, however much time a pod has.
const HOOK_MAX: Duration = Duration::from_secs(60 * 60);
/// Who asks.
const AGENT: &str = "kube-lifecycle/1.36";

pub struct Hook {
    pub kubelet: Arc<Kubelet>,
    pub pod: Arc<Value>,
    pub handler: Value,
    pub container: Value,
    /// The pod's.
    pub address: Option<IpAddr>,
    pub id: String,
}

impl Hook {
    /// What went wrong, as the container's status shows it.
    pub async fn run(&self) -> Result<(), String> {
        let (name, pod) = (self.container.str("name"), spec::display_name(&self.pod));
        let of = format!("for Container \"{name}\" in Pod \"{pod}\" failed - error:");
        let (exec, get, sleep) = (self.handler.get("exec"), self.handler.get("httpGet"), self.handler.get("sleep"));
        if !exec.is_null() {
            let command: Vec<String> = exec.list("command").iter().map(|part| part.as_str().to_owned()).collect();
            let shown = format!("[{}]", command.join(" "));
            let output = self.kubelet.runtime().exec_sync(&self.id, command, HOOK_MAX).await;
            let (error, said) = match output {
                Ok(output) if output.exit_code == 0 => return Ok(()),
                Ok(output) => {
                    let said = [&output.stdout[..], &output.stderr[..]].concat();
                    let code = output.exit_code;
                    (format!("command '{}' exited with {code}: ", shown.trim_matches(['[', ']'])), said)
                }
                Err(error) => (error.to_string(), Vec::new()),
            };
            let said = String::from_utf8_lossy(&said);
            return Err(format!("Exec lifecycle hook ({shown}) {of} {error}{said}, message: {said:?}"));
        }
        if !get.is_null() {
            let request = Get::of_action(get, &self.container, self.address, AGENT);
            let request = request.map_err(|error| format!("HTTP lifecycle hook ({}) {of} {error}", get.str("path")))?;
            let answer = tokio::time::timeout(HOOK_MAX, http_get::send_either(request)).await;
            let answer = answer.unwrap_or_else(|_| Err("timed out".to_owned()));
            return answer
                .map(|_| ())
                .map_err(|error| format!("HTTP lifecycle hook ({}) {of} {error}", get.str("path")));
        }
        if !sleep.is_null() {
            let seconds = u64::try_from(sleep.int("seconds")).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds).min(HOOK_MAX)).await;
            return Ok(());
        }
        // `tcpSocket` is there for old objects, and does nothing elsewhere either.
        Err("Cannot run handler: invalid handler".to_owned())
    }
}
