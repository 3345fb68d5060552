//! Forwarded ports: connections of the client to ports of a pod, many over one connection to us.
//!
//! Over SPDY, also inside of a WebSocket, every connection is a pair of streams under one request id ([`pairs`]); over the
//! old channels of a WebSocket there is one connection for each port that the request names ([`channels`]).

mod channels;
mod copy;
mod pairs;

use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rkube_streaming::spdy::{self, Connection};
use rkube_streaming::websocket::channels::Codec;
use rkube_streaming::websocket::handshake::{self, TUNNEL_PREFIX};
use rkube_streaming::websocket::tunnel::Tunnel;

use super::answer::{self, Answer, Refusal};
use super::connections::Seat;
use super::find;
use super::handlers::Server;
use super::query::Query;
use super::remote::negotiate::{refused, spdy_upgrade};
use super::routes::Target;

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: &[&str] = &["", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];

/// What will be spoken.
enum Protocol {
    Spdy,
    Tunnel,
    Channels { codec: Codec, ports: Vec<u16> },
}

pub(super) async fn serve(
    server: Arc<Server>,
    mut request: Request<Incoming>,
    target: Target,
    seat: Arc<Seat>,
) -> Answer {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let ports = match needs_ports(request.headers()) {
        true => match channels::ports(&query) {
            Ok(ports) => ports,
            Err(why) => return answer::text(StatusCode::BAD_REQUEST, why),
        },
        false => Vec::new(),
    };
    let Some(pod) = server.config.pods.pod(&target.namespace, &target.pod) else {
        return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    if !target.uid.is_empty() && pod.get("metadata").str("uid") != target.uid {
        return answer::text(StatusCode::NOT_FOUND, "pod not found");
    }
    let sandbox = match find::sandbox(&*server.config.runtime, &*server.config.pods, &target).await {
        Ok(Some(sandbox)) => sandbox.id,
        Ok(None) => {
            let text = format!("pod not found ({:?})", format!("{}_{}", target.pod, target.namespace));
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        Err(error) => return answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let (protocol, head) = match negotiate(&request, ports) {
        Ok(agreed) => agreed,
        Err(refusal) => return *refusal,
    };
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _seat = seat;
        let serving = async {
            let Ok(upgraded) = upgrading.await else { return };
            let (io, runtime) = (TokioIo::new(upgraded), server.config.runtime.clone());
            match protocol {
                Protocol::Spdy => pairs::serve(Connection::serve(io, pairs::is_wanted), runtime, sandbox).await,
                Protocol::Tunnel => {
                    let connection = Connection::serve(Tunnel::serve(io).await, pairs::is_wanted);
                    pairs::serve(connection, runtime, sandbox).await;
                }
                Protocol::Channels { codec, ports } => channels::serve(io, codec, ports, runtime, sandbox).await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = server.stopped() => {}
        }
    });
    answer::switching(head)
}

fn is_tunnel(headers: &HeaderMap) -> bool {
    let is_one = |protocol: &&str| protocol.starts_with(TUNNEL_PREFIX) && protocol.ends_with(".k8s.io");
    handshake::is_websocket(headers) && handshake::requested_protocols(headers).iter().any(is_one)
}

/// The old way names its ports in the request.
fn needs_ports(headers: &HeaderMap) -> bool {
    handshake::is_websocket(headers) && !is_tunnel(headers)
}

fn negotiate(request: &Request<Incoming>, ports: Vec<u16>) -> Result<(Protocol, Response<()>), Refusal> {
    let headers = request.headers();
    if !handshake::is_upgrade(headers) {
        return Err(answer::line(StatusCode::INTERNAL_SERVER_ERROR, "Upgrade request required").into());
    }
    if is_tunnel(headers) {
        let (_, head) =
            handshake::accept(request.method(), headers, &[TUNNEL_PROTOCOL]).map_err(|why| refused(&why))?;
        debug_assert_eq!(head.headers().get(SEC_WEBSOCKET_PROTOCOL), Some(&HeaderValue::from_static(TUNNEL_PROTOCOL)));
        return Ok((Protocol::Tunnel, head));
    }
    if handshake::is_websocket(headers) {
        let (chosen, head) = handshake::accept(request.method(), headers, CHANNELS).map_err(|why| refused(&why))?;
        let codec = if chosen.contains("base64") { Codec::Base64 } else { Codec::Binary };
        return Ok((Protocol::Channels { codec, ports }, head));
    }
    let (_, head) = spdy_upgrade(headers, &[PROTOCOL])?;
    debug_assert!(head.headers().contains_key(spdy::PROTOCOL_VERSION));
    Ok((Protocol::Spdy, head))
}
