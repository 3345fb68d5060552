//! Volumes that are brought up to date, and pods that use too much of the disk.

use super::super::prepare_api::Problem;
use super::super::testing::TestNode;
use super::ONE;

const LIMITED: &str = r#""volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Mi"}}],
    "containers":[{"name":"a","image":"web","imagePullPolicy":"IfNotPresent","volumeMounts":[{"name":"v","mountPath":"/v"}]}]"#;

#[tokio::test(start_paused = true)]
async fn volumes_follow_the_labels_of_their_pod() {
    let node = TestNode::start().await;
    node.create("p", ONE).await;
    let mut pod = node.pod("p").unwrap();
    pod.object_mut("metadata").object_mut("labels").set("color", "red");
    node.api.put("pods", pod);
    node.seconds(2).await;
    assert_eq!(*node.prepare.refreshed.lock(), ["red"]);
    node.seconds(61).await;
    assert_eq!(node.prepare.refreshed.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_uses_too_much_of_the_disk_is_evicted() {
    let node = TestNode::start().await;
    let why = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
    node.create("p", LIMITED).await;
    node.create("free", ONE).await;
    node.seconds(30).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    *node.prepare.storage_problem.lock() = Some(Problem::new("Evicted", why));
    node.seconds(30).await;
    assert_eq!(node.shows("p").split(' ').next(), Some("Failed(Evicted)"));
    assert_eq!(node.pod("p").unwrap().get("status").str("message"), why);
    assert!(node.events("p").contains(&"Evicted".to_owned()));
    assert_eq!(node.shows("free"), "Running a:running+");
}
