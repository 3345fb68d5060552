//! Flags as Go programs take them, by a table: `--name=value`, `--name value`, `--switch`, `-v 4`. The table drives
//! parsing, help, and what becomes of flags that rkube does not have.
//!
//! The words for what is wrong are those of Go's `pflag`.

use std::collections::BTreeMap;
use std::fmt::Write;

use rkube_machinery::time::parse_duration;

/// One flag of the program that rkube stands in for.
pub struct Flag {
    pub name: &'static str,
    pub kind: Kind,
    /// What it is if it is not given, as text.
    pub default: &'static str,
    pub verdict: Verdict,
}

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `--name` alone is `--name=true`.
    Switch,
    Integer,
    Number,
    Duration,
    Text,
    /// Comma separated; given again, it goes on.
    List,
    /// One value each time that it is given.
    Each,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Does what it says; with a line of help.
    Works(&'static str),
    /// Decides how fast or how loud something is: accepted, and said on stderr.
    Tunes,
    /// Decides who may do what, what is recorded, encrypted or stored: anything but the default is an error.
    Refused,
}

pub const fn works(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind, default, verdict: Verdict::Works(help) }
}

pub const fn tunes(name: &'static str, kind: Kind) -> Flag {
    Flag { name, kind, default: "", verdict: Verdict::Tunes }
}

pub const fn refused(name: &'static str, kind: Kind, default: &'static str) -> Flag {
    Flag { name, kind, default, verdict: Verdict::Refused }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("unknown shorthand flag: {letter:?} in -{given}")]
    UnknownShorthand { letter: char, given: String },
    #[error("flag needs an argument: {0}")]
    NoValue(String),
    #[error("invalid argument {value:?} for \"--{name}\" flag: {problem}")]
    Invalid { name: String, value: String, problem: String },
    #[error("{program:?} does not take any arguments, got {arguments:?}")]
    Arguments { program: &'static str, arguments: Vec<String> },
    #[error(
        "--{name}={value} is refused: rkube does not have this flag yet, and going on without it would not be what was asked for"
    )]
    Refused { name: &'static str, value: String },
}

/// What was given, of the flags that work.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Given {
    values: BTreeMap<&'static str, Vec<String>>,
    defaults: BTreeMap<&'static str, &'static str>,
    /// Flags that were accepted and do nothing.
    pub without_effect: Vec<&'static str>,
    pub wants_help: bool,
}

/// Everything that is on the command line of `program`, without its name.
pub fn parse(program: &'static str, table: &'static [Flag], arguments: Vec<String>) -> Result<Given, Error> {
    let mut given = Given::default();
    for flag in table.iter().filter(|flag| matches!(flag.verdict, Verdict::Works(_))) {
        given.defaults.insert(flag.name, flag.default);
    }
    let mut positional = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let (name, value) = match split(&argument)? {
            Argument::Help => {
                given.wants_help = true;
                continue;
            }
            Argument::Positional if argument == "--" => {
                positional.extend(rest.by_ref());
                break;
            }
            Argument::Positional => {
                positional.push(argument);
                continue;
            }
            Argument::Flag { name, value } => (name, value),
        };
        let Some(flag) = table.iter().find(|flag| flag.name == name) else { return Err(Error::Unknown(name)) };
        let value = match value {
            Some(value) => value,
            None if flag.kind == Kind::Switch => "true".to_owned(),
            None => rest.next().ok_or_else(|| Error::NoValue(argument.clone()))?,
        };
        take(&mut given, flag, value)?;
    }
    match positional.is_empty() || given.wants_help {
        true => Ok(given),
        false => Err(Error::Arguments { program, arguments: positional }),
    }
}

enum Argument {
    Help,
    Positional,
    Flag { name: String, value: Option<String> },
}

fn split(argument: &str) -> Result<Argument, Error> {
    if let Some(long) = argument.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        if name == "help" {
            return Ok(Argument::Help);
        }
        return Ok(Argument::Flag { name: name.replace('_', "-"), value });
    }
    let Some(short) = argument.strip_prefix('-').filter(|short| !short.is_empty() && *short != "-") else {
        return Ok(Argument::Positional);
    };
    match short.split_at_checked(1) {
        Some(("h", _)) => Ok(Argument::Help),
        Some(("v", level)) => {
            let value = level.strip_prefix('=').unwrap_or(level);
            Ok(Argument::Flag { name: "v".to_owned(), value: (!value.is_empty()).then(|| value.to_owned()) })
        }
        _ => {
            let letter = short.chars().next().unwrap_or_default();
            Err(Error::UnknownShorthand { letter, given: short.to_owned() })
        }
    }
}

