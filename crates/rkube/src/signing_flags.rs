//! Who signs certificates that are asked for: flags of kube-controller-manager, and its words where they do not go together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use rkube_cluster::certificates::{CertificateSigner, Pair};
use rkube_cluster::parts::{Signer, SigningAuthorities, signs_all};

use crate::host::SystemEntropy;
use crate::identity;

#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct SigningFlags {
    /// The authority that signs certificates asked for by CertificateSigningRequests, in PEM; unless given, the cluster's own
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    pub cluster_signing_cert_file: Option<PathBuf>,

    /// The key of that authority, in PEM
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    pub cluster_signing_key_file: Option<PathBuf>,

    /// The authority of the signer kubernetes.io/kubelet-serving alone, in PEM. With an authority for one signer alone, those
    /// that have none sign nothing
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,

    /// The key of that authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_serving_key_file: Option<PathBuf>,

    /// The same of the signer kubernetes.io/kube-apiserver-client-kubelet
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_client_cert_file: Option<PathBuf>,

    /// The key of that authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_client_key_file: Option<PathBuf>,

    /// The same of the signer kubernetes.io/kube-apiserver-client
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,

    /// The key of that authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,

    /// The same of the signer kubernetes.io/legacy-unknown
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,

    /// The key of that authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_legacy_unknown_key_file: Option<PathBuf>,
}

/// The files of one signer, by the beginning of their flags.
struct Files<'a> {
    signer: Signer,
    flags: &'static str,
    /// What upstream calls them when they are wrong.
    told: &'static str,
    certificate: Option<&'a Path>,
    key: Option<&'a Path>,
}

impl SigningFlags {
    /// The authorities that sign certificates, where it is not the cluster's own that does.
    pub fn authorities(&self) -> anyhow::Result<Option<SigningAuthorities>> {
        let specific = self.specific();
        let errors = self.errors(&specific);
        match errors.as_slice() {
            [] => {}
            [one] => bail!("{one}"),
            all => bail!("[{}]", all.join(", ")),
        }
        if let (Some(certificate), Some(key)) = (&self.cluster_signing_cert_file, &self.cluster_signing_key_file) {
            return Ok(Some(signs_all(&pair("cluster-signing", certificate, key)?)));
        }
        let mut authorities = SigningAuthorities::new();
        for Files { signer, flags, certificate, key, .. } in specific {
            if let (Some(certificate), Some(key)) = (certificate, key) {
                authorities.insert(signer, pair(flags, certificate, key)?);
            }
        }
        Ok(Some(authorities).filter(|authorities| !authorities.is_empty()))
    }

    /// In upstream's order.
    fn specific(&self) -> [Files<'_>; 4] {
        [
            Files {
                signer: Signer::KubeletServing,
                flags: "cluster-signing-kubelet-serving",
                told: "cluster-signing-kubelet-serving",
                certificate: self.cluster_signing_kubelet_serving_cert_file.as_deref(),
                key: self.cluster_signing_kubelet_serving_key_file.as_deref(),
            },
            Files {
                signer: Signer::KubeletClient,
                flags: "cluster-signing-kubelet-client",
                told: "cluster-signing-kube-apiserver-client",
                certificate: self.cluster_signing_kubelet_client_cert_file.as_deref(),
                key: self.cluster_signing_kubelet_client_key_file.as_deref(),
            },
            Files {
                signer: Signer::Client,
                flags: "cluster-signing-kube-apiserver-client",
                told: "cluster-signing-kube-apiserver",
                certificate: self.cluster_signing_kube_apiserver_client_cert_file.as_deref(),
                key: self.cluster_signing_kube_apiserver_client_key_file.as_deref(),
            },
            Files {
                signer: Signer::LegacyUnknown,
                flags: "cluster-signing-legacy-unknown",
                told: "cluster-signing-legacy-unknown",
                certificate: self.cluster_signing_legacy_unknown_cert_file.as_deref(),
                key: self.cluster_signing_legacy_unknown_key_file.as_deref(),
            },
        ]
    }

