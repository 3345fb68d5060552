//! Watches against a server that does what it is told to: it breaks off, says that a version is too old, or knows no
//! lists by watches.

use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;

/// What the server says, request by request, and what it was asked.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

type AnyBody = http_body_util::Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

impl Server {
    fn source(&self) -> NetworkSource {
        let server = self.clone();
        NetworkSource::new(Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let answer =
                    server.answer(request.uri().path_and_query().map(|path| path.as_str()).unwrap_or_default());
                async move { Ok::<_, Infallible>(answer) }
            }),
            "default",
        ))
    }

    fn answer(&self, path: &str) -> Response<AnyBody> {
        self.asked.lock().push(path.to_owned());
        let Some((code, text)) = self.answers.lock().pop_front() else {
            // Nothing comes any more, and nothing ends.
            let silent = StreamBody::new(stream::pending().boxed());
            return Response::new(AnyBody::Right(silent));
        };
        let mut response = Response::new(AnyBody::Left(Full::new(Bytes::from(text))));
        *response.status_mut() = code.try_into().unwrap();
        response
    }

    fn says(self, code: u16, text: &str) -> Self {
        self.answers.lock().push_back((code, text.to_owned()));
        self
    }

    /// What the requests asked for, without what is the same in all.
    fn asked(&self) -> Vec<String> {
        let same = "watch=true&allowWatchBookmarks=true&timeoutSeconds=290&";
        self.asked.lock().iter().map(|path| path.replace(same, "").replace("/api/v1/configmaps?", "")).collect()
    }
}

fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"{reason}","code":{code}}}"#
    )
}

fn map(name: &str, version: u64) -> String {
    format!(r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"u","resourceVersion":"{version}"}},"data":{{}}}}"#)
}

fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: u64, end: bool) -> String {
    let annotations = if end { r#""k8s.io/initial-events-end":"true""# } else { "" };
    let metadata = format!(r#"{{"resourceVersion":"{version}","annotations":{{{annotations}}}}}"#);
    line("BOOKMARK", &format!(r#"{{"kind":"ConfigMap","metadata":{metadata}}}"#))
}

/// The next events as short texts.
async fn told(events: &mut BoxStream<'static, Event>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.push(match events.next().await {
            None => "end".to_owned(),
            Some(Event::Listed(items)) => {
                let items = items.iter().map(|item| format!("{}@{}", item.name, item.revision));
                format!("listed {}", items.collect::<Vec<_>>().join(" "))
            }
            Some(Event::Applied(item)) => format!("applied {}@{}", item.name, item.revision),
            Some(Event::Deleted(item)) => format!("deleted {}@{}", item.name, item.revision),
            Some(Event::Progress(revision)) => format!("at {revision}"),
        });
    }
    told
}

fn follow(server: &Server) -> BoxStream<'static, Event> {
    server.source().follow(&ApiResource::erase::<ConfigMap>(&()), &Selection::default())
}

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[tokio::test(start_paused = true)]
async fn what_was_interrupted_goes_on_where_it_was() {
    let first =
        [line("ADDED", &map("a", 3)), line("ADDED", &map("b", 4)), bookmark(5, true), line("MODIFIED", &map("a", 6))];
    // The second breaks off in the middle of a line, the third brings nothing but how far it is.
    let second = line("DELETED", &map("b", 7)) + &line("ADDED", &map("c", 8))[..20];
    let server = Server::default().says(200, &first.concat()).says(200, &second).says(200, &bookmark(9, false));
    let server = server.says(500, &status(500, "InternalError")).says(200, &line("ADDED", &map("c", 10)));
    let mut events = follow(&server);
    let expected = ["listed a@3 b@4", "at 5", "applied a@6", "deleted b@7", "at 9", "applied c@10"];
    assert_eq!(told(&mut events, 6).await, expected);
    let asked = server.asked();
    assert_eq!(asked, [INITIAL, "resourceVersion=6", "resourceVersion=7", "resourceVersion=9", "resourceVersion=9"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_go_on_is_listed_anew() {
    let listed = |version| line("ADDED", &map("a", version)) + &bookmark(version, true);
    let expired = line("ERROR", &status(410, "Expired"));
    let server = Server::default().says(200, &(listed(3) + &expired)).says(200, &listed(5));
    let server = server.says(410, &status(410, "Expired")).says(200, &listed(7));
    let mut events = follow(&server);
    assert_eq!(told(&mut events, 6).await, ["listed a@3", "at 3", "listed a@5", "at 5", "listed a@7", "at 7"]);
    assert_eq!(server.asked(), [INITIAL, INITIAL, "resourceVersion=5", INITIAL]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_tells_nothing() {
    let half = line("ADDED", &map("a", 3));
    let whole = half.clone() + &line("ADDED", &map("b", 4)) + &line("DELETED", &map("a", 5)) + &bookmark(5, true);
    let server = Server::default().says(200, &half).says(200, &whole);
    assert_eq!(told(&mut follow(&server), 2).await, ["listed b@4", "at 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_lists_by_watches_is_asked_for_pages() {
    let page = |name: &str, version: u64, rest: &str| {
        format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"{rest}"}},"items":[{}]}}"#, map(name, version))
    };
    let server = Server::default().says(422, &status(422, "Invalid")).says(200, &page("a", 1, "x/y="));
    let server = server.says(200, &page("b", 2, "")).says(200, &line("ADDED", &map("c", 10)));
    assert_eq!(told(&mut follow(&server), 3).await, ["listed a@1 b@2", "at 9", "applied c@10"]);
    assert_eq!(server.asked()[..4], [INITIAL, "limit=500", "limit=500&continue=x%2Fy%3D", "resourceVersion=9"]);

    // Old ones do not even know that they cannot: then the end of the list never comes.
    let server = Server::default().says(200, "").says(200, "");
    let mut events = follow(&server);
    let waiting = tokio::spawn(async move { told(&mut events, 1).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    server.answers.lock().push_back((200, page("a", 1, "")));
    assert_eq!(waiting.await.unwrap(), ["listed a@1"]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_served_no_more_ends_the_stream() {
    let server = Server::default().says(200, &bookmark(3, true)).says(404, &status(404, "NotFound"));
    assert_eq!(told(&mut follow(&server), 3).await, ["listed ", "at 3", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_part_of_the_question() {
    let server = Server::default();
    let selection = Selection {
        name: Some("x"),
        namespace: Some("n".into()),
        labels: Some("a in (b,c)".into()),
        fields: Some("type!=d".into()),
        metadata_only: false,
    };
    let mut events = server.source().follow(&ApiResource::erase::<ConfigMap>(&()), &selection);
    let waiting = tokio::time::timeout(Duration::from_secs(1), events.next());
    assert!(waiting.await.is_err());
    let asked = &server.asked()[0];
    let selectors = "&fieldSelector=metadata.name%3Dx%2Ctype%21%3Dd&labelSelector=a%20in%20%28b%2Cc%29";
    assert!(asked.starts_with("/api/v1/namespaces/n/configmaps?") && asked.ends_with(selectors), "{asked}");
}
