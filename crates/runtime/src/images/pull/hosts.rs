//! Which servers are asked for the images of a registry: its own, and mirrors that a file names.
//!
//! The files are containerd's: `<directory>/<registry>/hosts.toml`, and `_default` for registries without one.
//!
//! ```toml
//! server = "https://registry-1.docker.io"
//!
//! [host."http://mirror.local:5000"]
//!   capabilities = ["pull", "resolve"]
//!   skip_verify = true
//!   ca = "mirror.pem"
//! ```

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use serde::Deserialize;

use crate::images::bounds::MAX_HOSTS;
use crate::images::{Error, Result};

/// A server to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// As `https://registry-1.docker.io/v2`.
    pub base: String,
    /// May it say which image a tag stands for? Every one may be asked for content, which has its digest.
    pub resolves: bool,
    /// Asked in the place of another one, which it is told.
    pub mirror: bool,
    pub trust: Trust,
    pub headers: Vec<(String, String)>,
}

/// Whom we believe to be that server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub skip_verify: bool,
    /// Files with certificates, beside the system's.
    pub authorities: Vec<PathBuf>,
}

/// Where a registry is that is not where its name says.
const DOCKER: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// In the order in which they are to be asked: mirrors first.
pub(super) fn of(directory: &Path, domain: &str) -> Result<Vec<Host>> {
    let folders = [domain.to_owned(), domain.replace(':', "_") + "_", "_default".to_owned()];
    for folder in folders.into_iter().filter(|folder| folder != "_default" || !is_loopback(domain)) {
        let path = directory.join(&folder).join("hosts.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                return parse(&text, domain, &directory.join(folder)).map_err(|error| error.within(path.display()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::Io(format!("read {}", path.display()), error)),
        }
    }
    Ok(vec![own(domain, None, Trust::default())?])
}

#[derive(Deserialize)]
struct File {
    server: Option<String>,
    #[serde(flatten)]
    own: Entry,
    #[serde(default)]
    host: toml::Table,
}

#[derive(Deserialize)]
struct Entry {
    capabilities: Option<Vec<String>>,
    #[serde(default)]
    skip_verify: bool,
    ca: Option<OneOrMany>,
    #[serde(default)]
    override_path: bool,
    #[serde(default)]
    header: toml::Table,
    client: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

impl Entry {
    fn trust(&self, folder: &Path) -> Result<Trust> {
        if self.client.is_some() {
            return Err(Error::InvalidReference("certificates of clients are not supported".to_owned()));
        }
        let authorities = match &self.ca {
            Some(OneOrMany::One(path)) => vec![folder.join(path)],
            Some(OneOrMany::Many(paths)) => paths.iter().map(|path| folder.join(path)).collect(),
            None => Vec::new(),
        };
        Ok(Trust { skip_verify: self.skip_verify, authorities })
    }
}

fn parse(text: &str, domain: &str, folder: &Path) -> Result<Vec<Host>> {
    let wrong = |error: toml::de::Error| Error::InvalidReference(error.message().to_owned());
    let file: File = toml::from_str(text).map_err(wrong)?;
    let mut hosts = Vec::new();
    for (server, entry) in file.host {
        let entry: Entry = entry.try_into().map_err(wrong)?;
        let can = |what: &str| entry.capabilities.as_ref().is_none_or(|all| all.iter().any(|known| known == what));
        if !can("pull") {
            continue;
        }
        let headers = entry.header.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        hosts.push(Host {
            base: base(&server, entry.override_path)?,
            resolves: can("resolve"),
            mirror: true,
            trust: entry.trust(folder)?,
            headers: headers.collect(),
        });
    }
    if hosts.len() > MAX_HOSTS {
        return Err(Error::InvalidReference(format!("{} hosts are more than {MAX_HOSTS}", hosts.len())));
    }
    hosts.push(own(domain, file.server.as_deref(), file.own.trust(folder)?)?);
    Ok(hosts)
}

/// The registry itself.
fn own(domain: &str, server: Option<&str>, trust: Trust) -> Result<Host> {
    let server = match server {
        Some(server) => server.to_owned(),
        None if domain == DOCKER.0 => DOCKER.1.to_owned(),
        None => domain.to_owned(),
    };
    Ok(Host { base: base(&server, false)?, resolves: true, mirror: false, trust, headers: Vec::new() })
}

/// With `/v2` at its end unless its path is to be taken as it is. What leads to this machine needs no encryption.
fn base(server: &str, override_path: bool) -> Result<String> {
    let invalid = || Error::InvalidReference(format!("{server:?} is no address of a registry"));
    let scheme = if is_loopback(server) { "http" } else { "https" };
    let whole = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
    let uri: Uri = whole.parse().map_err(|_| invalid())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(invalid());
    }
    let whole = whole.trim_end_matches('/');
    Ok(if override_path || whole.ends_with("/v2") { whole.to_owned() } else { format!("{whole}/v2") })
}

