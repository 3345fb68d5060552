//! Containers that mean harm, and processes that are killed when it suits nobody.

use std::time::Duration;

use futures::StreamExt;
use rkube_runtime::api::{ContainerState, Event, NamespaceMode, Runtime, SandboxState};
use rkube_runtime::cgroups::Hierarchies;

use crate::world::{PATIENCE, World};

crate::tests![
    forks_for_ever,
    eats_memory,
    ignores_signals,
    floods_its_log,
    writes_a_line_without_end,
    the_shim_is_killed,
    the_shim_is_killed_while_nobody_looks,
    the_pause_process_is_killed,
    half_made_things_are_removed,
    cgroups_of_version_2,
];

async fn forks_for_ever() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["forks"])).await;
    world.until_log(&id, "stopped after 1").await;
    // The pod goes on: another container starts and ends.
    assert_eq!(world.output(&sandbox, &["echo", "fine"]).await, "fine");
    world.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    assert_eq!(world.runtime.container(&id).await.unwrap().exit_code, 137);
    world.finish().await;
}

async fn eats_memory() {
    let world = World::new().await;
    let mut config = world.sandbox_config("pod");
    config.resources.memory_limit_bytes = Some(256 << 20);
    let sandbox = world.runtime.run_sandbox(config).await.unwrap();
    let mut config = world.config(&["eat"]);
    config.resources.memory_limit_bytes = Some(32 << 20);
    let (status, _) = world.run(&sandbox, config).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    // By the pod's limit.
    let (status, _) = world.run(&sandbox, world.config(&["eat"])).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    assert_eq!(world.runtime.sandboxes().await.unwrap()[0].state, SandboxState::Ready);
    assert_eq!(world.output(&sandbox, &["echo", "fine"]).await, "fine");
    world.finish().await;
}

async fn ignores_signals() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let mut config = world.config(&["wait"]);
    config.stop_signal = Some("SIGUSR1".to_owned());
    let id = world.start(&sandbox, config).await;
    world.runtime.stop_container(&id, Duration::from_millis(200)).await.unwrap();
    assert_eq!(world.runtime.container(&id).await.unwrap().exit_code, 137);
    let mut config = world.config(&["wait"]);
    config.stop_signal = Some("SIGNOPE".to_owned());
    assert!(world.runtime.create_container(&sandbox, config).await.is_err());
    world.finish().await;
}

async fn floods_its_log() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["lines"])).await;
    let other = world.start(&sandbox, world.config(&["wait"])).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The shim still answers, and what is on disk is bounded: three files of a megabyte in these tests.
    let command = vec!["/tool".to_owned(), "echo".to_owned(), "here".to_owned()];
    let output = world.runtime.exec_sync(&other, command, PATIENCE).await.unwrap();
    assert_eq!(&output.stdout[..], b"here\n");
    world.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    let status = world.runtime.container(&id).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(status.log_path.parent().unwrap()).unwrap().flatten().collect();
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(files.len() <= 3 && bytes <= 3 << 20, "{} files with {bytes} bytes", files.len());
    let text = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(
        text.lines().all(|line| line.contains(" stdout F all work") || line.contains(" stdout P all")),
        "torn lines"
    );
    world.finish().await;
}

async fn writes_a_line_without_end() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["endless"])).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    let status = world.runtime.container(&id).await.unwrap();
    let text = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(text.lines().all(|line| line.contains(" stdout P xxx") && line.len() < 17 << 10));
    world.finish().await;
}

fn shims(world: &World) -> Vec<i32> {
    let path = world.directory.path().join("run");
    let path = path.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of = |number: &i32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let comm = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(path) && comm.trim() != "pause"
    };
    numbers.filter(of).collect()
}

