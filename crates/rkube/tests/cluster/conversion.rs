//! A custom resource in two versions whose fields differ, converted by a webhook in Python over TLS.

use rkube_testkit::tools::client_files;
use rkube_testkit::{Finished, TIMEOUT, Tool, eventually};

use crate::custom_resources::wait_established;
use crate::python_webhook::Webhook;
use crate::start;

const OLD: &str = "\
apiVersion: example.com/v1
kind: AppConfig
metadata: {name: old}
spec: {appName: shop, config: {colour: red, size: big}}
";
const NEW: &str = "\
apiVersion: example.com/v2
kind: AppConfig
metadata: {name: new}
spec: {appName: blog, configuration: {settings: {colour: blue}, version: '7'}}
";

/// The definition with this version stored.
fn define(webhook: &Webhook, kubectl: &Tool, stored: &str) {
    let text = std::fs::read_to_string(client_files().join("custom-resources/appconfigs.yaml")).unwrap();
    let stores = |version: &str| (version == stored).to_string();
    let text = webhook.fill_in(&text).replace("STORES_V1", &stores("v1")).replace("STORES_V2", &stores("v2"));
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &text);
    wait_established(kubectl, "appconfigs.example.com");
}

fn spec(kubectl: &Tool, version: &str, name: &str) -> String {
    kubectl.run(&["get", &format!("appconfigs.{version}.example.com"), name, "-o", "jsonpath={.spec}"]).stdout
}

const OLD_IN_V1: &str = r#"{"appName":"shop","config":{"colour":"red","size":"big"}}"#;
const OLD_IN_V2: &str = r#"{"appName":"shop","configuration":{"settings":{"colour":"red","size":"big"}}}"#;
const NEW_IN_V1: &str = r#"{"appName":"blog","config":{"colour":"blue"}}"#;
const NEW_IN_V2: &str = r#"{"appName":"blog","configuration":{"settings":{"colour":"blue"},"version":"7"}}"#;

#[test]
fn two_versions_are_served_from_one_storage() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(webhook) = Webhook::start(&rkube, "conversion_webhook.py") else { return };
    define(&webhook, &kubectl, "v2");
    kubectl.run_with_input(&["create", "-f", "-"], OLD).says("appconfig.example.com/old created");
    kubectl.run_with_input(&["apply", "-f", "-"], NEW).says("appconfig.example.com/new created");
    for (version, old, new) in [("v1", OLD_IN_V1, NEW_IN_V1), ("v2", OLD_IN_V2, NEW_IN_V2)] {
        assert_eq!((spec(&kubectl, version, "old"), spec(&kubectl, version, "new")), (old.to_owned(), new.to_owned()));
    }
    let resource = "appconfigs.v2.example.com";
    let shown = kubectl.run(&["get", resource, "--no-headers"]).stdout;
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows[0], ["new", "blog", "7"]);
    assert_eq!(rows[1][..2], ["old", "shop"]);
    kubectl.run(&["get", "appconfigs.v1.example.com", "--no-headers"]).says("old").says("new");

    // Changes in either version are seen in the other.
    let merge = |version: &str, name: &str, patch: &str| {
        kubectl.run(&["patch", &format!("appconfigs.{version}.example.com"), name, "--type=merge", "-p", patch]);
    };
    merge("v1", "old", r#"{"spec":{"config":{"size":null,"shape":"round"}}}"#);
    let changed = r#"{"appName":"shop","configuration":{"settings":{"colour":"red","shape":"round"}}}"#;
    assert_eq!(spec(&kubectl, "v2", "old"), changed);
    merge("v1", "new", r#"{"spec":{"appName":"journal"}}"#);
    assert_eq!(spec(&kubectl, "v2", "new"), NEW_IN_V2.replace("blog", "journal"), "v1 keeps what it does not show");

    let applied =
        "apiVersion: example.com/v1\nkind: AppConfig\nmetadata: {name: applied}\nspec: {appName: a, config: {k: v}}\n";
    for _ in 0..2 {
        kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], applied);
        assert_eq!(spec(&kubectl, "v2", "applied"), r#"{"appName":"a","configuration":{"settings":{"k":"v"}}}"#);
    }
    let stays = NEW.replace("name: new", "name: stays").replace("appName: blog", "appName: unconvertible");
    kubectl.run_with_input(&["create", "-f", "-"], &stays);
    let refused = kubectl.attempt(&["get", "appconfigs.v1.example.com", "stays"]).expect_failure().stderr;
    let words = "conversion webhook for example.com/v2, Kind=AppConfig failed: this one stays as it is";
    assert!(refused.contains(words), "{refused}");
    kubectl.run(&["delete", "appconfigs", "--all"]);
}

