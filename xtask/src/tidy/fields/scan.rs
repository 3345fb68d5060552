//! Follows values through the text of a file: from accessor to accessor, into variables, through loops and closures.
//!
//! This is no type checker. What it cannot follow is unknown, and a field of something unknown must be a field of some
//! type in reach.

use std::collections::{BTreeSet, HashMap};

use super::table::{Shape, Table, Types, fits};
use super::tokens::{Token, Tokens};

/// They take the name of a field first.
const ACCESSORS: &[&str] = &[
    "array_mut",
    "at",
    "bool",
    "find_mut",
    "get",
    "get_mut",
    "has",
    "int",
    "list",
    "list_mut",
    "map",
    "object_mut",
    "remove",
    "set",
    "set_default",
    "set_if_absent",
    "str",
];
/// What these return stands for what they were called on.
const NEUTRAL: &[&str] = &[
    "as_map",
    "as_ref",
    "clone",
    "copied",
    "cloned",
    "enumerate",
    "filter",
    "items",
    "iter",
    "iter_mut",
    "rev",
    "to_vec",
];
/// Their closures get the items.
const ADAPTERS: &[&str] =
    &["all", "any", "filter", "filter_map", "find", "find_map", "flat_map", "for_each", "map", "position"];

/// A parameter of such a name is that part of an object.
const PARTS: &[&str] = &["metadata", "spec", "status"];

/// A field that is not there.
#[derive(Debug)]
pub(super) struct Fault {
    pub line: usize,
    pub what: String,
}

/// What may stand at a place; `None`: unknown.
type Place<'t> = Option<BTreeSet<Shape<'t>>>;

/// An expression that was followed, by the token that it ends with.
struct Followed<'t> {
    start: usize,
    place: Place<'t>,
}

/// A binding that comes to be, or comes back, at a token.
struct Later<'s, 't> {
    at: usize,
    name: &'s str,
    to: To<'t>,
}

enum To<'t> {
    /// `let name = VALUE;`
    Value,
    /// `let [name] = VALUE else {`
    Item,
    /// `for name in VALUE {`
    Items,
    /// What it was before a closure.
    Place(Place<'t>),
}

pub(super) struct Scan<'s, 't> {
    tokens: Tokens<'s>,
    table: &'t Table<'t>,
    /// The kinds that the file is about.
    own: Types<'t>,
    /// All types that there may be.
    reach: Types<'t>,
    /// The innermost block last.
    scopes: Vec<HashMap<&'s str, Place<'t>>>,
    /// For the next block that opens.
    parameters: Vec<(&'s str, Place<'t>)>,
    /// In the order in which they were met.
    later: Vec<Later<'s, 't>>,
    ends: HashMap<usize, Followed<'t>>,
    faults: Vec<Fault>,
    /// The depth of blocks at which the current `impl Rules for` stands.
    rules: Option<usize>,
}

impl<'s, 't> Scan<'s, 't> {
    pub fn new(text: &'s str, table: &'t Table<'t>, own: Types<'t>, reach: Types<'t>) -> Scan<'s, 't> {
        Scan {
            tokens: Tokens::of(text),
            table,
            own,
            reach,
            scopes: vec![HashMap::new()],
            parameters: Vec::new(),
            later: Vec::new(),
            ends: HashMap::new(),
            faults: Vec::new(),
            rules: None,
        }
    }

    pub fn run(mut self) -> Vec<Fault> {
        for index in 0..self.tokens.len() {
            self.bind_due(index);
            match self.tokens.at(index) {
                Token::Mark('{') => self.open(),
                Token::Mark('}') => self.close(),
                Token::Mark('.') => self.call(index),
                Token::Mark('|') => self.closure(index),
                Token::Mark(']') => self.indexed(index),
                Token::Word("impl") if self.tokens.word(index + 1) == Some("Rules") => {
                    self.rules = Some(self.scopes.len())
                }
                Token::Word("fn") => self.function(index),
                Token::Word("let") => self.variable(index),
                Token::Word("for") => self.repeat(index),
                _ => {}
            }
        }
        self.faults
    }

