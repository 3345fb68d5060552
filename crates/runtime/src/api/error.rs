//! What a runtime may answer instead. Texts are what pods show.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such container, sandbox or image.
    #[error("{0}")]
    NotFound(String),
    /// The registry does not know it, or does not let us have it; also: it could not be reached.
    #[error("{0}")]
    PullFailed(String),
    /// The reference is not one.
    #[error("{0}")]
    InvalidImageName(String),
    /// The container could not be created: the configuration asks for something that is not there.
    #[error("{0}")]
    CreateFailed(String),
    /// The container was created and could not be started, as when its command is not there.
    #[error("{0}")]
    StartFailed(String),
    /// Nothing went wrong but that it did not end in time.
    #[error("{0}")]
    TimedOut(String),
    /// The state of the container or sandbox does not allow it: it does not run, it runs already.
    #[error("{0}")]
    WrongState(String),
    /// This runtime or this host cannot do what was asked.
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Internal(String),
}
