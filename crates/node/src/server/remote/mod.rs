//! Commands in containers, and the streams of what runs there: `exec` and `attach`.
//!
//! [`negotiate`] is how a request becomes streams, over a WebSocket or SPDY; [`session`] copies between them and the
//! runtime's; [`status`] is what the client is told at the end.

pub(super) mod client;
pub(super) mod negotiate;
mod session;
mod status;

use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use rkube_runtime::api::{ExecRequest, Runtime};

use super::answer::{self, Answer};
use super::connections::Seat;
use super::find;
use super::handlers::{Server, container_spec};
use super::query::Query;
use super::routes::Target;
use client::Client;
use negotiate::Agreed;
use status::Outcome;

pub(super) async fn exec(server: Arc<Server>, request: Request<Incoming>, target: Target, seat: Arc<Seat>) -> Answer {
    let mut wanted = match wanted(&request) {
        Ok(wanted) => wanted,
        Err(why) => return answer::text(StatusCode::BAD_REQUEST, why),
    };
    let query = Query::parse(request.uri().query().unwrap_or_default());
    wanted.command = query.all("command").map(str::to_owned).collect();
    if server.config.pods.pod(&target.namespace, &target.pod).is_none() {
        return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
    }
    let container = match find::container(&*server.config.runtime, &*server.config.pods, &target).await {
        Ok(Some(container)) => container.id,
        Ok(None) => return failed(format!("container not found ({:?})", target.container)),
        Err(error) => return failed(error.to_string()),
    };
    let work = Work { container, request: wanted.clone(), kind: Kind::Exec };
    upgrade(server, request, seat, wanted, work)
}

pub(super) async fn attach(server: Arc<Server>, request: Request<Incoming>, target: Target, seat: Arc<Seat>) -> Answer {
    let wanted = match wanted(&request) {
        Ok(wanted) => wanted,
        Err(why) => return answer::text(StatusCode::BAD_REQUEST, why),
    };
    let Some(pod) = server.config.pods.pod(&target.namespace, &target.pod) else {
        return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    let full_name = format!("{}_{}", target.pod, target.namespace);
    let missing = || failed(format!("container {} not found in pod {full_name}", target.container));
    let container = match find::container(&*server.config.runtime, &*server.config.pods, &target).await {
        Ok(Some(container)) => container.id,
        Ok(None) => return missing(),
        Err(error) => return failed(error.to_string()),
    };
    // Whether there is a terminal was settled when the container was made.
    let Some(spec) = container_spec(&pod, &target.container) else { return missing() };
    let tty = spec.bool("tty");
    let asked = ExecRequest { tty, stderr: wanted.stderr && !tty, ..wanted.clone() };
    upgrade(server, request, seat, wanted, Work { container, request: asked, kind: Kind::Attach })
}

/// What is done on the streams.
struct Work {
    container: String,
    request: ExecRequest,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exec,
    Attach,
}

impl Work {
    /// What the client is to be told; None: it is gone.
    async fn run(self, runtime: &dyn Runtime, client: &mut Client) -> Option<Outcome> {
        let Work { container, request, kind } = self;
        let command = request.command.clone();
        let session = match kind {
            Kind::Exec => runtime.exec(&container, request).await,
            Kind::Attach => runtime.attach(&container, request).await,
        };
        let exit = match session {
            Ok(session) => session::run(session, client).await?,
            Err(error) => Err(error),
        };
        Some(match (kind, exit) {
            (Kind::Exec, Ok(code)) => Outcome::exited(&command, code),
            (Kind::Exec, Err(error)) => Outcome::exec_failed(&error),
            (Kind::Attach, Ok(_)) => Outcome::Success,
            (Kind::Attach, Err(error)) => Outcome::attach_failed(&error),
        })
    }
}

/// Leaves HTTP, and works on the streams that the client wanted.
fn upgrade(
    server: Arc<Server>,
    mut request: Request<Incoming>,
    seat: Arc<Seat>,
    wanted: ExecRequest,
    work: Work,
) -> Answer {
    let Agreed { head, protocol } = match negotiate::remote_command(request.method(), request.headers()) {
        Ok(agreed) => agreed,
        Err(refusal) => return *refusal,
    };
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _seat = seat;
        let serving = async {
            let Ok(upgraded) = upgrading.await else { return };
            let Some(mut client) = Client::open(upgraded, protocol, &wanted).await else { return };
            if let Some(outcome) = work.run(&*server.config.runtime, &mut client).await {
                client.end(&outcome.text(protocol.status_form())).await;
            }
        };
        tokio::select! {
            () = serving => {}
            () = server.stopped() => {}
        }
    });
    answer::switching(head)
}

fn failed(why: String) -> Answer {
    answer::text(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// Which streams a request asks for.
fn wanted(request: &Request<Incoming>) -> Result<ExecRequest, &'static str> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let is_set = |name: &str| query.get(name) == Some("1");
    let tty = is_set("tty");
    let wanted = ExecRequest {
        stdin: is_set("input"),
        stdout: is_set("output"),
        // A terminal has one stream for both.
        stderr: is_set("error") && !tty,
        tty,
        command: Vec::new(),
    };
    match wanted.stdin || wanted.stdout || wanted.stderr {
        true => Ok(wanted),
        false => Err("you must specify at least 1 of stdin, stdout, stderr"),
    }
}
