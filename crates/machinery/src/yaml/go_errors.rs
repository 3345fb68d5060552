//! Errors in the words of Go's library, at the lines that it names; and texts that it reads and our parser does not, mended.
//!
//! The two parsers find the same faults by different ways. What Go would have expected depends on where the fault is, so
//! a reader keeps track of what is open.

use saphyr_parser::{Event, Marker, ScalarStyle, ScanError, Span};

use super::parse::Error;
use crate::value::Value;

/// Why a text could not be read.
pub(super) enum Fault {
    Final(Error),
    /// Go would have read it. The text that says the same in a form that our parser takes.
    Mended(String),
}

struct Frame {
    is_map: bool,
    is_flow: bool,
    column: usize,
    /// Whether a mapping has a key that waits for its value.
    has_key: bool,
}

/// What is open where the parser stands.
pub(super) struct Context<'a> {
    text: &'a str,
    /// The lines, where tabs have to be looked for.
    lines: Option<Vec<&'a str>>,
    frames: Vec<Frame>,
    /// Where the last event ended, in letters.
    seen: usize,
    /// The line on which the last event that is more than a place began.
    line: usize,
    /// A place in the text, in letters and in bytes: events come in order, so that the next one is near.
    cursor: (usize, usize),
}

/// How deep Go's library goes. We take less, but that is said only of texts without a fault in their syntax.
const OPEN_MAX: usize = 10_000;

const CANNOT_START: &str = "found character that cannot start any token";
const KEY: &str = "did not find expected key";
const CONTENT: &str = "did not find expected node content";
const DOCUMENT: &str = "did not find expected <document start>";

