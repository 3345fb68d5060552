//! The command line, and the lists of names that it leads to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub const USAGE: &str = "\
Usage: cargo xtask conformance [--list FILE]... [--shards N] [--minutes N] [--rkube FILE] [--images FILE]
                               [NAME...] [-- FLAG...]

  NAME           a test as `e2e.test --list-tests` names it; ` [Conformance]` at its end may be left out
  --list FILE    a file of such names, one a line
  --shards N     how many rkubes to run them on at a time [default: one per core if there are more than 20]
  --minutes N    how long a shard may take [default: 60]
  --rkube FILE   the binary to test [default: a release build]
  --images FILE  an archive of the images that tests use: they run on a real node, in a network namespace of its own
                 (as root)
  FLAG           goes to `rkube up`

E2E_TEST says where upstream's e2e.test is, unless it is on the path.";

/// With fewer tests a second rkube does not pay.
const TESTS_PER_RUN_MAX: usize = 20;
const MINUTES: u64 = 60;

#[derive(Debug, Default)]
pub(super) struct Options {
    pub names: Vec<String>,
    pub shards: usize,
    /// How long one shard may take.
    pub limit: Duration,
    pub rkube: Option<PathBuf>,
    /// What a real node has; None: there is none.
    pub images: Option<PathBuf>,
    /// For `rkube up`.
    pub flags: Vec<String>,
}

pub(super) fn parse(words: &[String]) -> Result<Options> {
    let mut options = Options { limit: minutes(MINUTES), ..Options::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value\n\n{USAGE}"));
        match word.as_str() {
            "--list" => {
                let file = value()?;
                let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
                options.names.extend(names(&text));
            }
            "--shards" => options.shards = positive(word, value()?)?,
            "--minutes" => options.limit = minutes(positive(word, value()?)? as u64),
            "--rkube" => options.rkube = Some(value()?.into()),
            "--images" => {
                let file = value()?;
                options.images = Some(std::fs::canonicalize(file).with_context(|| format!("cannot find {file}"))?);
            }
            "--" => options.flags.extend(words.by_ref().cloned()),
            flag if flag.starts_with('-') => bail!("there is no flag {flag}\n\n{USAGE}"),
            name => options.names.extend(names(name)),
        }
    }
    deduplicate(&mut options.names);
    ensure!(!options.names.is_empty(), "say which tests to run\n\n{USAGE}");
    if options.shards == 0 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        options.shards = if options.names.len() > TESTS_PER_RUN_MAX { cores } else { 1 };
    }
    Ok(options)
}

/// The names in a list: blank lines and comments are none.
fn names(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

/// A test that is asked for twice runs once.
fn deduplicate(names: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
}

fn positive(flag: &str, text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("{flag} takes a number, not {text:?}"))
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Options> {
        parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_come_from_files_and_words_once_each() {
        let file = std::env::temp_dir().join(format!("xtask-conformance-{}.txt", std::process::id()));
        std::fs::write(&file, "# those that matter\n[sig-a] one\n\n  [sig-a] two \n[sig-a] one\n").unwrap();
        let options = parsed(&["--list", file.to_str().unwrap(), "[sig-b] three", "[sig-a] two"]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(options.unwrap().names, ["[sig-a] one", "[sig-a] two", "[sig-b] three"]);
    }

    #[test]
    fn lines_are_read_or_refused() {
        let options = parsed(&["--shards", "3", "--minutes", "2", "--rkube", "r", "name"]).unwrap();
        assert_eq!((options.shards, options.limit, options.rkube), (3, Duration::from_secs(120), Some("r".into())));
        let options = parsed(&["name", "--", "--store", "embedded"]).unwrap();
        assert_eq!((options.shards, options.flags), (1, vec!["--store".to_owned(), "embedded".to_owned()]));
        let wrong: [&[&str]; 6] =
            [&[], &["--list"], &["--list", "/nowhere"], &["--shards", "0", "x"], &["--fast", "x"], &["--shards", "x"]];
        for words in wrong {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
