//! Requests passed on to a backend on this machine, which says what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{Full, StreamBody};
use hyper::service::service_fn;
use tokio::net::TcpListener;

use super::*;

const PREFIX: &str = "/api/v1/namespaces/a/pods/p/proxy";

async fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
            let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(serving);
        }
    });
    address
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let mut answer = Response::new(Full::default());
    match head.uri.path() {
        "/redirect" => {
            *answer.status_mut() = StatusCode::FOUND;
            answer.headers_mut().insert("location", "/elsewhere/".parse().unwrap());
        }
        "/page" => {
            answer.headers_mut().insert("content-type", "text/html".parse().unwrap());
            answer.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
            *answer.body_mut() = "<a href=/x>x</a>".into();
        }
        _ => {
            let body = body.collect().await.unwrap().to_bytes();
            let mut shown = format!("{} {} {}", head.method, head.uri, String::from_utf8_lossy(&body));
            for name in ["authorization", "x-forwarded-uri", "x-mine", "host"] {
                let value = head.headers.get(name).map_or("", |value| value.to_str().unwrap());
                shown.push_str(&format!(" {name}={value}"));
            }
            *answer.status_mut() = StatusCode::IM_A_TEAPOT;
            *answer.body_mut() = shown.into();
        }
    }
    answer
}

struct Stage {
    proxy: Proxy,
    address: SocketAddr,
    _draining: watch::Sender<bool>,
}

impl Stage {
    async fn new() -> Stage {
        let (sender, draining) = watch::channel(false);
        let proxy = Proxy::new(KubeletTls { authority: "", client: None }, draining).unwrap();
        Stage { proxy, address: backend().await, _draining: sender }
    }

    /// What follows `proxy` in the path.
    async fn ask(&self, method: &str, below: &str, body: ClientBody) -> Result<Answer, Status> {
        let (path, query) = below.split_once('?').unwrap_or((below, ""));
        let request = Request::builder().method(method).uri(format!("{PREFIX}{below}"));
        let request = request.header("host", "api").header("authorization", "Bearer x").header("x-mine", "1");
        let parts = request.body(()).unwrap().into_parts().0;
        let location = Location {
            security: Security::Plain,
            host: self.address.ip().to_string(),
            port: self.address.port().to_string(),
            path: backend_path(path),
            query: query.to_owned(),
        };
        self.proxy.forward(&location, Visit { parts: &parts, body }, PREFIX).await
    }
}

fn nothing() -> ClientBody {
    http_body_util::Empty::new().map_err(Into::into).boxed_unsync()
}

async fn text(answer: Answer) -> String {
    String::from_utf8_lossy(&answer.into_body().collect().await.unwrap().to_bytes()).into_owned()
}

#[tokio::test]
async fn requests_go_on_as_they_came() {
    let stage = Stage::new().await;
    // A body without a length, which comes bit by bit.
    let bits = ["one", "two"].map(|bit| Ok::<_, Infallible>(Frame::data(Bytes::from(bit))));
    let body = StreamBody::new(futures::stream::iter(bits)).map_err(Into::into).boxed_unsync();
    let answer = stage.ask("PUT", "/a/b?c=d&watch=true", body).await.unwrap();
    assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
    let expected =
        format!("PUT /a/b?c=d&watch=true onetwo authorization= x-forwarded-uri={PREFIX}/a/b x-mine=1 host=api");
    assert_eq!(text(answer).await, expected);
    let answer = stage.ask("HEAD", "/a/", nothing()).await.unwrap();
    assert_eq!((answer.status(), text(answer).await.as_str()), (StatusCode::IM_A_TEAPOT, ""));
}

#[tokio::test]
async fn answers_lead_back_through_the_server() {
    let stage = Stage::new().await;
    let answer = stage.ask("GET", "/redirect", nothing()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
    assert_eq!(answer.headers()["location"], format!("{PREFIX}/elsewhere/"));
    let answer = stage.ask("GET", "/page", nothing()).await.unwrap();
    assert!(!answer.headers().contains_key("access-control-allow-origin"));
    assert_eq!(text(answer).await, format!("<a href=\"{PREFIX}/x\">x</a>"));
    // Relative links need a slash at the end of the address.
    let answer = stage.ask("GET", "?a=b", nothing()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(answer.headers()["location"], format!("{PREFIX}/?a=b"));
    let answer = stage.ask("POST", "", nothing()).await.unwrap();
    assert!(text(answer).await.starts_with("POST / "));
}

#[tokio::test]
async fn who_is_not_there_is_said() {
    let mut stage = Stage::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    stage.address = listener.local_addr().unwrap();
    drop(listener);
    let refused = stage.ask("GET", "/", nothing()).await.err().unwrap();
    let address = stage.address;
    let expected = format!("error trying to reach service: dial tcp {address}: connect: connection refused");
    assert_eq!((refused.code, refused.reason, refused.message), (503, "ServiceUnavailable", expected));
}

#[tokio::test]
async fn there_is_a_bound() {
    let stage = Stage::new().await;
    let all = u32::try_from(CONNECTIONS_MAX).unwrap();
    let taken = stage.proxy.turns.clone().acquire_many_owned(all - 1).await.unwrap();
    let answer = stage.ask("GET", "/a", nothing()).await.unwrap();
    let refused = stage.ask("GET", "/a", nothing()).await.err().unwrap();
    assert_eq!(refused.code, 429, "the first answer is not read yet");
    assert!(text(answer).await.starts_with("GET /a"));
    assert!(stage.ask("GET", "/a", nothing()).await.is_ok());
    drop(taken);
}
