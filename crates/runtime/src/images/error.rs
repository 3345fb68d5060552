//! What can go wrong with images. Texts are what people and pods are shown.

use std::fmt::Display;
use std::io;

use crate::api;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such image, container or file.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    InvalidReference(String),
    /// What was given is no image, does not have the digest that it is called by, or is cut off.
    #[error("{0}")]
    Corrupt(String),
    /// It asks for something that no image may have: a bound, a name that leads out, a device.
    #[error("{0}")]
    Refused(String),
    /// The registry would not, or could not be reached.
    #[error("{0}")]
    Pull(String),
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
}

impl Error {
    pub(crate) fn corrupt(text: impl Display) -> Error {
        Error::Corrupt(text.to_string())
    }

    pub(crate) fn refused(text: impl Display) -> Error {
        Error::Refused(text.to_string())
    }

    /// Of what an image is read from.
    pub(crate) fn reading(error: io::Error) -> Error {
        Error::Corrupt(format!("the archive cannot be read: {error}"))
    }

    /// Puts where it happened before what happened.
    pub(crate) fn within(self, place: impl Display) -> Error {
        let before = |text: String| format!("{place}: {text}");
        match self {
            Error::NotFound(text) => Error::NotFound(before(text)),
            Error::InvalidReference(text) => Error::InvalidReference(before(text)),
            Error::Corrupt(text) => Error::Corrupt(before(text)),
            Error::Refused(text) => Error::Refused(before(text)),
            Error::Pull(text) => Error::Pull(before(text)),
            Error::Io(text, source) => Error::Io(before(text), source),
        }
    }
}

/// Says what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Io(what(), error.into()))
    }
}

impl From<Error> for api::Error {
    fn from(error: Error) -> api::Error {
        let text = error.to_string();
        match error {
            Error::NotFound(_) => api::Error::NotFound(text),
            Error::InvalidReference(_) => api::Error::InvalidImageName(text),
            Error::Pull(_) | Error::Corrupt(_) | Error::Refused(_) => api::Error::PullFailed(text),
            Error::Io(..) => api::Error::Internal(text),
        }
    }
}
