//! A real node: pods from the API's create to a running process and back, commands in containers, images. Runs as root, in
//! a network namespace that whoever starts the bench has made.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rkube_testkit::images::{ImageBuilder, Layer, Packing, TEST_IMAGE, test_image};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::servers::Rkube;
use super::{Suite, progress};
use crate::client::{Call, Connection, Protocol, Server};
use crate::figures::{self, Work};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// One after the other.
const SINGLE_PODS: usize = 40;
const PODS_AT_ONCE: usize = 100;
const IDLE_PODS: usize = 50;
const COMMANDS: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(120);
const LAYERS: usize = 10;
const LAYER_BYTES: usize = 50 << 20;

pub async fn run(suite: &mut Suite) -> Result<()> {
    let rows =
        [&figures::NODE_READY, &figures::POD_RUNNING, &figures::POD_GONE, &figures::EXEC, &figures::PODS_AT_ONCE];
    if rows.iter().chain(&[&figures::POD_OVERHEAD, &figures::IDLE_NODE]).any(|work| suite.wants(work)) {
        pods(suite).await?;
    }
    if suite.wants(&figures::IMAGE_LOAD) {
        image_load(suite)?;
    }
    Ok(())
}

async fn pods(suite: &mut Suite) -> Result<()> {
    let archive = suite.directory.path().join("image.tar");
    std::fs::write(&archive, test_image().archive(Packing::Docker))?;
    let node = Node::start(suite, &archive).await?;
    let server = &node.rkube.server;
    let ready = node.rkube.ready_after.as_secs_f64() * 1e3;
    say(suite, &figures::NODE_READY, ready, "a new directory; the node is Ready".to_owned());

    let (mut running, mut gone, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..SINGLE_PODS {
        let name = format!("one-{number}");
        let mut watch = Watch::open(server).await?;
        let begun = Instant::now();
        create(server, &name).await?;
        watch.until(|event| event["object"]["status"]["phase"] == "Running").await?;
        running.push(begun.elapsed().as_secs_f64() * 1e3);
        if number == 0 {
            for _ in 0..COMMANDS {
                commands.push(exec(server, &name).await?.as_secs_f64() * 1e3);
            }
        }
        let begun = Instant::now();
        let options = r#"{"gracePeriodSeconds":0}"#;
        let path = format!("{PODS}/{name}");
        server.once(Call { method: Method::DELETE, body: Bytes::from(options), ..Call::post(path, "") }).await?;
        watch.until(|event| event["type"] == "DELETED").await?;
        node.until_processes(0).await?;
        gone.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    median(suite, &figures::POD_RUNNING, running, "one after the other, image present");
    median(suite, &figures::POD_GONE, gone, "grace 0, until no process of it is left");
    median(suite, &figures::EXEC, commands, "WebSocket, a connection each, to the first byte of `echo`");
    crowd(suite, &node).await
}

async fn crowd(suite: &mut Suite, node: &Node) -> Result<()> {
    let server = &node.rkube.server;
    let before = node.rkube.process.resident_bytes()?.1;
    let mut watch = Watch::open(server).await?;
    let begun = Instant::now();
    for number in 0..PODS_AT_ONCE {
        create(server, &format!("many-{number}")).await?;
    }
    let mut ready = std::collections::HashSet::new();
    while ready.len() < PODS_AT_ONCE {
        let event = watch.next().await?;
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
            ready.insert(event["object"]["metadata"]["name"].to_string());
        }
    }
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    say(suite, &figures::PODS_AT_ONCE, milliseconds, "from the first create to the last Ready".to_owned());

    let own = (node.rkube.process.resident_bytes()?.1.saturating_sub(before)) as f64;
    let shims = node.shim_bytes()? as f64;
    let megabytes = (own + shims) / PODS_AT_ONCE as f64 / 1e6;
    let note = format!("{:.2} MB of it the shim and the pause process", shims / PODS_AT_ONCE as f64 / 1e6);
    say(suite, &figures::POD_OVERHEAD, megabytes, note);

    for number in IDLE_PODS..PODS_AT_ONCE {
        let path = format!("{PODS}/many-{number}?gracePeriodSeconds=0");
        server.once(Call { method: Method::DELETE, body: Bytes::new(), ..Call::post(path, "") }).await?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seconds = if suite.options.quick { 10 } else { 30 };
    let cpu = || anyhow::Ok(node.rkube.process.cpu_seconds()? + node.shim_cpu_seconds()?);
    let begun = cpu()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let percent = (cpu()? - begun) * 100.0 / seconds as f64;
    say(suite, &figures::IDLE_NODE, percent, format!("over {seconds} s, with the shims"));
    Ok(())
}

/// An image of many bytes, loaded, beside `tar -x` of its layers.
fn image_load(suite: &mut Suite) -> Result<()> {
    let directory = suite.directory.path().join("load");
    std::fs::create_dir(&directory)?;
    let mut builder = ImageBuilder::new().name("bench.test/large:v1");
    let mut seed = 1u64;
    for number in 0..LAYERS {
        let mut content = vec![0u8; LAYER_BYTES / 8];
        let mut layer = Layer::new();
        for file in 0..8 {
            // Nothing that a file system or a compressor could make small.
            content.iter_mut().for_each(|byte| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (seed >> 56) as u8;
            });
            layer = layer.file(&format!("layer-{number}-{file}"), 0o644, &content);
        }
        builder = builder.layer(&layer);
    }
    let archive = directory.join("large.tar");
    std::fs::write(&archive, builder.archive(Packing::Docker))?;
    let timed = |command: &mut Command| -> Result<f64> {
        let begun = Instant::now();
        ensure!(command.stdout(std::process::Stdio::null()).status()?.success(), "{command:?} failed");
        // What is not on the disk yet counts for both.
        rustix::fs::sync();
        Ok(begun.elapsed().as_secs_f64())
    };
    let plain = directory.join("plain");
    std::fs::create_dir(&plain)?;
    let script = "tar -xf \"$0\" -C \"$1\" && for layer in $(find \"$1\" -name '*.tar' -o -type f -size +40M); do \
                  tar -xf \"$layer\" -C \"$1\" || exit 1; done";
    let peer = timed(Command::new("sh").args(["-c", script]).arg(&archive).arg(&plain))?;
    let mut load = Command::new(&suite.options.rkube);
    let ours = timed(load.args(["image", "load", "--data-dir"]).arg(directory.join("data")).arg(&archive))?;
    let bytes = (LAYERS * LAYER_BYTES) as f64;
    let note =
        format!("{:.2} of the time of tar -x of archive and layers ({:.0} MB/s)", ours / peer, bytes / peer / 1e6);
    say(suite, &figures::IMAGE_LOAD, bytes / ours / 1e6, note);
    Ok(())
}

/// An rkube that is a node. Its pods go with it.
struct Node {
    rkube: Rkube,
    program: PathBuf,
    data: PathBuf,
}

impl Node {
    async fn start(suite: &Suite, archive: &Path) -> Result<Node> {
        let directory = suite.directory.path().join("node");
        std::fs::create_dir(&directory)?;
        let data = directory.join("data");
        let mut load = Command::new(&suite.options.rkube);
        ensure!(load.args(["image", "load", "--data-dir"]).arg(&data).arg(archive).output()?.status.success());
        let logs = format!("--pod-log-dir={}", directory.join("var/pods").display());
        let rkube = Rkube::again(suite, "node", &["--node=real", "--max-pods=250", &logs]).await?;
        Ok(Node { rkube, program: suite.options.rkube.clone(), data })
    }

    /// The shims of this network, and what holds their pods' namespaces, which is forked from them.
    fn shims(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        let is_shim = |process: &PathBuf| {
            std::fs::read(process.join("cmdline"))
                .is_ok_and(|line| line.starts_with(b"rkube shim\0") || line.starts_with(b"rkube\0shim\0"))
        };
        let named: Vec<PathBuf> = all.filter(is_shim).collect();
        let network = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
        let own = network(Path::new("/proc/self"));
        let parent = |process: &Path| {
            let status = std::fs::read_to_string(process.join("status")).ok()?;
            Some(Path::new("/proc").join(status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim()))
        };
        let is_own = |process: &PathBuf| {
            network(process) == own || parent(process).is_some_and(|parent| network(&parent) == own)
        };
        named.into_iter().filter(is_own).collect()
    }

    async fn until_processes(&self, count: usize) -> Result<()> {
        let waiting = async {
            while self.shims().len() > count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, waiting).await.context("shims do not end")
    }

    /// What they have for themselves alone.
    fn shim_bytes(&self) -> Result<u64> {
        let mut sum = 0;
        for process in self.shims() {
            let text = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
            let private = text.lines().filter(|line| line.starts_with("Private_"));
            sum += private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() * 1024;
        }
        Ok(sum)
    }

    fn shim_cpu_seconds(&self) -> Result<f64> {
        self.shims().iter().map(|process| crate::process::cpu_seconds_of(process)).sum()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.rkube.process.stop();
        let mut reset = Command::new(&self.program);
        match reset.args(["reset", "--data-dir"]).arg(&self.data).output() {
            Ok(output) if output.status.success() => {}
            other => progress(&format!("the node could not be reset: {other:?}")),
        }
    }
}

async fn create(server: &Server, name: &str) -> Result<()> {
    let containers = json!([{ "name": "main", "image": TEST_IMAGE, "args": ["sleep", "100000"] }]);
    let spec =
        json!({ "containers": containers, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0 });
    let pod = json!({ "metadata": { "name": name }, "spec": spec });
    server.once(Call::post(PODS, pod.to_string())).await.map(drop)
}

/// From the request to the first byte of the command's output.
async fn exec(server: &Server, pod: &str) -> Result<Duration> {
    let path = format!("{PODS}/{pod}/exec?command=echo&command=hello&stdout=true");
    let begun = Instant::now();
    let mut stream = server.open(Protocol::Http1).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            bail!("exec ended without output: {}", String::from_utf8_lossy(&seen));
        }
        seen.extend_from_slice(&buffer[..count]);
        if seen.windows(5).any(|window| window == b"hello") {
            return Ok(begun.elapsed());
        }
    }
}