    fn errors(&self, specific: &[Files<'_>]) -> Vec<String> {
        let halves = specific.iter().filter_map(|files| match (files.certificate, files.key) {
            (None, Some(_)) => Some(format!("{:?}: cannot specify key without cert", files.told)),
            (Some(_), None) => Some(format!("{:?}: cannot specify cert without key", files.told)),
            _ => None,
        });
        let mut errors: Vec<String> = halves.collect();
        let is_any = specific.iter().any(|files| files.certificate.is_some() || files.key.is_some());
        if is_any && self.cluster_signing_cert_file.is_some() {
            errors.push(
                "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"
                    .to_owned(),
            );
        }
        errors
    }
}

fn pair(flags: &str, certificate: &Path, key: &Path) -> anyhow::Result<Pair> {
    let certificate = identity::read(certificate, &format!("--{flags}-cert-file"))?;
    let pair = Pair { certificate, key: identity::read(key, &format!("--{flags}-key-file"))? };
    CertificateSigner::new(&pair, Arc::new(SystemEntropy))
        .with_context(|| format!("--{flags}-cert-file and --{flags}-key-file"))?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use rkube_cluster::certificates::issue;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: SigningFlags,
    }

    fn authorities(flags: &[&str]) -> Result<Option<Vec<(Signer, String)>>, String> {
        let line = Line::try_parse_from(["rkube"].iter().chain(flags)).map_err(|error| error.kind().to_string())?;
        let found = line.flags.authorities().map_err(|error| format!("{error:#}"))?;
        let text = |(signer, pair): (Signer, Pair)| (signer, [pair.certificate, pair.key].concat());
        Ok(found.map(|found| found.into_iter().map(text).collect()))
    }

    #[test]
    fn one_signs_for_all_or_each_for_itself() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let names = ["", "-kubelet-serving", "-kubelet-client", "-kube-apiserver-client", "-legacy-unknown"];
        let pairs: Vec<Pair> = names.iter().map(|_| issue::authority(0, &SystemEntropy).unwrap()).collect();
        let pair = |signer: &str| &pairs[names.iter().position(|name| *name == signer).unwrap()];
        let flags = |signer: &str| {
            let Pair { certificate, key } = pair(signer);
            let (certificate, key) = (file(&format!("{signer}.crt"), certificate), file(&format!("{signer}.key"), key));
            [
                format!("--cluster-signing{signer}-cert-file={certificate}"),
                format!("--cluster-signing{signer}-key-file={key}"),
            ]
        };
        let asked = |signers: &[&str]| {
            let flags: Vec<String> = signers.iter().flat_map(|signer| flags(signer)).collect();
            authorities(&flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(asked(&[]), None, "the cluster's own does");
        let text = |signer: &str| [pair(signer).certificate.as_str(), &pair(signer).key].concat();
        let all = Signer::ALL.map(|signer| (signer, text("")));
        assert_eq!(asked(&[""]), Some(all.to_vec()));
        let of = |signer, name: &str| (signer, text(name));
        assert_eq!(asked(&["-kubelet-client"]), Some(vec![of(Signer::KubeletClient, "-kubelet-client")]));
        let three = asked(&["-legacy-unknown", "-kubelet-serving", "-kube-apiserver-client"]);
        let expected = [
            of(Signer::Client, "-kube-apiserver-client"),
            of(Signer::KubeletServing, "-kubelet-serving"),
            of(Signer::LegacyUnknown, "-legacy-unknown"),
        ];
        assert_eq!(three, Some(expected.to_vec()));
        let (certificate, key) = (file("c", &pair("").certificate), file("k", &pair("-legacy-unknown").key));
        let flags = [format!("--cluster-signing-cert-file={certificate}"), format!("--cluster-signing-key-file={key}")];
        assert_eq!(
            authorities(&[&flags[0], &flags[1]]).unwrap_err(),
            "--cluster-signing-cert-file and --cluster-signing-key-file: the signer's key does not belong to its certificate"
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |flags: &[&str]| authorities(flags).unwrap_err();
        for half in ["--cluster-signing-cert-file=c", "--cluster-signing-key-file=k"] {
            assert_eq!(refused(&[half]), "one or more required arguments were not provided", "{half}");
        }
        assert_eq!(
            refused(&["--cluster-signing-kubelet-serving-key-file=k"]),
            "\"cluster-signing-kubelet-serving\": cannot specify key without cert"
        );
        // Upstream has these names.
        assert_eq!(
            refused(&[
                "--cluster-signing-kubelet-client-cert-file=c",
                "--cluster-signing-kube-apiserver-client-key-file=k"
            ]),
            "[\"cluster-signing-kube-apiserver-client\": cannot specify cert without key, \
             \"cluster-signing-kube-apiserver\": cannot specify key without cert]"
        );
        let both = [
            "--cluster-signing-cert-file=c",
            "--cluster-signing-key-file=k",
            "--cluster-signing-legacy-unknown-cert-file=c",
            "--cluster-signing-legacy-unknown-key-file=k",
        ];
        assert_eq!(
            refused(&both),
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"
        );
        assert!(authorities(&both[..2]).is_err() && authorities(&both[2..]).is_err(), "there are no such files");
    }
}