    fn open(&mut self) {
        self.scopes.push(std::mem::take(&mut self.parameters).into_iter().collect());
    }

    fn close(&mut self) {
        self.scopes.pop();
        if self.scopes.is_empty() {
            self.scopes.push(HashMap::new());
        }
        if self.rules.is_some_and(|depth| self.scopes.len() <= depth) {
            self.rules = None;
        }
    }

    /// `.name(…)`: an accessor, something neutral, or the end of what can be followed.
    fn call(&mut self, dot: usize) {
        let Some(name) = self.tokens.word(dot + 1) else { return };
        if self.tokens.mark(dot + 2) != Some('(') {
            return;
        }
        let end = self.tokens.matching(dot + 2);
        let Some(before) = dot.checked_sub(1) else { return };
        let (start, receiver) = self.receiver(before);
        let place = if ACCESSORS.contains(&name) {
            self.access(name, receiver, dot + 3, end)
        } else if NEUTRAL.contains(&name) {
            receiver
        } else {
            None
        };
        self.ends.insert(end, Followed { start, place });
    }

    /// The expression before a dot: where it starts, and what it is.
    fn receiver(&self, end: usize) -> (usize, Place<'t>) {
        match self.tokens.at(end) {
            Token::Mark('?') if end > 0 => self.receiver(end - 1),
            Token::Mark(')' | ']') => match self.ends.get(&end) {
                Some(followed) => (followed.start, followed.place.clone()),
                None => (end, None),
            },
            Token::Word(name) if end == 0 || self.tokens.mark(end - 1) != Some('.') => (end, self.lookup(name)),
            _ => (end, None),
        }
    }