/// With or without a port.
fn is_loopback(domain: &str) -> bool {
    let host = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => domain.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bases(hosts: &[Host]) -> Vec<&str> {
        hosts.iter().map(|host| host.base.as_str()).collect()
    }

    #[test]
    fn a_registry_is_where_its_name_says() {
        let nowhere = Path::new("/nonexistent");
        for (domain, base) in [
            ("docker.io", "https://registry-1.docker.io/v2"),
            ("example.com:5000", "https://example.com:5000/v2"),
            ("localhost:5000", "http://localhost:5000/v2"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000/v2"),
            ("[::1]:5000", "http://[::1]:5000/v2"),
        ] {
            assert_eq!(bases(&of(nowhere, domain).unwrap()), [base]);
        }
    }

    #[test]
    fn mirrors_come_first_and_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            std::fs::create_dir_all(directory.path().join(folder)).unwrap();
            std::fs::write(directory.path().join(folder).join("hosts.toml"), text).unwrap();
        };
        write(
            "docker.io",
            r#"
            server = "https://docker.example"
            ca = "own.pem"
            [host."http://z.local:5000"]
            capabilities = ["pull"]
            [host."https://a.local/prefix/v2"]
            override_path = true
            skip_verify = true
            ca = ["/x.pem", "y.pem"]
            [host."https://a.local/prefix/v2".header]
            x-token = "1"
            [host."https://push.local"]
            capabilities = ["push"]
            "#,
        );
        write("_default", "[host.\"http://other.local\"]\n");
        write("10.0.0.1_5000_", "server = \"http://10.0.0.1:5000\"\n");

        let hosts = of(directory.path(), "docker.io").unwrap();
        let expected = ["http://z.local:5000/v2", "https://a.local/prefix/v2", "https://docker.example/v2"];
        assert_eq!(bases(&hosts), expected);
        assert_eq!(hosts.iter().map(|host| host.resolves).collect::<Vec<_>>(), [false, true, true]);
        assert!(hosts[1].trust.skip_verify && !hosts[2].trust.skip_verify);
        assert_eq!(hosts[1].trust.authorities[0], Path::new("/x.pem"));
        assert_eq!(hosts[2].trust.authorities[0], directory.path().join("docker.io/own.pem"));
        assert_eq!(hosts[1].headers, [("x-token".to_owned(), "1".to_owned())]);

        let others = of(directory.path(), "quay.io").unwrap();
        assert_eq!(bases(&others), ["http://other.local/v2", "https://quay.io/v2"]);
        assert_eq!(bases(&of(directory.path(), "10.0.0.1:5000").unwrap()), ["http://10.0.0.1:5000/v2"]);
        assert_eq!(bases(&of(directory.path(), "localhost:5000").unwrap()), ["http://localhost:5000/v2"]);
    }

    #[test]
    fn files_that_say_nothing_sensible_are_refused() {
        for text in ["server = 1", "[host.\"ftp://x\"]", "[host.\"\"]", "x", "[host.\"http://a\"]\nclient = \"a\""] {
            assert!(parse(text, "docker.io", Path::new("/")).is_err(), "{text}");
        }
    }
}
