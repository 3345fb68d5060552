//! The last step: to find a program and to become it.

use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use super::{Failure, plain};

/// Where programs are looked for when the environment says nothing.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a program is, by its name and the environment that it will have.
pub(super) fn find(name: &str, environment: &[String]) -> Result<String, Failure> {
    if name.contains('/') {
        return match usable(name) {
            Ok(()) => Ok(name.to_owned()),
            Err(text) => Err(Failure(format!("exec: {name:?}: {text}"))),
        };
    }
    let value = environment.iter().rev().find_map(|variable| variable.strip_prefix("PATH="));
    let mut denied = false;
    for directory in value.unwrap_or(DEFAULT_PATH).split(':') {
        let path = if directory.is_empty() { format!("./{name}") } else { format!("{directory}/{name}") };
        match usable(&path) {
            Ok(()) => return Ok(path),
            Err(text) => denied |= text == "permission denied",
        }
    }
    let why = if denied { "permission denied" } else { "executable file not found in $PATH" };
    Err(Failure(format!("exec: {name:?}: {why}")))
}

fn usable(path: &str) -> Result<(), String> {
    let metadata = std::fs::metadata(Path::new(path)).map_err(|error| format!("stat {path}: {}", plain(&error)))?;
    if metadata.is_dir() {
        return Err("is a directory".to_owned());
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err("permission denied".to_owned());
    }
    Ok(())
}

/// Becomes the program. Returns only if it cannot.
pub(super) fn execute(path: &str, arguments: &[String], environment: &[String]) -> Result<Infallible, Failure> {
    let mut command = std::process::Command::new(path);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.env_clear();
    for variable in environment {
        if let Some((name, value)) = variable.split_once('=') {
            command.env(name, value);
        }
    }
    let error = command.exec();
    Err(Failure(format!("exec {path}: {}", plain(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_in_the_usual_words() {
        let said = |name: &str| find(name, &["PATH=/usr/bin:/bin".to_owned()]).unwrap_err().0;
        assert_eq!(said("nope-nope"), "exec: \"nope-nope\": executable file not found in $PATH");
        assert_eq!(said("/nope"), "exec: \"/nope\": stat /nope: no such file or directory");
        assert_eq!(said("/etc"), "exec: \"/etc\": is a directory");
        assert_eq!(said("/etc/passwd"), "exec: \"/etc/passwd\": permission denied");
        assert!(find("sh", &[]).is_ok());
    }
}