    /// Checks the names that an accessor is given; returns what it finds.
    fn access(&mut self, accessor: &'s str, receiver: Place<'t>, first: usize, end: usize) -> Place<'t> {
        let names = self.names(accessor, first, end);
        let mut place = receiver;
        let last = names.len().saturating_sub(1);
        for (position, (name, line)) in names.into_iter().enumerate() {
            // What is on the way of a path is an object.
            let accessor = if position == last { accessor } else { "map" };
            place = match name {
                Some(name) => self.step(place, accessor, name, line),
                None => place.and_then(|holders| self.some_child(&holders, accessor)),
            };
        }
        place
    }

    /// The names of one call, `None` for what is not a literal: one, or those of a path.
    fn names(&self, accessor: &str, first: usize, end: usize) -> Vec<(Option<&'s str>, usize)> {
        if accessor != "at" {
            // Only a name and nothing else: `"a".to_owned()` may be anything.
            let is_plain = matches!(self.tokens.mark(first + 1), Some(')' | ','));
            return vec![(self.tokens.text(first).filter(|_| is_plain), self.tokens.line(first))];
        }
        if self.tokens.mark(first) != Some('&') || self.tokens.mark(first + 1) != Some('[') {
            return vec![(None, self.tokens.line(first))];
        }
        let elements = (first + 2..end).filter(|index| !matches!(self.tokens.at(*index), Token::Mark(_)));
        elements.map(|index| (self.tokens.text(index), self.tokens.line(index))).collect()
    }

    /// What an accessor may find under a name that is not known.
    fn some_child(&self, holders: &BTreeSet<Shape<'t>>, accessor: &str) -> Place<'t> {
        let children = holders.iter().flat_map(|holder| self.table.children(holder));
        let found: BTreeSet<Shape> = children.filter(|shape| fits(accessor, shape)).collect();
        (!found.is_empty()).then_some(found)
    }

    fn step(&mut self, place: Place<'t>, accessor: &str, name: &'s str, line: usize) -> Place<'t> {
        let table = self.table;
        let known = place.is_some();

        if !known && !could_be_field(name) {
            return None;
        }
        let holders = place.unwrap_or_else(|| self.reach.clone());
        let found: BTreeSet<Shape> = holders.iter().filter_map(|holder| table.child(holder, name)).collect();
        if found.is_empty() {
            let of = if known { listed(&holders) } else { "no type in reach".to_owned() };
            let what = if known { "no" } else { "a" };
            self.faults.push(Fault { line, what: format!("{of} has {what} field {name:?}") });
            return None;
        }
        let fitting: BTreeSet<Shape> = found.iter().copied().filter(|shape| fits(accessor, shape)).collect();
        if fitting.is_empty() {
            let what = format!("{accessor} does not fit field {name:?}, which is {}", listed(&found));
            self.faults.push(Fault { line, what });
            return None;
        }
        Some(fitting)
    }

    /// `list[…]`.
    fn indexed(&mut self, end: usize) {
        let Some(open) = self.tokens.opening(end).filter(|open| *open > 0) else { return };
        let (start, place) = self.receiver(open - 1);
        let place = place.and_then(|shapes| items(&shapes));
        self.ends.insert(end, Followed { start, place });
    }

    /// `fn name(a: &Value, …)`: in the rules of a kind values are objects of the kind.
    fn function(&mut self, index: usize) {
        let Some(open) = (index..self.tokens.len()).find(|at| self.tokens.mark(*at) == Some('(')) else { return };
        let end = self.tokens.matching(open);
        let own: Place<'t> = Some(self.own.clone());
        let mut at = open + 1;
        while at < end {
            let next = self.tokens.next_comma(at, end);
            if let (Some(name), Some(':')) = (self.tokens.word(at), self.tokens.mark(at + 1)) {
                // Plain ones only: a tuple or a function of values is something else.
                let words: Vec<_> = (at + 2..next).map(|index| self.tokens.at(index)).collect();
                let is_object = words.ends_with(&[Token::Word("Value")]) && words.len() <= 3;
                let place = match is_object {
                    true if self.rules.is_some() => own.clone(),
                    true => self.named_like(name),
                    false => None,
                };
                self.parameters.push((name, place));
            }
            at = next + 1;
        }
    }

    /// A parameter that has the name of a type is of that type: `container` is a Container. `spec` is that of something.
    fn named_like(&self, name: &str) -> Place<'t> {
        let found: BTreeSet<Shape> = if PARTS.contains(&name) {
            self.reach.iter().filter_map(|full| self.table.child(full, name)).collect()
        } else {
            self.reach.iter().copied().filter(|full| is_snake_case_of(name, full)).collect()
        };
        (!found.is_empty()).then_some(found)
    }

    /// `let name = expression;`
    fn variable(&mut self, index: usize) {
        let Some(equals) = (index..self.tokens.len()).find(|at| matches!(self.tokens.mark(*at), Some('=' | ';')))
        else {
            return;
        };
        let names: Vec<&'s str> =
            (index + 1..equals).filter_map(|at| self.tokens.word(at)).filter(|word| *word != "mut").collect();
        let end = self.tokens.statement_end(equals + 1);
        if let [name] = names.as_slice() {
            // Bound when the value is known, which comes first.
            let to = if self.tokens.mark(index + 1) == Some('[') { To::Item } else { To::Value };
            self.later.push(Later { at: end, name, to });
            return;
        }
        for name in names {
            self.bind(name, None);
        }
    }

    /// `for name in list {`
    fn repeat(&mut self, index: usize) {
        let Some(within) = (index..self.tokens.len().min(index + 12)).find(|at| self.tokens.word(*at) == Some("in"))
        else {
            return;
        };
        let names: Vec<&'s str> =
            (index + 1..within).filter_map(|at| self.tokens.word(at)).filter(|word| *word != "mut").collect();
        let end = self.tokens.statement_end(within + 1);
        for name in names {
            self.later.push(Later { at: end, name, to: To::Items });
        }
    }

    /// `|name| …`, with the items of a list if a method of a list is given it.
    fn closure(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else { return };
        let opens = matches!(self.tokens.at(before), Token::Mark('(' | ',' | '=' | '{' | '[') | Token::Word("move"));
        if !opens {
            return;
        }
        let Some(close) = (index + 1..self.tokens.len().min(index + 20)).find(|at| self.tokens.mark(*at) == Some('|'))
        else {
            return;
        };
        let names: Vec<&'s str> = self.pattern_names(index + 1, close);
        let end = self.tokens.expression_end(close + 1);
        let place = self.items_for_closure(before);
        for name in &names {
            self.later.push(Later { at: end, name, to: To::Place(self.lookup(name)) });
            let place = if names.len() == 1 { place.clone() } else { None };
            self.bind(name, place);
        }
    }

    /// Names that a pattern binds: no types.
    fn pattern_names(&self, from: usize, to: usize) -> Vec<&'s str> {
        let mut names = Vec::new();
        let mut in_type = false;
        for at in from..to {
            match self.tokens.at(at) {
                Token::Mark(':') => in_type = true,
                Token::Mark(',') => in_type = false,
                Token::Word(word) if !in_type && word != "mut" => names.push(word),
                _ => {}
            }
        }
        names
    }

    /// `list.iter().any(` before the closure.
    fn items_for_closure(&self, open: usize) -> Place<'t> {
        if self.tokens.mark(open) != Some('(')
            || !self.tokens.word(open.checked_sub(1)?).is_some_and(|name| ADAPTERS.contains(&name))
        {
            return None;
        }
        let (_, place) = self.receiver(open.checked_sub(3)?);
        items(&place?)
    }

    /// Does what was put off until this token.
    fn bind_due(&mut self, index: usize) {
        if self.later.iter().all(|later| later.at > index) {
            return;
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.later).into_iter().partition(|it| it.at <= index);
        self.later = later;
        let value = index.checked_sub(1).and_then(|last| self.ends.get(&last)).map(|it| (it.start, it.place.clone()));
        for Later { name, to, .. } in due {
            match (to, &value) {
                // Nothing but the chain: what is made of it is something else.
                (To::Value, Some((start, value))) if self.is_bound_to(*start, "=") => self.bind(name, value.clone()),
                (To::Item, Some((start, value))) if self.is_bound_to(*start, "=") => {
                    self.bind(name, value.as_ref().and_then(items));
                }
                (To::Value | To::Item, _) => self.bind(name, None),
                (To::Items, Some((start, value))) if self.is_bound_to(*start, "in") => {
                    self.parameters.push((name, value.as_ref().and_then(items)));
                }
                (To::Items, _) => self.parameters.push((name, None)),
                (To::Place(place), _) => self.bind(name, place),
            }
        }
    }

    /// Whether `start` comes right after the word or mark, but for `&` and `mut`.
    fn is_bound_to(&self, start: usize, what: &str) -> bool {
        let mut before = start;
        while let Some(at) = before.checked_sub(1) {
            before = at;
            match self.tokens.at(at) {
                Token::Mark('&') | Token::Word("mut") => {}
                Token::Mark(mark) => return what.starts_with(mark),
                Token::Word(word) => return word == what,
                Token::Text(_) => return false,
            }
        }
        false
    }

    fn bind(&mut self, name: &'s str, place: Place<'t>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, place);
        }
    }

    fn lookup(&self, name: &str) -> Place<'t> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned().flatten()
    }
}

