//! A runtime whose containers are the machine's own: commands run beside the test, ports are those of loopback.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use rkube_runtime::api::*;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::{broadcast, mpsc};

use crate::server::find;

type Answer<'a, T> = BoxFuture<'a, Result<T>>;

pub struct FakeRuntime {
    pub containers: Mutex<Vec<ContainerStatus>>,
    pub sandboxes: Mutex<Vec<SandboxStatus>>,
    pub stats: Mutex<Vec<SandboxStats>>,
    events: broadcast::Sender<Event>,
}

impl Default for FakeRuntime {
    fn default() -> Self {
        FakeRuntime {
            containers: Mutex::default(),
            sandboxes: Mutex::default(),
            stats: Mutex::default(),
            events: broadcast::channel(16).0,
        }
    }
}

impl FakeRuntime {
    /// A container that runs, in a pod of the namespace `default`.
    pub fn add(&self, pod: &str, name: &str, log_path: PathBuf) {
        let labels: BTreeMap<String, String> = [
            (find::POD_NAME, pod),
            (find::POD_NAMESPACE, "default"),
            (find::POD_UID, "uid-1"),
            (find::CONTAINER_NAME, name),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        self.containers.lock().push(ContainerStatus {
            id: format!("{pod}-{name}"),
            sandbox: pod.to_owned(),
            name: name.to_owned(),
            attempt: 0,
            state: ContainerState::Running,
            created_micros: 0,
            started_micros: 1,
            finished_micros: 0,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image: "image".to_owned(),
            image_ref: "image".to_owned(),
            labels,
            annotations: BTreeMap::new(),
            log_path,
            mounts: Vec::new(),
            tty: false,
            stdin: true,
            user: None,
            pid: Some(1),
        });
        let config = SandboxConfig {
            pod_name: pod.to_owned(),
            pod_namespace: "default".to_owned(),
            pod_uid: "uid-1".to_owned(),
            ..SandboxConfig::default()
        };
        let state = SandboxState::Ready;
        let status = SandboxStatus { id: pod.to_owned(), config, state, created_micros: 0, addresses: Vec::new() };
        self.sandboxes.lock().push(status);
    }

    pub fn stop(&self, id: &str) {
        let mut containers = self.containers.lock();
        let Some(status) = containers.iter_mut().find(|status| status.id == id) else { return };
        status.state = ContainerState::Exited;
        let _ = self.events.send(Event::Stopped { sandbox: status.sandbox.clone(), container: id.to_owned() });
    }
}

fn unsupported<'a, T: Send + 'a>() -> Answer<'a, T> {
    futures::future::ready(Err(Error::Unsupported("not here".to_owned()))).boxed()
}

/// Runs a command with the streams that are wanted. With a terminal its first size is in the environment.
async fn run(request: ExecRequest) -> Result<Session> {
    let (resize, mut sizes) = mpsc::channel::<TerminalSize>(1);
    let [program, arguments @ ..] = &request.command[..] else { return Err(Error::StartFailed("no command".into())) };
    let piped = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new(program);
    command.args(arguments).stdin(piped(request.stdin)).stdout(piped(request.stdout)).stderr(piped(request.stderr));
    command.kill_on_drop(true);
    if request.tty {
        let exit_resize = resize.clone();
        let stdout = async move {
            let size = sizes.recv().await.unwrap_or_default();
            let _ = &exit_resize;
            format!("{}x{}\n", size.width, size.height)
        };
        let (reader, mut writer) = tokio::io::duplex(64);
        let (done, exit) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let text = stdout.await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, text.as_bytes()).await;
            drop(writer);
            let _ = done.send(0);
        });
        let exit = exit.map(|code| code.map_err(|_| Error::Internal("gone".into()))).boxed();
        let stdout: Option<StdoutStream> = Some(Box::pin(reader));
        return Ok(Session { stdin: None, stdout, stderr: None, resize: Some(resize), exit });
    }
    let mut child = command.spawn().map_err(|error| Error::StartFailed(format!("{program:?}: {error}")))?;
    let stdin = child.stdin.take().map(|stdin| Box::pin(stdin) as StdinStream);
    let stdout = child.stdout.take().map(|stdout| Box::pin(stdout) as StdoutStream);
    let stderr = child.stderr.take().map(|stderr| Box::pin(stderr) as StdoutStream);
    let exit = async move {
        let status = child.wait().await.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(status.code().unwrap_or(137))
    };
    Ok(Session { stdin, stdout, stderr, resize: Some(resize), exit: exit.boxed() })
}

