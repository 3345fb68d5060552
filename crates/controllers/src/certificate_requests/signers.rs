//! The four signers that Kubernetes has itself, and what each of them signs. Pure.

use std::time::Duration;

use super::csr::Asked;

pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// Certificates are valid from a little before they are made.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// One that lives shorter gets all the time that it asks for; of others the backdate is a part.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
const SHORTEST: Duration = Duration::from_secs(10 * 60);

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signer {
    Client,
    KubeletClient,
    KubeletServing,
    /// Signs everything. The API takes no new requests for it.
    LegacyUnknown,
}

impl Signer {
    pub const ALL: [Signer; 4] = [Signer::Client, Signer::KubeletClient, Signer::KubeletServing, Signer::LegacyUnknown];

    pub fn of(name: &str) -> Option<Signer> {
        match name {
            CLIENT => Some(Signer::Client),
            KUBELET_CLIENT => Some(Signer::KubeletClient),
            KUBELET_SERVING => Some(Signer::KubeletServing),
            LEGACY_UNKNOWN => Some(Signer::LegacyUnknown),
            _ => None,
        }
    }

    /// Why it does not sign this, if it does not.
    pub fn check(self, asked: &Asked, usages: &[String]) -> Result<(), String> {
        match self {
            Signer::Client => check_client_usages(usages),
            Signer::KubeletClient => check_kubelet_client(asked, usages),
            Signer::KubeletServing => check_kubelet_serving(asked, usages),
            Signer::LegacyUnknown => Ok(()),
        }
    }
}

fn check_client_usages(usages: &[String]) -> Result<(), String> {
    let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|usage| usage == CLIENT_AUTH) {
        return Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"));
    }
    Ok(())
}

