//! How the parser goes on after a fault, so that it finds the next one, and in which words it reports them.
//!
//! This is the strategy of ANTLR, by which cel-go parses: drop a word that is too many, go on as if a missing one were
//! there, or else skip to a word that can follow. Rules are called with the set of words that can follow them.

use super::lexer;
use super::token::{Kind, Set, Token};
use crate::source::Source;

/// Faults of syntax before the parser gives up.
const REPORTS_MAX: usize = 100;
const RECOVERIES_MAX: usize = 30;
const SKIPPED_MAX: usize = 256;
/// How deep a rule may nest in itself.
pub const DEPTH_MAX: usize = 250;

/// Why a rule ends early.
#[derive(Debug)]
pub enum Stop {
    /// The next word fits none of these.
    Mismatch(Set),
    /// No alternative fits the words from `start` up to `end`.
    NoAlternative { start: usize, end: usize },
    /// The whole parse ends.
    Abort,
}

pub type Parsed<T> = Result<T, Stop>;

/// Which words can follow a rule; `open` when its caller can end there as well.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    pub set: Set,
    pub open: bool,
}

pub const fn before(kinds: &[Kind]) -> Follow {
    Follow { set: Set::of(kinds), open: false }
}

pub const fn optional(set: Set) -> Follow {
    Follow { set, open: true }
}

/// A place in the grammar; only whether two are the same counts.
pub type Place = u8;

pub struct Cursor<'a> {
    pub source: &'a Source,
    tokens: Vec<Token>,
    /// Letters that belong to no word.
    unknown: Vec<(usize, usize)>,
    at: usize,
    follow: Vec<Follow>,
    place: Place,
    recovering: bool,
    last_fault: Option<(usize, Vec<Place>)>,
    recoveries: usize,
    reports: usize,
    aborted: bool,
    pub faults: Vec<(Option<usize>, String)>,
}

impl<'a> Cursor<'a> {
    pub fn new(source: &'a Source) -> Self {
        let mut faults = Vec::new();
        let mut unknown = Vec::new();
        let tokens = lexer::tokens(source, &mut |from, to, message| {
            unknown.push((from, to));
            if faults.len() < REPORTS_MAX {
                faults.push((Some(from), message));
            }
        });
        let reports = faults.len();
        Cursor {
            source,
            tokens,
            unknown,
            at: 0,
            follow: Vec::new(),
            place: 0,
            recovering: false,
            last_fault: None,
            recoveries: 0,
            reports,
            aborted: false,
            faults,
        }
    }

    /// The word that is `ahead` words after the next one.
    pub fn peek(&self, ahead: usize) -> Kind {
        self.token(self.at + ahead).kind
    }

    /// Where the next word begins.
    pub fn offset(&self) -> usize {
        self.token(self.at).start
    }

    fn token(&self, index: usize) -> &Token {
        &self.tokens[index.min(self.tokens.len() - 1)]
    }

