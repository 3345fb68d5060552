//! Other users of the host: what is ours they can neither read nor make us write, whatever umask we were started with.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rkube_testkit::{Finished, Process, TIMEOUT};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn files_are_their_owners_whatever_the_umask() {
    let scratch = open_directory();
    let data = scratch.path().join("data");
    // A directory that was there, and that all may look into.
    std::fs::create_dir_all(data.join("pki")).unwrap();
    for path in [&data, &data.join("pki")] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let process = up_without_umask(&data);
    let mut exposed = Vec::new();
    walk(&data, &mut |path, mode| {
        let is_public = path.extension().is_some_and(|kind| kind == "crt" || kind == "pub");
        // The store's own files are its own tests' concern.
        if mode & 0o077 != 0 && !is_public && !path.starts_with(data.join("store")) {
            exposed.push(format!("{} {mode:o}", path.display()));
        }
    });
    assert_eq!(exposed, Vec::<String>::new());
    drop(process);
}

#[test]
fn another_user_cannot_have_a_file_written() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can act as another user");
    }
    let scratch = open_directory();
    let data = scratch.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
    let process = up_without_umask(&data);
    let target = scratch.path().join("target");
    let save = |user: Option<u32>| {
        let mut command = Command::new(scratch.path().join("rkube"));
        command.args(["store", "save"]).arg(&target).arg("--data-dir").arg(&data);
        user.map(|user| command.uid(user));
        Finished::run(&mut command, "")
    };
    std::fs::copy(env!("CARGO_BIN_EXE_rkube"), scratch.path().join("rkube")).unwrap();
    save(Some(NOBODY)).expect_failure();
    assert!(!target.exists());
    // Should the socket's mode ever be wrong, who calls is looked at too.
    std::fs::set_permissions(data.join("control.sock"), PermissionsExt::from_mode(0o777)).unwrap();
    let refused = save(Some(NOBODY)).expect_failure();
    assert!(refused.stderr.contains("runs as another user"), "{}", refused.stderr);
    assert!(!target.exists());
    save(None).expect_success();
    assert!(target.is_file());
    drop(process);
}

#[test]
fn a_lock_that_is_a_link_is_refused() {
    let scratch = open_directory();
    let (data, precious) = (scratch.path().join("data"), scratch.path().join("precious"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&precious, "precious").unwrap();
    symlink(&precious, data.join("lock")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--node=none", "--store=memory", "--listen=127.0.0.1:0", "--data-dir"]).arg(&data);
    let refused = Finished::run(&mut command, "").expect_failure();
    assert!(refused.stderr.contains("lock is a symbolic link: remove it"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

/// A scratch directory that other users may enter.
fn open_directory() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    scratch
}

fn up_without_umask(data: &Path) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_rkube")]);
    command.args(["up", "--node=none", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).stderr(Stdio::null());
    let process = Process::spawn_with_lines(&mut command);
    process.next_line(TIMEOUT).expect("it gets ready");
    process
}

fn walk(directory: &Path, look: &mut dyn FnMut(&PathBuf, u32)) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        look(&entry.path(), metadata.permissions().mode() & 0o777);
        if metadata.is_dir() {
            walk(&entry.path(), look);
        }
    }
}
