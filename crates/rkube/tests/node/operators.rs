//! Other people's operators, in pods: in-cluster configuration, charts with definitions and hooks, webhooks by service.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rkube_testkit::images::{ImageBuilder, Layer, Packing, TEST_IMAGE};
use rkube_testkit::{Rkube, TIMEOUT, eventually, tools};

use crate::{archive, wait_for};

const CONTROLLER: &str = "example.com/sample-controller:test";

/// An image with nothing but a program.
fn image_of(program: &Path, name: &str) -> Vec<u8> {
    let content = std::fs::read(program).unwrap();
    let layer = Layer::new().file("program", 0o755, &content);
    let image = ImageBuilder::new().layer(&layer).config("Entrypoint", serde_json::json!(["/program"]));
    image.name(name).archive(Packing::Docker)
}

#[test]
fn an_operator_in_go_is_installed_by_helm() {
    let Some(program) = tools::go_program("sample-controller") else { return };
    let files = tempfile::tempdir().unwrap();
    let image = files.path().join("controller.tar");
    std::fs::write(&image, image_of(&program, CONTROLLER)).unwrap();
    let rkube = Rkube::start_node(env!("CARGO_BIN_EXE_rkube"), &[archive(), &image], &[]);
    let (Some(kubectl), Some(helm)) = (rkube.kubectl(), rkube.helm()) else { return };
    let chart = chart(files.path());
    helm.run(&["install", "foos", &chart, "--set", &format!("hookImage={TEST_IMAGE}"), "--wait", "--timeout=50s"]);
    kubectl.run(&["logs", "foos-check"]).says("ready to install");
    let log = kubectl.start(&["logs", "-f", "deployment/foos"]);
    let mut lines = std::iter::from_fn(|| log.next_line(TIMEOUT));
    assert!(lines.any(|line| line.contains("Starting Foo controller")), "it has started with what a pod knows");
    let foo = r#"{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"one"},
        "spec":{"deploymentName":"one-web","replicas":2}}"#;
    kubectl.run_with_input(&["create", "-f", "-"], foo);
    let replicas = "jsonpath={.spec.replicas} {.metadata.ownerReferences[*].name}";
    wait_for(&kubectl, &["get", "deployment", "one-web", "-o", replicas], "2 one");
    helm.run(&["uninstall", "foos", "--wait"]);
}

/// The chart, with its definition among it.
fn chart(directory: &Path) -> String {
    let (from, to) = (tools::client_files().join("charts/foos"), directory.join("foos"));
    for folder in ["templates", "crds"] {
        std::fs::create_dir_all(to.join(folder)).unwrap();
    }
    for file in ["Chart.yaml", "values.yaml", "templates/controller.yaml", "templates/hook.yaml"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    std::fs::copy(tools::client_files().join("sample-controller/foos.yaml"), to.join("crds/foos.yaml")).unwrap();
    to.display().to_string()
}

/// The webhook that the tests of conversion run on this machine, as people deploy one: Deployment, Service, Secret.
#[test]
fn a_conversion_webhook_is_called_by_its_service() {
    let Some((rkube, kubectl)) = crate::start(&[]) else { return };
    let Some(python) = rkube.python("conversion_webhook.py") else { return };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["convert.default.svc".to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&key).unwrap().pem();
    let file = |name: &str, text: &str| {
        let path = rkube.scratch_directory().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (crt, pem) = (file("tls.crt", &certificate), file("tls.key", &key.serialize_pem()));
    kubectl.run(&["create", "secret", "tls", "convert", &format!("--cert={crt}"), &format!("--key={pem}")]);
    // What there is to run it with is this machine's: its files, not its rights.
    let words: Vec<String> = python
        .command(&["/tls/tls.crt", "/tls/tls.key", "8443", "0.0.0.0"])
        .get_args()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    kubectl.run_with_input(&["apply", "-f", "-"], &deployment(&words));
    kubectl.run(&["rollout", "status", "deployment/convert", "--timeout=50s"]);
    let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &certificate);
    let text = std::fs::read_to_string(tools::client_files().join("custom-resources/appconfigs.yaml")).unwrap();
    let service = "service: {name: convert, namespace: default, path: /convert}";
    let text = text.replace("url: https://127.0.0.1:PORT/convert", service).replace("BUNDLE", &bundle);
    let text = text.replace("STORES_V1", "false").replace("STORES_V2", "true");
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &text);
    kubectl.run(&["wait", "--for=condition=Established", "crd/appconfigs.example.com", "--timeout=30s"]);
    let old = "apiVersion: example.com/v1\nkind: AppConfig\nmetadata: {name: old}\n\
               spec: {appName: shop, config: {size: big}}\n";
    eventually("a conversion", || {
        let made = rkube_testkit::Finished::run(&mut kubectl.command(&["apply", "-f", "-"]), old);
        if made.status.success() { Ok(()) } else { Err(made.stderr) }
    });
    kubectl
        .run(&["get", "appconfigs.v2.example.com", "old", "-o", "jsonpath={.spec.configuration.settings.size}"])
        .says("big");
}

fn deployment(words: &[String]) -> String {
    let (program, arguments) = words.split_first().unwrap();
    // Where the interpreter, its packages and the script are, and what every program needs.
    let resolved = std::fs::canonicalize(program).unwrap();
    let named = words.iter().map(Path::new).chain([resolved.as_path()]).filter(|path| path.is_absolute());
    let tops = named.filter_map(|path| Some(Path::new("/").join(path.components().nth(1)?)));
    let all: BTreeSet<PathBuf> = tops.chain(["/usr", "/lib", "/lib64"].map(PathBuf::from)).collect();
    let there: Vec<PathBuf> = all.into_iter().filter(|directory| directory.is_dir()).collect();
    let mounts: Vec<_> = there.iter().enumerate().map(|(number, directory)| {
        serde_json::json!({ "name": format!("host-{number}"), "mountPath": directory, "readOnly": true })
    }).chain([serde_json::json!({ "name": "tls", "mountPath": "/tls" })]).collect();
    let volumes: Vec<_> = there.iter().enumerate().map(|(number, directory)| {
        serde_json::json!({ "name": format!("host-{number}"), "hostPath": { "path": directory } })
    }).chain([serde_json::json!({ "name": "tls", "secret": { "secretName": "convert" } })]).collect();
    let container = serde_json::json!({
        "name": "convert", "image": TEST_IMAGE, "command": [program], "args": arguments, "volumeMounts": mounts,
        "readinessProbe": { "tcpSocket": { "port": 8443 }, "periodSeconds": 1 },
    });
    let labels = serde_json::json!({ "app": "convert" });
    let template = serde_json::json!({ "metadata": { "labels": labels }, "spec": { "containers": [container], "volumes": volumes } });
    let deployment = serde_json::json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "convert" },
        "spec": { "selector": { "matchLabels": labels }, "template": template } });
    let service = serde_json::json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "convert" },
        "spec": { "selector": labels, "ports": [{ "port": 443, "targetPort": 8443 }] } });
    serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": [deployment, service] }).to_string()
}
