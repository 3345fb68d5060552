//! One forwarded connection.

use bytes::BytesMut;
use rkube_runtime::api::{Error, Runtime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::server::remote::client::{Sink, Source};

/// What is read of a pod's connection at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Copies until the pod has no more to say, or the client wants no more of it. The client's end is passed on to the pod.
pub async fn copy(
    runtime: &dyn Runtime,
    sandbox: &str,
    port: u16,
    mut source: Source,
    sink: &mut Sink,
) -> Result<(), Error> {
    let (mut reader, mut writer) = tokio::io::split(runtime.port_forward(sandbox, port).await?);
    let to_pod = async {
        while let Some(bytes) = source.next().await {
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let mut to_pod = std::pin::pin!(to_pod);
    let mut is_client_done = false;
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE_BYTES);
        let read = tokio::select! {
            read = reader.read_buf(&mut buffer) => read,
            () = to_pod.as_mut(), if !is_client_done => {
                is_client_done = true;
                if !sink.is_open() {
                    return Ok(());
                }
                continue;
            }
        };
        match read {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {}
        }
        // What the client sends meanwhile must not wait for what it does not read.
        let piece = buffer.split().freeze();
        let mut sending = std::pin::pin!(sink.send(piece));
        let sent = loop {
            tokio::select! {
                sent = sending.as_mut() => break sent,
                () = to_pod.as_mut(), if !is_client_done => is_client_done = true,
            }
        };
        if sent.is_err() {
            return Ok(());
        }
    }
}

/// What the client is told of one that could not be forwarded, as upstream words it: a runtime knows no pod but its sandbox.
pub fn message(sandbox: &str, port: u16, error: &Error) -> String {
    format!("error forwarding port {port} to pod {sandbox}, uid : {error}")
}
