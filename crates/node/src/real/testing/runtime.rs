//! A container runtime whose containers do what a table says.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_runtime::api::{
    ContainerConfig, ContainerState, ContainerStatus, Credentials, Error, Event, ExecOutput, ExecRequest,
    ForwardedPort, Image, ImageFilesystem, Result, Runtime, SandboxConfig, SandboxState, SandboxStats, SandboxStatus,
    Session, Status, Version,
};
use tokio::sync::{mpsc, watch};

use super::VirtualClock;

/// What a container does. By its name; `name#2` is that of its third run.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// When it ends by itself, and with which code.
    pub ends: Option<(Duration, i32)>,
    /// How long it takes to stop when it is asked to; None: it does not hear of it.
    pub stops_after: Option<Duration>,
    pub start_error: Option<String>,
    /// What commands end with, one after the other; the last one for ever.
    pub execs: Vec<i32>,
    /// How long they take.
    pub exec_takes: Duration,
}

struct Held {
    status: ContainerStatus,
    behaviour: Behaviour,
    execs: usize,
    ended: watch::Sender<bool>,
}

pub struct FakeRuntime {
    clock: Arc<VirtualClock>,
    own: Weak<FakeRuntime>,
    behaviours: Mutex<HashMap<String, Behaviour>>,
    sandboxes: Mutex<BTreeMap<String, SandboxStatus>>,
    containers: Mutex<BTreeMap<String, Held>>,
    number: Mutex<usize>,
    watchers: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    pub images: Mutex<Vec<Image>>,
    /// Why images cannot be pulled.
    pub pull_problem: Mutex<Option<String>>,
    pub pull_takes: Mutex<Duration>,
    pub sandbox_problem: Mutex<Option<String>>,
    /// What was asked for, as `start a#0`.
    pub calls: Mutex<Vec<String>>,
}

impl FakeRuntime {
    pub fn new(clock: Arc<VirtualClock>) -> Arc<FakeRuntime> {
        Arc::new_cyclic(|own| FakeRuntime {
            clock,
            own: own.clone(),
            behaviours: Mutex::default(),
            sandboxes: Mutex::default(),
            containers: Mutex::default(),
            number: Mutex::default(),
            watchers: Mutex::default(),
            images: Mutex::default(),
            pull_problem: Mutex::default(),
            pull_takes: Mutex::default(),
            sandbox_problem: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    pub fn behave(&self, container: &str, behaviour: Behaviour) {
        self.behaviours.lock().insert(container.to_owned(), behaviour);
    }

    pub fn running(&self) -> Vec<String> {
        let all = self.containers.lock();
        let running = all.values().filter(|held| held.status.state == ContainerState::Running);
        running.map(|held| format!("{}#{}", held.status.name, held.status.attempt)).collect()
    }

    pub fn called(&self, prefix: &str) -> Vec<String> {
        self.calls.lock().iter().filter(|call| call.starts_with(prefix)).cloned().collect()
    }

    pub fn sandbox_ids(&self) -> Vec<String> {
        self.sandboxes.lock().keys().cloned().collect()
    }

    /// A sandbox dies, as when somebody kills its process.
    pub fn lose_sandbox(&self, id: &str) {
        self.sandboxes.lock().get_mut(id).unwrap().state = SandboxState::NotReady;
        self.end_all_in(id);
        self.tell(Event::SandboxLost { sandbox: id.to_owned() });
    }

    /// Somebody was too slow to hear of something.
    pub fn miss(&self) {
        self.tell(Event::Missed);
    }

    /// Ends a container from outside.
    pub fn end(&self, id: &str, code: i32) {
        let now = self.clock.now_micros();
        let mut all = self.containers.lock();
        let Some(held) = all.get_mut(id).filter(|held| held.status.state == ContainerState::Running) else { return };
        held.status.state = ContainerState::Exited;
        held.status.exit_code = code;
        held.status.reason = if code == 0 { "Completed" } else { "Error" }.to_owned();
        held.status.finished_micros = now;
        held.ended.send_replace(true);
        let event = Event::Stopped { sandbox: held.status.sandbox.clone(), container: id.to_owned() };
        drop(all);
        self.tell(event);
    }

    fn end_all_in(&self, sandbox: &str) {
        let ids: Vec<String> = {
            let all = self.containers.lock();
            all.iter().filter(|(_, held)| held.status.sandbox == sandbox).map(|(id, _)| id.clone()).collect()
        };
        ids.iter().for_each(|id| self.end(id, 137));
    }

    fn tell(&self, event: Event) {
        self.watchers.lock().retain(|sender| sender.send(event.clone()).is_ok());
    }

    fn call(&self, text: String) {
        self.calls.lock().push(text);
    }

    fn next_id(&self, prefix: &str) -> String {
        let mut number = self.number.lock();
        *number += 1;
        format!("{prefix}{number}")
    }

    fn shown(&self, id: &str) -> String {
        let all = self.containers.lock();
        all.get(id).map_or_else(|| id.to_owned(), |held| format!("{}#{}", held.status.name, held.status.attempt))
    }
}

fn unused<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T>> {
    std::future::ready(Err(Error::Unsupported("not in tests".to_owned()))).boxed()
}

fn answer<'a, T: Send + 'a>(result: Result<T>) -> BoxFuture<'a, Result<T>> {
    std::future::ready(result).boxed()
}

impl Runtime for FakeRuntime {
    fn version(&self) -> Version {
        Version { name: "fake".to_owned(), version: "1".to_owned() }
    }

    fn status(&self) -> BoxFuture<'_, Result<Status>> {
        answer(Ok(Status::default()))
    }

    fn run_sandbox(&self, config: SandboxConfig) -> BoxFuture<'_, Result<String>> {
        if let Some(problem) = self.sandbox_problem.lock().clone() {
            return answer(Err(Error::Internal(problem)));
        }
        let id = self.next_id("s");
        self.call(format!("sandbox {}#{}", config.pod_name, config.attempt));
        let last = u8::try_from(self.sandboxes.lock().len() + 2).unwrap();
        let status = SandboxStatus {
            id: id.clone(),
            config,
            state: SandboxState::Ready,
            created_micros: self.clock.now_micros(),
            addresses: vec![Ipv4Addr::new(10, 0, 0, last).into()],
        };
        self.sandboxes.lock().insert(id.clone(), status);
        answer(Ok(id))
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.call(format!("stop-sandbox {id}"));
        self.end_all_in(id);
        if let Some(sandbox) = self.sandboxes.lock().get_mut(id) {
            sandbox.state = SandboxState::NotReady;
        }
        answer(Ok(()))
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.call(format!("remove-sandbox {id}"));
        self.end_all_in(id);
        self.containers.lock().retain(|_, held| held.status.sandbox != id);
        self.sandboxes.lock().remove(id);
        answer(Ok(()))
    }