/// The checks are in upstream's order: the first one that fails is what is said.
pub fn check_kubelet_client(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_all(&[
        (is_of_nodes(asked), "subject organization is not system:nodes"),
        (asked.dns.is_empty(), "DNS subjectAltNames are not allowed"),
        (asked.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (asked.addresses.is_empty(), "IP subjectAltNames are not allowed"),
        (asked.uris.is_empty(), "URI subjectAltNames are not allowed"),
        (is_node(asked), "subject common name does not begin with system:node:"),
    ])?;
    check_usages(usages, CLIENT_AUTH)
}

fn check_kubelet_serving(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_all(&[
        (is_of_nodes(asked), "subject organization is not system:nodes"),
        (!asked.dns.is_empty() || !asked.addresses.is_empty(), "DNS or IP subjectAltName is required"),
        (asked.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (asked.uris.is_empty(), "URI subjectAltNames are not allowed"),
    ])?;
    check_usages(usages, SERVER_AUTH)?;
    check_all(&[(is_node(asked), "subject common name does not begin with system:node:")])
}

fn check_all(checks: &[(bool, &str)]) -> Result<(), String> {
    checks.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
}

fn is_of_nodes(asked: &Asked) -> bool {
    asked.organizations() == ["system:nodes"]
}

fn is_node(asked: &Asked) -> bool {
    asked.common_name().starts_with("system:node:")
}

/// A kubelet's usages: with or without that which only keys of RSA can have.
fn check_usages(usages: &[String], purpose: &str) -> Result<(), String> {
    let mut given: Vec<&str> = usages.iter().map(String::as_str).collect();
    given.sort_unstable();
    given.dedup();
    let mut all = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose];
    all.sort_unstable();
    let without_rsa = all.into_iter().filter(|usage| *usage != KEY_ENCIPHERMENT);
    if given == all || given.iter().copied().eq(without_rsa) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", all.join(" ")))
}

/// From when to when a certificate is valid, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

/// What is asked for, between ten minutes and the most that there is. A signer that ends sooner makes it shorter.
pub fn validity(asked_seconds: Option<i64>, longest: Duration, now: i64) -> Validity {
    let asked = asked_seconds.map(|seconds| Duration::from_secs(seconds.max(0).unsigned_abs()));
    let lives = match asked {
        Some(asked) if asked <= longest => asked.max(SHORTEST),
        _ => longest,
    };
    let counts_backdate = if lives < SHORT { Duration::ZERO } else { BACKDATE };
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Validity {
        not_before: now.saturating_sub(seconds(BACKDATE)),
        not_after: now.saturating_add(seconds(lives.saturating_sub(counts_backdate))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::certificate_requests::csr::Attribute;

    fn asked(organizations: &[&str], name: &str) -> Asked {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let subject =
            BTreeMap::from([(Attribute::Organization, texts(organizations)), (Attribute::CommonName, texts(&[name]))]);
        Asked { subject, ..Asked::default() }
    }

    fn usages(text: &str) -> Vec<String> {
        text.split(',').filter(|usage| !usage.is_empty()).map(str::to_owned).collect()
    }

    const KUBELET: &str = "digital signature,key encipherment,client auth";
    const SERVING: &str = "digital signature,key encipherment,server auth";

    #[test]
    fn signers_say_what_they_do_not_sign() {
        let node = || asked(&["system:nodes"], "system:node:a");
        let dns = || Asked { dns: vec!["a".into()], ..node() };
        let address = || Asked { addresses: vec![[10, 0, 0, 1].into()], ..node() };
        let email = || Asked { emails: vec!["a@b".into()], ..dns() };
        let uri = || Asked { uris: vec!["spiffe://a".into()], ..dns() };
        let (client, kubelet, serving) = (Signer::Client, Signer::KubeletClient, Signer::KubeletServing);
        let no_nodes = "subject organization is not system:nodes";
        let no_node = "subject common name does not begin with system:node:";
        let table = [
            (client, asked(&["system:masters"], "x"), "client auth", ""),
            (client, dns(), KUBELET, ""),
            (client, node(), SERVING, "invalid usage for client certificate: server auth"),
            (client, node(), "digital signature", "missing required usage for client certificate: client auth"),
            (kubelet, node(), KUBELET, ""),
            (kubelet, node(), "client auth,digital signature", ""),
            (kubelet, asked(&["system:nodes", "system:masters"], "system:node:a"), KUBELET, no_nodes),
            (kubelet, asked(&[], "system:node:a"), KUBELET, no_nodes),
            (kubelet, asked(&["system:nodes"], "admin"), KUBELET, no_node),
            (kubelet, dns(), KUBELET, "DNS subjectAltNames are not allowed"),
            (kubelet, address(), KUBELET, "IP subjectAltNames are not allowed"),
            (kubelet, node(), "client auth", "usages did not match [client auth digital signature key encipherment]"),
            (serving, dns(), SERVING, ""),
            (serving, address(), "digital signature,server auth", ""),
            (serving, node(), SERVING, "DNS or IP subjectAltName is required"),
            (serving, email(), SERVING, "Email subjectAltNames are not allowed"),
            (serving, uri(), SERVING, "URI subjectAltNames are not allowed"),
            (serving, dns(), KUBELET, "usages did not match [digital signature key encipherment server auth]"),
            (serving, Asked { dns: vec!["a".into()], ..asked(&["system:nodes"], "a") }, SERVING, no_node),
            (Signer::LegacyUnknown, asked(&["system:masters"], "x"), "cert sign", ""),
        ];
        for (signer, asked, given, why) in table {
            let checked = signer.check(&asked, &usages(given));
            assert_eq!(checked.err().unwrap_or_default(), why, "{signer:?} {asked:?} {given}");
        }
    }

    #[test]
    fn certificates_live_as_long_as_is_asked_for_within_limits() {
        const YEAR: i64 = 8760 * 3600;
        let now = 1_000_000;
        let longest = Duration::from_secs(YEAR.unsigned_abs());
        let table = [
            (None, YEAR - 300),
            (Some(YEAR * 2), YEAR - 300),
            (Some(600), 600),
            (Some(1), 600),
            (Some(-1), 600),
            (Some(7 * 3600), 7 * 3600),
            (Some(8 * 3600), 8 * 3600 - 300),
        ];
        for (asked, lives) in table {
            let expected = Validity { not_before: now - 300, not_after: now + lives };
            assert_eq!(validity(asked, longest, now), expected, "{asked:?}");
        }
        let short = validity(Some(3600), Duration::from_secs(60), now);
        assert_eq!(short.not_after, now + 60, "never longer than the flag says");
    }
}
