//! A registry on loopback, as small as can be, that goes wrong in the ways a test asks for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;

use super::{ImageBuilder, digest};

/// What it answers, and how. Can be changed while it runs.
#[derive(Clone, Default)]
pub struct Behaviour {
    pub access: Access,
    /// It knows nothing of ranges: what is asked for from the middle is sent from the start.
    pub without_ranges: bool,
    /// So many answers with a layer break off after so many bytes.
    pub break_off: (usize, usize),
    /// Layers are sent up to this byte, and then nothing is, with the connection left open.
    pub stall_after: Option<usize>,
    /// One byte of every layer is another.
    pub corrupt: bool,
    /// Layers are sent with this many bytes more than they have.
    pub longer_by: usize,
    /// Tags are not resolved: as a mirror may have it that only has content.
    pub without_tags: bool,
    /// Of manifests, in the place of the right one.
    pub manifest: Option<Vec<u8>>,
    /// Layers are elsewhere.
    pub redirect_blobs_to: Option<String>,
}

/// Whom it lets in.
#[derive(Clone, Default)]
pub enum Access {
    #[default]
    Everybody,
    /// With a name and a password.
    Basic(String, String),
    /// With a token that it gives for a name and a password; empty ones: to everybody who asks.
    Bearer(String, String),
}

/// Serves until it is dropped.
pub struct Registry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    listening: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    /// By `repository:tag` and `repository@digest`.
    manifests: HashMap<String, Vec<u8>>,
    blobs: HashMap<String, Vec<u8>>,
    requests: Vec<String>,
    authorized_requests: usize,
    ended: bool,
}

const TOKEN: &str = "a-token";

impl Registry {
    pub fn start() -> Registry {
        Registry::listen(None)
    }

    /// With a certificate that nobody knows, which comes as PEM.
    pub fn start_with_tls() -> (Registry, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate can be made");
        let key =
            rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("it was just written");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("there are some")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("they belong together");
        (Registry::listen(Some(Arc::new(config))), made.cert.pem())
    }

    fn listen(tls: Option<Arc<rustls::ServerConfig>>) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let listening = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if lock(&shared).ended {
                    return;
                }
                let shared = shared.clone();
                let session =
                    tls.clone().map(|tls| rustls::ServerConnection::new(tls).expect("the configuration is whole"));
                // Who hangs up hangs up.
                std::thread::spawn(move || match session {
                    Some(session) => serve(rustls::StreamOwned::new(session, connection), &shared, address),
                    None => serve(connection, &shared, address),
                });
            }
        });
        Registry { address, state, listening: Some(listening) }
    }

    /// As it stands in names of images: `127.0.0.1:PORT`.
    pub fn domain(&self) -> String {
        self.address.to_string()
    }

    pub fn behave(&self, behaviour: Behaviour) {
        lock(&self.state).behaviour = behaviour;
    }

    /// Has an image as `repository:tag`, and says the digest of its manifest.
    pub fn put(&self, repository: &str, tag: &str, image: &ImageBuilder) -> String {
        let packed = image.pack();
        let mut state = lock(&self.state);
        for content in packed.layers.into_iter().chain([packed.config]) {
            state.blobs.insert(digest(&content), content);
        }
        put_manifest(&mut state, repository, tag, packed.manifest)
    }

    /// Has an index of several images, for these architectures.
    pub fn put_index(&self, repository: &str, tag: &str, images: &[(&str, &ImageBuilder)]) -> String {
        let entry = |(architecture, image): &(&str, &ImageBuilder)| {
            let digest = self.put(repository, architecture, image);
            json!({"digest": digest, "size": 1, "platform": {"os": "linux", "architecture": architecture}})
        };
        let manifests: Vec<_> = images.iter().map(entry).collect();
        let index = json!({"schemaVersion": 2, "manifests": manifests}).to_string().into_bytes();
        put_manifest(&mut lock(&self.state), repository, tag, index)
    }

    /// What it was asked for, as `GET /v2/…`, with a range where one was given.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }
}

impl Registry {
    /// How many of them said who asks.
    pub fn authorized_requests(&self) -> usize {
        lock(&self.state).authorized_requests
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        lock(&self.state).ended = true;
        // Wakes who waits for connections.
        let _ = TcpStream::connect(self.address);
        let _ = self.listening.take().map(std::thread::JoinHandle::join);
    }
}

