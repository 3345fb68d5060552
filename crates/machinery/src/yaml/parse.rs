//! From YAML events to a raw [`Value`].

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::resolve::{self, Tag};
use crate::decode::base64;
use crate::json::{DEPTH_MAX, to_string};
use crate::value::{Map, Text, Value};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("yaml: {}{problem}", match line { 0 => String::new(), line => format!("line {line}: ") })]
    Syntax {
        /// 0: not said.
        line: usize,
        problem: String,
    },
    #[error("yaml: {0}")]
    Content(String),
    #[error("json: unsupported value: {0}")]
    Unsupported(String),
}

/// The first document and what strict reading objects to.
#[derive(Debug)]
pub struct Document {
    pub value: Value,
    /// All repeated keys in one text, as upstream words them.
    pub strict: Option<String>,
}

/// The first document; null where there is none.
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    parse_document(bytes).map(|document| document.value)
}

pub fn parse_document(bytes: &[u8]) -> Result<Document, Error> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(Error::Content("invalid leading UTF-8 octet".to_owned()));
    };
    if text.chars().any(is_control) {
        return Err(Error::Content("control characters are not allowed".to_owned()));
    }
    let mut composer = Composer::default();
    let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| syntax_error(&error, text))?;
        if composer.take(event, span, text)? {
            break;
        }
    }
    let strict = (!composer.repeated.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", composer.repeated.join("\n  ")));
    Ok(Document { value: composer.root.map(|node| node.value).unwrap_or_default(), strict })
}

fn is_control(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\t' | '\n' | '\r' | '\u{85}')
}

/// The error in the words of Go's library, which leaves out what it was doing and counts lines in its own way.
fn syntax_error(error: &ScanError, text: &str) -> Error {
    let info = error.info();
    if info.contains("unknown anchor") {
        return Error::Content(format!("unknown anchor '{}' referenced", alias_at(text, error.marker().index())));
    }
    let problem = match info.strip_prefix("while ").and_then(|info| info.split_once(", ")) {
        Some((_, problem)) => problem,
        None => info,
    };
    let problem = match problem {
        "expected ',' or ']'" => "did not find expected ',' or ']'",
        tabs if tabs.starts_with("tabs disallowed") || tabs.starts_with("tab cannot be used") => CANNOT_START,
        other if other.starts_with("unexpected character") => CANNOT_START,
        other => other,
    };
    let above = match problem {
        "found unexpected end of stream" => text.matches('\n').count(),
        _ => error.marker().line().saturating_sub(1),
    };
    let in_structure = ["node content", "expected key", "',' or", "indicator", "<document start>"];
    let line = match above {
        0 => 0,
        above if in_structure.iter().any(|what| problem.contains(what)) => above,
        above => above + 1,
    };
    Error::Syntax { line, problem: problem.to_owned() }
}

const CANNOT_START: &str = "found character that cannot start any token";

/// The name of the alias that starts at this letter.
fn alias_at(text: &str, index: usize) -> String {
    let name = text.chars().skip(index).skip_while(|letter| *letter == '*');
    name.take_while(|letter| !letter.is_whitespace() && !",[]{}".contains(*letter)).collect()
}

/// A finished value and what upstream's bounds count.
#[derive(Clone, Default)]
struct Node {
    value: Value,
    /// How many nodes it is made of.
    count: usize,
    depth: usize,
    line: usize,
    /// An unquoted `<<`.
    is_merge: bool,
}

#[derive(Default)]
struct Composer {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    repeated: Vec<String>,
    decoded: usize,
    aliased: usize,
}

struct Open {
    anchor: usize,
    line: usize,
    count: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    Map { entries: Vec<(Text, Value)>, seen: HashMap<Text, usize>, key: Option<Node> },
}

