//! Programs that rkube stands in for, when it is called by their names: `kube-apiserver`, `etcd` and `kubectl`, as test
//! environments start them (controller-runtime's `envtest`).
//!
//! - A flag that the program never had is an error, as there. Of its flags that rkube does not have, those that decide
//!   access, audit, encryption or what is stored are refused; those that only tune are accepted, and said on stderr.
//! - They end [`END_TIMEOUT`] after SIGTERM at the latest, and when their parent is gone: a test that was killed leaves
//!   nothing behind.

mod etcd;
mod flags;
mod handover;
mod kube_apiserver;
mod kubectl;
mod parent;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long an orderly end may take. What was acknowledged is stored by then, whatever happens.
const END_TIMEOUT: Duration = Duration::from_millis(800);

/// A program that rkube stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    KubeApiserver,
    Etcd,
    Kubectl,
}

impl Front {
    pub const ALL: [Front; 3] = [Front::KubeApiserver, Front::Etcd, Front::Kubectl];

    /// As which the process was called.
    pub fn of(program: &OsStr) -> Option<Front> {
        let name = Path::new(program).file_name()?;
        Front::ALL.into_iter().find(|front| OsStr::new(front.name()) == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Front::KubeApiserver => "kube-apiserver",
            Front::Etcd => "etcd",
            Front::Kubectl => "kubectl",
        }
    }

    /// `arguments` without the program's name.
    pub fn run(self, arguments: Vec<OsString>) -> ExitCode {
        let texts = || arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let outcome = match self {
            Front::KubeApiserver => kube_apiserver::run(texts()),
            Front::Etcd => etcd::run(texts()),
            Front::Kubectl => kubectl::run(arguments),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("Error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_last_part_of_its_path() {
        let table = [
            ("kube-apiserver", Some(Front::KubeApiserver)),
            ("/assets/etcd", Some(Front::Etcd)),
            ("./kubectl", Some(Front::Kubectl)),
            ("rkube", None),
            ("/etcd/rkube", None),
            ("", None),
        ];
        for (program, expected) in table {
            assert_eq!(Front::of(OsStr::new(program)), expected, "{program}");
        }
    }
}