/// The events of all pods, from now on.
struct Watch {
    _connection: Connection,
    body: Incoming,
    buffer: Vec<u8>,
}

impl Watch {
    async fn open(server: &Server) -> Result<Watch> {
        let list: Value = serde_json::from_slice(&server.once(Call::get(PODS)).await?)?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let mut connection = server.connect(Protocol::Http1).await?;
        let answer = connection.send(&Call::get(format!("{PODS}?watch=1&resourceVersion={version}"))).await?;
        Ok(Watch { _connection: connection, body: answer.into_body(), buffer: Vec::new() })
    }

    async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame()).await.context("no event")?;
            let frame = frame.context("the watch has ended")??;
            self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    }

    async fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        while !is_it(&self.next().await?) {}
        Ok(())
    }
}

fn median(suite: &mut Suite, work: &'static Work, mut values: Vec<f64>, note: &str) {
    values.sort_by(f64::total_cmp);
    let (middle, last) = (values[values.len() / 2], values[values.len() - 1]);
    say(suite, work, middle, format!("{note}; the slowest of {} {last:.0} ms", values.len()));
}

fn say(suite: &mut Suite, work: &'static Work, value: f64, note: String) {
    progress(&format!("{}: {} ({note})", work.name, work.unit.show(value)));
    suite.row(work, value, None, note);
}
