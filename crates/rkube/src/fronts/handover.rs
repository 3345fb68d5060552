//! How the `etcd` that rkube stands in for tells its `kube-apiserver` where the store is.
//!
//! They share nothing but the address of the first. There the second asks for a path that no etcd knows, with a question
//! of its own, and the front answers with its data directory. In that directory is a secret that only its owner may read,
//! and with it the question is answered: so nobody who merely has the address can make a server write elsewhere.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rkube_machinery::host::Entropy;
use rkube_machinery::names::generated::uuid;
use tokio::net::TcpStream;

use crate::files::{self, Readers};

/// The question follows. No etcd has it.
const PATH: &str = "/rkube/store/";
const SECRET_FILE: &str = "rkube-store-secret";
/// In the data directory of the front.
const STORE: &str = "rkube";
/// An answer is some lines. A longer one is not ours.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long to wait for somebody to listen, and then for the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("nobody listens at {url}")]
    Connect { url: String, source: std::io::Error },
    #[error("what {url} says of its store cannot be: {problem}")]
    Answer { url: String, problem: &'static str },
    #[error(transparent)]
    File(#[from] files::Error),
}

/// What the front says of its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub directory: PathBuf,
    /// Whether writes wait for the disk.
    pub is_synced: bool,
}

/// The front's side.
pub struct Giver {
    handover: Handover,
    secret: String,
}

impl Giver {
    /// Of a directory that is the caller's own. `secret` is made anew at every start.
    pub fn new(handover: Handover, secret: String) -> Result<Giver, Error> {
        files::replace(&handover.directory.join(SECRET_FILE), &secret, Readers::Owner)?;
        Ok(Giver { handover, secret })
    }

    /// `None`: it is another path.
    pub fn answer(&self, path: &str) -> Option<String> {
        let question = path.strip_prefix(PATH)?;
        let Handover { directory, is_synced } = &self.handover;
        // The directory last: it may hold anything but the end of a line.
        Some(format!("{}\n{is_synced}\n{}\n", proof(&self.secret, question), directory.display()))
    }
}

fn proof(secret: &str, question: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, question.as_bytes()))
}

impl Handover {
    /// Where objects are kept.
    pub fn store_directory(&self) -> PathBuf {
        self.directory.join(STORE)
    }

    /// As the front answered it, if it has our rights.
    fn verify(answer: &str, question: &str, own_user: u32) -> Result<Handover, &'static str> {
        let mut lines = answer.strip_suffix('\n').unwrap_or_default().splitn(3, '\n');
        let (Some(given), Some(is_synced), Some(directory)) = (lines.next(), lines.next(), lines.next()) else {
            return Err("it is no data directory");
        };
        let is_synced = is_synced.parse().map_err(|_| "it is no data directory")?;
        let directory = PathBuf::from(directory);
        let metadata = std::fs::metadata(&directory).map_err(|_| "the directory is not there")?;
        if metadata.uid() != own_user {
            return Err("the directory is of another user");
        }
        match files::read(&directory.join(SECRET_FILE)) {
            Ok(Some(secret)) if proof(&secret, question) == given => Ok(Handover { directory, is_synced }),
            _ => Err("it does not know the secret of the directory"),
        }
    }
}

/// Asks who serves at `url`. `None`: a real etcd.
pub async fn ask(url: &str, entropy: &dyn Entropy) -> Result<Option<Handover>, Error> {
    let Some(address) = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')) else {
        // The front does not speak TLS.
        return Ok(None);
    };
    let stream = connect(address).await.map_err(|source| Error::Connect { url: url.to_owned(), source })?;
    let question = uuid(entropy);
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, get(stream, address, &question)).await;
    let Some(answer) = answer.ok().flatten() else { return Ok(None) };
    let handover = Handover::verify(&answer, &question, rustix::process::geteuid().as_raw());
    handover.map(Some).map_err(|problem| Error::Answer { url: url.to_owned(), problem })
}

/// It may just be starting.
async fn connect(address: &str) -> std::io::Result<TcpStream> {
    let attempts = async {
        loop {
            match TcpStream::connect(address).await {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
                other => return other,
            }
        }
    };
    let refused = || Err(std::io::ErrorKind::ConnectionRefused.into());
    tokio::time::timeout(CONNECT_TIMEOUT, attempts).await.unwrap_or_else(|_| refused())
}

/// `None`: the one who answers does not know the path.
async fn get(stream: TcpStream, host: &str, question: &str) -> Option<String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = http::Request::get(format!("{PATH}{question}"))
        .header(http::header::HOST, host)
        .body(Empty::<Bytes>::new())
        .ok()?;
    let answer = async {
        let response = sender.send_request(request).await.ok()?;
        if response.status() != http::StatusCode::OK {
            return None;
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.ok()?;
        String::from_utf8(body.to_bytes().into()).ok()
    };
    tokio::select! {
        answer = answer => answer,
        // It ends first only when the other side is gone.
        _ = connection => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_can_read_the_directory_is_believed() {
        let directory = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let handover = Handover { directory: directory.path().to_owned(), is_synced: false };
        let giver = Giver::new(handover.clone(), "secret".to_owned()).unwrap();
        assert_eq!(giver.answer("/health"), None);
        let answer = giver.answer("/rkube/store/why").unwrap();
        assert_eq!(Handover::verify(&answer, "why", own), Ok(handover.clone()));
        assert!(Handover::verify(&answer, "what", own).is_err(), "an answer that was heard elsewhere");
        assert!(Handover::verify(&answer, "why", own + 1).is_err());
        let guess = Giver { handover, secret: "guess".to_owned() }.answer("/rkube/store/why").unwrap();
        assert!(Handover::verify(&guess, "why", own).is_err());
        for text in ["", "ok\n", "a\nb\nc\n", "a\ntrue\n/nowhere\n", "404 page not found\n"] {
            assert!(Handover::verify(text, "why", own).is_err(), "{text}");
        }
    }
}
