//! From YAML events to a raw [`Value`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::go_errors::{self, Context, Fault};
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
    Unsupported(&'static str),
    /// A key that JSON has no name for.
    #[error("{0}")]
    Key(String),
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
    go_errors::check_directives(text)?;
    let mut text = Cow::Borrowed(text);
    for _ in 0..MENDED_MAX.min(1 + MENDED_BYTES_MAX / text.len().max(1)) {
        match read(&text) {
            Ok(document) => return Ok(document),
            Err(Fault::Final(error)) => return Err(error),
            Err(Fault::Mended(mended)) => text = Cow::Owned(mended),
        }
    }
    Err(Error::Content("found character that cannot start any token".to_owned()))
}

/// How many places of a text are mended for our parser, each by another reading of the text.
const MENDED_MAX: usize = 1024;
const MENDED_BYTES_MAX: usize = 8 << 20;

/// What is wrong with the syntax counts before what is wrong with the content, wherever the two stand.
fn read(text: &str) -> Result<Document, Fault> {
    let mut composer = Composer::default();
    let mut context = Context::new(text);
    let mut failed = None;
    let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| context.fault(&error))?;
        context.follow(&event, span).map_err(Fault::Final)?;
        if failed.is_some() && !matches!(event, Event::DocumentEnd | Event::StreamEnd) {
            continue;
        }
        match composer.take(event, span, text) {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        return Err(Fault::Final(error));
    }
    let strict = (!composer.repeated.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", composer.repeated.join("\n  ")));
    Ok(Document { value: composer.root.map(|node| node.value).unwrap_or_default(), strict })
}

fn is_control(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\t' | '\n' | '\r' | '\u{85}')
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

/// The keys of a mapping: where they are, and of what form they were. Those of different forms are not the same.
type Seen = HashMap<Text, (usize, Discriminant<Value>)>;

enum Content {
    List(Vec<Value>),
    Map { entries: Vec<(Text, Value)>, seen: Seen, key: Option<Node> },
}

impl Composer {
    /// Takes the next event; says whether the document is complete.
    fn take(&mut self, event: Event<'_>, span: Span, text: &str) -> Result<bool, Error> {
        let line = span.start.line();
        match event {
            Event::Scalar(content, style, anchor, tag) => {
                // A block scalar is where its sign is, on the line before.
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let node = scalar(&content, style, tag.as_deref(), line - usize::from(is_block && line > 1))?;
                self.count(1, false)?;
                self.remember(anchor, &node);
                self.place(node)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    let name = go_errors::alias_at(text, span.start.index());
                    return Err(Error::Content(format!("anchor '{name}' value contains itself")));
                };
                let (count, node) = (node.count, Node { line, is_merge: false, ..node.clone() });
                self.count(1, false)?;
                self.count(count, true)?;
                self.place(node)?;
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, line, Content::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => {
                let content = Content::Map { entries: Vec::new(), seen: Seen::new(), key: None };
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
        let is_key = matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }));
        if !is_key {
            check_number(&node.value)?;
        }
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
                let name = key_text(&key, &node.value)?;
                insert(entries, seen, &mut self.repeated, (&name, &key), node.value, node.line);
            }
        }
        Ok(())
    }
}

fn insert(
    entries: &mut Vec<(Text, Value)>,
    seen: &mut Seen,
    repeated: &mut Vec<String>,
    (name, key): (&Text, &Node),
    value: Value,
    line: usize,
) {
    match seen.get(name) {
        Some((index, form)) => {
            if *form == discriminant(&key.value) {
                let shown = match &key.value {
                    Value::String(text) => crate::field::quote(text),
                    other => to_string(other),
                };
                repeated.push(format!("line {line}: key {shown} already set in map"));
            }
            entries[*index].1 = value;
        }
        None => {
            seen.insert(name.clone(), (entries.len(), discriminant(&key.value)));
            entries.push((name.clone(), value));
        }
    }
}

/// Takes over the entries of a mapping, or of a list of mappings of which earlier ones win.
fn merge(
    node: Node,
    entries: &mut Vec<(Text, Value)>,
    seen: &mut Seen,
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

/// JSON has no word for numbers without end.
fn check_number(value: &Value) -> Result<(), Error> {
    match value {
        Value::Float(number) if number.is_nan() => Err(Error::Unsupported("NaN")),
        Value::Float(number) if number.is_infinite() => {
            Err(Error::Unsupported(if *number > 0.0 { "+Inf" } else { "-Inf" }))
        }
        _ => Ok(()),
    }
}

/// A mapping's key as JSON has it.
fn key_text(key: &Node, value: &Value) -> Result<Text, Error> {
    match &key.value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Int(_) => Ok(Text::from(to_string(&key.value))),
        Value::Float(number) if number.is_nan() => Ok(Text::new_static(".nan")),
        Value::Float(number) if number.is_infinite() => {
            Ok(Text::new_static(if *number > 0.0 { ".inf" } else { "-.inf" }))
        }
        Value::Float(number) => Ok(Text::from(super::write::short_float(*number))),
        Value::Null => {
            let value = go_errors::go_syntax(value);
            Err(Error::Key(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}")))
        }
        other => Err(Error::Content(format!("invalid map key: {}", go_errors::go_syntax(other)))),
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
