//! A sandbox, a container: run, logged, entered, stopped, removed, and found again.

use std::time::Duration;

use rkube_runtime::api::{ContainerState, ExecRequest, Runtime, SandboxState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::World;

crate::tests![runs_and_logs, cannot_start, is_entered, is_stopped, is_adopted];

async fn runs_and_logs() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let (status, log) = world.run(&sandbox, world.config(&["echo", "hello", "world"])).await;
    assert_eq!(log, "hello world");
    assert_eq!((status.exit_code, status.reason.as_str()), (0, "Completed"));
    assert!(status.started_micros > 0 && status.finished_micros >= status.started_micros);
    let line = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(line.contains("Z stdout F hello world\n"), "{line}");
    let (status, log) = world.run(&sandbox, world.config(&["complain", "no"])).await;
    assert_eq!((status.exit_code, log.as_str()), (0, "no"));
    let (status, _) = world.run(&sandbox, world.config(&["exit", "7"])).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (7, "Error"));
    assert_eq!(world.output(&sandbox, &["cat", "/etc/hostname"]).await, "pod");
    assert_eq!(world.output(&sandbox, &["cat", "/proc/sys/kernel/hostname"]).await, "pod");
    let environment = world.output(&sandbox, &["environment"]).await;
    assert!(environment.contains("FROM_IMAGE=yes") && environment.contains("HOME=/root"), "{environment}");
    let devices = world.output(&sandbox, &["list", "/dev"]).await;
    assert_eq!(devices, "core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero");
    let host = world.directory.path().to_str().unwrap();
    assert!(world.output(&sandbox, &["list", host]).await.starts_with("error"));
    world.finish().await;
}

async fn cannot_start() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    for (command, text) in [
        ("nope", "exec: \"nope\": executable file not found in $PATH"),
        ("/nope", "exec: \"/nope\": stat /nope: no such file or directory"),
        ("/etc", "exec: \"/etc\": is a directory"),
        ("/etc/passwd", "exec: \"/etc/passwd\": permission denied"),
    ] {
        let mut config = world.config(&[]);
        config.command = vec![command.to_owned()];
        let id = world.runtime.create_container(&sandbox, config).await.unwrap();
        let error = world.runtime.start_container(&id).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        let status = world.runtime.container(&id).await.unwrap();
        assert_eq!((status.state, status.exit_code), (ContainerState::Exited, 128));
        assert_eq!(status.reason, "StartError");
        assert!(status.message.contains(text));
    }
    world.finish().await;
}

async fn is_entered() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    let run = |arguments: &[&str]| {
        let command = ["/tool"].iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        world.runtime.exec_sync(&id, command, Duration::from_secs(30))
    };
    let output = run(&["echo", "inside"]).await.unwrap();
    assert_eq!((&output.stdout[..], output.exit_code), (&b"inside\n"[..], 0));
    assert_eq!(run(&["exit", "3"]).await.unwrap().exit_code, 3);
    assert_eq!(&run(&["complain", "x"]).await.unwrap().stderr[..], b"x\n");
    let processes = run(&["list", "/proc"]).await.unwrap().stdout;
    assert!(processes.starts_with(b"1 "), "{processes:?}");
    let error = world.runtime.exec_sync(&id, vec!["nope".to_owned()], Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("exec: \"nope\": executable file not found in $PATH"), "{error}");
    let error =
        world.runtime.exec_sync(&id, vec!["/tool".into(), "sleep".into(), "1000".into()], Duration::from_millis(50));
    assert!(matches!(error.await, Err(rkube_runtime::api::Error::TimedOut(_))));
    for tty in [false, true] {
        let command = vec!["/tool".to_owned(), "read-line".to_owned()];
        let request = ExecRequest { command, stdin: true, stdout: true, stderr: !tty, tty };
        let mut session = world.runtime.exec(&id, request).await.unwrap();
        session.stdin.as_mut().unwrap().write_all(b"a line\n").await.unwrap();
        let mut text = String::new();
        session.stdout.unwrap().read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with(if tty { "got a line\r\n" } else { "got a line\n" }), "{text:?}");
        assert_eq!(session.exit.await.unwrap(), 0);
    }
    world.finish().await;
}

async fn is_stopped() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    // The first process of a namespace does not hear of signals that it does not handle.
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    world.runtime.stop_container(&id, Duration::from_millis(100)).await.unwrap();
    let status = world.runtime.container(&id).await.unwrap();
    assert_eq!((status.state, status.exit_code, status.reason.as_str()), (ContainerState::Exited, 137, "Error"));
    world.runtime.stop_container(&id, Duration::from_millis(100)).await.unwrap();
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    world.runtime.remove_container(&id).await.unwrap();
    world.runtime.remove_container(&id).await.unwrap();
    assert!(world.runtime.container(&id).await.is_err());
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    world.runtime.stop_sandbox(&sandbox).await.unwrap();
    assert_eq!(world.runtime.container(&id).await.unwrap().exit_code, 137);
    let sandboxes = world.runtime.sandboxes().await.unwrap();
    assert_eq!(sandboxes[0].state, SandboxState::NotReady);
    assert!(world.runtime.create_container(&sandbox, world.config(&["wait"])).await.is_err());
    world.finish().await;
}

async fn is_adopted() {
    let mut world = World::new().await;
    let sandbox = world.sandbox().await;
    let running = world.start(&sandbox, world.config(&["wait"])).await;
    let (ended, _) = world.run(&sandbox, world.config(&["exit", "5"])).await;
    let before = world.runtime.container(&running).await.unwrap();
    world.restart().await;
    let after = world.runtime.container(&running).await.unwrap();
    assert_eq!((after.state, after.pid), (ContainerState::Running, before.pid));
    assert_eq!(world.runtime.container(&ended.id).await.unwrap().exit_code, 5);
    assert_eq!(world.runtime.sandboxes().await.unwrap()[0].state, SandboxState::Ready);
    let command = vec!["/tool".to_owned(), "echo".to_owned(), "again".to_owned()];
    assert_eq!(&world.runtime.exec_sync(&running, command, Duration::ZERO).await.unwrap().stdout[..], b"again\n");
    world.runtime.stop_container(&running, Duration::ZERO).await.unwrap();
    world.finish().await;
}