impl Runtime for FakeRuntime {
    fn version(&self) -> Version {
        Version { name: "fake".to_owned(), version: "1".to_owned() }
    }

    fn status(&self) -> Answer<'_, Status> {
        futures::future::ready(Ok(Status::default())).boxed()
    }

    fn run_sandbox(&self, _: SandboxConfig) -> Answer<'_, String> {
        unsupported()
    }

    fn stop_sandbox<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        unsupported()
    }

    fn remove_sandbox<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        unsupported()
    }

    fn sandboxes(&self) -> Answer<'_, Vec<SandboxStatus>> {
        futures::future::ready(Ok(self.sandboxes.lock().clone())).boxed()
    }

    fn create_container<'a>(&'a self, _: &'a str, _: ContainerConfig) -> Answer<'a, String> {
        unsupported()
    }

    fn start_container<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        unsupported()
    }

    fn stop_container<'a>(&'a self, _: &'a str, _: Duration) -> Answer<'a, ()> {
        unsupported()
    }

    fn remove_container<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        unsupported()
    }

    fn containers(&self) -> Answer<'_, Vec<ContainerStatus>> {
        futures::future::ready(Ok(self.containers.lock().clone())).boxed()
    }

    fn container<'a>(&'a self, id: &'a str) -> Answer<'a, ContainerStatus> {
        let found = self.containers.lock().iter().find(|status| status.id == id).cloned();
        futures::future::ready(found.ok_or_else(|| Error::NotFound(id.to_owned()))).boxed()
    }

    fn events(&self) -> BoxStream<'static, Event> {
        let receiver = self.events.subscribe();
        futures::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await.ok()?, receiver))).boxed()
    }

    fn exec_sync<'a>(&'a self, _: &'a str, command: Vec<String>, _: Duration) -> Answer<'a, ExecOutput> {
        async move {
            let request = ExecRequest { command, stdout: true, ..ExecRequest::default() };
            let mut session = run(request).await?;
            let mut stdout = Vec::new();
            if let Some(stream) = &mut session.stdout {
                let _ = stream.read_to_end(&mut stdout).await;
            }
            Ok(ExecOutput { stdout: stdout.into(), exit_code: session.exit.await?, ..ExecOutput::default() })
        }
        .boxed()
    }

    fn exec<'a>(&'a self, _: &'a str, request: ExecRequest) -> Answer<'a, Session> {
        run(request).boxed()
    }

    /// As if the container's first process were `cat`.
    fn attach<'a>(&'a self, _: &'a str, request: ExecRequest) -> Answer<'a, Session> {
        run(ExecRequest { command: vec!["cat".to_owned()], ..request }).boxed()
    }

    fn port_forward<'a>(&'a self, _: &'a str, port: u16) -> Answer<'a, ForwardedPort> {
        async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await;
            let stream =
                stream.map_err(|error| Error::Internal(format!("failed to connect to port {port}: {error}")))?;
            Ok(Box::new(stream) as ForwardedPort)
        }
        .boxed()
    }

    fn sandbox_stats(&self) -> Answer<'_, Vec<SandboxStats>> {
        futures::future::ready(Ok(self.stats.lock().clone())).boxed()
    }

    fn pull_image<'a>(&'a self, _: &'a str, _: Option<Credentials>) -> Answer<'a, Image> {
        unsupported()
    }

    fn image<'a>(&'a self, _: &'a str) -> Answer<'a, Option<Image>> {
        unsupported()
    }

    fn images(&self) -> Answer<'_, Vec<Image>> {
        unsupported()
    }

    fn remove_image<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        unsupported()
    }

    fn image_filesystem(&self) -> Answer<'_, ImageFilesystem> {
        let filesystem =
            ImageFilesystem { used_bytes: 5, capacity_bytes: 100, available_bytes: 60, ..Default::default() };
        futures::future::ready(Ok(filesystem)).boxed()
    }
}
