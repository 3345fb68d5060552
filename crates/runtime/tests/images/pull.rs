//! Pulls, from registries that do as they should and from others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rkube_runtime::api::{Credentials, Image, PullProgress};
use rkube_runtime::images::{Patience, Registries, Result, no_progress};
use rkube_testkit::images::{Access, Behaviour, ImageBuilder, Layer, Registry};
use serde_json::json;

use crate::Place;

/// A test that waits for a registry to be given up on waits so long.
const STALL: Duration = Duration::from_millis(300);

fn image() -> ImageBuilder {
    // What cannot be compressed.
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let content: Vec<u8> = (0..200_000).map(|_| next()).collect();
    ImageBuilder::new()
        .layer(&Layer::new().file("large", 0o644, &content))
        .layer(&Layer::new().file("small", 0o644, b"small"))
        .compressed()
}

fn registries(place: &Place) -> Registries {
    let patience = Patience { connect: Duration::from_secs(30), stall: Duration::from_secs(30) };
    Registries { directory: place.directory.path().join("certs.d"), patience }
}

async fn pull(place: &Place, reference: &str) -> Result<Image> {
    place.store.pull(reference, None, &registries(place), Arc::new(no_progress)).await
}

async fn pull_as(place: &Place, reference: &str, credentials: Credentials) -> Result<Image> {
    place.store.pull(reference, Some(credentials), &registries(place), Arc::new(no_progress)).await
}

async fn failure(place: &Place, reference: &str) -> String {
    let error = pull(place, reference).await.expect_err("this pull was to fail").to_string();
    assert!(place.store.list().unwrap().is_empty());
    for directory in ["scratch", "layers/diff", "layers/chain"] {
        assert_eq!(std::fs::read_dir(place.store.directory().join(directory)).unwrap().count(), 0, "{directory}");
    }
    error
}

fn user(name: &str, password: &str) -> Credentials {
    Credentials { username: name.to_owned(), password: password.to_owned(), ..Credentials::default() }
}

fn layer_requests(registry: &Registry) -> usize {
    registry.requests().iter().filter(|request| request.contains("/blobs/")).count()
}

#[tokio::test]
async fn an_image_is_pulled_once() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    let digest = registry.put("a/tool", "v1", &image());
    let name = format!("{}/a/tool:v1", registry.domain());
    let last = Arc::new(Mutex::new(PullProgress::default()));
    let report = last.clone();
    let progress = Arc::new(move |progress| *report.lock().unwrap() = progress);
    let pulled = place.store.pull(&name, None, &registries(&place), progress).await.unwrap();
    assert_eq!(pulled.id, image().id());
    assert_eq!(pulled.tags, [name.as_str()]);
    assert_eq!(pulled.digests, [format!("{}/a/tool@{digest}", registry.domain())]);
    let progress = last.lock().unwrap().clone();
    assert_eq!((progress.layers_done, progress.layers_total), (2, 2));
    assert!(progress.bytes_done == progress.bytes_total && progress.bytes_total > 1_000, "{progress:?}");
    let root = place.snapshots.prepare("one", &pulled.id).unwrap();
    assert_eq!(std::fs::metadata(root.join("large")).unwrap().len(), 200_000);
    assert_eq!(std::fs::read_dir(place.store.directory().join("downloads")).unwrap().count(), 0);

    // Again: only the name is looked up. By digest: the same. Another image: only its layers that are not here.
    let before = registry.requests().len();
    assert_eq!(pull(&place, &name).await.unwrap(), pulled);
    assert_eq!(pull(&place, &pulled.digests[0]).await.unwrap().id, pulled.id);
    assert_eq!(registry.requests().len(), before + 2);
    registry.put("b", "v1", &image().layer(&Layer::new().file("more", 0o644, b"more")));
    let blobs = layer_requests(&registry);
    pull(&place, &format!("{}/b:v1", registry.domain())).await.unwrap();
    assert_eq!(layer_requests(&registry), blobs + 2, "a configuration and a layer");
}

#[tokio::test]
async fn several_at_once_are_one_pull() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image());
    let name = format!("{}/tool:v1", registry.domain());
    let (one, two, three) = tokio::join!(pull(&place, &name), pull(&place, &name), pull(&place, &name));
    assert_eq!(one.unwrap(), two.unwrap());
    three.unwrap();
    assert_eq!(layer_requests(&registry), 3);
}

