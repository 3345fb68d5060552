//! What Kubernetes' own client says to all of it: `tests/clients/streams`, which `cargo xtask test` builds.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::forwarding::twice;
use super::{PATIENCE, TestServer};

/// None: it was not built, and this is no machine that has to have it.
fn program() -> Option<PathBuf> {
    let program = std::env::var_os("RKUBE_TEST_GO_PROGRAMS").map(|directory| PathBuf::from(directory).join("streams"));
    assert!(program.is_some() || std::env::var("CI").as_deref() != Ok("true"), "run the tests with `cargo xtask test`");
    program
}

struct Ran {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

async fn run(program: &PathBuf, server: &TestServer, what: &[&str], path: &str, more: &[&str], stdin: &[u8]) -> Ran {
    let url = format!("https://{}{path}", server.address);
    let mut child = Command::new(program)
        .args(what)
        .arg(url)
        .args(more)
        .env("TOKEN", "admin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    tokio::spawn(async move { input.write_all(&stdin).await });
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("the client ends").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr }
}

#[tokio::test]
async fn commands() {
    let Some(program) = program() else { return };
    let server = TestServer::start().await;
    let command = "command=sh&command=-c&command=cat;+echo+e+1%3E%262;+exit+5";
    let path = format!("/exec/default/p/c?{command}&input=1&output=1&error=1");
    let much = vec![b'x'; 3_000_000];
    for way in ["spdy", "websocket"] {
        let ran = run(&program, &server, &["exec", way], &path, &[], &much).await;
        assert_eq!((ran.code, ran.stdout.len(), ran.stderr.as_str()), (5, much.len(), "e\n"), "{way}");
        let path = "/exec/default/p/c?command=true&output=1&error=1";
        let ran = run(&program, &server, &["exec", way], path, &[], b"").await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{way}");
        let path = "/exec/default/p/c?command=sh&input=1&output=1&tty=1";
        let ran = run(&program, &server, &["exec", way], path, &[], b"").await;
        assert_eq!((ran.code, &ran.stdout[..]), (0, &b"123x45\n"[..]), "{way} {}", ran.stderr);
        let path = "/exec/default/p/c?command=no-such-program&output=1&error=1";
        let ran = run(&program, &server, &["exec", way], path, &[], b"").await;
        assert_eq!(ran.code, 99);
        let why = "error: Internal error occurred: error executing command in container: ";
        assert!(ran.stderr.starts_with(why), "{}", ran.stderr);
        let path = "/attach/default/p/c?input=1&output=1&error=1";
        let ran = run(&program, &server, &["exec", way], path, &[], b"attached").await;
        assert_eq!((ran.code, &ran.stdout[..]), (0, &b"attached"[..]), "{way} {}", ran.stderr);
    }
}

#[tokio::test]
async fn forwarded_ports() {
    let Some(program) = program() else { return };
    let server = TestServer::start().await;
    let port = twice().await.to_string();
    let much = vec![b'y'; 1_000_000];
    for way in ["spdy", "websocket"] {
        let ran = run(&program, &server, &["forward", way], "/portForward/default/p", &[&port], &much).await;
        assert_eq!((ran.code, ran.stdout.len()), (0, 2 * much.len()), "{way} {}", ran.stderr);
    }
}
