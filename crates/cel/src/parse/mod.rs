//! From text to tree: the grammar of CEL.
//!
//! A rule of the grammar is a function here. Operators are read in one loop by their precedence; their rules cannot fail
//! themselves, so that only the words that can follow them are kept.

mod build;
mod lexer;
mod literals;
mod macros;
mod recovery;
mod token;

use crate::ast::{Entry, Expr, Field};
use crate::source::{Issues, Source};
use build::Builder;
pub use build::{RESERVED, is_identifier};
pub use macros::{ACCUMULATOR, SORT_INPUT, UNUSED};
use recovery::{Cursor, DEPTH_MAX, Follow, Parsed, before, optional};
use token::{Kind, Set, Token};

/// Longer texts are refused.
const CHARACTERS_MAX: usize = 100_000;

const LITERAL: Set =
    Set::of(&[Kind::Int, Kind::Uint, Kind::Float, Kind::String, Kind::Bytes, Kind::True, Kind::False, Kind::Null]);
const PRIMARY: Set = LITERAL.with(Set::of(&[
    Kind::Minus,
    Kind::Dot,
    Kind::Identifier,
    Kind::LeftParenthesis,
    Kind::LeftBracket,
    Kind::LeftBrace,
]));
const EXPRESSION: Set = PRIMARY.with(Set::of(&[Kind::Exclamation]));
const OPTIONAL_EXPRESSION: Set = EXPRESSION.with(Set::of(&[Kind::Question]));
const RELATIONS: Set = Set::of(&[
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
]);
const FACTORS: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent]);
const TERMS: Set = Set::of(&[Kind::Plus, Kind::Minus]);
const NAMES: Set = Set::of(&[Kind::Identifier, Kind::Escaped]);
/// What can follow an operand of any operator.
const OPERATORS: Set = RELATIONS.with(FACTORS).with(TERMS).with(Set::of(&[Kind::And, Kind::Or]));
const SUFFIXES: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
const END_OF_RULE: Follow = optional(Set::EMPTY);

/// A tree, and how many ids its parts have.
#[derive(Debug)]
pub struct Tree {
    pub root: Expr,
    pub ids: usize,
}

/// The tree of the text, or what is wrong with it. With `bind` there is the macro `cel.bind`.
pub fn parse(source: &Source, bind: bool) -> Result<Tree, Issues> {
    let length = source.characters().len();
    if length > CHARACTERS_MAX {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {CHARACTERS_MAX}");
        return Err(source.issues(vec![(None, message)]));
    }
    let mut parser =
        Parser { cursor: Cursor::new(source), build: Builder { bind, ..Builder::default() }, depth: Depth::default() };
    let root = parser.start().unwrap_or_default().expr;
    let Parser { cursor, build, .. } = parser;
    let mut faults = cursor.faults;
    faults.extend(build.faults);
    if !faults.is_empty() {
        return Err(source.issues(faults));
    }
    Ok(Tree { root, ids: build.ids })
}

/// A part with how deep the parts within it nest.
#[derive(Clone, Debug)]
struct Part {
    expr: Expr,
    height: usize,
}

impl Default for Part {
    fn default() -> Self {
        Part { expr: Expr { id: 0, offset: None, kind: crate::ast::Kind::Unspecified }, height: 0 }
    }
}

/// How often a rule stands within itself.
#[derive(Debug, Default)]
struct Depth {
    expression: usize,
    relation: usize,
    calculation: usize,
    member: usize,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    build: Builder,
    depth: Depth,
}