impl Composer {
    /// Takes the next event; says whether the document is complete.
    fn take(&mut self, event: Event<'_>, span: Span, text: &str) -> Result<bool, Error> {
        let line = span.start.line();
        match event {
            Event::Scalar(content, style, anchor, tag) => {
                let node = scalar(&content, style, tag.as_deref(), line)?;
                self.count(1, false)?;
                self.remember(anchor, &node);
                self.place(node)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    let name = alias_at(text, span.start.index());
                    return Err(Error::Content(format!("anchor '{name}' value contains itself")));
                };
                let (count, node) = (node.count, Node { line, is_merge: false, ..node.clone() });
                self.count(1, false)?;
                self.count(count, true)?;
                self.place(node)?;
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, line, Content::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => {
                let content = Content::Map { entries: Vec::new(), seen: HashMap::new(), key: None };
                self.begin(anchor, line, content)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::DocumentEnd | Event::StreamEnd => return Ok(true),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
        }
        Ok(false)
    }

    fn begin(&mut self, anchor: usize, line: usize, content: Content) -> Result<(), Error> {
        self.count(1, false)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(Error::Content("exceeded max depth".to_owned()));
        }
        self.open.push(Open { anchor, line, count: 1, depth: 1, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.content {
            Content::List(items) => Value::Array(items),
            Content::Map { entries, .. } => Value::Object(Map::sorted(entries)),
        };
        let node = Node { value, count: open.count, depth: open.depth, line: open.line, ..Node::default() };
        self.remember(open.anchor, &node);
        self.place(node)
    }

    fn remember(&mut self, anchor: usize, node: &Node) {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
    }

    /// Bounds how much of a document may come from aliases: nearly all of a small one, little of a large one.
    fn count(&mut self, nodes: usize, from_alias: bool) -> Result<(), Error> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        self.decoded += nodes;
        self.aliased += if from_alias { nodes } else { 0 };
        let (decoded, aliased) = (self.decoded as f64, self.aliased as f64);
        let allowed = (0.99 - 0.89 * (decoded - LOW) / (HIGH - LOW)).clamp(0.10, 0.99);
        if self.aliased > 100 && self.decoded > 1000 && aliased / decoded > allowed {
            return Err(Error::Content("document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node) -> Result<(), Error> {
        let level = self.open.len();
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        if level + node.depth > DEPTH_MAX {
            return Err(Error::Content("exceeded max depth".to_owned()));
        }
        open.count += node.count;
        open.depth = open.depth.max(node.depth + 1);
        match &mut open.content {
            Content::List(items) => items.push(node.value),
            Content::Map { key: waiting @ None, .. } => *waiting = Some(node),
            Content::Map { entries, seen, key } => {
                let Some(key) = key.take() else { return Ok(()) };
                if key.is_merge {
                    return merge(node, entries, seen, &mut self.repeated);
                }
                let name = key_text(&key)?;
                insert(entries, seen, &mut self.repeated, (&name, &key), node.value, node.line);
            }
        }
        Ok(())
    }
}

fn insert(
    entries: &mut Vec<(Text, Value)>,
    seen: &mut HashMap<Text, usize>,
    repeated: &mut Vec<String>,
    (name, key): (&Text, &Node),
    value: Value,
    line: usize,
) {
    match seen.get(name) {
        Some(index) => {
            let shown = match &key.value {
                Value::String(text) => crate::field::quote(text),
                other => to_string(other),
            };
            repeated.push(format!("line {line}: key {shown} already set in map"));
            entries[*index].1 = value;
        }
        None => {
            seen.insert(name.clone(), entries.len());
            entries.push((name.clone(), value));
        }
    }
}

/// Takes over the entries of a mapping, or of a list of mappings of which earlier ones win.
fn merge(
    node: Node,
    entries: &mut Vec<(Text, Value)>,
    seen: &mut HashMap<Text, usize>,
    repeated: &mut Vec<String>,
) -> Result<(), Error> {
    let line = node.line;
    let sources = match node.value {
        Value::Array(items) => items.into_iter().rev().collect(),
        other => vec![other],
    };
    for source in sources {
        let Value::Object(map) = source else {
            return Err(Error::Content("map merge requires map or sequence of maps as the value".to_owned()));
        };
        for (name, value) in map.into_entries() {
            let key = Node { value: Value::String(name.clone()), ..Node::default() };
            insert(entries, seen, repeated, (&name, &key), value, line);
        }
    }
    Ok(())
}

/// A mapping's key as JSON has it.
fn key_text(key: &Node) -> Result<Text, Error> {
    match &key.value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Int(_) => Ok(Text::from(to_string(&key.value))),
        Value::Float(number) => Ok(Text::from(super::write::short_float(*number))),
        Value::Null => Err(Error::Content("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned())),
        other => Err(Error::Content(format!("invalid map key: {}", to_string(other)))),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&saphyr_parser::Tag>, line: usize) -> Result<Node, Error> {
    let plain = style == ScalarStyle::Plain;
    let value = match tag {
        None if plain => resolve::resolve(text).1,
        None => Value::from(text),
        Some(tag) if tag.is_yaml_core_schema() => tagged(text, &tag.suffix)?,
        Some(_) => Value::from(text),
    };
    if let Value::Float(number) = value
        && !number.is_finite()
    {
        let name =
            if number.is_nan() { "NaN".to_owned() } else { format!("{}Inf", if number > 0.0 { "+" } else { "-" }) };
        return Err(Error::Unsupported(name));
    }
    let is_merge = text == "<<" && (plain && tag.is_none() || tag.is_some_and(|tag| tag.suffix == "merge"));
    Ok(Node { value, count: 1, depth: 0, line, is_merge })
}

/// A scalar that says what it is.
fn tagged(text: &str, tag: &str) -> Result<Value, Error> {
    let (found, value) = resolve::resolve(text);
    let fits = match tag {
        "bool" => found == Tag::Bool,
        "int" => found == Tag::Int,
        "float" => matches!(found, Tag::Int | Tag::Float),
        "null" => found == Tag::Null,
        "timestamp" => found == Tag::Timestamp,
        "binary" => {
            let bytes = base64::decode(text.as_bytes())
                .map_err(|_| Error::Content("!!binary value contains invalid base64 data".to_owned()))?;
            return Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        }
        _ => return Ok(Value::from(text)),
    };
    if fits {
        return Ok(value);
    }
    Err(Error::Content(format!("cannot decode {} `{text}` as a !!{tag}", found.name())))
}
