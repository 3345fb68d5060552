//! The file of static bearer tokens: lines of `token,user,uid` and, quoted, a list of groups.

use std::path::{Path, PathBuf};

use rkube_access::User;
use rkube_access::authenticate::TokenFile;

use crate::files;

#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub struct StaticToken {
    pub token: String,
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] files::Error),
    #[error("there is no token file {}: check --token-auth-file", .0.display())]
    Absent(PathBuf),
    #[error("line {line} of the token file: {problem}; expected token,user,uid,\"group1,group2\"")]
    Line { line: usize, problem: &'static str },
}

pub fn read(path: &Path) -> Result<Vec<StaticToken>, Error> {
    let text = files::read(path)?;
    match text {
        Some(text) => parse(&text),
        None if path.exists() => Ok(Vec::new()),
        None => Err(Error::Absent(path.to_owned())),
    }
}

/// The tokens as the API server knows them.
pub fn known(tokens: Vec<StaticToken>) -> TokenFile {
    let mut known = TokenFile::default();
    for entry in tokens {
        let groups = entry.groups.iter().map(Into::into).collect();
        let user = User { name: entry.user.into(), uid: entry.uid.into(), groups, ..User::default() };
        known.insert(&entry.token, user);
    }
    known
}

fn parse(text: &str) -> Result<Vec<StaticToken>, Error> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let error = |problem| Error::Line { line: index + 1, problem };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let columns = split_columns(line).map_err(error)?;
        let [token, user, uid, rest @ ..] = columns.as_slice() else {
            return Err(error("fewer than three columns"));
        };
        if token.is_empty() {
            return Err(error("the token is empty"));
        }
        let groups = rest.first().map(String::as_str).unwrap_or_default();
        tokens.push(StaticToken {
            token: token.clone(),
            user: user.clone(),
            uid: uid.clone(),
            groups: groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
        });
    }
    Ok(tokens)
}

/// One line of CSV; quotes protect commas, a doubled quote stands for one.
fn split_columns(line: &str) -> Result<Vec<String>, &'static str> {
    let mut columns = vec![String::new()];
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        let column = columns.last_mut().expect("there is always a column");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                column.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if column.is_empty() => quoted = true,
            '"' => return Err("a quote in the middle of a column"),
            ',' if !quoted => columns.push(String::new()),
            ' ' if !quoted && column.is_empty() => {}
            other => column.push(other),
        }
    }
    if quoted { Err("a quote is not closed") } else { Ok(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_with_and_without_groups() {
        let tokens = parse("# people\nt1,alice,1\n\nt2,bob,2,\"dev,ops\"\r\nt3,carol,,dev\n").unwrap();
        let short: Vec<_> = tokens
            .iter()
            .map(|token| format!("{} {} {} {}", token.token, token.user, token.uid, token.groups.join("+")))
            .collect();
        assert_eq!(short, ["t1 alice 1 ", "t2 bob 2 dev+ops", "t3 carol  dev"]);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, line) in [("a,b", 1), ("a,b,c\n,b,c", 2), ("a,b,c,\"d", 1), ("a,b\"c,d", 1)] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line} ")), "{error}");
        }
    }

    #[test]
    fn an_absent_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read(&directory.path().join("tokens")), Err(Error::Absent(_))));
    }
}
