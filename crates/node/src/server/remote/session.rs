//! Copies between a client and a process until one of them is done.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::join3;
use rkube_runtime::api::{Error, Session, StdinStream, StdoutStream, TerminalSize};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};

use super::client::{Client, Sink, Source};

/// What is read of a process' output at once.
const PIECE_BYTES: usize = 32 * 1024;
/// How long to wait for more output of a process that has ended: its children may hold the stream open for ever.
const LATE_OUTPUT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest size of a terminal that is worth to be read.
const SIZE_BYTES_MAX: usize = 1024;

/// The exit code; None: the client went first, and the process with it.
pub async fn run(session: Session, client: &mut Client) -> Option<Result<i32, Error>> {
    let Session { stdin, stdout, stderr, resize, mut exit } = session;
    let gone = client.gone();
    let (exited, has_exited) = watch::channel(false);
    let input = copy_input(client.stdin.take(), stdin);
    let sizes = copy_sizes(client.sizes.take(), resize);
    let output = join3(
        copy_output(stdout, client.stdout.as_mut(), has_exited.clone()),
        copy_output(stderr, client.stderr.as_mut(), has_exited),
        std::future::ready(()),
    );
    let copied = async {
        let code = exit.as_mut().await;
        exited.send_replace(true);
        code
    };
    let mut both = std::pin::pin!(futures::future::join(copied, output));
    let mut input = std::pin::pin!(futures::future::join(input, sizes));
    let mut gone = std::pin::pin!(gone);
    let mut has_input = true;
    loop {
        tokio::select! {
            (code, _) = both.as_mut() => return Some(code),
            _ = input.as_mut(), if has_input => has_input = false,
            () = gone.as_mut() => return None,
        }
    }
}

/// Until the client has no more, or the process wants no more. Then its stdin is closed.
async fn copy_input(source: Option<Source>, stdin: Option<StdinStream>) {
    let (Some(mut source), Some(mut stdin)) = (source, stdin) else { return };
    while let Some(bytes) = source.next().await {
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

async fn copy_output(stream: Option<StdoutStream>, sink: Option<&mut Sink>, mut exited: watch::Receiver<bool>) {
    let (Some(mut stream), Some(sink)) = (stream, sink) else { return };
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE_BYTES);
        let read = tokio::select! {
            read = stream.read_buf(&mut buffer) => read,
            () = late(&mut exited) => return,
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if sink.send(buffer.split().freeze()).await.is_err() {
            return;
        }
    }
}

/// Comes back when the process has been gone for a while.
async fn late(exited: &mut watch::Receiver<bool>) {
    if exited.wait_for(|exited| *exited).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(LATE_OUTPUT_TIMEOUT).await;
}

/// As clients write it.
#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width", alias = "width", default)]
    width: u16,
    #[serde(rename = "Height", alias = "height", default)]
    height: u16,
}

async fn copy_sizes(source: Option<Source>, resize: Option<mpsc::Sender<TerminalSize>>) {
    let Some(mut source) = source else { return };
    let mut text = Vec::new();
    while let Some(bytes) = source.next().await {
        let Some(sizes) = take_sizes(&mut text, &bytes) else { return };
        let Some(resize) = &resize else { continue };
        for size in sizes {
            if resize.send(size).await.is_err() {
                return;
            }
        }
    }
}

/// The sizes that are whole; what follows them stays in `text`. None: it is something else.
fn take_sizes(text: &mut Vec<u8>, bytes: &Bytes) -> Option<Vec<TerminalSize>> {
    text.extend_from_slice(bytes);
    let mut sizes = Vec::new();
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Size>();
    loop {
        match values.next() {
            Some(Ok(Size { width, height })) => sizes.push(TerminalSize { width, height }),
            None => break,
            Some(Err(error)) if error.is_eof() => break,
            Some(Err(_)) => return None,
        }
    }
    let end = values.byte_offset();
    text.drain(..end);
    (text.len() <= SIZE_BYTES_MAX).then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let mut text = Vec::new();
        let mut take = |bytes: &'static str| {
            let sizes = take_sizes(&mut text, &Bytes::from_static(bytes.as_bytes()))?;
            Some(sizes.into_iter().map(|size| (size.width, size.height)).collect::<Vec<_>>())
        };
        assert_eq!(take("{\"Width\":80,\"Height\":24}\n"), Some(vec![(80, 24)]));
        assert_eq!(take("{\"width\":1,\"hei"), Some(vec![]));
        assert_eq!(take("ght\":2}{\"Width\":3,\"Height\":4}"), Some(vec![(1, 2), (3, 4)]));
        assert_eq!(take("{\"Width\":-1}"), None);
    }

    #[test]
    fn what_is_no_size_is_not_kept() {
        assert_eq!(take_sizes(&mut Vec::new(), &Bytes::from(vec![b' '; 10 * SIZE_BYTES_MAX])), Some(vec![]));
        let endless = [b"{\"".to_vec(), vec![b'x'; 2 * SIZE_BYTES_MAX]].concat();
        assert_eq!(take_sizes(&mut Vec::new(), &endless.into()), None);
    }
}
