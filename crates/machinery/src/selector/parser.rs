//! Reads the text form of a label selector.

use super::labels::{self, Operator, ParseError, Requirement};
use crate::field::{Errors, Path};
use crate::value::Text;

/// The requirements in the order in which they are written.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut parser = Parser { tokens: tokens(text), next: 0 };
    let mut requirements = Vec::new();
    if parser.peek().kind == Kind::End {
        return Ok(requirements);
    }
    loop {
        let first = parser.peek();
        if !first.starts_requirement() {
            let found = first.text;
            return Err(ParseError::Syntax(format!("found '{found}', expected: !, identifier, or 'end of string'")));
        }
        let requirement = parser
            .requirement()
            .map_err(|error| ParseError::Syntax(format!("unable to parse requirement: {error}")))?;
        requirements.push(requirement);
        let token = parser.take();
        match token.kind {
            Kind::End => return Ok(requirements),
            Kind::Comma => {
                let after = parser.peek();
                if !after.starts_requirement() {
                    let found = after.text;
                    return Err(ParseError::Syntax(format!("found '{found}', expected: identifier after ','")));
                }
            }
            _ => return Err(unexpected(token, "',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
}

impl Token<'_> {
    /// `in` and `notin` are words like others where no operator can stand.
    fn is_word(self) -> bool {
        matches!(self.kind, Kind::Word | Kind::In | Kind::NotIn)
    }

    fn starts_requirement(self) -> bool {
        self.is_word() || self.kind == Kind::Not
    }
}

/// All tokens, the last one being [`Kind::End`]. A NUL ends the text.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < bytes.len() && bytes[start] != 0 {
        if is_blank(bytes[start]) {
            start += 1;
            continue;
        }
        let (kind, length) = match (bytes[start], bytes.get(start + 1)) {
            (b'=', Some(b'=')) => (Kind::DoubleEquals, 2),
            (b'=', _) => (Kind::Equals, 1),
            (b'!', Some(b'=')) => (Kind::NotEquals, 2),
            (b'!', _) => (Kind::Not, 1),
            (b'(', _) => (Kind::Open, 1),
            (b')', _) => (Kind::Close, 1),
            (b',', _) => (Kind::Comma, 1),
            (b'>', _) => (Kind::Greater, 1),
            (b'<', _) => (Kind::Less, 1),
            _ => {
                let ends = |byte: &u8| *byte == 0 || is_blank(*byte) || b"=!(),><".contains(byte);
                let length = bytes[start..].iter().position(ends).unwrap_or(bytes.len() - start);
                let kind = match &text[start..start + length] {
                    "in" => Kind::In,
                    "notin" => Kind::NotIn,
                    _ => Kind::Word,
                };
                (kind, length)
            }
        };
        tokens.push(Token { kind, text: &text[start..start + length] });
        start += length;
    }
    tokens.push(Token { kind: Kind::End, text: "" });
    tokens
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn unexpected(token: Token<'_>, expected: &str) -> ParseError {
    ParseError::Syntax(format!("found '{}', expected: {expected}", token.text))
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token { kind: Kind::End, text: "" })
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let mut token = self.take();
        let negated = token.kind == Kind::Not;
        if negated {
            token = self.take();
        }
        if !token.is_word() {
            return Err(unexpected(token, "identifier"));
        }
        let key = token.text;
        let mut errors = Errors::new();
        labels::check_key(key, Path::ROOT, &mut errors);
        if !errors.is_empty() {
            return Err(ParseError::Requirement(errors));
        }
        let bare = matches!(self.peek().kind, Kind::End | Kind::Comma);
        let (operator, values) = match (negated, bare) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => {
                let operator = self.operator()?;
                let values = match operator {
                    Operator::In | Operator::NotIn => self.value_set()?,
                    _ => vec![self.exact_value()?],
                };
                (operator, values)
            }
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, ParseError> {
        let token = self.take();
        Ok(match token.kind {
            Kind::In => Operator::In,
            Kind::NotIn => Operator::NotIn,
            Kind::Equals => Operator::Equals,
            Kind::DoubleEquals => Operator::DoubleEquals,
            Kind::NotEquals => Operator::NotEquals,
            Kind::Greater => Operator::GreaterThan,
            Kind::Less => Operator::LessThan,
            _ => return Err(unexpected(token, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn exact_value(&mut self) -> Result<Text, ParseError> {
        if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Ok(Text::default());
        }
        let token = self.take();
        if token.is_word() { Ok(Text::new(token.text)) } else { Err(unexpected(token, "identifier")) }
    }

    /// The values in parentheses, sorted, each once. An empty place between commas is the empty value.
    fn value_set(&mut self) -> Result<Vec<Text>, ParseError> {
        let open = self.take();
        if open.kind != Kind::Open {
            return Err(ParseError::Syntax(format!("found '{}' expected: '('", open.text)));
        }
        let first = self.peek();
        if first.kind == Kind::Close {
            self.take();
            return Ok(vec![Text::default()]);
        }
        if !first.is_word() && first.kind != Kind::Comma {
            return Err(unexpected(first, "',', ')' or identifier"));
        }
        let mut values: Vec<Text> = Vec::new();
        loop {
            let token = self.take();
            let after = self.peek();
            if token.is_word() {
                values.push(Text::new(token.text));
                match after.kind {
                    Kind::Comma => continue,
                    Kind::Close => break,
                    _ => return Err(unexpected(after, "',' or ')'")),
                }
            }
            if token.kind != Kind::Comma {
                return Err(unexpected(token, "',', or identifier"));
            }
            if values.is_empty() || matches!(after.kind, Kind::Close | Kind::Comma) {
                values.push(Text::default());
            }
            if after.kind == Kind::Close {
                break;
            }
        }
        self.take();
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}
