//! What a client sends on a connection of streams.

use rkube_streaming::spdy::Headers;
use rkube_streaming::spdy::frame::{CONTROL_BYTES_MAX, Control, HEAD_BYTES, Head};
use rkube_streaming::spdy::headers::{Deflater, Inflater};

/// Frame after frame, as a connection reads them, up to the first one that breaks the rules.
pub fn spdy(bytes: &[u8]) {
    if let Ok(headers) = Headers::parse(bytes) {
        let block = Deflater::default().write(&headers).expect("what was read can be written");
        assert_eq!(Inflater::default().read(&block), Ok(headers), "and is read again");
    }
    let mut inflater = Inflater::default();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let Ok(head) = Head::parse(head) else { return };
        let (Head::Data { length, .. } | Head::Control { length, .. }) = head;
        let (payload, after) = after.split_at(length.min(after.len()));
        rest = after;
        let Head::Control { kind, flags, .. } = head else { continue };
        assert!(length <= CONTROL_BYTES_MAX);
        let Ok(control) = Control::parse(kind, flags, payload) else { return };
        let (Control::SynStream { block, .. } | Control::SynReply { block, .. } | Control::Headers { block, .. }) =
            control
        else {
            continue;
        };
        if inflater.read(block).is_err() {
            return;
        }
    }
}
