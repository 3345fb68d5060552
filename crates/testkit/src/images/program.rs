//! The program of `crates/testimage`, built so that it needs nothing else, and an image of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;

use super::{ImageBuilder, Layer};

/// What [`test_image`] is called.
pub const TEST_IMAGE: &str = "rkube.test/tool:v1";

/// The names under which the program is in the image, in `/bin`.
const NAMES: &[&str] = &[
    "cat",
    "connect",
    "crash",
    "date",
    "eat-disk",
    "eat-memory",
    "echo",
    "env",
    "exit",
    "false",
    "fork-bomb",
    "get",
    "hostname",
    "id",
    "ignore-term",
    "ln",
    "ls",
    "mkdir",
    "pwd",
    "rm",
    "serve",
    "sh",
    "sleep",
    "stat",
    "stty",
    "tar",
    "test",
    "touch",
    "trap",
    "true",
    "tty",
    "wc",
    "write-log",
];

/// An image with a shell and tools (`crates/testimage/src/main.rs` lists them), users in `/etc/passwd`, and `/tmp`. It runs
/// `serve 8080` unless it is told otherwise. What a test adds (names, layers, users) is its own matter.
pub fn test_image() -> ImageBuilder {
    let content = std::fs::read(program()).expect("the program was just built");
    let mut tools = Layer::new().directory("bin/", 0o755).file("bin/tool", 0o755, &content);
    for name in NAMES {
        tools = tools.hard_link(&format!("bin/{name}"), "bin/tool");
    }
    let files = Layer::new()
        .directory("etc/", 0o755)
        .file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000:web:/home/web:/bin/sh\n")
        .file("etc/group", 0o644, b"root:x:0:\nweb:x:1000:\nextra:x:2000:web\n")
        .directory("tmp/", 0o1777)
        .directory("root/", 0o700);
    ImageBuilder::new()
        .layer(&files)
        .layer(&tools)
        .config("Entrypoint", json!(["/bin/tool"]))
        .config("Cmd", json!(["serve", "8080"]))
        .config("Env", json!(["PATH=/bin"]))
        .name(TEST_IMAGE)
}

/// The program itself. Built on the first call, in a directory of its own, because it is linked in another way than all
/// that is beside it; later runs find it there.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

fn build() -> PathBuf {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies two levels below the root");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("testimage");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--package", "rkube-testimage", "--target", &triple, "--target-dir"])
        .arg(&target)
        .args(["--config", "profile.dev.opt-level=1", "--config", "profile.dev.strip=true"])
        // By the target's name: plug-ins of the compiler cannot be linked in this way.
        .args(["--config", &format!("target.{triple}.rustflags=['-C', 'target-feature=+crt-static']")])
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap_or_else(|error| panic!("cannot start cargo: {error}"));
    assert!(output.status.success(), "the test image's program: {}", String::from_utf8_lossy(&output.stderr));
    target.join(triple).join("debug/tool")
}