    fn consume(&mut self) -> Token {
        let token = self.token(self.at).clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes the next word, which the caller has seen to fit.
    pub fn take(&mut self) -> Token {
        self.recovered();
        self.consume()
    }

    pub fn take_if(&mut self, kind: Kind) -> Option<Token> {
        (self.peek(0) == kind).then(|| self.take())
    }

    pub fn no_alternative<T>(&mut self, place: Place, words: usize) -> Parsed<T> {
        self.place = place;
        Err(Stop::NoAlternative { start: self.at, end: self.at + words - 1 })
    }

    /// A rule begins: these words can follow it.
    pub fn enter(&mut self, follow: Follow) {
        self.follow.push(follow);
    }

    /// A rule ends. When it stopped early, its fault is reported and the words up to one that can follow are skipped.
    pub fn leave<T: Default>(&mut self, result: Parsed<T>) -> Parsed<T> {
        let result = match result {
            Err(Stop::Abort) => Err(Stop::Abort),
            Err(stop) => {
                self.report_stop(&stop);
                self.recover().map(|()| T::default())
            }
            done => done,
        };
        self.follow.pop();
        if self.aborted { Err(Stop::Abort) } else { result }
    }

    /// The word of this kind; `after` is what can stand behind it. `None` when it is missing and went as if there.
    pub fn expect(&mut self, place: Place, kind: Kind, after: Follow) -> Parsed<Option<Token>> {
        self.place = place;
        if self.peek(0) == kind {
            return Ok(Some(self.take()));
        }
        self.count_recovery()?;
        if self.drop_one(Set::of(&[kind])) {
            return Ok(Some(self.consume()));
        }
        if self.reachable(after).has(self.peek(0)) {
            if !self.recovering {
                self.recovering = true;
                let message = format!("missing {} at {}", Set::of(&[kind]).shown(), self.shown(self.at));
                self.report(self.at, message);
            }
            return Ok(None);
        }
        Err(Stop::Mismatch(Set::of(&[kind])))
    }

    /// Before a choice: the next word must be one of these, or the one after it.
    pub fn choose(&mut self, place: Place, set: Set) -> Parsed<()> {
        self.place = place;
        if self.recovering || set.has(self.peek(0)) || self.drop_one(set) {
            return Ok(());
        }
        Err(Stop::Mismatch(set))
    }

    /// After a turn of a loop: skips what can neither go on nor follow.
    pub fn again(&mut self, place: Place, set: Set) -> Parsed<()> {
        self.place = place;
        if self.recovering || set.has(self.peek(0)) {
            return Ok(());
        }
        self.report_unwanted(set);
        let wanted = set.with(self.recovery_set());
        self.skip_to(wanted, usize::MAX)
    }

    /// Ends the whole parse with a fault that has no place.
    pub fn abort<T>(&mut self, message: String) -> Parsed<T> {
        self.faults.push((None, message));
        self.aborted = true;
        Err(Stop::Abort)
    }

    fn recovered(&mut self) {
        self.recovering = false;
        self.last_fault = None;
    }

    /// Drops the next word if the one after it is wanted.
    fn drop_one(&mut self, wanted: Set) -> bool {
        let drop = wanted.has(self.peek(1));
        if drop {
            self.report_unwanted(wanted);
            self.consume();
            self.recovered();
        }
        drop
    }

    fn report_unwanted(&mut self, wanted: Set) {
        if !self.recovering {
            self.recovering = true;
            let message = format!("extraneous input {} expecting {}", self.shown(self.at), wanted.shown());
            self.report(self.at, message);
        }
    }

    fn report_stop(&mut self, stop: &Stop) {
        if self.recovering {
            return;
        }
        self.recovering = true;
        match stop {
            Stop::Mismatch(wanted) => {
                let message = format!("mismatched input {} expecting {}", self.shown(self.at), wanted.shown());
                self.report(self.at, message);
            }
            Stop::NoAlternative { start, end } => {
                let message = self.no_alternative_message(*start, *end);
                self.report(*end, message);
            }
            Stop::Abort => {}
        }
    }

    fn no_alternative_message(&self, start: usize, end: usize) -> String {
        let span = self.token(start).start..self.token(end).end;
        let (mut from, to) = (span.start, span.end);
        let mut text = String::new();
        for (begin, finish) in self.unknown.iter().filter(|(begin, _)| span.contains(begin)) {
            text.push_str(&self.source.slice(from, *begin));
            from = *finish;
        }
        text.push_str(&self.source.slice(from, to));
        if self.token(start).kind == Kind::End {
            text.push_str("<EOF>");
        }
        let reserved = ["true", "false", "null"].into_iter().find(|word| {
            text.chars().count() == word.len() + 1 && text.ends_with(word) && !text.starts_with(['\n', '\r', '\t'])
        });
        match reserved {
            Some(word) => format!("mismatched input '{word}' expecting IDENTIFIER"),
            None => format!("no viable alternative at input {}", quoted(&text)),
        }
    }

    fn report(&mut self, index: usize, message: String) {
        let offset = Some(self.token(index).start);
        if self.reports < REPORTS_MAX {
            self.reports += 1;
            self.faults.push((offset, format!("Syntax error: {message}")));
        } else {
            self.faults.push((offset, format!("Syntax error: More than {REPORTS_MAX} syntax errors")));
            self.aborted = true;
        }
    }

    fn shown(&self, index: usize) -> String {
        let token = self.token(index);
        match token.kind {
            Kind::End => quoted("<EOF>"),
            _ => quoted(&self.source.slice(token.start, token.end)),
        }
    }

    fn count_recovery(&mut self) -> Parsed<()> {
        if self.recoveries == RECOVERIES_MAX {
            self.report(self.at, format!("error recovery attempt limit exceeded: {RECOVERIES_MAX}"));
            self.aborted = true;
            return Err(Stop::Abort);
        }
        self.recoveries += 1;
        if self.aborted { Err(Stop::Abort) } else { Ok(()) }
    }

    fn recover(&mut self) -> Parsed<()> {
        self.count_recovery()?;
        let seen =
            self.last_fault.as_ref().is_some_and(|(index, places)| *index == self.at && places.contains(&self.place));
        let mut allowed = SKIPPED_MAX;
        if seen {
            // Nothing was skipped the last time: without this it would go on forever.
            self.consume();
            allowed -= 1;
        }
        let mut places = self.last_fault.take().map(|(_, places)| places).unwrap_or_default();
        places.push(self.place);
        self.last_fault = Some((self.at, places));
        self.skip_to(self.recovery_set(), allowed)
    }

    fn skip_to(&mut self, wanted: Set, mut allowed: usize) -> Parsed<()> {
        while self.peek(0) != Kind::End && !wanted.has(self.peek(0)) {
            if allowed == 0 {
                return self.abort(format!("error recovery token lookahead limit exceeded: {SKIPPED_MAX}"));
            }
            allowed -= 1;
            self.consume();
        }
        Ok(())
    }

    /// What can follow any of the rules that are being parsed.
    fn recovery_set(&self) -> Set {
        self.follow.iter().fold(Set::EMPTY, |set, follow| set.with(follow.set))
    }

    /// What can stand at a place where the rule may end.
    fn reachable(&self, follow: Follow) -> Set {
        let mut set = follow.set;
        let mut open = follow.open;
        for outer in self.follow.iter().rev() {
            if !open {
                return set;
            }
            set = set.with(outer.set);
            open = outer.open;
        }
        if open { set.with(Set::of(&[Kind::End])) } else { set }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
}
