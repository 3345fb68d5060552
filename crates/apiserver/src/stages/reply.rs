//! The way back: the answer in the form that the client takes.

use http::{Method, header};
use rkube_machinery::Status;

use super::incoming::Incoming;
use crate::content::{Accept, Answer, Body, accept_status, compress, raw_status_answer, status_answer};

/// What is sent for what the stages answered.
pub fn finish(incoming: &Incoming<'_>, answer: Result<Answer, Status>, may_compress: bool) -> Answer {
    let info = incoming.info;
    if let Err(status) = &answer
        && status.code >= 500
    {
        tracing::warn!(
            path = info.path,
            verb = %info.verb,
            code = status.code,
            message = status.message,
            "request failed"
        );
    }
    let mut answer = answer.unwrap_or_else(|status| refusal(incoming, &status, incoming.pretty));
    let mut codings = incoming.header(header::ACCEPT_ENCODING).split(',');
    if may_compress && codings.any(|coding| coding.trim().starts_with("gzip")) {
        answer = compress(answer);
    }
    if incoming.parts.method == Method::HEAD {
        *answer.body_mut() = Body::Empty;
    }
    answer
}

/// An error in the form that the client takes, or in the server's own.
pub fn refusal(incoming: &Incoming<'_>, status: &Status, pretty: bool) -> Answer {
    match accept_status(incoming.header(header::ACCEPT)) {
        Some(accepted) => status_answer(status, Accept { pretty: accepted.pretty || pretty, ..accepted }),
        None => raw_status_answer(status),
    }
}