fn kill(number: i32) {
    let pid = rustix::process::Pid::from_raw(number).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Not whether it is still to be buried: that is up to the host's first process.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

async fn the_shim_is_killed() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    let pid = world.runtime.container(&id).await.unwrap().pid.unwrap();
    let mut events = world.runtime.events();
    kill(shims(&world)[0]);
    let lost = async {
        loop {
            if events.next().await.unwrap() == (Event::SandboxLost { sandbox: sandbox.clone() }) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, lost).await.unwrap();
    assert_eq!(world.runtime.container(&id).await.unwrap().state, ContainerState::Unknown);
    assert_eq!(world.runtime.sandboxes().await.unwrap()[0].state, SandboxState::NotReady);
    assert!(!runs(pid));
    world.finish().await;
}

async fn the_shim_is_killed_while_nobody_looks() {
    let mut world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    let pid = world.runtime.container(&id).await.unwrap().pid.unwrap();
    kill(shims(&world)[0]);
    world.restart().await;
    assert_eq!(world.runtime.container(&id).await.unwrap().state, ContainerState::Unknown);
    assert!(!runs(pid));
    world.finish().await;
}

async fn the_pause_process_is_killed() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    let shim = shims(&world)[0];
    let children = std::fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).unwrap();
    let is_pause = |number: &&str| std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap().trim() == "pause";
    kill(children.split_whitespace().find(is_pause).unwrap().parse().unwrap());
    assert_eq!(world.ended(&id).await.exit_code, 137);
    let looking = async {
        while world.runtime.sandboxes().await.unwrap()[0].state == SandboxState::Ready {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap();
    world.finish().await;
}

async fn half_made_things_are_removed() {
    let mut world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.runtime.create_container(&sandbox, world.config(&["wait"])).await.unwrap();
    let path = |name: &str| world.directory.path().join(name);
    // A crash after a directory was made, and before anything was written into it.
    std::fs::create_dir_all(path("data/sandboxes").join("a".repeat(64))).unwrap();
    std::fs::create_dir_all(path("data/containers").join("b".repeat(64))).unwrap();
    std::fs::create_dir_all(path("roots").join("c".repeat(64))).unwrap();
    std::fs::create_dir_all(path("run").join("d".repeat(64))).unwrap();
    // A sandbox that was never finished, and a container without its bundle.
    let file = path("data/sandboxes").join(&sandbox).join("sandbox.json");
    let text = std::fs::read_to_string(&file).unwrap().replace("\"complete\":true", "\"complete\":false");
    std::fs::write(&file, text).unwrap();
    std::fs::remove_file(path("data/containers").join(&id).join("bundle.json")).unwrap();
    world.restart().await;
    assert_eq!(world.runtime.sandboxes().await.unwrap()[0].state, SandboxState::NotReady);
    assert_eq!(world.runtime.containers().await.unwrap().len(), 1);
    world.finish().await;
}

/// What hybrid hosts have of it: no controllers, but groups to be born in, to be killed in, and devices.
async fn cgroups_of_version_2() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let Some(place) = place else { return };
    let world = World::on(Some(Hierarchies::V2(place.into()))).await;
    let mut config = world.sandbox_config("pod");
    config.namespaces.pid = NamespaceMode::Pod;
    let sandbox = world.runtime.run_sandbox(config).await.unwrap();
    let container = |arguments: &[&str]| {
        let mut config = world.config(arguments);
        config.resources.pids_limit = None;
        config.namespaces.pid = NamespaceMode::Pod;
        config
    };
    let (status, log) = world.run(&sandbox, container(&["cat", "/proc/self/cgroup"])).await;
    assert_eq!(status.exit_code, 0);
    // By a namespace of its own it does not see where it is.
    assert!(log.lines().any(|line| line == "0::/"), "{log}");
    let id = world.start(&sandbox, container(&["wait"])).await;
    let pid = world.runtime.container(&id).await.unwrap().pid.unwrap();
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(groups.lines().any(|line| line.starts_with("0::") && line.ends_with(&format!("pod-pod/{id}"))), "{groups}");
    let command = vec!["/tool".to_owned(), "echo".to_owned(), "entered".to_owned()];
    assert_eq!(&world.runtime.exec_sync(&id, command, PATIENCE).await.unwrap().stdout[..], b"entered\n");
    assert_eq!(world.run(&sandbox, container(&["orphan"])).await.0.exit_code, 0);
    kill(shims(&world)[0]);
    assert_eq!(world.ended(&id).await.state, ContainerState::Unknown);
    world.finish().await;
}