fn put_manifest(state: &mut State, repository: &str, tag: &str, manifest: Vec<u8>) -> String {
    let digest = digest(&manifest);
    state.manifests.insert(format!("{repository}:{tag}"), manifest.clone());
    state.manifests.insert(format!("{repository}@{digest}"), manifest);
    digest
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Request {
    method: String,
    path: String,
    authorization: String,
    offset: Option<usize>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Only so much of it is sent, and then: closed or left open.
    cut: Option<(usize, bool)>,
}

fn serve(connection: impl Read + Write, state: &Mutex<State>, address: SocketAddr) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    while let Some(request) = read(&mut reader)? {
        let connection = reader.get_mut();
        let answer = answer(&request, &mut lock(state), address);
        let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status);
        for (name, value) in &answer.headers {
            head += &format!("{name}: {value}\r\n");
        }
        write!(connection, "{head}Content-Length: {}\r\n\r\n", answer.body.len())?;
        if request.method == "HEAD" {
            continue;
        }
        let Some((length, open)) = answer.cut.filter(|(length, _)| *length < answer.body.len()) else {
            connection.write_all(&answer.body)?;
            continue;
        };
        connection.write_all(&answer.body[..length])?;
        while open && !lock(state).ended {
            std::thread::sleep(Duration::from_millis(10));
        }
        return Ok(());
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Request { method, path, authorization: String::new(), offset: None };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "authorization" => request.authorization = value.to_owned(),
            "content-length" => length = value.parse().unwrap_or(0),
            "range" => {
                let range = value.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
                request.offset = range.and_then(|range| range.parse().ok());
            }
            _ => {}
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    Ok(Some(request))
}

fn answer(request: &Request, state: &mut State, address: SocketAddr) -> Answer {
    let range = request.offset.map(|offset| format!(" from {offset}")).unwrap_or_default();
    state.requests.push(format!("{} {}{range}", request.method, request.path));
    state.authorized_requests += usize::from(!request.authorization.is_empty());
    let path = request.path.split('?').next().unwrap_or_default();
    if path == "/token" {
        return token(request, &state.behaviour.access);
    }
    if let Some(challenge) = refusal(request, &state.behaviour.access, address) {
        return Answer { headers: vec![("WWW-Authenticate".to_owned(), challenge)], ..plain(401, b"who are you?") };
    }
    let Some(rest) = path.strip_prefix("/v2/") else {
        return plain(404, b"");
    };
    if let Some((repository, name)) = rest.rsplit_once("/manifests/") {
        let separator = if name.contains(':') { '@' } else { ':' };
        if separator == ':' && state.behaviour.without_tags {
            return plain(404, b"");
        }
        let Some(manifest) = state.manifests.get(&format!("{repository}{separator}{name}")) else {
            return plain(404, b"{}");
        };
        let said = ("Docker-Content-Digest".to_owned(), digest(manifest));
        let content = state.behaviour.manifest.as_ref().unwrap_or(manifest);
        return Answer { headers: vec![said], ..plain(200, content) };
    }
    match rest.rsplit_once("/blobs/").and_then(|(_, digest)| state.blobs.get(digest).cloned()) {
        Some(content) => blob(request, &mut state.behaviour, path, content),
        None => plain(404, b"{}"),
    }
}

fn blob(request: &Request, behaviour: &mut Behaviour, path: &str, mut content: Vec<u8>) -> Answer {
    // Configurations are small, and right.
    let layer = content.first() != Some(&b'{');
    if let Some(place) = behaviour.redirect_blobs_to.as_ref().filter(|_| layer) {
        return Answer { headers: vec![("Location".to_owned(), format!("{place}{path}"))], ..plain(307, b"") };
    }
    if layer && behaviour.corrupt {
        content[0] ^= 1;
    }
    if layer {
        content.resize(content.len() + behaviour.longer_by, 0);
    }
    let total = content.len();
    let mut answer = match request.offset.filter(|offset| !behaviour.without_ranges && *offset < total) {
        Some(offset) => Answer {
            headers: vec![("Content-Range".to_owned(), format!("bytes {offset}-{}/{total}", total - 1))],
            ..plain(206, &content[offset..])
        },
        None => plain(200, &content),
    };
    if layer && behaviour.break_off.0 > 0 {
        behaviour.break_off.0 -= 1;
        answer.cut = Some((behaviour.break_off.1, false));
    } else if let Some(length) = behaviour.stall_after.filter(|_| layer) {
        answer.cut = Some((length, true));
    }
    answer
}

fn token(request: &Request, access: &Access) -> Answer {
    match access {
        Access::Bearer(user, password) if user.is_empty() || request.authorization == basic(user, password) => {
            plain(200, json!({"token": TOKEN}).to_string().as_bytes())
        }
        _ => plain(401, b"no token"),
    }
}

fn refusal(request: &Request, access: &Access, address: SocketAddr) -> Option<String> {
    match access {
        Access::Everybody => None,
        Access::Basic(user, password) => {
            (request.authorization != basic(user, password)).then(|| "Basic realm=\"registry\"".to_owned())
        }
        Access::Bearer(..) => {
            let error = if request.authorization.is_empty() { "" } else { ",error=\"insufficient_scope\"" };
            let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"test\"{error}");
            (request.authorization != format!("Bearer {TOKEN}")).then_some(challenge)
        }
    }
}

fn basic(user: &str, password: &str) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("Basic ");
    for chunk in format!("{user}:{password}").as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let letter = alphabet[(bits >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

fn plain(status: u16, body: &[u8]) -> Answer {
    Answer { status, headers: Vec::new(), body: body.to_vec(), cut: None }
}
