//! `rkube image …`, on a directory that nobody serves from.

use std::process::Command;

use rkube_testkit::Finished;
use rkube_testkit::images::{Access, Behaviour, ImageBuilder, Layer, Packing, Registry};

struct Place(tempfile::TempDir);

impl Place {
    /// None, with a notice, where we are not root.
    fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "tests of images run as root");
            eprintln!("skipped: only root can unpack images");
            return None;
        }
        Some(Place(tempfile::tempdir().unwrap()))
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
        command.arg("image").args(arguments).arg("--data-dir").arg(self.0.path().join("data"));
        Finished::run(&mut command, "")
    }

    fn archive(&self, name: &str, image: &ImageBuilder) -> String {
        let path = self.0.path().join(name);
        image.write(Packing::Docker, &path);
        path.display().to_string()
    }
}

fn image(content: &str) -> ImageBuilder {
    ImageBuilder::new().layer(&Layer::new().file("a", 0o644, content.as_bytes()))
}

#[test]
fn images_are_loaded_listed_and_removed() {
    let Some(place) = Place::new() else { return };
    let (one, two) = (image("one").name("web:v1").name("example.com/web:v1"), image("two").name("busybox"));
    let (first, second) = (place.archive("one.tar", &one), place.archive("two.tar", &two));
    let loaded = place.run(&["load", &first, &second]).expect_success();
    assert!(loaded.stdout.starts_with("loaded docker.io/library/web:v1 ("), "{}", loaded.stdout);
    assert_eq!(loaded.stdout.lines().count(), 2);
    assert!(loaded.stderr.is_empty(), "nothing is drawn where there is no terminal: {}", loaded.stderr);

    let listed = place.run(&["list"]).expect_success().stdout;
    let column =
        |index: usize| listed.lines().map(move |line| line.split_whitespace().nth(index).unwrap()).collect::<Vec<_>>();
    assert_eq!(column(0), ["IMAGE", "docker.io/library/busybox", "docker.io/library/web", "example.com/web"]);
    assert_eq!(column(1), ["TAG", "latest", "v1", "v1"]);
    assert_eq!(place.run(&["ls", "-q"]).expect_success().stdout.lines().count(), 2);

    place.run(&["remove", "web:v1"]).expect_success();
    place.run(&["remove", "web:v1"]).expect_failure();
    assert_eq!(place.run(&["ls", "-q"]).expect_success().stdout.lines().count(), 2);
    place.run(&["rm", "example.com/web:v1"]).expect_success();
    assert_eq!(place.run(&["ls", "-q"]).expect_success().stdout.lines().count(), 1);
    let pruned = place.run(&["prune"]).expect_success().stdout;
    assert!(pruned.ends_with("1 images of 3 B\n"), "{pruned}");
    assert_eq!(place.run(&["ls", "-q"]).expect_success().stdout, "");
}

#[test]
fn images_are_pulled() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image("x"));
    let name = format!("{}/tool:v1", registry.domain());
    place.run(&["pull", &name]).expect_success().says(&format!("pulled {name} ("));
    let absent = format!("{}/absent:v1", registry.domain());
    let failed = place.run(&["pull", &absent]).expect_failure();
    assert!(failed.stderr.trim_end().ends_with(&format!("{absent}: not found")), "{}", failed.stderr);
    registry.behave(Behaviour { access: Access::Basic("me".into(), "secret".into()), ..Behaviour::default() });
    registry.put("tool", "v2", &image("y"));
    let name = format!("{}/tool:v2", registry.domain());
    place.run(&["pull", &name]).expect_failure();
    place.run(&["pull", &name, "--credentials", "me:secret"]).expect_success();
}

#[test]
fn what_is_no_image_is_refused() {
    let Some(place) = Place::new() else { return };
    let path = place.0.path().join("text").display().to_string();
    std::fs::write(&path, "not an archive").unwrap();
    let failed = place.run(&["load", &path]).expect_failure();
    assert!(failed.stderr.contains("cannot load"), "{}", failed.stderr);
    place.run(&["load", "/nonexistent"]).expect_failure();
    place.run(&["load"]).expect_failure();
}
