//! Certificates that people ask for and administrators approve, used as their clients; and tokens by which nodes join.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rkube_machinery::decode::base64;
use rkube_testkit::{Finished, Rkube, Tool, eventually};

use crate::start;

struct Asked {
    key: String,
    manifest: String,
}

fn asked(name: &str, signer: &str, organization: &str, headers: &str) -> Asked {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, organization);
    parameters.distinguished_name.push(DnType::CommonName, name);
    let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let request = request.replacen("-----\n", &format!("-----\n{headers}"), 1);
    let request = base64::encode(request.as_bytes());
    let manifest = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\n\
         spec: {{signerName: {signer}, usages: [client auth], expirationSeconds: 7200, request: {request}}}\n"
    );
    Asked { key: key.serialize_pem(), manifest }
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// kubectl without the administrator's credentials.
fn without_credentials(rkube: &Rkube, kubectl: &Tool, arguments: &[&str]) -> Finished {
    let authority = rkube.data_directory().join("pki/ca.crt").display().to_string();
    let server = ["--server", rkube.url(), "--certificate-authority", &authority];
    let mut command = kubectl.command(&[&server[..], arguments].concat());
    Finished::run(command.env("KUBECONFIG", "/dev/null"), "")
}

#[test]
fn a_certificate_that_was_approved_lets_its_owner_in() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let jane = asked("jane", CLIENT, "developers", "");
    kubectl.run_with_input(&["create", "-f", "-"], &jane.manifest);
    kubectl.run(&["get", "csr", "jane"]).says("120m").says("Pending");
    kubectl.run(&["certificate", "approve", "jane"]).says("jane approved");
    kubectl.run(&["wait", "--for=jsonpath={.status.certificate}", "csr/jane", "--timeout=60s"]);
    kubectl.run(&["get", "csr", "jane"]).says("Approved,Issued");
    let path = "jsonpath={.status.certificate}";
    let certificate = kubectl.run(&["get", "csr", "jane", "-o", path]).stdout;
    let directory = rkube.scratch_directory();
    let (certificate_file, key_file) = (directory.join("jane.crt"), directory.join("jane.key"));
    std::fs::write(&certificate_file, base64::decode(certificate.as_bytes()).unwrap()).unwrap();
    std::fs::write(&key_file, &jane.key).unwrap();
    let pair = [
        format!("--client-certificate={}", certificate_file.display()),
        format!("--client-key={}", key_file.display()),
    ];
    let as_jane = |arguments: &[&str]| {
        without_credentials(&rkube, &kubectl, &[&[pair[0].as_str(), pair[1].as_str()][..], arguments].concat())
    };
    as_jane(&["auth", "whoami"]).expect_success().says("jane").says("developers").says("system:authenticated");
    as_jane(&["get", "pods"]).expect_failure();
    kubectl.run(&["create", "rolebinding", "developers", "--clusterrole=view", "--group=developers"]);
    as_jane(&["get", "pods"]).expect_success();
}

#[test]
fn nobody_becomes_a_master_and_signers_say_what_they_do_not_sign() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let refusal = format!("use of {CLIENT} signer with system:masters group is not allowed");
    // Whatever else stands in the request.
    for headers in ["", "Proc-Type: 4,ENCRYPTED\n\n"] {
        let root = asked("root", CLIENT, "system:masters", headers);
        let mut command = kubectl.command(&["create", "-f", "-"]);
        let refused = Finished::run(&mut command, &root.manifest).expect_failure();
        assert!(refused.stderr.contains(&refusal), "{}", refused.stderr);
    }
    let node = asked("node", "kubernetes.io/kubelet-serving", "system:masters", "");
    kubectl.run_with_input(&["create", "-f", "-"], &node.manifest);
    kubectl.run(&["certificate", "approve", "node"]);
    kubectl.run(&["wait", "--for=condition=Failed", "csr/node", "--timeout=60s"]);
    kubectl.run(&["get", "csr", "node"]).says("Approved,Failed");
    let path = "jsonpath={.status.conditions[1].reason}: {.status.conditions[1].message}";
    let why = kubectl.run(&["get", "csr", "node", "-o", path]).stdout;
    assert_eq!(why, "SignerValidationFailure: subject organization is not system:nodes");
}

#[test]
fn bootstrap_tokens_let_nodes_in_until_they_expire() {
    let arguments =
        ["--store=memory", "--enable-bootstrap-token-auth", "--controllers=*,bootstrap-signer-controller,tokencleaner"];
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &arguments);
    let Some(kubectl) = rkube.kubectl() else { return };
    let secret = |id: &str, expiration: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: bootstrap-token-{id}, namespace: kube-system}}\n\
             type: bootstrap.kubernetes.io/token\nstringData: {{token-id: {id}, token-secret: 0123456789abcdef, \
             expiration: \"{expiration}\", usage-bootstrap-authentication: \"true\", \
             usage-bootstrap-signing: \"true\", auth-extra-groups: \"system:bootstrappers:kubeadm:default-node-token\"}}\n"
        )
    };
    let information = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster-info, namespace: kube-public}\n\
                       data: {kubeconfig: something}\n";
    let objects = [information, &secret("abcdef", "2099-01-01T00:00:00Z"), &secret("expird", "2020-01-01T00:00:00Z")];
    kubectl.run_with_input(&["create", "-f", "-"], &objects.concat());
    let whoami = |token: &str| without_credentials(&rkube, &kubectl, &["--token", token, "auth", "whoami"]);
    let found = whoami("abcdef.0123456789abcdef").expect_success().says("system:bootstrap:abcdef");
    found.says("system:bootstrappers").says("system:bootstrappers:kubeadm:default-node-token");
    whoami("abcdef.0123456789abcdee").expect_failure();
    whoami("expird.0123456789abcdef").expect_failure();
    kubectl.run(&["wait", "-n", "kube-system", "--for=delete", "secret/bootstrap-token-expird", "--timeout=60s"]);
    let signed = "--for=jsonpath={.data.jws-kubeconfig-abcdef}";
    kubectl.run(&["wait", "-n", "kube-public", signed, "configmap/cluster-info", "--timeout=60s"]);
    kubectl.run(&["delete", "-n", "kube-system", "secret", "bootstrap-token-abcdef"]);
    whoami("abcdef.0123456789abcdef").expect_failure();
}

#[test]
fn the_authority_is_published_where_the_gate_is_on() {
    let gates = "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true";
    let served = "--runtime-config=certificates.k8s.io/v1beta1=true";
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", gates, served]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let signer = "--field-selector=spec.signerName=kubernetes.io/kube-apiserver-serving";
    let names = || kubectl.run(&["get", "clustertrustbundles", signer, "-o", "name"]).stdout;
    let prefix = "clustertrustbundle.certificates.k8s.io/kubernetes.io:kube-apiserver-serving:";
    let name = eventually("there is a bundle", || names().strip_prefix(prefix).map(str::to_owned).ok_or_else(names));
    kubectl.run(&["delete", "clustertrustbundles", signer]);
    let again = eventually("it is there again", || names().strip_prefix(prefix).map(str::to_owned).ok_or_else(names));
    assert_eq!(name, again, "it has the name of what it holds");
}
