//! The flags that say by what clients and tokens are known, and the files that they name.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use rkube_access::authenticate::service_account::TokenOptions;
use rkube_machinery::time;

use crate::files;
use crate::pki::{Pair, Pki};

const NANOSECONDS: i64 = 1_000_000_000;
const HOUR_SECONDS: i64 = 60 * 60;

#[derive(Debug, Args)]
pub struct IdentityFlags {
    /// A CSV file of bearer tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Whether Secrets of type bootstrap.kubernetes.io/token in kube-system hold tokens by which nodes join
    #[arg(long, value_name = "true|false", default_value_t = false, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set)]
    pub enable_bootstrap_token_auth: bool,

    /// Whether requests without credentials are let in, as `system:anonymous`
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set)]
    pub anonymous_auth: bool,

    /// Who else signs certificates of clients, as PEM: common name and organizations are user and groups
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// The certificate to serve with, as PEM, followed by those that it hangs on [default: one of the own authority]
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// The key that signs tokens of service accounts, RSA or ECDSA as PEM [default: one of the data directory]
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,

    /// More keys whose tokens are good, as PEM: public ones, certificates or private ones. May be given several times
    #[arg(long, value_name = "FILE")]
    pub service_account_key_file: Vec<PathBuf>,

    /// Who issues tokens. May be given several times: the first is in new tokens, and those of the others are good
    #[arg(long, value_name = "URL")]
    pub service_account_issuer: Vec<String>,

    /// For whom tokens are that are for this server [default: its issuers]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub api_audiences: Vec<String>,

    /// The longest that tokens may last, such as 24h [default: as long as they are asked for]
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true)]
    pub service_account_max_token_expiration: String,

    /// Whether tokens of an hour that pods get by themselves last a year
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set)]
    pub service_account_extend_token_expiration: bool,

    /// Where others find the keys of service accounts [default: at this server]
    #[arg(long, value_name = "URL")]
    pub service_account_jwks_uri: Option<String>,
}

impl IdentityFlags {
    /// What is to be known of tokens.
    pub fn tokens(&self, pki: &Pki) -> anyhow::Result<TokenOptions> {
        let signing_key = match &self.service_account_signing_key_file {
            Some(path) => read(path, "--service-account-signing-key-file")?,
            None => pki.service_account_key.clone(),
        };
        let keys = self.service_account_key_file.iter().map(|path| read(path, "--service-account-key-file"));
        let issuers = &self.service_account_issuer;
        for (place, issuer) in issuers.iter().enumerate() {
            if issuer.is_empty() {
                bail!("service-account-issuer should not be an empty string");
            }
            if issuers[..place].contains(issuer) {
                bail!("service-account-issuer {issuer:?} is already specified");
            }
        }
        let keys_url = self.service_account_jwks_uri.clone().unwrap_or_default();
        if !keys_url.is_empty() && !keys_url.starts_with("https://") {
            bail!("service-account-jwks-uri requires https scheme, parsed as: {keys_url}");
        }
        Ok(TokenOptions {
            signing_key,
            keys: keys.collect::<anyhow::Result<_>>()?,
            issuers: issuers.clone(),
            audiences: self.api_audiences.clone(),
            seconds_max: seconds_max(&self.service_account_max_token_expiration).map_err(anyhow::Error::msg)?,
            extends: self.service_account_extend_token_expiration,
            keys_url,
        })
    }

    /// The pair to serve with, and by what others know it, where it is not of the own authority.
    pub fn serving(&self) -> anyhow::Result<Option<Pair>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) else {
            return Ok(None);
        };
        let certificate = read(certificate, "--tls-cert-file")?;
        Ok(Some(Pair { certificate, key: read(key, "--tls-private-key-file")? }))
    }

    /// Who signs certificates of clients: the own authority, by which the kubeconfig works, and whom flags name.
    pub fn client_authorities(&self, pki: &Pki) -> anyhow::Result<String> {
        let mut all = pki.ca.certificate.clone();
        if let Some(path) = &self.client_ca_file {
            all.push_str(&read(path, "--client-ca-file")?);
        }
        Ok(all)
    }
}

/// What is in the file that a flag names.
pub fn read(path: &Path, flag: &str) -> anyhow::Result<String> {
    files::read(path)?.with_context(|| format!("there is nothing in {}: check {flag}", path.display()))
}

/// The longest that tokens may last, as `--service-account-max-token-expiration` says it; 0 says nothing.
pub fn seconds_max(text: &str) -> Result<Option<i64>, String> {
    match time::parse_duration(text)? / NANOSECONDS {
        0 => Ok(None),
        seconds if (HOUR_SECONDS..=1 << 32).contains(&seconds) => Ok(Some(seconds)),
        _ => Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_last_an_hour_at_least() {
        assert_eq!(seconds_max("24h"), Ok(Some(86_400)));
        assert_eq!(seconds_max("0"), Ok(None));
        for bad in ["59m", "-1h", "2000000h", "x", ""] {
            assert!(seconds_max(bad).is_err(), "{bad}");
        }
    }
}
