//! The old way of a WebSocket: two channels for each port that the request names, one for data, one for what goes wrong.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rkube_runtime::api::Runtime;
use rkube_streaming::websocket::channels::{Channels, Codec, Config};

use super::copy;
use crate::server::query::Query;
use crate::server::remote::client::{Sink, Source};

/// Ports of one request; there are no numbers for the channels of more.
const PORTS_MAX: usize = 64;

/// The ports that a request names, or what is wrong with them.
pub fn ports(query: &Query) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for text in query.all("port") {
        if text.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for port in text.split(',') {
            match port.parse::<u16>() {
                Ok(0) => return Err(format!("port {text:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(_) => {
                    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                    let why = if is_number { "value out of range" } else { "invalid syntax" };
                    return Err(format!(
                        "unable to parse {text:?} as a port: strconv.ParseUint: parsing {port:?}: {why}"
                    ));
                }
            }
        }
    }
    match ports.len() {
        0 => Err("query parameter \"port\" is required".to_owned()),
        count if count > PORTS_MAX => Err(format!("at most {PORTS_MAX} ports can be forwarded by one request")),
        _ => Ok(ports),
    }
}

/// Serves until all are done, or the client goes.
pub async fn serve(io: TokioIo<Upgraded>, codec: Codec, ports: Vec<u16>, runtime: Arc<dyn Runtime>, sandbox: String) {
    let readable = ports.iter().flat_map(|_| [true, false]).collect();
    let mut channels = Channels::serve(io, Config { codec, closes: false, readable }).await;
    let mut forwarded = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let Some(source) = channels.sources[2 * index].take() else { continue };
        // There are no more than PORTS_MAX of them.
        let number = 2 * index as u8;
        let (mut sink, mut errors) = (Sink::Channel(channels.sink(number)), Sink::Channel(channels.sink(number + 1)));
        let (runtime, sandbox) = (&*runtime, &sandbox);
        forwarded.push(async move {
            let head = Bytes::copy_from_slice(&port.to_le_bytes());
            if sink.send(head.clone()).await.is_err() || errors.send(head).await.is_err() {
                return;
            }
            if let Err(why) = copy::copy(runtime, sandbox, port, Source::Channel(source), &mut sink).await {
                let _ = errors.send(Bytes::from(copy::message(sandbox, port, &why))).await;
            }
        });
    }
    let gone = channels.ended();
    tokio::select! {
        _ = join_all(forwarded) => {}
        () = gone => return,
    }
    channels.close().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_ports() {
        let of = |query: &str| ports(&Query::parse(query));
        assert_eq!(of("port=80,81&port=90"), Ok(vec![80, 81, 90]));
        assert_eq!(of(""), Err(r#"query parameter "port" is required"#.to_owned()));
        assert_eq!(of("port="), Err(r#"query parameter "port" cannot be empty"#.to_owned()));
        assert_eq!(of("port=0"), Err(r#"port "0" must be > 0"#.to_owned()));
        let why = r#"unable to parse "80,x" as a port: strconv.ParseUint: parsing "x": invalid syntax"#;
        assert_eq!(of("port=80,x"), Err(why.to_owned()));
        assert!(of("port=70000").unwrap_err().ends_with("value out of range"));
        assert!(of(&"port=1&".repeat(65)).is_err());
    }
}
