//! `rkube install`: a unit of systemd that runs `rkube up`.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Parser;

use crate::cli::{self, Arguments, Install, Up};
use crate::files::{self, Readers};

const UNIT: &str = "rkube.service";
const UNIT_DIRECTORY: &str = "/etc/systemd/system";
/// There while systemd runs the machine.
const SYSTEMD_RUNS: &str = "/run/systemd/system";
/// By its first line we know a unit that may be replaced.
const MARK: &str = "# Written by `rkube install`, which replaces it when it is run again.";

pub fn run(options: &Install) -> anyhow::Result<()> {
    let directory = options.unit_dir.clone().unwrap_or_else(|| UNIT_DIRECTORY.into());
    let path = directory.join(UNIT);
    // Elsewhere systemd does not look for units.
    let systemd = (options.unit_dir.is_none() && Path::new(SYSTEMD_RUNS).is_dir()).then_some(Systemd);
    if options.remove {
        return remove(&path, systemd.as_ref());
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let up = Up::parse_flags(&options.up)?;
    let data = up.data.path()?;
    let unit = unit(&program, &options.up, &data)?;
    let mut stdout = std::io::stdout().lock();
    if options.dry_run {
        write!(stdout, "{unit}")?;
        return Ok(());
    }
    write_unit(&path, &unit)?;
    writeln!(stdout, "wrote {}", path.display())?;
    match systemd {
        Some(systemd) => {
            systemd.run(&["daemon-reload"])?;
            systemd.run(&["enable", UNIT])?;
            // One that runs already goes on with the new flags.
            systemd.run(&["restart", UNIT])?;
            writeln!(stdout, "started {UNIT}, now and at every boot; its log: journalctl -u rkube")?;
        }
        None if options.unit_dir.is_none() => {
            writeln!(stdout, "systemd does not run this machine: nothing was started")?;
        }
        None => writeln!(stdout, "enable it with: systemctl enable --now {}", path.display())?,
    }
    writeln!(stdout, "export KUBECONFIG={}", data.join("kubeconfig").display())?;
    Ok(())
}

impl Up {
    /// Checked now, and not when the machine starts next.
    fn parse_flags(flags: &[String]) -> anyhow::Result<Up> {
        let line = ["rkube", "up"].into_iter().chain(flags.iter().map(String::as_str));
        match Arguments::try_parse_from(line) {
            Ok(Arguments { command: cli::Command::Up(up) }) => Ok(*up),
            Ok(_) => bail!("what follows -- are flags of `rkube up`"),
            Err(error) => bail!("what follows -- are flags of `rkube up`: {}", error.render().to_string().trim_end()),
        }
    }
}

/// What systemd is to know. `data`: where the data directory is, which the environment of a service would not say.
fn unit(program: &Path, flags: &[String], data: &Path) -> anyhow::Result<String> {
    let names_directory = flags.iter().any(|flag| flag == "--data-dir" || flag.starts_with("--data-dir="));
    let mut words = vec![text(program)?.to_owned(), "up".to_owned()];
    words.extend_from_slice(flags);
    if names_directory {
        // As an absolute path: a service starts elsewhere.
        let place = words.iter().position(|word| word.starts_with("--data-dir")).unwrap_or_default();
        let is_two = words[place] == "--data-dir";
        words.splice(place..place + 1 + usize::from(is_two), [format!("--data-dir={}", text(data)?)]);
    } else {
        words.push(format!("--data-dir={}", text(data)?));
    }
    let words = words.iter().map(|word| quote(word)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(format!(
        "\
{MARK}
[Unit]
Description=Kubernetes in one binary (rkube)
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={}
Restart=always
RestartSec=2
# Pods outlive their node's restart: only rkube itself is ended.
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576
# Watches and requests under way end first.
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
",
        words.join(" ")
    ))
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: systemd could not name it", path.display()))
}

/// A word as `ExecStart=` takes it: `%` and `$` mean something there.
fn quote(word: &str) -> anyhow::Result<String> {
    ensure!(!word.chars().any(char::is_control), "{word:?} cannot stand in a unit of systemd");
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./:,@+[]*".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return Ok(word.to_owned());
    }
    let mut quoted = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' | '$' => quoted.extend([character, character]),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    Ok(quoted)
}

fn write_unit(path: &Path, unit: &str) -> anyhow::Result<()> {
    check_ours(path)?;
    let hint = || format!("cannot write {}: run it as root, or see --unit-dir", path.display());
    files::replace(path, unit, Readers::Everybody).with_context(hint)
}

/// True where there is one. Somebody else's is left alone.
fn check_ours(path: &Path) -> anyhow::Result<bool> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) => Ok(true),
        Ok(_) => bail!("{} is not of `rkube install`: move it away first", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn remove(path: &Path, systemd: Option<&Systemd>) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if !check_ours(path)? {
        writeln!(stdout, "there is no {}: nothing to remove", path.display())?;
        return Ok(());
    }
    if let Some(systemd) = systemd {
        systemd.run(&["disable", "--now", UNIT])?;
    }
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    if let Some(systemd) = systemd {
        systemd.run(&["daemon-reload"])?;
    }
    writeln!(stdout, "removed {}; pods run on until `rkube reset`", path.display())?;
    Ok(())
}

/// By its program: what it offers to others is the same with more words.
struct Systemd;

impl Systemd {
    fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let command = format!("systemctl {}", arguments.join(" "));
        let output = Command::new("systemctl").args(arguments).output();
        let output = output.with_context(|| format!("cannot run {command}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {}", said.trim());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_themselves() {
        let table = [
            ("--listen=0.0.0.0:6443", "--listen=0.0.0.0:6443"),
            ("--controllers=*,-gc", "--controllers=*,-gc"),
            ("/a b/rkube", "\"/a b/rkube\""),
            ("", "\"\""),
            ("100%", "\"100%%\""),
            ("$HOME", "\"$$HOME\""),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("ä;|", "\"ä;|\""),
        ];
        for (word, expected) in table {
            assert_eq!(quote(word).unwrap(), expected);
        }
        for bad in ["a\nb", "a\0"] {
            assert!(quote(bad).is_err());
        }
    }

    #[test]
    fn the_data_directory_is_named_once() {
        let start = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let unit = unit(Path::new("/bin/rkube"), &flags, Path::new("/d")).unwrap();
            unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap().to_owned()
        };
        assert_eq!(start(&[]), "/bin/rkube up --data-dir=/d");
        assert_eq!(start(&["--data-dir", "d", "--no-scheduler"]), "/bin/rkube up --data-dir=/d --no-scheduler");
        assert_eq!(start(&["--no-scheduler", "--data-dir=d"]), "/bin/rkube up --no-scheduler --data-dir=/d");
    }

    #[test]
    fn what_is_not_ours_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(UNIT);
        assert!(!check_ours(&path).unwrap());
        write_unit(&path, &format!("{MARK}\nold")).unwrap();
        write_unit(&path, &format!("{MARK}\nnew")).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("new"));
        std::fs::write(&path, "[Unit]\n").unwrap();
        assert!(write_unit(&path, MARK).is_err() && remove(&path, None).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[Unit]\n");
    }

    #[test]
    fn flags_are_checked_now() {
        let flags = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            Up::parse_flags(&flags)
        };
        assert!(flags(&["--listen", "0.0.0.0:6443"]).is_ok());
        for bad in [&["--nothing"][..], &["--listen", "here"], &["--help"]] {
            let error = flags(bad).unwrap_err().to_string();
            assert!(error.starts_with("what follows --"), "{error}");
        }
    }
}
