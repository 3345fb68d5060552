//! Certificates that are asked for: who gets one, what it says, and how long requests are kept.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use rkube_cluster::certificates::Pair;
use rkube_cluster::parts::{Settings, Signer};
use rkube_cluster::{Controllers, Part};
use rkube_machinery::pem;
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_operator::kube::{Api, Client, ResourceExt as _};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer as _, X509Certificate};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const HOUR: Duration = Duration::from_secs(60 * 60);
const KUBELET_USAGES: [&str; 2] = ["digital signature", "client auth"];

async fn start() -> TestCluster {
    TestCluster::builder().without_scheduler().virtual_time().start().await
}

fn requests(client: Client) -> Api<CertificateSigningRequest> {
    Api::all(client)
}

fn pem_request(organization: &str, name: &str) -> Vec<u8> {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, organization);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap().into_bytes()
}

/// Asks as this client.
async fn ask(client: Client, name: &str, signer: &str, usages: &[&str], request: Vec<u8>) {
    let asked = json!({ "metadata": { "name": name }, "spec": {
        "signerName": signer, "usages": usages, "request": ByteString(request), "expirationSeconds": 3600,
    } });
    requests(client).create(&PostParams::default(), &serde_json::from_value(asked).unwrap()).await.unwrap();
}

async fn answer(cluster: &TestCluster, name: &str, kind: &str) {
    let api = requests(cluster.client());
    let mut request = api.get(name).await.unwrap();
    let condition = json!({ "type": kind, "status": "True", "reason": "Tested", "message": "by hand" });
    request.status = serde_json::from_value(json!({ "conditions": [condition] })).unwrap();
    api.replace_subresource("approval", name, &PostParams::default(), &request).await.unwrap();
}

async fn conditions(cluster: &TestCluster, name: &str) -> Vec<(String, String, String)> {
    let request = requests(cluster.client()).get(name).await.unwrap();
    let status = serde_json::to_value(request.status).unwrap();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().map(|found| (text(found, "type"), text(found, "reason"), text(found, "message"))).collect()
}

/// The certificate in DER, if there is one.
async fn certificate(cluster: &TestCluster, name: &str) -> Option<Vec<u8>> {
    let text = requests(cluster.client()).get(name).await.unwrap().status?.certificate?;
    let block = pem::blocks(&text.0).next().unwrap();
    assert_eq!(block.label, "CERTIFICATE");
    Some(block.bytes)
}

#[tokio::test]
async fn who_is_approved_gets_a_certificate_for_the_time_asked_for() {
    let cluster = start().await;
    ask(cluster.client(), "jane", CLIENT, &["client auth"], pem_request("dev", "jane")).await;
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(certificate(&cluster, "jane").await, None, "nobody has said yes");
    answer(&cluster, "jane", "Approved").await;
    let made = cluster.clock().now_seconds();
    cluster.advance(Duration::from_secs(1)).await;
    let der = certificate(&cluster, "jane").await.expect("it is approved");
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=dev, CN=jane");
    assert_eq!(certificate.issuer().to_string(), "CN=kubernetes");
    assert!(!certificate.is_ca());
    let validity = certificate.validity();
    assert_eq!(validity.not_after.timestamp() - validity.not_before.timestamp(), 3600 + 300);
    assert!((made - 301..=made - 299).contains(&validity.not_before.timestamp()), "{validity:?}");
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth);
    cluster.shutdown().await;
}

