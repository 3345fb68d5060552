//! The text of an expression, and what is wrong at a place in it.

use std::fmt;

/// So many faults are shown; of the others only their number.
const ISSUES_SHOWN_MAX: usize = 100;
/// A longer line is not shown below its fault.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// The text of an expression by lines. Places are counted in characters, not in bytes.
#[derive(Clone, Debug)]
pub struct Source {
    characters: Vec<char>,
    /// Where the second and later lines begin.
    line_starts: Vec<usize>,
}

/// A line, counted from one, and a column, counted from zero; both are -1 for what has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: i64,
    pub column: i64,
}

impl Location {
    pub const NONE: Location = Location { line: -1, column: -1 };
}

/// One thing that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub location: Location,
    pub message: String,
}

/// All that is wrong with an expression, in the order of the text. Shown as clients of Kubernetes know it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", shown.join("\n"))]
pub struct Issues {
    pub issues: Vec<Issue>,
    shown: Vec<String>,
}

impl Source {
    pub fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let line_starts =
            characters.iter().enumerate().filter(|(_, letter)| **letter == '\n').map(|(at, _)| at + 1).collect();
        Source { characters, line_starts }
    }

    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// The text between two offsets.
    pub fn slice(&self, from: usize, to: usize) -> String {
        let to = to.min(self.characters.len());
        self.characters.get(from..to).unwrap_or_default().iter().collect()
    }

    pub fn location(&self, offset: Option<usize>) -> Location {
        let Some(offset) = offset else { return Location::NONE };
        if self.characters.is_empty() {
            // There is no line to point into.
            return Location { line: 1, column: -1 };
        }
        let line = self.line_starts.iter().take_while(|start| **start <= offset).count();
        let start = if line == 0 { 0 } else { self.line_starts[line - 1] };
        Location { line: line as i64 + 1, column: (offset - start) as i64 }
    }

    /// The faults in the order of the text.
    pub fn issues(&self, found: Vec<(Option<usize>, String)>) -> Issues {
        let more = found.len().saturating_sub(ISSUES_SHOWN_MAX);
        let mut issues: Vec<Issue> = found
            .into_iter()
            .take(ISSUES_SHOWN_MAX)
            .map(|(offset, message)| Issue { location: self.location(offset), message })
            .collect();
        issues.sort_by_key(|issue| issue.location);
        let mut shown: Vec<String> = issues.iter().map(|issue| self.shown(issue)).collect();
        if more > 0 {
            shown.push(format!("{more} more errors were truncated"));
        }
        Issues { issues, shown }
    }

    /// The fault with the line in which it lies.
    fn shown(&self, issue: &Issue) -> String {
        let Location { line, column } = issue.location;
        let mut text = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
        if let Some(snippet) = self.line(line).filter(|snippet| snippet.len() <= SNIPPET_BYTES_MAX) {
            let mut pointer = String::new();
            let mut letters = snippet.chars();
            for _ in 0..column {
                match letters.next() {
                    Some(letter) => pointer.push(if letter.is_ascii() { '.' } else { '\u{ff0e}' }),
                    None => break,
                }
            }
            pointer.push(if letters.next().is_none_or(|letter| letter.is_ascii()) { '^' } else { '\u{ff3e}' });
            text.push_str(&format!("\n | {snippet}\n | {pointer}"));
        }
        text
    }

    fn line(&self, line: i64) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        if self.characters.is_empty() || index > self.line_starts.len() {
            return None;
        }
        let start = if index == 0 { 0 } else { self.line_starts[index - 1] };
        let end = self.line_starts.get(index).map_or(self.characters.len(), |next| next - 1);
        Some(self.slice(start, end).replace('\t', " "))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.characters.iter().try_for_each(|letter| write!(formatter, "{letter}"))
    }
}
