//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub const USAGE: &str = "\
Usage: rkube-bench run [controllers|node] --rkube FILE --directory DIR [--quick] [--only TEXT]
       rkube-bench load WORK --kubeconfig FILE [--seconds N]
       rkube-bench limit --certificate FILE --object-bytes N --pod-bytes N --event-bytes N --small-event-bytes N

  run    the whole table; data lies in a temporary directory under DIR, which should be on a real disk
         `controllers` leaves the others out; `node` is a real node (as root, in a network namespace of its own);
         --quick takes about a minute; --only keeps the rows whose name has TEXT in it
  load   one kind of load on a running server, for a profiler: create, patch, get, pods, list, page, protobuf, watch
  limit  the server that answers from memory; `run` starts it";

pub enum Command {
    Run(RunOptions),
    Load(LoadOptions),
    Limit(LimitOptions),
}

pub struct RunOptions {
    pub rkube: PathBuf,
    pub directory: PathBuf,
    pub quick: bool,
    pub only: String,
    /// Nothing but these rows.
    pub group: Option<Group>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What the cluster does by itself: controllers, scheduler, nodes.
    Controllers,
    /// Real containers.
    Node,
}

pub struct LoadOptions {
    pub work: String,
    pub kubeconfig: PathBuf,
    pub seconds: u64,
}

pub struct LimitOptions {
    /// Where the certificate goes that clients have to trust.
    pub certificate: PathBuf,
    pub object_bytes: usize,
    pub pod_bytes: usize,
    pub event_bytes: usize,
    pub small_event_bytes: usize,
}

pub fn parse(words: &[String]) -> Result<Command> {
    let (command, rest) = words.split_first().context("say what to do")?;
    let mut flags = Flags::read(rest)?;
    let command = match command.as_str() {
        "run" => Command::Run(RunOptions {
            rkube: flags.need("--rkube")?.into(),
            directory: flags.need("--directory")?.into(),
            quick: flags.take("--quick").is_some(),
            only: flags.take("--only").unwrap_or_default(),
            group: match flags.take("").as_deref() {
                None => None,
                Some("controllers") => Some(Group::Controllers),
                Some("node") => Some(Group::Node),
                Some(other) => bail!("there are no rows {other:?}"),
            },
        }),
        "load" => Command::Load(LoadOptions {
            work: flags.need("")?,
            kubeconfig: flags.need("--kubeconfig")?.into(),
            seconds: flags.take("--seconds").map_or(Ok(10), |text| text.parse())?,
        }),
        "limit" => Command::Limit(LimitOptions {
            certificate: flags.need("--certificate")?.into(),
            object_bytes: flags.need("--object-bytes")?.parse()?,
            pod_bytes: flags.need("--pod-bytes")?.parse()?,
            event_bytes: flags.need("--event-bytes")?.parse()?,
            small_event_bytes: flags.need("--small-event-bytes")?.parse()?,
        }),
        other => bail!("there is no command {other:?}"),
    };
    flags.end()?;
    Ok(command)
}

/// Pairs of a flag and its value; a word without a flag has the name "".
struct Flags(Vec<(String, String)>);

impl Flags {
    fn read(words: &[String]) -> Result<Flags> {
        let mut found = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                found.push((String::new(), word.clone()));
            } else if word == "--quick" {
                found.push((word.clone(), String::new()));
            } else {
                let value = words.next().with_context(|| format!("{word} needs a value"))?;
                found.push((word.clone(), value.clone()));
            }
        }
        Ok(Flags(found))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let index = self.0.iter().position(|(flag, _)| flag == name)?;
        Some(self.0.remove(index).1)
    }

    fn need(&mut self, name: &str) -> Result<String> {
        self.take(name).with_context(|| match name {
            "" => "say which work".to_owned(),
            _ => format!("{name} is missing"),
        })
    }

    fn end(self) -> Result<()> {
        match self.0.first() {
            Some((flag, value)) => bail!("what is {:?}?", if flag.is_empty() { value } else { flag }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused() {
        let table = [
            ("run --rkube a --directory b", true),
            ("run --quick --rkube a --only get --directory b", true),
            ("run controllers --rkube a --directory b", true),
            ("run others --rkube a --directory b", false),
            ("run --rkube a", false),
            ("run --rkube a --directory b --fast c", false),
            ("load create --kubeconfig k", true),
            ("load --kubeconfig k", false),
            ("limit --certificate c --object-bytes 1 --pod-bytes 1 --event-bytes 1 --small-event-bytes 1", true),
            ("limit --certificate c --object-bytes x --pod-bytes 1 --event-bytes 1 --small-event-bytes 1", false),
            ("", false),
        ];
        for (line, good) in table {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&words).is_ok(), good, "{line}");
        }
    }
}