fn authority(name: &str) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Pair { certificate: parameters.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

#[tokio::test]
async fn signers_have_authorities_of_their_own_or_leave_requests_to_others() {
    let cluster = TestCluster::builder().controllers("").without_scheduler().virtual_time().start().await;
    let signing = [(Signer::Client, authority("clients")), (Signer::KubeletServing, authority("kubelets"))];
    let controllers = Controllers {
        root_ca: "authority".to_owned(),
        signing: signing.into(),
        selection: "certificatesigningrequest-signing-controller".parse().unwrap(),
        settings: Settings::default(),
        node_ranges: None,
        election: None,
        local_path: None,
    };
    let _running = (Part::from(controllers).start)(cluster.host());
    ask(cluster.client(), "jane", CLIENT, &["client auth"], pem_request("dev", "jane")).await;
    let kubelet = pem_request("system:nodes", "system:node:n");
    ask(cluster.client(), "kubelet", KUBELET_CLIENT, &KUBELET_USAGES, kubelet).await;
    answer(&cluster, "jane", "Approved").await;
    answer(&cluster, "kubelet", "Approved").await;
    cluster.advance(Duration::from_secs(60)).await;
    let der = certificate(&cluster, "jane").await.expect("its signer has an authority");
    let (_, jane) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(jane.issuer().to_string(), "CN=clients");
    assert_eq!(certificate(&cluster, "kubelet").await, None);
    assert_eq!(conditions(&cluster, "kubelet").await.len(), 1, "it is approved, and did not fail");
    cluster.shutdown().await;
}

#[tokio::test]
async fn what_a_signer_does_not_sign_fails_and_says_why() {
    let cluster = start().await;
    let server = ["digital signature", "server auth"];
    ask(cluster.client(), "server", CLIENT, &server, pem_request("dev", "jane")).await;
    ask(cluster.client(), "node", KUBELET_CLIENT, &KUBELET_USAGES, pem_request("system:masters", "system:node:a"))
        .await;
    ask(cluster.client(), "other", "example.com/other", &server, pem_request("dev", "jane")).await;
    ask(cluster.client(), "denied", CLIENT, &["client auth"], pem_request("dev", "joe")).await;
    for name in ["server", "node", "other"] {
        answer(&cluster, name, "Approved").await;
    }
    answer(&cluster, "denied", "Denied").await;
    cluster.advance(Duration::from_secs(10)).await;
    for (name, expected) in [
        ("server", Some("invalid usage for client certificate: server auth")),
        ("node", Some("subject organization is not system:nodes")),
        ("other", None),
        ("denied", None),
    ] {
        let failed = expected.map(|why| ("Failed".to_owned(), "SignerValidationFailure".to_owned(), why.to_owned()));
        assert_eq!(conditions(&cluster, name).await.get(1).cloned(), failed, "{name}");
        assert_eq!(certificate(&cluster, name).await, None, "{name}");
    }
    cluster.shutdown().await;
}

async fn bind(cluster: &TestCluster, role: &str, group: &str) {
    let binding = json!({
        "metadata": { "name": format!("{}-{}", role.replace(':', "-"), group.replace(':', "-")) },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test]
async fn kubelets_that_may_are_approved_by_themselves() {
    let cluster = start().await;
    let asks = async |user: &str, group: &str, name: &str, of: &str| {
        let client = cluster.client_as(user, &[group]);
        ask(client, name, KUBELET_CLIENT, &KUBELET_USAGES, pem_request("system:nodes", of)).await;
    };
    bind(&cluster, "system:node-bootstrapper", "system:bootstrappers").await;
    bind(&cluster, "system:node-bootstrapper", "people").await;
    asks("system:bootstrap:a", "system:bootstrappers", "first", "system:node:a").await;
    asks("system:node:a", "system:nodes", "own", "system:node:a").await;
    asks("jim", "people", "another", "system:node:b").await;
    cluster.advance(Duration::from_secs(60)).await;
    for name in ["first", "own", "another"] {
        assert!(conditions(&cluster, name).await.is_empty(), "{name}: nobody may yet");
    }
    let role = |of: &str| format!("system:certificates.k8s.io:certificatesigningrequests:{of}");
    bind(&cluster, &role("nodeclient"), "system:bootstrappers").await;
    bind(&cluster, &role("selfnodeclient"), "system:nodes").await;
    // It is tried again by and by.
    cluster.advance(HOUR / 3).await;
    let approved = |message: &str| vec![("Approved".to_owned(), "AutoApproved".to_owned(), message.to_owned())];
    let own = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    assert_eq!(conditions(&cluster, "own").await, approved(own));
    let first = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(conditions(&cluster, "first").await, approved(first));
    assert!(conditions(&cluster, "another").await.is_empty(), "not everybody may be a node");
    assert!(certificate(&cluster, "own").await.is_some() && certificate(&cluster, "first").await.is_some());
    cluster.shutdown().await;
}

#[tokio::test]
async fn requests_go_some_time_after_their_answer() {
    let cluster = start().await;
    ask(cluster.client(), "open", CLIENT, &["client auth"], pem_request("dev", "a")).await;
    ask(cluster.client(), "denied", CLIENT, &["client auth"], pem_request("dev", "b")).await;
    ask(cluster.client(), "issued", CLIENT, &["client auth"], pem_request("dev", "c")).await;
    answer(&cluster, "denied", "Denied").await;
    answer(&cluster, "issued", "Approved").await;
    let names = async || {
        let all = requests(cluster.client()).list(&ListParams::default()).await.unwrap();
        all.items.iter().map(|request| request.name_any()).collect::<Vec<_>>()
    };
    cluster.advance(HOUR / 2).await;
    assert_eq!(names().await, ["denied", "issued", "open"]);
    cluster.advance(HOUR * 2).await;
    assert_eq!(names().await, ["open"]);
    cluster.advance(HOUR * 24).await;
    assert!(names().await.is_empty());
    cluster.shutdown().await;
}

#[tokio::test]
async fn many_requests_are_all_signed() {
    const COUNT: usize = 500;
    let cluster = start().await;
    let request = pem_request("dev", "jane");
    for number in 0..COUNT {
        let name = format!("jane-{number}");
        ask(cluster.client(), &name, CLIENT, &["client auth"], request.clone()).await;
        answer(&cluster, &name, "Approved").await;
    }
    cluster.advance(Duration::from_secs(60)).await;
    let all = requests(cluster.client()).list(&ListParams::default()).await.unwrap();
    let is_issued = |request: &&CertificateSigningRequest| {
        request.status.as_ref().is_some_and(|status| status.certificate.is_some())
    };
    assert_eq!(all.items.iter().filter(is_issued).count(), COUNT);
    cluster.shutdown().await;
}
