//! A kubeconfig: all that a client needs, in one file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::Pair;

/// The name of cluster, context and user.
const NAME: &str = "rkube";

/// For a user with a certificate of a server at `url` that `authorities` (PEM) vouch for.
pub fn render(url: &str, authorities: &str, user: &Pair) -> String {
    let ca = STANDARD.encode(authorities);
    let certificate = STANDARD.encode(&user.certificate);
    let key = STANDARD.encode(&user.key);
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    certificate-authority-data: {ca}
    server: {url}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
current-context: {NAME}
preferences: {{}}
users:
- name: {NAME}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"
    )
}
