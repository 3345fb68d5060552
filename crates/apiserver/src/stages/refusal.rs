//! How a stage ends the road.

use rkube_machinery::Status;

use crate::content::Answer;

/// Why a request goes no further.
pub enum Refusal {
    /// Said in the form that the client takes.
    Status(Box<Status>),
    /// Said as it is, whatever form was asked for.
    Plain(Box<Answer>),
}

impl Refusal {
    pub fn plain(answer: Answer) -> Refusal {
        Refusal::Plain(Box::new(answer))
    }

    pub fn into_answer(self) -> Result<Answer, Status> {
        match self {
            Refusal::Status(status) => Err(*status),
            Refusal::Plain(answer) => Ok(*answer),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal::Status(Box::new(status))
    }
}