/// The items of what are lists.
fn items<'t>(shapes: &BTreeSet<Shape<'t>>) -> Place<'t> {
    let items: BTreeSet<Shape> = shapes.iter().filter_map(|shape| Table::item(shape)).collect();
    (!items.is_empty()).then_some(items)
}

/// With a dot, a slash or a dash in it, it can only be a key.
fn could_be_field(name: &str) -> bool {
    name.chars().all(|character| character.is_ascii_alphanumeric())
}

/// `pod_template` is io.k8s.api.core.v1.PodTemplate.
fn is_snake_case_of(name: &str, full: &str) -> bool {
    let last = full.rsplit('.').next().unwrap_or(full);
    name.chars().filter(|letter| *letter != '_').eq(last.chars().map(|letter| letter.to_ascii_lowercase()))
}

/// A few names of types, for people.
fn listed(shapes: &BTreeSet<Shape<'_>>) -> String {
    const SHOWN_MAX: usize = 4;
    let short = |shape: &&str| shape.rsplit_once('.').map_or(*shape, |(_, last)| last).to_owned();
    let mut names: Vec<String> = shapes.iter().map(short).take(SHOWN_MAX).collect();
    if shapes.len() > SHOWN_MAX {
        names.push("…".to_owned());
    }
    names.join(", ")
}
