//! Attaching, terminals, ports, figures.

use std::time::Duration;

use futures::StreamExt;
use rkube_runtime::api::{Event, ExecRequest, Runtime, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::World;

crate::tests![attached, who_is_attached_goes, a_terminal, forwarded_ports, figures, events_are_told, many_at_once];

async fn attached() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let mut config = world.config(&["copy"]);
    config.stdin = true;
    config.stdin_once = true;
    let id = world.runtime.create_container(&sandbox, config).await.unwrap();
    let request = ExecRequest { stdin: true, stdout: true, stderr: true, ..Default::default() };
    let mut session = world.runtime.attach(&id, request).await.unwrap();
    world.runtime.start_container(&id).await.unwrap();
    let sent = "a line of some length\n".repeat(100_000);
    let mut stdin = session.stdin.take().unwrap();
    let text = sent.clone();
    tokio::spawn(async move {
        stdin.write_all(text.as_bytes()).await.unwrap();
    });
    let mut received = String::new();
    session.stdout.as_mut().unwrap().read_to_string(&mut received).await.unwrap();
    assert!(received == sent, "{} instead of {}", received.len(), sent.len());
    assert_eq!(session.exit.await.unwrap(), 0);
    assert_eq!(world.ended(&id).await.exit_code, 0);
    world.finish().await;
}

async fn who_is_attached_goes() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let mut config = world.config(&["copy"]);
    config.stdin = true;
    config.stdin_once = true;
    let id = world.start(&sandbox, config.clone()).await;
    let request = ExecRequest { stdin: true, stdout: true, ..Default::default() };
    drop(world.runtime.attach(&id, request.clone()).await.unwrap());
    assert_eq!(world.ended(&id).await.exit_code, 0);
    // Otherwise its input stays open, for the next one.
    config.stdin_once = false;
    config.name.push('b');
    let id = world.start(&sandbox, config).await;
    drop(world.runtime.attach(&id, request.clone()).await.unwrap());
    let mut session = world.runtime.attach(&id, request).await.unwrap();
    session.stdin.as_mut().unwrap().write_all(b"still here\n").await.unwrap();
    let mut answer = vec![0; 11];
    session.stdout.as_mut().unwrap().read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"still here\n");
    world.finish().await;
}

async fn a_terminal() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let mut config = world.config(&["read-line"]);
    (config.stdin, config.tty) = (true, true);
    let id = world.runtime.create_container(&sandbox, config).await.unwrap();
    let request = ExecRequest { stdin: true, stdout: true, tty: true, ..Default::default() };
    let mut session = world.runtime.attach(&id, request).await.unwrap();
    world.runtime.start_container(&id).await.unwrap();
    session.resize.as_ref().unwrap().send(TerminalSize { width: 100, height: 40 }).await.unwrap();
    session.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
    let mut received = String::new();
    session.stdout.as_mut().unwrap().read_to_string(&mut received).await.unwrap();
    assert!(received.ends_with("got hello\r\n"), "{received:?}");
    assert_eq!(session.exit.await.unwrap(), 0);
    let status = world.ended(&id).await;
    assert!(world.log(&status).contains("got hello"));
    world.finish().await;
}

async fn forwarded_ports() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["listen", "8080"])).await;
    world.until_log(&id, "listening").await;
    let mut connection = world.runtime.port_forward(&sandbox, 8080).await.unwrap();
    connection.write_all(b"there and back").await.unwrap();
    let mut answer = vec![0; 14];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"there and back");
    let error = world.runtime.port_forward(&sandbox, 8081).await.err().unwrap();
    assert!(error.to_string().contains("failed to connect to localhost:8081 inside namespace"), "{error}");
    world.finish().await;
}

async fn figures() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let id = world.start(&sandbox, world.config(&["wait"])).await;
    let stats = world.runtime.sandbox_stats().await.unwrap();
    assert_eq!((stats.len(), stats[0].id.as_str(), stats[0].pod_name.as_str()), (1, sandbox.as_str(), "pod"));
    let container = &stats[0].containers[0];
    assert_eq!(container.id, id);
    assert!(container.cpu.usage_core_nanos > 0 && container.memory.usage_bytes > 0);
    assert!(stats[0].processes >= 2, "{stats:?}");
    world.finish().await;
}

async fn events_are_told() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let mut events = world.runtime.events();
    let id = world.start(&sandbox, world.config(&["exit", "0"])).await;
    let next = tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap().unwrap();
    assert_eq!(next, Event::Started { sandbox: sandbox.clone(), container: id.clone() });
    let next = tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap().unwrap();
    assert_eq!(next, Event::Stopped { sandbox, container: id });
    world.finish().await;
}

async fn many_at_once() {
    let world = World::new().await;
    let one = async |number: usize| {
        let sandbox = world.runtime.run_sandbox(world.sandbox_config(&format!("pod{number}"))).await.unwrap();
        let id = world.start(&sandbox, world.config(&["wait"])).await;
        let command = vec!["/tool".to_owned(), "cat".to_owned(), "/etc/hostname".to_owned()];
        let output = world.runtime.exec_sync(&id, command, Duration::ZERO).await.unwrap();
        assert_eq!(output.stdout, format!("pod{number}\n"));
        world.runtime.remove_sandbox(&sandbox).await.unwrap();
    };
    futures::future::join_all((0..30).map(one)).await;
    world.finish().await;
}
