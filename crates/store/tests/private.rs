//! What the store writes is for its owner only, whatever the umask, and however it was before.
//!
//! The umask belongs to the whole process, so the test runs its own binary again under one.

#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rkube_store::embedded::{OpenOptions, restore, save, save_directory};
use rkube_store::{Change, Embedded, Expect, Store, Write};

const DIRECTORY: &str = "RKUBE_PRIVATE_DIRECTORY";

#[test]
fn others_can_read_nothing() {
    for umask in ["000", "022", "777"] {
        let root = tempfile::tempdir().unwrap();
        let status = Command::new("sh")
            .args(["-c", &format!("umask {umask} && exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes", "--ignored"])
            .env(DIRECTORY, root.path())
            .status();
        assert!(status.unwrap().success(), "umask {umask}");
        let mut found = 0;
        for path in ["above/store", "restored/store"].map(|path| root.path().join(path)) {
            assert_eq!(mode(&path), 0o700, "{}", path.display());
            for entry in fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                assert_eq!(mode(&path), 0o600, "{} under umask {umask}", path.display());
                found += 1;
            }
        }
        assert!(found >= 6, "{found} files");
        for backup in ["live", "directory"] {
            assert_eq!(mode(&root.path().join(backup)), 0o600, "{backup}");
        }
    }
}

#[tokio::test]
#[ignore = "run by the test above"]
async fn child_that_writes() {
    let Ok(root) = std::env::var(DIRECTORY) else { return };
    let root = Path::new(&root);
    let directory = root.join("above/store");
    let store = open(&directory).await;
    save(&store, root.join("live")).await.unwrap();
    drop(store);
    drop(open(&directory).await);
    save_directory(&directory, root.join("directory")).await.unwrap();
    restore(root.join("live"), root.join("restored/store")).await.unwrap();
    drop(open(&root.join("restored/store")).await);
}

#[tokio::test]
async fn what_was_open_is_closed() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("above/store");
    drop(open(&directory).await);
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let above = directory.parent().unwrap();
    set(above, 0o755);
    set(&directory, 0o755);
    let foreign = directory.join("notes.txt");
    fs::write(&foreign, "").unwrap();
    for entry in fs::read_dir(&directory).unwrap() {
        set(&entry.unwrap().path(), 0o644);
    }
    drop(open(&directory).await);
    assert_eq!((mode(above), mode(&directory), mode(&foreign)), (0o755, 0o700, 0o644), "only what is ours");
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert!(path == foreign || mode(&path) == 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn links_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    let store = open(&directory).await;
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let backup = root.path().join("backup");
    symlink(&victim, &backup).unwrap();
    // Where the backup is written first, as far as others can guess.
    let guesses = ["backup.tmp".to_owned(), format!(".rkube-backup-{}-0.tmp", std::process::id())];
    for guess in &guesses {
        symlink(&victim, root.path().join(guess)).unwrap();
    }
    save(&store, &backup).await.unwrap();
    assert!(fs::symlink_metadata(&backup).unwrap().is_file(), "the link was replaced");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    for guess in &guesses {
        assert!(fs::symlink_metadata(root.path().join(guess)).unwrap().is_symlink(), "not ours to remove");
    }
    drop(store);

    let lock = directory.join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    assert!(Embedded::open(&directory, OpenOptions::default()).await.is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

async fn open(directory: &Path) -> Embedded {
    let store = Embedded::open(directory, OpenOptions::default()).await.unwrap();
    let change = Change::Put { value: "secret".into(), lease: None, note: None };
    store.write(Write { key: "a".into(), expect: Expect::Anything, change, guard: None }).await.unwrap();
    store
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