#[test]
fn a_version_that_is_watched_sees_what_happens_in_the_other() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(webhook) = Webhook::start(&rkube, "conversion_webhook.py") else { return };
    define(&webhook, &kubectl, "v2");
    kubectl.run_with_input(&["create", "-f", "-"], NEW);
    let watch = kubectl.start(&["get", "--raw", "/apis/example.com/v1/appconfigs?watch=true"]);
    let next = || watch.next_line(TIMEOUT).expect("an event");
    let first = next();
    assert!(first.contains(r#""type":"ADDED""#) && first.contains(NEW_IN_V1), "{first}");
    kubectl.run_with_input(&["create", "-f", "-"], &NEW.replace("name: new", "name: second"));
    let second = next();
    assert!(second.contains(r#""apiVersion":"example.com/v1""#) && second.contains(NEW_IN_V1), "{second}");
    kubectl.run(&["delete", "appconfigs.v2.example.com", "new"]);
    let gone = next();
    assert!(gone.contains(r#""type":"DELETED""#) && gone.contains(NEW_IN_V1), "{gone}");
}

#[test]
fn old_objects_are_read_after_the_storage_version_moves() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(webhook) = Webhook::start(&rkube, "conversion_webhook.py") else { return };
    define(&webhook, &kubectl, "v1");
    kubectl.run_with_input(&["create", "-f", "-"], OLD);
    assert_eq!(spec(&kubectl, "v2", "old"), OLD_IN_V2);

    define(&webhook, &kubectl, "v2");
    let stored = ["get", "crd", "appconfigs.example.com", "-o", "jsonpath={.status.storedVersions}"];
    assert_eq!(kubectl.run(&stored).stdout, r#"["v1","v2"]"#);
    kubectl.run_with_input(&["create", "-f", "-"], NEW);
    let all = || {
        for (version, old, new) in [("v1", OLD_IN_V1, NEW_IN_V1), ("v2", OLD_IN_V2, NEW_IN_V2)] {
            let list = ["get", &format!("appconfigs.{version}.example.com"), "-o", "jsonpath={.items[*].spec}"];
            assert_eq!(kubectl.run(&list).stdout, format!("{new} {old}"), "{version}");
        }
    };
    all();
    // Writing it again moves it.
    kubectl.run(&["annotate", "appconfigs.v2.example.com", "old", "moved=yes"]);
    all();
    let patch = ["patch", "crd", "appconfigs.example.com", "--subresource=status", "--type=merge", "-p"];
    kubectl.run(&[&patch[..], &[r#"{"status":{"storedVersions":["v2"]}}"#]].concat());
    all();
}

#[test]
fn a_dead_webhook_stops_nobody_who_does_not_need_it() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(mut webhook) = Webhook::start(&rkube, "conversion_webhook.py") else { return };
    define(&webhook, &kubectl, "v2");
    kubectl.run_with_input(&["create", "-f", "-"], NEW);
    kubectl.run_with_input(&["create", "-f", "-"], OLD);
    assert_eq!(spec(&kubectl, "v1", "new"), NEW_IN_V1);
    webhook.stop();

    // Written by others meanwhile, so that nothing that was converted before helps.
    kubectl.run(&["label", "appconfigs.v2.example.com", "new", "a=b"]);
    assert_eq!(spec(&kubectl, "v2", "new"), NEW_IN_V2);
    assert_eq!(spec(&kubectl, "v2", "old"), OLD_IN_V2);
    kubectl.run_with_input(&["create", "-f", "-"], &NEW.replace("name: new", "name: another"));
    kubectl.run(&["get", "appconfigs.v2.example.com"]).says("another");
    let words = "conversion webhook for example.com/v2, Kind=AppConfig failed: Post \"https://127.0.0.1:";
    let create = Finished::run(&mut kubectl.command(&["create", "-f", "-"]), &OLD.replace("name: old", "name: late"));
    let get = kubectl.attempt(&["get", "appconfigs.v1.example.com", "another"]);
    assert!(get.expect_failure().stderr.contains(words));
    let refused = create.expect_failure().stderr;
    assert!(refused.contains("conversion webhook for example.com/v1, Kind=AppConfig failed: Post"), "{refused}");

    webhook.run();
    eventually("v1 is back", || {
        let got = kubectl.attempt(&["get", "appconfigs.v1.example.com", "another", "-o", "jsonpath={.spec}"]);
        if got.stdout == NEW_IN_V1 { Ok(()) } else { Err(got.stderr) }
    });
}