impl Parser<'_> {
    /// Runs a rule with the words that can follow it; where it fails there is nothing.
    fn rule<T: Default>(&mut self, follow: Follow, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.cursor.enter(follow);
        let result = body(self);
        self.cursor.leave(result)
    }

    fn limit(&mut self, depth: usize) -> Parsed<()> {
        if depth > DEPTH_MAX {
            return self.cursor.abort(format!("expression recursion limit exceeded: {DEPTH_MAX}"));
        }
        Ok(())
    }

    /// Operators in a row are no nesting in the text, but are in the tree.
    fn limit_height(&mut self, part: &Part) -> Parsed<()> {
        if part.height > DEPTH_MAX {
            return self.cursor.abort("max recursion depth exceeded".to_owned());
        }
        Ok(())
    }

    fn start(&mut self) -> Parsed<Part> {
        self.rule(END_OF_RULE, |parser| {
            let root = parser.expression(before(&[Kind::End]))?;
            parser.cursor.expect(1, Kind::End, END_OF_RULE)?;
            parser.limit_height(&root)?;
            Ok(root)
        })
    }

    /// `condition ? one : other`, or an operation.
    fn expression(&mut self, follow: Follow) -> Parsed<Part> {
        self.depth.expression += 1;
        self.limit(self.depth.expression)?;
        let result = self.rule(follow, |parser| {
            let condition = parser.operation(optional(Set::of(&[Kind::Question])))?;
            let Some(question) = parser.cursor.take_if(Kind::Question) else { return Ok(condition) };
            let one = parser.operation(before(&[Kind::Colon]))?;
            parser.cursor.expect(2, Kind::Colon, Follow { set: EXPRESSION, open: false })?;
            let other = parser.expression(END_OF_RULE)?;
            Ok(parser.build.operator(&question, "_?_:_", vec![condition, one, other]))
        });
        self.depth.expression -= 1;
        result
    }

    /// Relations joined by `&&`, these joined by `||`.
    fn operation(&mut self, follow: Follow) -> Parsed<Part> {
        self.cursor.enter(follow);
        self.cursor.enter(optional(OPERATORS));
        let result = self.logic(Kind::Or, "_||_");
        let result = self.cursor.leave(result);
        self.cursor.leave(result)
    }

    fn logic(&mut self, operator: Kind, function: &str) -> Parsed<Part> {
        let operand = |parser: &mut Self| match operator {
            Kind::Or => parser.logic(Kind::And, "_&&_"),
            _ => parser.relation(false),
        };
        let mut terms = vec![operand(self)?];
        let mut operators = Vec::new();
        while let Some(token) = self.cursor.take_if(operator) {
            terms.push(operand(self)?);
            operators.push(token.start);
        }
        Ok(self.build.balanced(function, terms, &operators))
    }

    /// Calculations compared with one another; `nested` on the right side of a comparison.
    fn relation(&mut self, nested: bool) -> Parsed<Part> {
        let outside = self.depth.relation;
        self.depth.relation += 1;
        self.limit(self.depth.relation)?;
        let mut left = self.calculation(0)?;
        while !nested && RELATIONS.has(self.cursor.peek(0)) {
            let token = self.cursor.take();
            let right = self.relation(true)?;
            left = self.build.operator(&token, build::operator_name(token.kind), vec![left, right]);
            self.limit_height(&left)?;
        }
        self.depth.relation = outside;
        Ok(left)
    }

    /// Sums and products; operators that bind less than `precedence` are left to the caller.
    fn calculation(&mut self, precedence: u8) -> Parsed<Part> {
        let outside = self.depth.calculation;
        self.depth.calculation += 1;
        self.limit(self.depth.calculation)?;
        let mut left = self.unary()?;
        loop {
            let own = match self.cursor.peek(0) {
                kind if FACTORS.has(kind) => 2,
                kind if TERMS.has(kind) => 1,
                _ => break,
            };
            if own < precedence {
                break;
            }
            let token = self.cursor.take();
            let right = self.calculation(own + 1)?;
            left = self.build.operator(&token, build::operator_name(token.kind), vec![left, right]);
            self.limit_height(&left)?;
        }
        self.depth.calculation = outside;
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Part> {
        let start = self.cursor.offset();
        let operand = self.rule(optional(OPERATORS), |parser| parser.signed().map(Some))?;
        // Where there is none, other faults may still point to where it should be.
        Ok(operand.unwrap_or_else(|| self.build.missing(start)))
    }

    /// A member with its signs.
    fn signed(&mut self) -> Parsed<Part> {
        self.cursor.choose(3, EXPRESSION)?;
        let (sign, function, place) = match (self.cursor.peek(0), self.cursor.peek(1)) {
            (Kind::Minus, Kind::Int | Kind::Float) => return self.member(),
            (Kind::Minus, next) if !PRIMARY.has(next) => return self.cursor.no_alternative(3, 2),
            (Kind::Minus, _) => (Kind::Minus, "-_", 4),
            (Kind::Exclamation, _) => (Kind::Exclamation, "!_", 5),
            (kind, _) if PRIMARY.has(kind) => return self.member(),
            _ => return self.cursor.no_alternative(3, 1),
        };
        let first = self.cursor.take();
        let mut odd = true;
        loop {
            self.cursor.again(place, PRIMARY.with(Set::of(&[sign])))?;
            if self.cursor.peek(0) == Kind::Minus && !PRIMARY.has(self.cursor.peek(1)) {
                return self.cursor.no_alternative(place, 2);
            }
            if self.cursor.take_if(sign).is_none() {
                break;
            }
            odd = !odd;
        }
        let operand = self.member()?;
        Ok(if odd { self.build.call(first.start, function, vec![operand]) } else { operand })
    }

    /// A value with what is selected of it, called on it, or taken out of it.
    fn member(&mut self) -> Parsed<Part> {
        let outside = self.depth.member;
        self.depth.member += 1;
        self.limit(self.depth.member)?;
        let mut operand = self.rule(END_OF_RULE, |parser| {
            let mut operand = parser.primary()?;
            while SUFFIXES.has(parser.cursor.peek(0)) {
                operand = parser.suffix(operand)?;
                parser.limit_height(&operand)?;
            }
            Ok(Some(operand))
        })?;
        self.depth.member = outside;
        Ok(operand.take().unwrap_or_default())
    }

    fn suffix(&mut self, operand: Part) -> Parsed<Part> {
        if self.cursor.peek(0) == Kind::LeftBracket {
            let bracket = self.cursor.take();
            self.cursor.choose(6, OPTIONAL_EXPRESSION)?;
            let optional = self.cursor.take_if(Kind::Question).is_some();
            let index = self.expression(before(&[Kind::RightBracket]))?;
            self.cursor.expect(7, Kind::RightBracket, recovery::optional(SUFFIXES))?;
            let function = if optional { "_[?_]" } else { "_[_]" };
            return Ok(self.build.operator(&bracket, function, vec![operand, index]));
        }
        match (self.cursor.peek(1), self.cursor.peek(2)) {
            (Kind::Identifier, Kind::LeftParenthesis) => {
                self.cursor.take();
                let name = self.cursor.take();
                let open = self.cursor.take();
                let arguments = self.arguments(SUFFIXES)?;
                let name = self.cursor.source.slice(name.start, name.end);
                Ok(self.build.member_call(open.start, &name, operand, arguments))
            }
            (Kind::Identifier | Kind::Escaped | Kind::Question, _) => {
                let dot = self.cursor.take();
                let optional = self.cursor.take_if(Kind::Question).is_some();
                let start = self.cursor.offset();
                let name = self.name(recovery::optional(SUFFIXES))?;
                Ok(self.build.select((dot.start, start), operand, name, optional, self.cursor.source))
            }
            _ => self.cursor.no_alternative(8, 2),
        }
    }

    /// What stands in the parentheses of a call.
    fn arguments(&mut self, after: Set) -> Parsed<Vec<Part>> {
        self.cursor.choose(9, EXPRESSION.with(Set::of(&[Kind::RightParenthesis])))?;
        let mut arguments = Vec::new();
        if EXPRESSION.has(self.cursor.peek(0)) {
            arguments = self.rule(before(&[Kind::RightParenthesis]), |parser| {
                let mut arguments = Vec::new();
                loop {
                    arguments.push(parser.expression(optional(Set::of(&[Kind::Comma])))?);
                    if parser.cursor.take_if(Kind::Comma).is_none() {
                        return Ok(arguments);
                    }
                }
            })?;
        }
        self.cursor.expect(10, Kind::RightParenthesis, optional(after))?;
        Ok(arguments)
    }

    /// A name, perhaps in backticks.
    fn name(&mut self, follow: Follow) -> Parsed<Option<Token>> {
        self.rule(follow, |parser| {
            parser.cursor.choose(11, NAMES)?;
            if !NAMES.has(parser.cursor.peek(0)) {
                return parser.cursor.no_alternative(11, 1);
            }
            Ok(Some(parser.cursor.take()))
        })
    }

    fn primary(&mut self) -> Parsed<Part> {
        self.rule(optional(SUFFIXES), |parser| {
            parser.cursor.choose(12, PRIMARY)?;
            match parser.cursor.peek(0) {
                Kind::LeftParenthesis => {
                    parser.cursor.take();
                    let inner = parser.expression(before(&[Kind::RightParenthesis]))?;
                    parser.cursor.expect(13, Kind::RightParenthesis, END_OF_RULE)?;
                    Ok(inner)
                }
                Kind::LeftBracket => parser.list(),
                Kind::LeftBrace => parser.map(),
                Kind::Identifier => parser.named(None),
                Kind::Dot if parser.cursor.peek(1) == Kind::Identifier => {
                    let start = parser.cursor.offset();
                    parser.named(Some(start))
                }
                Kind::Dot => parser.cursor.no_alternative(12, 2),
                kind if LITERAL.has(kind) || kind == Kind::Minus => parser.literal(),
                _ => parser.cursor.no_alternative(12, 1),
            }
        })
    }

    /// A variable, a call or a message; `dot` is where a dot stands before it.
    fn named(&mut self, dot: Option<usize>) -> Parsed<Part> {
        let from = usize::from(dot.is_some());
        let mut ahead = from + 1;
        while self.cursor.peek(ahead) == Kind::Dot && self.cursor.peek(ahead + 1) == Kind::Identifier {
            ahead += 2;
        }
        if self.cursor.peek(ahead) == Kind::LeftBrace {
            return self.message(ahead);
        }
        if dot.is_some() {
            self.cursor.take();
        }
        let token = self.cursor.take();
        let name = self.cursor.source.slice(token.start, token.end);
        let start = dot.unwrap_or(token.start);
        let full = if dot.is_some() { format!(".{name}") } else { name.clone() };
        if self.cursor.peek(0) != Kind::LeftParenthesis {
            return Ok(self.build.ident(start, token.start, &name, &full));
        }
        let open = self.cursor.take();
        let arguments = self.arguments(Set::EMPTY)?;
        Ok(self.build.global_call(start, open.start, &name, &full, arguments))
    }

    /// `Name{field: value}`; the name takes up `words` words.
    fn message(&mut self, words: usize) -> Parsed<Part> {
        let mut name = String::new();
        for _ in 0..words {
            let token = self.cursor.take();
            name.push_str(&self.cursor.source.slice(token.start, token.end));
        }
        let brace = self.cursor.take();
        self.cursor.choose(14, NAMES.with(Set::of(&[Kind::Question, Kind::Comma, Kind::RightBrace])))?;
        let mut fields = Vec::new();
        if NAMES.has(self.cursor.peek(0)) || self.cursor.peek(0) == Kind::Question {
            fields = self.rule(before(&[Kind::Comma, Kind::RightBrace]), Self::fields)?;
        }
        self.close(15, Kind::RightBrace)?;
        Ok(self.build.message(brace.start, &name, fields))
    }

    fn fields(&mut self) -> Parsed<Vec<(Field, usize)>> {
        let begins = NAMES.with(Set::of(&[Kind::Question]));
        let start = self.cursor.offset();
        let mut fields = Vec::new();
        loop {
            let (optional, name) = self.rule(before(&[Kind::Colon]), |parser| {
                parser.cursor.choose(16, begins)?;
                let optional = parser.cursor.take_if(Kind::Question).is_some();
                Ok((optional, parser.name(END_OF_RULE)?))
            })?;
            let colon = self.cursor.expect(17, Kind::Colon, Follow { set: EXPRESSION, open: false })?;
            let value = self.expression(recovery::optional(Set::of(&[Kind::Comma])))?;
            let colon = colon.map(|colon| colon.start);
            fields.extend(self.build.field((start, colon), name, value, optional, self.cursor.source));
            if self.cursor.peek(0) != Kind::Comma || !begins.has(self.cursor.peek(1)) {
                return Ok(fields);
            }
            self.cursor.take();
        }
    }

    fn list(&mut self) -> Parsed<Part> {
        let bracket = self.cursor.take();
        self.cursor.choose(18, OPTIONAL_EXPRESSION.with(Set::of(&[Kind::Comma, Kind::RightBracket])))?;
        let mut elements = Vec::new();
        if OPTIONAL_EXPRESSION.has(self.cursor.peek(0)) {
            elements = self.rule(before(&[Kind::Comma, Kind::RightBracket]), |parser| {
                let mut elements = Vec::new();
                loop {
                    elements.push(parser.optional_expression(optional(Set::of(&[Kind::Comma])))?);
                    if parser.cursor.peek(0) != Kind::Comma || !OPTIONAL_EXPRESSION.has(parser.cursor.peek(1)) {
                        return Ok(elements);
                    }
                    parser.cursor.take();
                }
            })?;
        }
        self.close(19, Kind::RightBracket)?;
        Ok(self.build.list(bracket.start, elements))
    }

    fn map(&mut self) -> Parsed<Part> {
        let brace = self.cursor.take();
        self.cursor.choose(20, OPTIONAL_EXPRESSION.with(Set::of(&[Kind::Comma, Kind::RightBrace])))?;
        let mut entries = Vec::new();
        if OPTIONAL_EXPRESSION.has(self.cursor.peek(0)) {
            entries = self.rule(before(&[Kind::Comma, Kind::RightBrace]), Self::entries)?;
        }
        self.close(21, Kind::RightBrace)?;
        Ok(self.build.map(brace.start, entries))
    }

    fn entries(&mut self) -> Parsed<Vec<(Entry, usize)>> {
        let mut entries = Vec::new();
        loop {
            let (optional, key) = self.optional_expression(before(&[Kind::Colon]))?;
            let colon = self.cursor.expect(22, Kind::Colon, Follow { set: EXPRESSION, open: false })?;
            let value = self.expression(recovery::optional(Set::of(&[Kind::Comma])))?;
            entries.push(self.build.entry(colon.map(|colon| colon.start), key, value, optional));
            if self.cursor.peek(0) != Kind::Comma || !OPTIONAL_EXPRESSION.has(self.cursor.peek(1)) {
                return Ok(entries);
            }
            self.cursor.take();
        }
    }

    /// A comma that changes nothing, and the closing mark.
    fn close(&mut self, place: recovery::Place, mark: Kind) -> Parsed<()> {
        self.cursor.choose(place + 20, Set::of(&[Kind::Comma, mark]))?;
        self.cursor.take_if(Kind::Comma);
        self.cursor.expect(place, mark, END_OF_RULE)?;
        Ok(())
    }

    fn optional_expression(&mut self, follow: Follow) -> Parsed<(bool, Part)> {
        self.rule(follow, |parser| {
            parser.cursor.choose(23, OPTIONAL_EXPRESSION)?;
            let optional = parser.cursor.take_if(Kind::Question).is_some();
            Ok((optional, parser.expression(END_OF_RULE)?))
        })
    }

    fn literal(&mut self) -> Parsed<Part> {
        self.rule(END_OF_RULE, |parser| {
            let start = parser.cursor.offset();
            let negative = parser.cursor.peek(0) == Kind::Minus;
            if negative && !matches!(parser.cursor.peek(1), Kind::Int | Kind::Float) {
                return parser.cursor.no_alternative(24, 2);
            }
            if negative {
                parser.cursor.take();
            }
            let token = parser.cursor.take();
            let text = parser.cursor.source.slice(token.start, token.end);
            Ok(parser.build.literal(start, token.kind, negative, &text))
        })
    }
}