    fn sandboxes(&self) -> BoxFuture<'_, Result<Vec<SandboxStatus>>> {
        answer(Ok(self.sandboxes.lock().values().cloned().collect()))
    }

    fn create_container<'a>(&'a self, sandbox: &'a str, config: ContainerConfig) -> BoxFuture<'a, Result<String>> {
        let id = self.next_id("c");
        let behaviours = self.behaviours.lock();
        let numbered = behaviours.get(&format!("{}#{}", config.name, config.attempt));
        let behaviour = numbered.or_else(|| behaviours.get(&config.name)).cloned().unwrap_or(Behaviour {
            stops_after: Some(Duration::ZERO),
            execs: vec![0],
            ..Behaviour::default()
        });
        let status = ContainerStatus {
            id: id.clone(),
            sandbox: sandbox.to_owned(),
            name: config.name,
            attempt: config.attempt,
            state: ContainerState::Created,
            created_micros: self.clock.now_micros(),
            started_micros: 0,
            finished_micros: 0,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image_ref: format!("{}@sha256:0", config.image),
            image: config.image,
            labels: config.labels,
            annotations: config.annotations,
            log_path: config.log_path,
            mounts: config.mounts,
            tty: false,
            stdin: false,
            user: Some((1000, 1000, vec![1000])),
            pid: None,
        };
        self.containers.lock().insert(id.clone(), Held { status, behaviour, execs: 0, ended: watch::channel(false).0 });
        answer(Ok(id))
    }

    fn start_container<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.call(format!("start {}", self.shown(id)));
        let now = self.clock.now_micros();
        let mut all = self.containers.lock();
        let Some(held) = all.get_mut(id) else { return answer(Err(Error::NotFound(id.to_owned()))) };
        if let Some(error) = held.behaviour.start_error.clone() {
            held.status.state = ContainerState::Exited;
            (held.status.exit_code, held.status.finished_micros) = (128, now);
            (held.status.reason, held.status.message) = ("StartError".to_owned(), error.clone());
            return answer(Err(Error::StartFailed(error)));
        }
        held.status.state = ContainerState::Running;
        held.status.started_micros = now;
        let event = Event::Started { sandbox: held.status.sandbox.clone(), container: id.to_owned() };
        let ends = held.behaviour.ends;
        drop(all);
        self.tell(event);
        if let (Some((after, code)), Some(runtime)) = (ends, self.own.upgrade()) {
            let id = id.to_owned();
            if after.is_zero() {
                runtime.end(&id, code);
            } else {
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    runtime.end(&id, code);
                });
            }
        }
        answer(Ok(()))
    }

    fn stop_container<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<()>> {
        self.call(format!("stop {} {}s", self.shown(id), grace.as_secs()));
        async move {
            let (takes, mut ended) = {
                let all = self.containers.lock();
                let Some(held) = all.get(id) else { return Ok(()) };
                (held.behaviour.stops_after, held.ended.subscribe())
            };
            let (takes, code) = match takes {
                Some(takes) if takes <= grace => (takes, 0),
                _ => (grace, 137),
            };
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => {}
                () = tokio::time::sleep(takes) => self.end(id, code),
            }
            Ok(())
        }
        .boxed()
    }

    fn remove_container<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.call(format!("remove {}", self.shown(id)));
        self.end(id, 137);
        self.containers.lock().remove(id);
        answer(Ok(()))
    }

    fn containers(&self) -> BoxFuture<'_, Result<Vec<ContainerStatus>>> {
        answer(Ok(self.containers.lock().values().map(|held| held.status.clone()).collect()))
    }

    fn container<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ContainerStatus>> {
        let found = self.containers.lock().get(id).map(|held| held.status.clone());
        answer(found.ok_or_else(|| Error::NotFound(id.to_owned())))
    }

    fn events(&self) -> BoxStream<'static, Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.lock().push(sender);
        futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
            .boxed()
    }

    fn exec_sync<'a>(
        &'a self,
        id: &'a str,
        command: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<ExecOutput>> {
        self.call(format!("exec {} {}", self.shown(id), command.join(" ")));
        async move {
            let (code, takes) = {
                let mut all = self.containers.lock();
                let Some(held) = all.get_mut(id) else { return Err(Error::NotFound(id.to_owned())) };
                let code = held.behaviour.execs.get(held.execs).or(held.behaviour.execs.last()).copied().unwrap_or(0);
                held.execs += 1;
                (code, held.behaviour.exec_takes)
            };
            tokio::time::sleep(takes.min(timeout)).await;
            if takes > timeout {
                return Err(Error::TimedOut("it took too long".to_owned()));
            }
            Ok(ExecOutput { exit_code: code, stdout: "said".into(), ..ExecOutput::default() })
        }
        .boxed()
    }

    fn exec<'a>(&'a self, _: &'a str, _: ExecRequest) -> BoxFuture<'a, Result<Session>> {
        unused()
    }

    fn attach<'a>(&'a self, _: &'a str, _: ExecRequest) -> BoxFuture<'a, Result<Session>> {
        unused()
    }

    fn port_forward<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, Result<ForwardedPort>> {
        unused()
    }

    fn sandbox_stats(&self) -> BoxFuture<'_, Result<Vec<SandboxStats>>> {
        unused()
    }

    fn pull_image<'a>(&'a self, reference: &'a str, _: Option<Credentials>) -> BoxFuture<'a, Result<Image>> {
        self.call(format!("pull {reference}"));
        async move {
            let takes = *self.pull_takes.lock();
            tokio::time::sleep(takes).await;
            if let Some(problem) = self.pull_problem.lock().clone() {
                return Err(Error::PullFailed(problem));
            }
            let image = Image {
                id: format!("sha256:{reference}"),
                tags: vec![reference.to_owned()],
                size_bytes: 7,
                ..Image::default()
            };
            self.images.lock().push(image.clone());
            Ok(image)
        }
        .boxed()
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Option<Image>>> {
        let images = self.images.lock();
        answer(Ok(images.iter().find(|image| image.tags.iter().any(|tag| tag == reference)).cloned()))
    }

    fn images(&self) -> BoxFuture<'_, Result<Vec<Image>>> {
        answer(Ok(self.images.lock().clone()))
    }

    fn remove_image<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.call(format!("remove-image {id}"));
        self.images.lock().retain(|image| image.id != id);
        answer(Ok(()))
    }

    fn image_filesystem(&self) -> BoxFuture<'_, Result<ImageFilesystem>> {
        answer(Ok(ImageFilesystem {
            capacity_bytes: 100 << 30,
            available_bytes: 50 << 30,
            ..ImageFilesystem::default()
        }))
    }
}