fn take(given: &mut Given, flag: &'static Flag, value: String) -> Result<(), Error> {
    check(flag, &value)?;
    match flag.verdict {
        Verdict::Works(_) => given.values.entry(flag.name).or_default().push(value),
        Verdict::Tunes => {
            if !given.without_effect.contains(&flag.name) {
                given.without_effect.push(flag.name);
            }
        }
        Verdict::Refused if value == flag.default => {}
        Verdict::Refused => return Err(Error::Refused { name: flag.name, value }),
    }
    Ok(())
}

fn check(flag: &Flag, value: &str) -> Result<(), Error> {
    let problem = match flag.kind {
        Kind::Switch => boolean(value).err(),
        Kind::Integer => {
            value.parse::<i64>().err().map(|_| format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
        }
        Kind::Number => {
            value.parse::<f64>().err().map(|_| format!("strconv.ParseFloat: parsing {value:?}: invalid syntax"))
        }
        Kind::Duration => parse_duration(value).err(),
        Kind::Text | Kind::List | Kind::Each => None,
    };
    match problem {
        Some(problem) => Err(Error::Invalid { name: flag.name.to_owned(), value: value.to_owned(), problem }),
        None => Ok(()),
    }
}

/// As Go reads it.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

impl Given {
    /// The last value, or the default; `None` if that is empty.
    pub fn text(&self, name: &'static str) -> Option<&str> {
        let default = self.default_of(name);
        let last = self.values.get(name).and_then(|values| values.last());
        Some(last.map_or(default, String::as_str)).filter(|text| !text.is_empty())
    }

    pub fn switch(&self, name: &'static str) -> bool {
        self.text(name).is_some_and(|text| boolean(text) == Ok(true))
    }

    /// Parsed anew, as something with rules of its own.
    pub fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, name: &'static str) -> Result<T, Error> {
        let text = self.text(name).unwrap_or_default();
        text.parse().map_err(|error: T::Err| self.invalid(name, text, error.to_string()))
    }

    /// All values of a comma separated list.
    pub fn list(&self, name: &'static str) -> Vec<String> {
        let texts = self.values.get(name).map_or_else(|| vec![self.default_of(name)], |all| as_texts(all));
        texts.iter().flat_map(|text| text.split(',')).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// All values of a flag that is given once for each.
    pub fn each(&self, name: &'static str) -> Vec<&str> {
        self.values.get(name).map_or_else(Vec::new, |all| as_texts(all))
    }

    pub fn invalid(&self, name: &'static str, value: &str, problem: String) -> Error {
        Error::Invalid { name: name.to_owned(), value: value.to_owned(), problem }
    }

    fn default_of(&self, name: &'static str) -> &'static str {
        self.defaults.get(name).expect("a flag that is asked for is in the table, and works")
    }

    /// Says which flags do nothing, a line each.
    pub fn say_without_effect(&self, program: &str) {
        for name in &self.without_effect {
            eprintln!("{program}: --{name} has no effect in rkube");
        }
    }
}

fn as_texts(values: &[String]) -> Vec<&str> {
    values.iter().map(String::as_str).collect()
}

/// What `--help` prints: the flags that work, a line each, since programs look for them there.
pub fn help(program: &str, about: &str, table: &[Flag]) -> String {
    let mut text = format!("{about}\n\nUsage:\n  {program} [flags]\n\nFlags:\n");
    for flag in table {
        if let Verdict::Works(help) = flag.verdict {
            let shorthand = if flag.name == "v" { "-v, --" } else { "--" };
            let default = if flag.default.is_empty() { String::new() } else { format!(" (default {})", flag.default) };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "      {shorthand}{} {}{help}{default}", flag.name, flag.kind.word());
        }
    }
    let _ = writeln!(text, "  -h, --help  this text");
    for (title, verdict) in [
        ("Accepted, without effect here", Verdict::Tunes),
        ("Refused unless they have their defaults, because rkube does not have them yet", Verdict::Refused),
    ] {
        let names: Vec<&str> = table.iter().filter(|flag| flag.verdict == verdict).map(|flag| flag.name).collect();
        let _ = writeln!(text, "\n{title}:\n  {}", names.join(" "));
    }
    text
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Switch => " ",
            Kind::Integer => "int  ",
            Kind::Number => "float  ",
            Kind::Duration => "duration  ",
            Kind::Text => "string  ",
            Kind::List => "strings  ",
            Kind::Each => "stringArray  ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Flag] = &[
        works("port", Kind::Integer, "6443", "where to serve"),
        works("names", Kind::List, "a,b", "who"),
        works("key-file", Kind::Each, "", "keys"),
        works("lookup", Kind::Switch, "true", "look up"),
        works("v", Kind::Integer, "0", "how much to log"),
        tunes("cache", Kind::Switch),
        tunes("wait", Kind::Duration),
        refused("audit", Kind::Text, ""),
        refused("chance", Kind::Number, "0"),
    ];

    fn given(arguments: &[&str]) -> Result<Given, Error> {
        parse("program", TABLE, arguments.iter().map(|&argument| argument.to_owned()).collect())
    }

    #[test]
    fn every_way_to_write_a_flag() {
        let none = given(&[]).unwrap();
        assert_eq!((none.text("port"), none.switch("lookup")), (Some("6443"), true));
        assert_eq!((none.list("names"), none.each("key-file")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        let some = given(&[
            "--port=1",
            "--port",
            "2",
            "--names=c",
            "--names=d,e",
            "--key_file=x",
            "--key-file",
            "y,z",
            "--lookup=F",
            "-v=4",
        ])
        .unwrap();
        assert_eq!((some.text("port"), some.switch("lookup"), some.text("v")), (Some("2"), false, Some("4")));
        assert_eq!(some.list("names"), ["c", "d", "e"]);
        assert_eq!(some.each("key-file"), ["x", "y,z"]);
        assert_eq!(given(&["-v", "3"]).unwrap().text("v"), Some("3"));
        assert_eq!(given(&["-v3"]).unwrap().text("v"), Some("3"));
        assert!(given(&["--port=1", "-h"]).unwrap().wants_help);
        assert_eq!(some.parsed::<u16>("port"), Ok(2));
    }

    #[test]
    fn what_cannot_be_is_said_as_go_says_it() {
        let table = [
            (&["--nothing"][..], "unknown flag: --nothing"),
            (&["--nothing=1"], "unknown flag: --nothing"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["--port"], "flag needs an argument: --port"),
            (
                &["--port=abc"],
                "invalid argument \"abc\" for \"--port\" flag: strconv.ParseInt: parsing \"abc\": invalid syntax",
            ),
            (
                &["--cache=maybe"],
                "invalid argument \"maybe\" for \"--cache\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (&["--wait=x"], "invalid argument \"x\" for \"--wait\" flag: time: invalid duration \"x\""),
            (&["here"], "\"program\" does not take any arguments, got [\"here\"]"),
            (&["--", "--port=1"], "\"program\" does not take any arguments, got [\"--port=1\"]"),
        ];
        for (arguments, expected) in table {
            assert_eq!(given(arguments).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn flags_that_we_lack_are_ignored_or_refused() {
        assert_eq!(given(&["--cache", "--cache=false", "--wait=1s"]).unwrap().without_effect, ["cache", "wait"]);
        assert!(given(&["--audit=", "--chance=0"]).unwrap().without_effect.is_empty(), "the defaults change nothing");
        assert!(given(&["--audit=log"]).unwrap_err().to_string().starts_with("--audit=log is refused"));
    }

    #[test]
    fn help_has_a_line_for_each_flag_that_works() {
        let help = help("program", "About.", TABLE);
        let starts = |flag: &str| help.lines().any(|line| line.trim_start().starts_with(flag));
        assert!(starts("--port") && starts("--key-file") && starts("-v, --v"));
        assert!(!starts("--cache") && !starts("--audit") && help.contains("cache wait"));
    }
}