#[tokio::test]
async fn of_several_machines_ours_is_chosen() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    let ours = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let digest = registry.put_index("tool", "v1", &[("pdp11", &image().config("User", json!("x"))), (ours, &image())]);
    let pulled = pull(&place, &format!("{}/tool:v1", registry.domain())).await.unwrap();
    assert_eq!(pulled.id, image().id());
    assert_eq!(pulled.digests, [format!("{}/tool@{digest}", registry.domain())]);
    place.store.remove(&pulled.id).unwrap();

    registry.put_index("tool", "v2", &[("pdp11", &image())]);
    let words = failure(&place, &format!("{}/tool:v2", registry.domain())).await;
    assert!(words.contains("no match for platform in manifest"), "{words}");
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_usual_words() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    let name = format!("{}/tool:v1", registry.domain());
    assert_eq!(
        failure(&place, &name).await,
        format!(
            "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": {name}: not found"
        )
    );
    let (domain, url) = (registry.domain(), format!("http://{}/v2/tool/manifests/v1", registry.domain()));
    drop(registry);
    let words = failure(&place, &name).await;
    let expected = format!("failed to do request: Head \"{url}\": dial tcp {domain}: connect: connection refused");
    assert!(words.ends_with(&expected), "{words}");
    let error = pull(&place, "not/A Name").await.unwrap_err();
    assert_eq!(error.to_string(), "invalid reference format: repository name (not/A Name) must be lowercase");
}

#[tokio::test]
async fn names_and_passwords_are_shown_where_they_are_asked_for() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image());
    let name = format!("{}/tool:v1", registry.domain());
    for access in [Access::Basic("me".into(), "secret".into()), Access::Bearer("me".into(), "secret".into())] {
        let basic = matches!(access, Access::Basic(..));
        registry.behave(Behaviour { access, ..Behaviour::default() });
        let words = failure(&place, &name).await;
        let why = if basic {
            "failed to authorize: no basic auth credentials".to_owned()
        } else {
            let url = format!("http://{}/token?scope=repository%3Atool%3Apull&service=test", registry.domain());
            format!("failed to fetch anonymous token: unexpected status from GET request to {url}: 401 Unauthorized")
        };
        assert!(words.ends_with(&why), "{words}");
        pull_as(&place, &name, user("me", "wrong")).await.unwrap_err();
        let pulled = pull_as(&place, &name, user("me", "secret")).await.unwrap();
        place.store.remove(&pulled.id).unwrap();
    }
    registry.behave(Behaviour { access: Access::Bearer(String::new(), String::new()), ..Behaviour::default() });
    let pulled = pull(&place, &name).await.unwrap();
    place.store.remove(&pulled.id).unwrap();
    let token = Credentials { registry_token: "wrong".to_owned(), ..Credentials::default() };
    let words = pull_as(&place, &name, token).await.unwrap_err().to_string();
    let expected = "pull access denied, repository does not exist or may require authorization: \
                    server message: insufficient_scope: authorization failed";
    assert!(words.ends_with(expected), "{words}");
}

#[tokio::test]
async fn credentials_do_not_follow_to_other_servers() {
    let Some(place) = Place::new() else { return };
    let (registry, elsewhere) = (Registry::start(), Registry::start());
    registry.put("tool", "v1", &image());
    elsewhere.put("tool", "v1", &image());
    registry.behave(Behaviour {
        access: Access::Basic("me".into(), "secret".into()),
        redirect_blobs_to: Some(format!("http://{}", elsewhere.domain())),
        ..Behaviour::default()
    });
    pull_as(&place, &format!("{}/tool:v1", registry.domain()), user("me", "secret")).await.unwrap();
    assert_eq!(layer_requests(&elsewhere), 2);
    assert_eq!(elsewhere.authorized_requests(), 0);
    assert!(registry.authorized_requests() > 0);
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    let Some(place) = Place::new() else { return };
    for without_ranges in [false, true] {
        let registry = Registry::start();
        registry.put("tool", "v1", &image());
        registry.behave(Behaviour { break_off: (3, 50_000), without_ranges, ..Behaviour::default() });
        let pulled = pull(&place, &format!("{}/tool:v1", registry.domain())).await.unwrap();
        let resumed = registry.requests().iter().filter(|request| request.contains(" from ")).count();
        assert!(resumed >= 2, "{:?}", registry.requests());
        place.store.remove(&pulled.id).unwrap();
    }
}

