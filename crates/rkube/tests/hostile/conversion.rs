//! Webhooks that convert custom resources and are broken, hostile, slow or gone.

use std::sync::{Arc, Condvar, Mutex};

use rkube_testkit::Rkube;
use serde_json::{Value, json};

use crate::client::{Answer, Client, Watch};
use crate::webhook::{Reply, Webhook};
use crate::{is_well, start};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Error,
    Endless,
    Half,
    AnotherUid,
    OtherMetadata,
    HangsUp,
    Hangs,
}

/// A webhook whose mood can be set.
struct Converter {
    mood: Arc<(Mutex<Mood>, Condvar)>,
    webhook: Webhook,
}

impl Converter {
    fn start() -> Converter {
        let mood = Arc::new((Mutex::new(Mood::Well), Condvar::new()));
        let shared = mood.clone();
        let webhook = Webhook::start(move |_, review| {
            let mood = *shared.1.wait_while(shared.0.lock().unwrap(), |mood| *mood == Mood::Hangs).unwrap();
            match mood {
                Mood::HangsUp => Reply::HangsUp,
                Mood::Error => Reply::Error(500, "boom"),
                Mood::Endless => Reply::Endless,
                mood => Reply::Json(answer(review, mood)),
            }
        });
        Converter { mood, webhook }
    }

    fn set(&self, mood: Mood) {
        *self.mood.0.lock().unwrap() = mood;
        self.mood.1.notify_all();
    }
}

/// `v1` calls `appName` what `v2` calls `name`.
fn answer(review: &Value, mood: Mood) -> Value {
    let request = &review["request"];
    let convert = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut().unwrap();
        let name = fields.remove("appName").or_else(|| fields.remove("name")).unwrap_or_default();
        let field = if request["desiredAPIVersion"] == "example.com/v2" { "name" } else { "appName" };
        fields.insert(field.to_owned(), name);
        object["apiVersion"] = request["desiredAPIVersion"].clone();
        if mood == Mood::OtherMetadata {
            object["metadata"]["namespace"] = json!("kube-system");
        }
        object
    };
    let mut objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    if mood == Mood::Half {
        objects.truncate(objects.len() / 2);
    }
    let uid = if mood == Mood::AnotherUid { json!("another") } else { request["uid"].clone() };
    json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}},
    })
}

fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(method, path, &[("Content-Type", "application/json")], body.as_bytes()).unwrap()
}

fn apps(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/apps")
}

fn app(version: &str, name: &str, value: &str) -> Value {
    let field = if version == "v2" { "name" } else { "appName" };
    json!({"apiVersion": format!("example.com/{version}"), "kind": "App", "metadata": {"name": name}, field: value})
}

/// A cluster with a definition whose versions the webhook converts; `v2` is stored.
fn with_webhook(converter: &Converter) -> (Rkube, Client) {
    let rkube = start();
    let client = Client::of(&rkube);
    let version = |name: &str, field: &str| {
        let schema = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({"name": name, "served": true, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}})
    };
    let config = converter.webhook.client_config("convert");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "apps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "apps", "kind": "App"},
            "versions": [version("v1", "appName"), version("v2", "name")],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
            },
        },
    });
    let created = send(&client, "POST", DEFINITIONS, &definition);
    assert_eq!(created.status, 201, "{}", created.json());
    while send(&client, "GET", &apps("v1"), &Value::Null).status != 200 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    (rkube, client)
}

#[test]
fn bad_webhooks_harm_nobody_else() {
    let webhook = Converter::start();
    let (rkube, client) = with_webhook(&webhook);
    assert_eq!(send(&client, "POST", &apps("v1"), &app("v1", "first", "x")).status, 201);
    let stored = send(&client, "GET", &format!("{}/first", apps("v2")), &Value::Null).json();
    assert_eq!(stored["name"], "x");
    let revision = stored["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    send(&client, "GET", &apps("v1"), &Value::Null);
    let path = format!("{}?watch=true&resourceVersion={revision}", apps("v1"));
    let Ok(mut watch) = Watch::start(&client, &path).unwrap() else { panic!("the watch was refused") };

    let failed = |from: &str, why: &str| format!("conversion webhook for example.com/{from}, Kind=App {why}");
    let moods = [
        (Mood::Error, "failed: an error on the server (\"boom\") has prevented the request from succeeding"),
        (
            Mood::Endless,
            "failed: unexpected error when reading response body. Please retry. Original error: http: response body too large",
        ),
        (Mood::Half, "returned 0 objects, expected 1"),
        (Mood::OtherMetadata, "returned invalid object: must have the same namespace: default != kube-system"),
        (Mood::AnotherUid, "failed: expected response.uid="),
        (Mood::HangsUp, "failed: Post \"https://"),
    ];
    for (index, (mood, why)) in moods.into_iter().enumerate() {
        webhook.set(mood);
        let refused = send(&client, "POST", &apps("v1"), &app("v1", "never", "x"));
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(refused.status == 500 && message.starts_with(&failed("v1", why)), "{} {message}", refused.status);
        let name = format!("a-{index}");
        assert_eq!(send(&client, "POST", &apps("v2"), &app("v2", &name, "y")).status, 201, "writes go on");
        let listed = send(&client, "GET", &apps("v2"), &Value::Null).json();
        assert_eq!(listed["items"].as_array().unwrap().len(), index + 2, "reads in the storage version go on");
        let refused = send(&client, "GET", &apps("v1"), &Value::Null);
        assert_eq!(refused.status, 500);
        assert!(
            refused.json()["message"].as_str().unwrap().starts_with("conversion webhook for example.com/v2, Kind=App ")
        );
    }
    webhook.set(Mood::Well);
    let listed = send(&client, "GET", &apps("v1"), &Value::Null).json();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["appName"].as_str().unwrap()).collect();
    assert_eq!(names, ["y", "y", "y", "y", "y", "y", "x"]);
    for index in 0..moods.len() {
        let event = watch.next_event().unwrap().expect("the watch goes on");
        assert_eq!((&event["type"], &event["object"]["apiVersion"]), (&json!("ADDED"), &json!("example.com/v1")));
        assert_eq!(event["object"]["metadata"]["name"], format!("a-{index}"));
    }
    is_well(&rkube);
}

#[test]
fn a_webhook_that_hangs_holds_up_its_own_readers_alone() {
    let webhook = Converter::start();
    let (rkube, client) = with_webhook(&webhook);
    webhook.set(Mood::Hangs);
    assert_eq!(send(&client, "POST", &apps("v2"), &app("v2", "a", "x")).status, 201);
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let client = Client::of(&rkube);
            std::thread::spawn(move || send(&client, "GET", &apps("v1"), &Value::Null))
        })
        .collect();
    for index in 0..50 {
        assert_eq!(send(&client, "POST", &apps("v2"), &app("v2", &format!("b-{index}"), "x")).status, 201);
        assert_eq!(send(&client, "GET", &apps("v2"), &Value::Null).status, 200);
    }
    webhook.set(Mood::Well);
    for reader in readers {
        let answer = reader.join().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.json());
        assert!(!answer.json()["items"].as_array().unwrap().is_empty());
    }
    let items = send(&client, "GET", &apps("v1"), &Value::Null).json()["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 51);
    is_well(&rkube);
}
