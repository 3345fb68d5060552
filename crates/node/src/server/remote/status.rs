//! What a client is told when a session is over.

use rkube_machinery::{Map, Text, Value, json, object};
use rkube_runtime::api::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// The command ended with this code, which is not 0.
    ExitCode {
        command: Vec<String>,
        code: i32,
    },
    Failed(String),
}

/// How it is written, by the version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Before version 4: the message of what went wrong.
    Message,
    /// A status.
    Status,
    /// A whole `Status` of the API, as version 5 has it.
    ApiStatus,
}

impl Outcome {
    pub fn exited(command: &[String], code: i32) -> Outcome {
        match code {
            0 => Outcome::Success,
            code => Outcome::ExitCode { command: command.to_vec(), code },
        }
    }

    pub fn exec_failed(error: &Error) -> Outcome {
        Outcome::Failed(format!("error executing command in container: {error}"))
    }

    pub fn attach_failed(error: &Error) -> Outcome {
        Outcome::Failed(format!("error attaching to container: {error}"))
    }

    pub fn text(&self, form: Form) -> String {
        if form == Form::Message {
            return self.message(form);
        }
        let mut status: Vec<(Text, Value)> = Vec::new();
        if form == Form::ApiStatus {
            status.push(("metadata".into(), Value::object()));
        }
        if *self == Outcome::Success {
            status.push(("status".into(), "Success".into()));
            return json::to_string(&Map::in_order(status).into());
        }
        status.push(("status".into(), "Failure".into()));
        status.push(("message".into(), self.message(form).into()));
        match self {
            Outcome::Success => {}
            Outcome::ExitCode { code, .. } => {
                status.push(("reason".into(), "NonZeroExitCode".into()));
                let cause = object! { "reason": "ExitCode", "message": code.to_string() };
                status.push(("details".into(), object! { "causes": vec![cause] }));
            }
            Outcome::Failed(_) => {
                status.push(("reason".into(), "InternalError".into()));
                status.push(("code".into(), 500.into()));
            }
        }
        json::to_string(&Map::in_order(status).into())
    }

    fn message(&self, form: Form) -> String {
        match self {
            Outcome::Success => String::new(),
            Outcome::ExitCode { code, .. } if form == Form::ApiStatus => {
                format!("command terminated with non-zero exit code: command terminated with exit code {code}")
            }
            Outcome::ExitCode { command, code } => format!(
                "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                command.join(" ")
            ),
            Outcome::Failed(why) => format!("Internal error occurred: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let failed = Outcome::exited(&["sh".into(), "-c".into(), "exit 3".into()], 3);
        assert_eq!(
            failed.text(Form::Status),
            r#"{"status":"Failure","message":"command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#
        );
        assert_eq!(
            failed.text(Form::ApiStatus),
            r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#
        );
        assert_eq!(Outcome::Success.text(Form::Status), r#"{"status":"Success"}"#);
        assert_eq!(Outcome::Success.text(Form::ApiStatus), r#"{"metadata":{},"status":"Success"}"#);
        assert_eq!(Outcome::Success.text(Form::Message), "");
        let broken = Outcome::exec_failed(&Error::StartFailed("no such file".into()));
        let why = "Internal error occurred: error executing command in container: no such file";
        assert_eq!(broken.text(Form::Message), why);
        let expected = format!(r#"{{"status":"Failure","message":"{why}","reason":"InternalError","code":500}}"#);
        assert_eq!(broken.text(Form::Status), expected);
    }
}
