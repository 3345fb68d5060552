//! What a probe looks at, once.

use std::time::Duration;

use rkube_machinery::{Value, time};
use rkube_runtime::api::Error;
use tokio::net::TcpStream;

use super::super::http_get::{self, Get, port_of};
use super::super::prepare::expansion;
use super::{Task, grpc};

/// Who asks.
pub const AGENT: &str = "kube-probe/1.36";
/// So much of what a command says is told.
const OUTPUT_MAX: usize = 10 * 1024;

pub enum Outcome {
    Success,
    Warning(String),
    Failure(String),
    /// It could not be looked at.
    Unknown(String),
}

pub async fn check(task: &Task, spec: &Value) -> Outcome {
    let seconds = u64::try_from(spec.int("timeoutSeconds")).unwrap_or(1).max(1);
    let timeout = Duration::from_secs(seconds);
    let (exec, get, tcp, grpc) = (spec.get("exec"), spec.get("httpGet"), spec.get("tcpSocket"), spec.get("grpc"));
    if !exec.is_null() {
        return run(task, exec, timeout).await;
    }
    if !get.is_null() {
        return match Get::of_action(get, &task.container, task.address, AGENT) {
            Ok(request) => ask(request, timeout).await,
            Err(error) => Outcome::Unknown(error),
        };
    }
    if !tcp.is_null() {
        let host = if tcp.str("host").is_empty() { address(task) } else { tcp.str("host").to_owned() };
        return match port_of(tcp.get("port"), &task.container) {
            Ok(port) => connect(&host, port, timeout).await,
            Err(error) => Outcome::Unknown(error),
        };
    }
    if !grpc.is_null() {
        let port = u16::try_from(grpc.int("port")).unwrap_or(0);
        return grpc::check(&address(task), port, grpc.str("service"), timeout).await;
    }
    Outcome::Unknown(format!(
        "missing probe handler for {}:{}",
        crate::pod::spec::display_name(&task.pod),
        task.container.str("name")
    ))
}

fn address(task: &Task) -> String {
    task.address.map(|address| address.to_string()).unwrap_or_default()
}

pub fn shown(timeout: Duration) -> String {
    time::format_duration(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX))
}

async fn run(task: &Task, exec: &Value, timeout: Duration) -> Outcome {
    let environment = task.container.list("env");
    let command = exec.list("command").iter().map(|part| expand(part.as_str(), environment)).collect::<Vec<_>>();
    let text = command.join(" ");
    match task.kubelet.runtime().exec_sync(&task.id, command, timeout).await {
        Ok(output) if output.exit_code == 0 => Outcome::Success,
        Ok(output) => {
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            let said = &said[..said.len().min(OUTPUT_MAX)];
            Outcome::Failure(String::from_utf8_lossy(said).into_owned())
        }
        Err(Error::TimedOut(_)) => {
            Outcome::Failure(format!("command timed out: {text:?} timed out after {}", shown(timeout)))
        }
        Err(error) => Outcome::Unknown(error.to_string()),
    }
}

/// Of variables with a plain value: a probe knows no others.
fn expand(text: &str, environment: &[Value]) -> String {
    expansion::expand(text, &|name| {
        let mut known = environment.iter().rev().filter(|variable| variable.has("value"));
        known.find(|variable| variable.str("name") == name).map(|variable| variable.str("value").to_owned())
    })
}

async fn ask(get: Get, timeout: Duration) -> Outcome {
    let scheme = if get.is_tls { "https" } else { "http" };
    let url = format!("Get \"{scheme}://{}{}\"", get.authority(), get.path);
    match tokio::time::timeout(timeout, http_get::send(get)).await {
        Err(_) => Outcome::Failure(format!(
            "{url}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )),
        Ok(Err(error)) => Outcome::Failure(format!("{url}: {error}")),
        Ok(Ok(answer)) => match answer.code {
            200..=299 => Outcome::Success,
            300..=399 => Outcome::Warning(format!(
                "Probe terminated redirects, Response body: {}",
                String::from_utf8_lossy(&answer.body)
            )),
            code => Outcome::Failure(format!("HTTP probe failed with statuscode: {code}")),
        },
    }
}

async fn connect(host: &str, port: u16, timeout: Duration) -> Outcome {
    let shown = http_get::join(host, port);
    match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Err(_) => Outcome::Failure(format!("dial tcp {shown}: i/o timeout")),
        Ok(Err(error)) => Outcome::Failure(format!("dial tcp {shown}: {}", http_get::io_text(&error))),
        Ok(Ok(_)) => Outcome::Success,
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn variables_stand_in_commands() {
        let environment = json::parse(br#"[{"name":"A","value":"1"},{"name":"B","valueFrom":{}}]"#).unwrap();
        for (text, expected) in
            [("x$(A)y", "x1y"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A", "$A"), ("$(", "$("), ("$", "$")]
        {
            assert_eq!(expand(text, environment.items()), expected, "{text}");
        }
    }
}
