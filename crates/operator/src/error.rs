//! What a reconcile fails with.

use std::error::Error as StdError;
use std::fmt;

/// Why a reconcile failed: any error, so that `?` works on all of them.
///
/// That another wrote an object first (a conflict) is seen in whatever error has it as its cause, and is tried again soon
/// without counting as a failure. [`Error::terminal`] says that there is no use in trying again.
pub struct Error {
    cause: Box<dyn StdError + Send + Sync>,
    terminal: bool,
}

impl Error {
    /// Nothing but a change of the object can help: it is not tried again until then.
    pub fn terminal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error { cause: cause.into(), terminal: true }
    }

    /// An error that is no more than a text.
    pub fn text(text: impl Into<String>) -> Error {
        Error { cause: text.into().into(), terminal: false }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether another was faster.
    pub fn is_conflict(&self) -> bool {
        if self.terminal {
            return false;
        }
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*self.cause);
        while let Some(error) = cause {
            if error.downcast_ref::<kube::Error>().is_some_and(is_conflict) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// Whether the API said that another was faster. That a name is taken is no such conflict.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(cause: E) -> Error {
        Error { cause: Box::new(cause), terminal: false }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.cause)?;
        let mut cause = self.cause.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
