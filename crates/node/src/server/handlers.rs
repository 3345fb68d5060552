//! From a request to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rkube_machinery::{Value, json, object};
use rkube_runtime::api::SandboxState;
use rkube_streaming::websocket::channels::Codec;
use rkube_streaming::websocket::{handshake, messages};
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;

use super::access::{User, attributes};
use super::answer::{self, Answer};
use super::connections::Seat;
use super::logs::{self, LogOptions, which};
use super::query::Query;
use super::routes::{self, Route, Target};
use super::stats::{self, Figures};
use super::{Config, find, forward, remote};

/// How long `/run` may take: it has no streams by which its client could be seen to be gone.
const RUN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

pub(super) struct Server {
    pub(super) config: Config,
    figures: Figures,
    stop: watch::Receiver<bool>,
}

impl Server {
    pub(super) fn new(config: Config, stop: watch::Receiver<bool>) -> Server {
        let figures = Figures::new(config.runtime.clone(), config.clock.clone());
        Server { config, figures, stop }
    }

    /// Comes back when sessions are to end.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    pub(super) fn user_of(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<User>> {
        match chain {
            [] => None,
            chain => self.config.access.certificate(chain),
        }
    }

    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        user: Option<Arc<User>>,
        seat: &Arc<Seat>,
    ) -> Answer {
        if let Err(refusal) = self.admit(&request, user, seat).await {
            return refusal;
        }
        let route = match routes::parse(request.method(), request.uri().path()) {
            Ok(route) => route,
            Err(status) => {
                let reason = if status == StatusCode::NOT_FOUND { "Page Not Found" } else { "Method Not Allowed" };
                return answer::text(status, format!("{}: {reason}", status.as_u16()));
            }
        };
        match route {
            Route::Health(check) => self.health(check.as_deref()),
            Route::Pods => pod_list(self.config.pods.pods().into_iter().map(|pod| (*pod).clone())),
            Route::RunningPods => self.running_pods().await,
            Route::Configuration => {
                answer::json(json::to_string(&object! { "kubeletconfig": self.config.configuration.clone() }))
            }
            Route::Summary => self.summary(&request).await,
            Route::ResourceMetrics => metrics(stats::resource(self.figures.sample().await.ok().as_deref())),
            Route::ContainerMetrics => match self.figures.sample().await {
                Ok(sample) => metrics(stats::cadvisor(&sample)),
                Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            Route::Metrics => self.metrics().await,
            Route::ProbeMetrics => metrics(stats::probes()),
            Route::Logs(target) => self.logs(request, &target, seat).await,
            Route::Run(target) => self.run(&request, &target).await,
            Route::Exec(target) => remote::exec(self.clone(), request, target, seat.clone()).await,
            Route::Attach(target) => remote::attach(self.clone(), request, target, seat.clone()).await,
            Route::PortForward(target) => forward::serve(self.clone(), request, target, seat.clone()).await,
            Route::Disabled(why) => answer::line(StatusCode::METHOD_NOT_ALLOWED, why),
        }
    }

    /// Whether whoever asks may have an answer.
    async fn admit(&self, request: &Request<Incoming>, user: Option<Arc<User>>, seat: &Seat) -> Result<(), Answer> {
        let unauthorized = || answer::text(StatusCode::UNAUTHORIZED, "Unauthorized");
        let user = match (user, bearer(request.headers())) {
            (Some(user), _) => user,
            (None, None) => return Err(unauthorized()),
            (None, Some(token)) => match self.config.access.token(token).await {
                Ok(Some(user)) => user,
                Ok(None) => return Err(unauthorized()),
                Err(why) => {
                    tracing::warn!(why, "a token could not be reviewed");
                    return Err(unauthorized());
                }
            },
        };
        seat.known();
        let wanted = attributes::of(request.method(), request.uri().path());
        for attributes in &wanted {
            match self.config.access.allows(&user, attributes).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(why) => {
                    tracing::warn!(why, user = user.name, "access could not be reviewed");
                    let text = format!(
                        "Authorization error (user={}, verb={}, resource=nodes, subresource={})",
                        user.name, attributes.verb, attributes.subresource
                    );
                    return Err(answer::text(StatusCode::INTERNAL_SERVER_ERROR, text));
                }
            }
        }
        let subresources: Vec<&str> = wanted.iter().map(|attributes| attributes.subresource).collect();
        let text = format!(
            "Forbidden (user={}, verb={}, resource=nodes, subresource(s)=[{}])\n",
            user.name,
            wanted.first().map_or("", |attributes| attributes.verb),
            subresources.join(" ")
        );
        Err(answer::text(StatusCode::FORBIDDEN, text))
    }

    fn health(&self, check: Option<&str>) -> Answer {
        if check.is_some_and(|check| !["ping", "log", "syncloop"].contains(&check)) {
            return answer::text(StatusCode::NOT_FOUND, "404: Page Not Found");
        }
        match self.config.pods.problem() {
            Some(why) if check.is_none_or(|check| check == "syncloop") => {
                tracing::warn!(why, "the node is not healthy");
                let text = "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed";
                answer::line(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            _ => answer::text(StatusCode::OK, "ok"),
        }
    }

    /// What the runtime has, told as pods.
    async fn running_pods(&self) -> Answer {
        let containers = match self.config.runtime.containers().await {
            Ok(containers) => containers,
            Err(error) => return answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        let mut pods: std::collections::BTreeMap<[String; 3], Vec<Value>> = Default::default();
        for status in containers.iter().filter(|status| status.pid.is_some()) {
            let label = |name: &str| status.labels.get(name).cloned().unwrap_or_default();
            let key = [find::POD_NAMESPACE, find::POD_NAME, find::POD_UID].map(label);
            let container =
                object! { "name": status.name.as_str(), "image": status.image.as_str(), "resources": Value::object() };
            pods.entry(key).or_default().push(container);
        }
        pod_list(pods.into_iter().map(|([namespace, name, uid], containers)| {
            object! {
                "metadata": object! { "name": name, "namespace": namespace, "uid": uid },
                "spec": object! { "containers": containers },
                "status": Value::object(),
            }
        }))
    }

    async fn summary(&self, request: &Request<Incoming>) -> Answer {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let only_cpu_and_memory = query.get("only_cpu_and_memory") == Some("true");
        match self.figures.sample().await {
            Ok(sample) => answer::json(stats::summary(&sample, &self.config.node, only_cpu_and_memory)),
            Err(error) => {
                let text = format!("failed to list pod stats: {error}");
                answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }

    async fn metrics(&self) -> Answer {
        let containers = self.config.runtime.containers().await.unwrap_or_default();
        let sandboxes = self.config.runtime.sandboxes().await.unwrap_or_default();
        let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
        metrics(stats::kubelet(&self.config.node, ready, &containers))
    }

    async fn logs(self: &Arc<Self>, request: Request<Incoming>, target: &Target, seat: &Arc<Seat>) -> Answer {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let options = match LogOptions::parse(&query, self.config.clock.now_micros()) {
            Ok(options) => options,
            Err(refusal) => {
                let (status, text) = refusal.answer();
                return answer::text(status, text);
            }
        };
        let Some(pod) = self.config.pods.pod(&target.namespace, &target.pod) else {
            return answer::text(StatusCode::NOT_FOUND, format!("pod {:?} does not exist", target.pod));
        };
        if !has_container(&pod, &target.container) {
            let text = format!("container {:?} not found in pod {:?}", target.container, target.pod);
            return answer::text(StatusCode::NOT_FOUND, text);
        }
        let id = match which::container_id(&pod, &target.container, options.previous) {
            Ok(id) => id,
            Err(why) => return answer::text(StatusCode::BAD_REQUEST, why),
        };
        match self.config.runtime.container(which::runtime_id(id)).await {
            Ok(status) => {
                let path = find::log_path(&*self.config.runtime, &status).await;
                let pieces = logs::stream(self.config.runtime.clone(), status.id, path, options);
                match handshake::is_websocket(request.headers()) {
                    true => self.send_messages(request, pieces, seat.clone()),
                    false => answer::stream(pieces),
                }
            }
            // By then upstream has begun its answer.
            Err(_) => answer::text(StatusCode::OK, format!("unable to retrieve container logs for {id}")),
        }
    }

    /// A log over a WebSocket. The API server passes such requests on as they are.
    fn send_messages(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        pieces: Receiver<Bytes>,
        seat: Arc<Seat>,
    ) -> Answer {
        let (chosen, head) = match handshake::accept(request.method(), request.headers(), messages::PROTOCOLS) {
            Ok(accepted) => accepted,
            Err(why) => return *remote::negotiate::refused(&why),
        };
        let codec = if chosen.contains("base64") { Codec::Base64 } else { Codec::Binary };
        let upgrading = hyper::upgrade::on(&mut request);
        let server = self.clone();
        tokio::spawn(async move {
            let _seat = seat;
            let sending = async {
                let Ok(upgraded) = upgrading.await else { return };
                messages::send_all(TokioIo::new(upgraded), codec, pieces).await;
            };
            tokio::select! {
                () = sending => {}
                () = server.stopped() => {}
            }
        });
        answer::switching(head)
    }

    async fn run(&self, request: &Request<Incoming>, target: &Target) -> Answer {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        if self.config.pods.pod(&target.namespace, &target.pod).is_none() {
            return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
        }
        let failed = |why: String| answer::text(StatusCode::INTERNAL_SERVER_ERROR, why);
        let container = match find::container(&*self.config.runtime, &*self.config.pods, target).await {
            Ok(Some(container)) => container,
            Ok(None) => return failed(format!("container not found ({:?})", target.container)),
            Err(error) => return failed(error.to_string()),
        };
        let command = query.get("cmd").unwrap_or_default().split(' ').map(str::to_owned).collect();
        match self.config.runtime.exec_sync(&container.id, command, RUN_TIMEOUT).await {
            Ok(output) if output.exit_code == 0 => answer::json([output.stdout, output.stderr].concat()),
            Ok(output) => failed(format!("command terminated with exit code {}", output.exit_code)),
            Err(error) => failed(error.to_string()),
        }
    }
}

fn metrics(text: String) -> Answer {
    answer::with_type(StatusCode::OK, answer::PROMETHEUS, text)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn pod_list(pods: impl Iterator<Item = Value>) -> Answer {
    let list = object! {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "items": pods.collect::<Vec<Value>>(),
    };
    answer::json(json::to_string(&list))
}

/// The container of a pod by its name.
pub(super) fn container_spec<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let spec = pod.get("spec");
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    lists.iter().flat_map(|list| spec.list(list)).find(|container| container.str("name") == name)
}

fn has_container(pod: &Value, name: &str) -> bool {
    container_spec(pod, name).is_some()
}
