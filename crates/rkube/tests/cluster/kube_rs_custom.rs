//! A controller written with kube-rs for a custom resource of its own: it defines the resource from a Rust type, and
//! gives every object a ConfigMap and a status.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use rkube_testkit::TIMEOUT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kube_rs::client;
use crate::start;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, shortname = "gr")]
#[kube(status = "GreetingStatus", printcolumn = r#"{"name":"Who","type":"string","jsonPath":".spec.who"}"#)]
#[kube(validation = "self.metadata.name != 'nobody'")]
struct GreetingSpec {
    #[schemars(length(min = 1, max = 20))]
    who: String,
    #[serde(default = "one")]
    times: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tone: Option<Tone>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
enum Tone {
    Loud,
    Quiet,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct GreetingStatus {
    text: Option<String>,
}

fn one() -> u32 {
    1
}

#[tokio::test]
async fn a_controller_keeps_its_custom_resource() {
    let rkube = start();
    let client = client(&rkube).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("kube-rs-test").force();
    definitions.patch("greetings.example.com", &apply, &Patch::Apply(Greeting::crd())).await.unwrap();
    let established = await_condition(definitions, "greetings.example.com", conditions::is_crd_established());
    tokio::time::timeout(TIMEOUT, established).await.expect("the definition is established").unwrap();

    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let controller = tokio::spawn(run_controller(client.clone()));
    let hello = Greeting::new("hello", serde_json::from_str(r#"{"who":"world"}"#).unwrap());
    let created = greetings.create(&PostParams::default(), &hello).await.unwrap();
    assert_eq!((created.spec.times, created.metadata.generation), (1, Some(1)));
    wait_for_text(&greetings, "hello, world").await;

    let change = serde_json::json!({"spec": {"who": "you", "tone": "Loud"}});
    greetings.patch("hello", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    wait_for_text(&greetings, "HELLO, YOU").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = maps.get("hello").await.unwrap().owner_references()[0].clone();
    assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("Greeting", "example.com/v1"));

    for (name, spec, words) in [
        ("nobody", r#"{"who":"x"}"#, "failed rule: self.metadata.name != 'nobody'"),
        ("long", r#"{"who":"xxxxxxxxxxxxxxxxxxxxxxxxx"}"#, "spec.who: Too long: may not be more than 20 bytes"),
    ] {
        let wrong = Greeting::new(name, serde_json::from_str(spec).unwrap());
        let refused = greetings.create(&PostParams::default(), &wrong).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    greetings.delete("hello", &DeleteParams::default()).await.unwrap();
    assert!(greetings.get_opt("hello").await.unwrap().is_none());
    controller.abort();
}

async fn run_controller(client: Client) {
    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    Controller::new(greetings, watcher::Config::default())
        .owns(maps, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(|result| async move { drop(result) })
        .await;
}

async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let greetings: Api<Greeting> = Api::default_namespaced(client.as_ref().clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.as_ref().clone());
    let (name, text) = (greeting.name_any(), text_of(&greeting.spec));
    let apply = PatchParams::apply("kube-rs-test").force();
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![greeting.controller_owner_ref(&()).expect("a stored object has a uid")]),
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), text.clone())].into()),
        ..ConfigMap::default()
    };
    maps.patch(&name, &apply, &Patch::Apply(&map)).await?;
    let status = serde_json::json!({"apiVersion": "example.com/v1", "kind": "Greeting", "status": {"text": text}});
    greetings.patch_status(&name, &apply, &Patch::Apply(&status)).await?;
    Ok(Action::await_change())
}

fn text_of(spec: &GreetingSpec) -> String {
    let text = format!("hello, {}", spec.who);
    match spec.tone {
        Some(Tone::Loud) => text.to_uppercase(),
        Some(Tone::Quiet) | None => text,
    }
}

async fn wait_for_text(greetings: &Api<Greeting>, expected: &str) {
    let poll = async {
        loop {
            let found = greetings.get("hello").await.unwrap().status.and_then(|status| status.text);
            if found.as_deref() == Some(expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, poll).await.unwrap_or_else(|_| panic!("the text does not become {expected:?}"));
}
