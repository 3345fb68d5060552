//! A runtime with directories, cgroups and an image of its own, and what must be left of it: nothing.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rkube_runtime::api::{
    Attachment, ContainerConfig, ContainerState, ContainerStatus, Credentials, FilesystemUsage, Image, ImageFilesystem,
    NamespaceMode, Namespaces, PodNetwork, Resources, Result, Runtime, SandboxConfig,
};
use rkube_runtime::cgroups::Hierarchies;
use rkube_runtime::embedded::{Config, Embedded, Images, Prepared};

/// Guards against hanging only.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub directory: tempfile::TempDir,
    pub runtime: Embedded,
    pub cgroup_root: String,
    hierarchies: Hierarchies,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl World {
    pub async fn new() -> World {
        Self::on(None).await
    }

    /// On some cgroups of the host only.
    pub async fn on(hierarchies: Option<Hierarchies>) -> World {
        let directory = tempfile::tempdir().unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cgroup_root = format!("rkube-test-{}-{number}", std::process::id());
        let root = directory.path().join("image");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/x\napp:x:1000:1001:app:/srv/app:/x\n").unwrap();
        std::fs::write(root.join("etc/group"), "root:x:0:\nextra:x:50000:app\n").unwrap();
        std::fs::copy(tool(), root.join("tool")).unwrap();
        let hierarchies = hierarchies.unwrap_or_else(|| Hierarchies::of_host().unwrap());
        let runtime = open(directory.path(), &cgroup_root, &hierarchies).await;
        World { directory, runtime, cgroup_root, hierarchies }
    }

    /// As if the daemon had been killed and started again: nothing is told to anybody.
    pub async fn restart(&mut self) {
        self.runtime = open(self.directory.path(), &self.cgroup_root, &self.hierarchies).await;
    }

    pub async fn sandbox(&self) -> String {
        self.runtime.run_sandbox(self.sandbox_config("pod")).await.unwrap()
    }

    pub fn sandbox_config(&self, name: &str) -> SandboxConfig {
        SandboxConfig {
            pod_name: name.to_owned(),
            pod_namespace: "default".to_owned(),
            pod_uid: format!("uid-{name}"),
            hostname: name.to_owned(),
            log_directory: self.directory.path().join("logs").join(name),
            cgroup_parent: format!("burstable/pod-{name}"),
            namespaces: Namespaces { pid: NamespaceMode::Container, ..Default::default() },
            ..Default::default()
        }
    }

    /// A container of the tool.
    pub fn config(&self, arguments: &[&str]) -> ContainerConfig {
        let name = format!("c{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        ContainerConfig {
            log_path: format!("{name}/0.log").into(),
            name,
            image: "tool".to_owned(),
            image_id: "sha256:tool".to_owned(),
            command: ["/tool"].iter().chain(arguments).map(|text| (*text).to_owned()).collect(),
            namespaces: Namespaces { pid: NamespaceMode::Container, ..Default::default() },
            resources: Resources { pids_limit: Some(200), ..Default::default() },
            ..Default::default()
        }
    }

    pub async fn start(&self, sandbox: &str, config: ContainerConfig) -> String {
        let id = self.runtime.create_container(sandbox, config).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    pub async fn run(&self, sandbox: &str, config: ContainerConfig) -> (ContainerStatus, String) {
        let id = self.start(sandbox, config).await;
        let status = self.ended(&id).await;
        let text = self.log(&status);
        (status, text)
    }

    /// What a container of the tool says.
    pub async fn output(&self, sandbox: &str, arguments: &[&str]) -> String {
        self.run(sandbox, self.config(arguments)).await.1
    }

    pub async fn ended(&self, id: &str) -> ContainerStatus {
        self.until(id, |status| matches!(status.state, ContainerState::Exited | ContainerState::Unknown)).await
    }

    pub async fn until(&self, id: &str, wanted: impl Fn(&ContainerStatus) -> bool) -> ContainerStatus {
        let looking = async {
            loop {
                let status = self.runtime.container(id).await.unwrap();
                if wanted(&status) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("it never came to that")
    }

    /// What is in the log, without its prefixes.
    pub fn log(&self, status: &ContainerStatus) -> String {
        let text = std::fs::read_to_string(&status.log_path).unwrap();
        let bare = |line: &str| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
        text.lines().map(bare).collect::<Vec<_>>().join("\n")
    }

    pub async fn until_log(&self, id: &str, wanted: &str) {
        let looking = async {
            loop {
                let status = self.runtime.container(id).await.unwrap();
                if status.log_path.exists() && self.log(&status).contains(wanted) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("it never said that");
    }

    /// Removes everything, and looks for what is left of it.
    pub async fn finish(self) {
        for sandbox in self.runtime.sandboxes().await.unwrap() {
            self.runtime.stop_sandbox(&sandbox.id).await.unwrap();
            self.runtime.remove_sandbox(&sandbox.id).await.unwrap();
        }
        assert!(self.runtime.sandboxes().await.unwrap().is_empty());
        assert!(self.runtime.containers().await.unwrap().is_empty());
        for name in ["run", "data/sandboxes", "data/containers", "roots"] {
            assert_eq!(entries(&self.directory.path().join(name)), Vec::<String>::new(), "{name}");
        }
        let path = self.directory.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let left: Vec<&str> = mounts.lines().filter(|line| line.contains(path)).collect();
        assert!(left.is_empty(), "mounts are left: {left:?}");
        self.no_process_is_left(path).await;
        self.runtime.clear().await.unwrap();
        self.no_cgroup_is_left();
    }

    async fn no_process_is_left(&self, path: &str) {
        let looking = async {
            while !processes_of(path).is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(10), looking).await.is_err() {
            panic!("processes are left: {:?}", processes_of(path));
        }
    }

    fn no_cgroup_is_left(&self) {
        for hierarchy in entries(Path::new("/sys/fs/cgroup")) {
            let root = Path::new("/sys/fs/cgroup").join(hierarchy).join(&self.cgroup_root);
            assert!(!root.exists(), "a cgroup is left: {root:?}");
        }
    }
}

fn processes_of(path: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(path)).collect()
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

async fn open(directory: &Path, cgroup_root: &str, hierarchies: &Hierarchies) -> Embedded {
    let config = Config {
        run_directory: directory.join("run"),
        data_directory: directory.join("data"),
        images: Arc::new(Copies { directory: directory.to_owned() }),
        network: Arc::new(Loopback),
        cgroup_root: cgroup_root.to_owned(),
        shim_program: std::env::current_exe().unwrap(),
        version: "test".to_owned(),
        clock: Arc::new(super::now),
        entropy: Arc::new(|bytes| {
            use std::io::Read;
            std::fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
        }),
        log_file_max_bytes: 1 << 20,
        log_files_max: 3,
    };
    Embedded::open_on(config, hierarchies.clone()).await.unwrap()
}

/// The tool, built once without libraries.
pub fn tool() -> PathBuf {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let build = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tool");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/containers/tool.rs");
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "-O", "-Cstrip=symbols", "-Ctarget-feature=+crt-static", "-o"]);
        let status = rustc.arg(&target).arg(source).status().expect("rustc runs");
        assert!(status.success(), "the tool does not compile");
        target
    };
    BUILT.get_or_init(build).clone()
}

/// Images without layers: every container gets a copy.
struct Copies {
    directory: PathBuf,
}

impl Images for Copies {
    fn prepare<'a>(&'a self, container: &'a str, _image_id: &'a str) -> BoxFuture<'a, Result<Prepared>> {
        let root = self.directory.join("roots").join(container);
        std::fs::create_dir_all(root.parent().unwrap()).unwrap();
        let copied = Command::new("cp").arg("-a").arg(self.directory.join("image")).arg(&root).status().unwrap();
        assert!(copied.success());
        let environment = vec!["FROM_IMAGE=yes".to_owned()];
        let image_ref = "tool@sha256:tool".to_owned();
        futures::future::ready(Ok(Prepared { root, environment, image_ref, ..Default::default() })).boxed()
    }

    fn release<'a>(&'a self, container: &'a str) -> BoxFuture<'a, Result<()>> {
        let _not_there = std::fs::remove_dir_all(self.directory.join("roots").join(container));
        futures::future::ready(Ok(())).boxed()
    }

    fn prepared(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        futures::future::ready(Ok(entries(&self.directory.join("roots")))).boxed()
    }

    fn usage<'a>(&'a self, _container: &'a str) -> BoxFuture<'a, Result<FilesystemUsage>> {
        futures::future::ready(Ok(FilesystemUsage::default())).boxed()
    }

    fn pull<'a>(&'a self, _reference: &'a str, _credentials: Option<Credentials>) -> BoxFuture<'a, Result<Image>> {
        futures::future::ready(Ok(Image::default())).boxed()
    }

    fn find<'a>(&'a self, _reference: &'a str) -> BoxFuture<'a, Result<Option<Image>>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Image>>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn remove<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Result<()>> {
        futures::future::ready(Ok(())).boxed()
    }

    fn filesystem(&self) -> BoxFuture<'_, Result<ImageFilesystem>> {
        futures::future::ready(Ok(ImageFilesystem::default())).boxed()
    }
}

/// A network without any but the loopback, which is brought up.
struct Loopback;

impl PodNetwork for Loopback {
    fn problem(&self) -> Option<String> {
        None
    }

    fn attach(&self, attachment: Attachment) -> BoxFuture<'_, Result<Vec<IpAddr>>> {
        let namespace = format!("--net={}", attachment.network_namespace.display());
        let up = Command::new("nsenter").args([&namespace, "ip", "link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        futures::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])).boxed()
    }

    fn detach<'a>(&'a self, _sandbox: &'a str) -> BoxFuture<'a, Result<()>> {
        futures::future::ready(Ok(())).boxed()
    }

    fn retain(&self, _sandboxes: Vec<String>) -> BoxFuture<'_, Result<()>> {
        futures::future::ready(Ok(())).boxed()
    }
}