#[tokio::test]
async fn the_next_pull_takes_up_what_is_there() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image());
    registry.behave(Behaviour { stall_after: Some(70_000), without_ranges: true, ..Behaviour::default() });
    let name = format!("{}/tool:v1", registry.domain());
    let impatient =
        Registries { patience: Patience { stall: STALL, ..registries(&place).patience }, ..registries(&place) };
    let error = place.store.pull(&name, None, &impatient, Arc::new(no_progress)).await.unwrap_err().to_string();
    assert!(error.contains("nothing was sent for"), "{error}");
    registry.behave(Behaviour::default());
    pull(&place, &name).await.unwrap();
    assert!(registry.requests().last().unwrap().ends_with(" from 70000"), "{:?}", registry.requests());
}

#[tokio::test]
async fn content_that_is_not_what_it_is_called_is_refused() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image());
    let name = format!("{}/tool:v1", registry.domain());
    let wrong_manifest = image().config("User", json!("other")).pack().manifest;
    for (behaviour, words) in [
        (Behaviour { corrupt: true, ..Behaviour::default() }, "unexpected commit digest"),
        (Behaviour { longer_by: 10, ..Behaviour::default() }, "is longer than the"),
        (Behaviour { manifest: Some(wrong_manifest), ..Behaviour::default() }, "unexpected commit digest"),
        (Behaviour { manifest: Some(vec![b' '; 5 << 20]), ..Behaviour::default() }, "length limit exceeded"),
        (Behaviour { break_off: (1_000, 0), ..Behaviour::default() }, "failed to copy"),
    ] {
        registry.behave(behaviour);
        let error = failure(&place, &name).await;
        assert!(error.contains(words), "{error}");
    }
    registry.behave(Behaviour::default());
    pull(&place, &name).await.unwrap();
}

#[tokio::test]
async fn mirrors_are_asked_first_and_the_registry_where_they_do_not_know() {
    let Some(place) = Place::new() else { return };
    let (mirror, registry) = (Registry::start(), Registry::start());
    registry.put("library/tool", "v1", &image());
    mirror.put("library/tool", "v1", &image());
    let folder = registries(&place).directory.join("docker.io");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("server = \"http://{}\"\n[host.\"http://{}\"]\n", registry.domain(), mirror.domain());
    std::fs::write(folder.join("hosts.toml"), text).unwrap();

    let pulled = pull(&place, "tool:v1").await.unwrap();
    assert_eq!(pulled.tags, ["docker.io/library/tool:v1"]);
    assert!(registry.requests().is_empty(), "{:?}", registry.requests());
    assert!(mirror.requests().iter().all(|request| request.ends_with("?ns=docker.io")), "{:?}", mirror.requests());
    place.store.remove(&pulled.id).unwrap();

    mirror.behave(Behaviour { without_tags: true, ..Behaviour::default() });
    let pulled = pull(&place, "tool:v1").await.unwrap();
    assert_eq!(registry.requests(), ["HEAD /v2/library/tool/manifests/v1"]);
    place.store.remove(&pulled.id).unwrap();

    drop(mirror);
    pull(&place, "tool:v1").await.unwrap();
}

#[tokio::test]
async fn a_registry_has_to_prove_who_it_is() {
    let Some(place) = Place::new() else { return };
    let (registry, certificate) = Registry::start_with_tls();
    registry.put("tool", "v1", &image());
    let (name, server) = (format!("{}/tool:v1", registry.domain()), format!("https://{}", registry.domain()));
    let folder = registries(&place).directory.join(registry.domain());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("ca.pem"), certificate).unwrap();
    let configure =
        |more: &str| std::fs::write(folder.join("hosts.toml"), format!("server = \"{server}\"\n{more}")).unwrap();

    configure("");
    let words = failure(&place, &name).await;
    assert!(words.contains("invalid peer certificate"), "{words}");
    for trusted in ["ca = \"ca.pem\"", "skip_verify = true"] {
        configure(trusted);
        let pulled = pull(&place, &name).await.unwrap();
        place.store.remove(&pulled.id).unwrap();
    }
}

#[tokio::test]
async fn a_pull_that_is_given_up_leaves_nothing_running() {
    let Some(place) = Place::new() else { return };
    let registry = Registry::start();
    registry.put("tool", "v1", &image());
    registry.behave(Behaviour { stall_after: Some(1_000), ..Behaviour::default() });
    let name = format!("{}/tool:v1", registry.domain());
    let pulling = pull(&place, &name);
    assert!(tokio::time::timeout(STALL, pulling).await.is_err());
    // Scratch directories go with the last who uses them.
    let scratch = place.store.directory().join("scratch");
    while std::fs::read_dir(&scratch).unwrap().count() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    registry.behave(Behaviour::default());
    pull(&place, &name).await.unwrap();
}