impl<'a> Context<'a> {
    pub(super) fn new(text: &'a str) -> Context<'a> {
        Context {
            text,
            lines: text.contains('\t').then(|| text.lines().collect()),
            frames: Vec::new(),
            seen: 0,
            line: 0,
            cursor: (0, 0),
        }
    }

    /// Follows an event; refuses what our parser takes and Go's does not.
    pub(super) fn follow(&mut self, event: &Event<'_>, span: Span) -> Result<(), Error> {
        let is_empty = span.start.index() == span.end.index();
        if !is_empty && !self.in_flow() {
            self.check_tabs(event, span)?;
        }
        if !is_empty {
            self.line = span.start.line();
        }
        self.seen = span.end.index();
        match event {
            Event::Scalar(..) | Event::Alias(_) => {
                let is_key = self.frames.last().is_some_and(|frame| frame.is_map && !frame.has_key && !frame.is_flow);
                // A block scalar says of itself that it ends where it begins.
                let is_plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..));
                if is_key && is_empty && is_plain && self.letter(&span.start) == Some(':') {
                    return Err(structural(span.start.line(), KEY));
                }
                self.count();
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                let is_flow = matches!(self.letter(&span.start), Some('{' | '['));
                let is_map = matches!(event, Event::MappingStart(..));
                self.seen = self.seen.max(span.start.index() + usize::from(is_flow));
                // At once, wherever the fault counts among others: what is open takes memory.
                if self.frames.len() >= OPEN_MAX {
                    return Err(scanned(span.start.line(), &format!("exceeded max depth of {OPEN_MAX}")));
                }
                self.frames.push(Frame { is_map, is_flow, column: span.start.col(), has_key: false });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.frames.pop();
                self.count();
            }
            _ => {}
        }
        Ok(())
    }

    /// Another node is complete.
    fn count(&mut self) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.is_map) {
            frame.has_key = !frame.has_key;
        }
    }

    fn in_flow(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_flow)
    }

    /// What Go looks for behind a node here, by what holds it.
    fn expected(&self, place: &Marker) -> &'static str {
        match self.bracket_before(place) {
            Some('{') => return "did not find expected ',' or '}'",
            Some(_) => return "did not find expected ',' or ']'",
            None => {}
        }
        match self.frames.last() {
            None => DOCUMENT,
            Some(frame) => match (frame.is_map, frame.is_flow) {
                (true, true) => "did not find expected ',' or '}'",
                (false, true) => "did not find expected ',' or ']'",
                (true, false) => KEY,
                (false, false) => "did not find expected '-' indicator",
            },
        }
    }

    /// The innermost bracket that was opened since the last event and not closed: our parser looks ahead for a colon
    /// before it says what it read.
    fn bracket_before(&self, place: &Marker) -> Option<char> {
        let mut open = Vec::new();
        let mut quote = None;
        for letter in self.text.chars().skip(self.seen).take(place.index().saturating_sub(self.seen)) {
            match (quote, letter) {
                (Some(end), letter) if end == letter => quote = None,
                (None, '"' | '\'') => quote = Some(letter),
                (None, '{' | '[') => open.push(letter),
                (None, '}' | ']') => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    fn letter(&mut self, place: &Marker) -> Option<char> {
        let (letters, offset) = self.cursor;
        let offset = match place.index().checked_sub(letters) {
            Some(ahead) => offset + self.text[offset..].chars().take(ahead).map(char::len_utf8).sum::<usize>(),
            None => {
                let back = self.text[..offset].chars().rev().take(letters - place.index());
                offset - back.map(char::len_utf8).sum::<usize>()
            }
        };
        self.cursor = (place.index(), offset);
        self.text[offset..].chars().next()
    }

    /// Tabs indent nothing, neither a token nor the next line of a plain scalar.
    fn check_tabs(&self, event: &Event<'_>, span: Span) -> Result<(), Error> {
        let Some(lines) = &self.lines else { return Ok(()) };
        let before = lines.get(span.start.line() - 1).into_iter().flat_map(|line| line.chars().take(span.start.col()));
        let is_first = span.start.line() != self.line && before.clone().all(|letter| matches!(letter, ' ' | '\t'));
        if is_first && before.clone().any(|letter| letter == '\t') {
            let is_block = matches!(event, Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..));
            return Err(scanned(span.start.line(), if is_block { BLOCK_TAB } else { CANNOT_START }));
        }
        let Event::Scalar(_, ScalarStyle::Plain, ..) = event else { return Ok(()) };
        let last = lines.get(span.end.line() - 1).copied().unwrap_or_default();
        if !last.chars().skip(span.end.col()).all(|letter| matches!(letter, ' ' | '\t' | '\r')) {
            return Ok(());
        }
        let indent = self.frames.last().map_or(0, |frame| frame.column + 1);
        for (index, line) in lines.iter().enumerate().skip(span.end.line()) {
            let blanks = line.len() - line.trim_start_matches(' ').len();
            match line[blanks..].chars().next() {
                Some('\t') if blanks < indent => return Err(scanned(index + 1, TAB)),
                None | Some('\r' | '\t') if line.trim().is_empty() => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// What Go's library makes of a fault.
    pub(super) fn fault(&self, error: &ScanError) -> Fault {
        let (info, place) = (error.info(), error.marker());
        let line = place.line();
        let problem = info.strip_prefix("while ").and_then(|info| info.split_once(", ")).map_or(info, |parts| parts.1);
        let words = match problem {
            _ if info.contains("unknown anchor") => {
                let name = alias_at(self.text, place.index());
                return Fault::Final(Error::Content(format!("unknown anchor '{name}' referenced")));
            }
            // Our parser's own bound.
            "recursion limit exceeded" => scanned(line, "exceeded max depth"),
            "found unexpected end of stream" => scanned(self.text.matches('\n').count() + 1, problem),
            "expected ',' or ']'" => structural(line, "did not find expected ',' or ']'"),
            "found a tab" => scanned(self.next_line(line, |text| text.trim_start_matches(' ').starts_with('\t')), TAB),
            "a block scalar content cannot start with a tab" => {
                let line = self.next_line(line, |text| text.trim_start_matches(' ').starts_with('\t'));
                scanned(line, BLOCK_TAB)
            }
            "found unexpected document indicator" => scanned(self.next_line(line, is_indicator), problem),
            "invalid indentation in quoted scalar" => return self.quoted(place),
            "':' must be followed by a valid YAML whitespace" => match self.with_blank(place) {
                Some(mended) => return Fault::Mended(mended),
                None => scanned(line, problem),
            },
            "simple key expect ':'" | "simple key expected" => scanned(line, "could not find expected ':'"),
            "did not find expected hexadecimal number" => scanned(line, "did not find expected hexdecimal number"),
            "the handle wasn't declared" => structural(line, "found undefined tag handle"),
            "duplicate version directive" => structural(line, "found duplicate %YAML directive"),
            "did not find the expected '>'" if self.text.contains("!<\n") => {
                scanned(line, "did not find expected tag URI")
            }
            "misplaced bracket" => match self.frames.last() {
                None => structural(line, CONTENT),
                Some(frame) if frame.has_key && !frame.is_flow => structural(line, CONTENT),
                Some(_) => structural(line, self.expected(place)),
            },
            "illegal placement of ':' indicator"
            | "invalid indentation"
            | "invalid indentation in flow construct"
            | "\"-\" is only valid inside a block"
                if self.in_flow() || self.bracket_before(place).is_some() =>
            {
                structural(line, self.expected(place))
            }
            trailing if trailing.starts_with("invalid trailing content") => structural(line, self.expected(place)),
            tabs if tabs.starts_with("tabs disallowed") || tabs.starts_with("tab cannot be used") => {
                scanned(line, CANNOT_START)
            }
            other if other.starts_with("unexpected character") => scanned(line, CANNOT_START),
            other if STRUCTURAL.iter().any(|what| other.contains(what)) => structural(line, other),
            other => scanned(line, other),
        };
        Fault::Final(words)
    }

    /// The first line behind this one that is so, else this one.
    fn next_line(&self, line: usize, is_so: impl Fn(&str) -> bool) -> usize {
        let found = self.text.lines().enumerate().skip(line).find(|(_, text)| is_so(text));
        found.map_or(line, |(index, _)| index + 1)
    }

    /// A quoted scalar whose lines stand too far left, which Go does not mind.
    fn quoted(&self, start: &Marker) -> Fault {
        let offset = self.text.char_indices().nth(start.index()).map_or(self.text.len(), |(offset, _)| offset);
        let quote = self.text[offset..].chars().next();
        let mut mended = self.text[..offset].to_owned();
        let mut letters = self.text[offset..].char_indices().peekable();
        let mut line = start.line();
        mended.extend(letters.next().map(|(_, letter)| letter));
        while let Some((place, letter)) = letters.next() {
            mended.push(letter);
            match letter {
                '\n' => {
                    line += 1;
                    if is_indicator(self.text[offset + place + 1..].lines().next().unwrap_or_default()) {
                        return Fault::Final(scanned(line, "found unexpected document indicator"));
                    }
                    mended.extend(std::iter::repeat_n(' ', start.col() + 1));
                }
                '\\' if quote == Some('"') && letters.peek().is_some_and(|next| next.1 != '\n') => {
                    mended.extend(letters.next().map(|(_, letter)| letter));
                }
                '\'' if quote == Some('\'') && letters.peek().is_some_and(|next| next.1 == '\'') => {
                    mended.extend(letters.next().map(|(_, letter)| letter));
                }
                letter if Some(letter) == quote => {
                    mended.push_str(&self.text[offset + place + letter.len_utf8()..]);
                    return Fault::Mended(mended);
                }
                _ => {}
            }
        }
        Fault::Final(scanned(self.text.matches('\n').count() + 1, "found unexpected end of stream"))
    }

    /// A colon that a tab follows, with a blank in its place.
    fn with_blank(&self, place: &Marker) -> Option<String> {
        let offset = self.text.char_indices().nth(place.index()).map_or(self.text.len(), |(offset, _)| offset);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |end| offset + end);
        let before = self.text[..end].rfind(":\t")?;
        let colon = self.text[..offset].rfind(":\t").unwrap_or(before);
        let mut mended = self.text.to_owned();
        mended.replace_range(colon..colon + 2, ": ");
        Some(mended)
    }
}

const BLOCK_TAB: &str = "found a tab character where an indentation space is expected";
const TAB: &str = "found a tab character that violates indentation";

/// What is found by the parser and not by the scanner below it.
const STRUCTURAL: [&str; 5] = ["node content", "expected key", "',' or", "indicator", "<document start>"];

/// An error of Go's scanner, which names the line.
fn scanned(line: usize, problem: &str) -> Error {
    Error::Syntax { line: if line == 1 { 0 } else { line }, problem: problem.to_owned() }
}

/// An error of Go's parser, which names the line before.
fn structural(line: usize, problem: &str) -> Error {
    Error::Syntax { line: line.saturating_sub(1), problem: problem.to_owned() }
}

fn is_indicator(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
}

/// Directives that Go's library does not know, and versions.
pub(super) fn check_directives(text: &str) -> Result<(), Error> {
    for (index, line) in text.lines().enumerate() {
        let Some(directive) = line.strip_prefix('%') else {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            return Ok(());
        };
        let mut words = directive.split_whitespace();
        match (words.next(), words.next()) {
            (Some("YAML"), Some("1.1")) | (Some("TAG"), _) => {}
            (Some("YAML"), _) => return Err(structural(index + 1, "found incompatible YAML document")),
            _ => return Err(scanned(index + 1, "found unknown directive name")),
        }
    }
    Ok(())
}

/// The name of the alias that starts at this letter.
pub(super) fn alias_at(text: &str, index: usize) -> String {
    let name = text.chars().skip(index).skip_while(|letter| *letter == '*');
    name.take_while(|letter| !letter.is_whitespace() && !",[]{}".contains(*letter)).collect()
}

/// A value as Go's source would have it.
pub(super) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => crate::field::quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inner_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let entry = |(key, value): (_, &Value)| {
                let key: &crate::value::Text = key;
                format!("{}:{}", crate::field::quote(key), inner_syntax(value))
            };
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
        other => crate::json::to_string(other),
    }
}

fn inner_syntax(value: &Value) -> String {
    if value.is_null() { "interface {}(nil)".to_owned() } else { go_syntax(value) }
}
