//! CEL expressions as trees. What is wrong is worded as cel-go's parser words it, up to the first fault.

use super::Fault;
use super::lexer::{Kind, Token};

#[derive(Debug)]
pub struct Expression<'a> {
    pub node: Node<'a>,
    /// Where messages point, in bytes from the beginning.
    pub offset: usize,
}

#[derive(Debug)]
pub enum Node<'a> {
    Literal(Kind),
    Bool,
    Null,
    Name(&'a str),
    /// A field; `optional` is `.?`.
    Select {
        operand: Box<Expression<'a>>,
        field: &'a str,
        optional: bool,
    },
    Index {
        operand: Box<Expression<'a>>,
        index: Box<Expression<'a>>,
    },
    Call {
        target: Option<Box<Expression<'a>>>,
        function: &'a str,
        arguments: Vec<Expression<'a>>,
    },
    Not(Box<Expression<'a>>),
    Minus(Box<Expression<'a>>),
    Binary {
        operator: &'a str,
        left: Box<Expression<'a>>,
        right: Box<Expression<'a>>,
    },
    Choice {
        condition: Box<Expression<'a>>,
        then: Box<Expression<'a>>,
        otherwise: Box<Expression<'a>>,
    },
    List(Vec<Expression<'a>>),
    Map(Vec<(Expression<'a>, Expression<'a>)>),
    /// A message with its fields: `Object{spec: …}`.
    Message {
        fields: Vec<Expression<'a>>,
    },
}

/// How deep expressions nest at most.
const DEPTH_MAX: usize = 200;

const PRIMARY: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                       BYTES, IDENTIFIER}";

const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Operators that bind as strongly as each other, the weakest first.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["<", "<=", ">=", ">", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];

type Parsed<'a> = Result<Expression<'a>, Fault>;

pub fn parse<'a>(tokens: &[Token<'a>]) -> Parsed<'a> {
    let mut parser = Parser { tokens, position: 0, depth: 0 };
    let expression = parser.expression()?;
    let next = parser.peek();
    if next.kind == Kind::End {
        return Ok(expression);
    }
    let alone = parser.tokens.get(parser.position + 1).is_some_and(|token| token.kind == Kind::End);
    let words = if alone { "extraneous" } else { "mismatched" };
    Err(fault(next, format!("Syntax error: {words} input '{}' expecting <EOF>", next.text)))
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    position: usize,
    depth: usize,
}

fn fault(token: Token<'_>, message: String) -> Fault {
    Fault { offset: token.offset, message }
}

fn at<'a>(offset: usize, node: Node<'a>) -> Expression<'a> {
    Expression { node, offset }
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.position.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn is(&self, text: &str) -> bool {
        let token = self.peek();
        token.text == text && matches!(token.kind, Kind::Symbol | Kind::Identifier)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), Fault> {
        if self.take(text) {
            return Ok(());
        }
        let token = self.peek();
        Err(fault(token, format!("Syntax error: missing '{text}' at '{}'", token.text)))
    }

    fn expression(&mut self) -> Parsed<'a> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(fault(self.peek(), "expression recursion limit exceeded: 250".to_owned()));
        }
        let condition = self.level(0)?;
        let token = self.peek();
        let parsed = if self.take("?") {
            let then = self.level(0)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
            at(token.offset, Node::Choice { condition, then, otherwise })
        } else {
            condition
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn level(&mut self, level: usize) -> Parsed<'a> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let token = self.peek();
            let found = matches!(token.kind, Kind::Symbol | Kind::Identifier) && operators.contains(&token.text);
            if !found {
                return Ok(left);
            }
            self.position += 1;
            let right = self.level(level + 1)?;
            let node = Node::Binary { operator: token.text, left: Box::new(left), right: Box::new(right) };
            left = at(token.offset, node);
        }
    }

    fn unary(&mut self) -> Parsed<'a> {
        let token = self.peek();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(fault(token, "expression recursion limit exceeded: 250".to_owned()));
        }
        let parsed = if self.take("!") {
            at(token.offset, Node::Not(Box::new(self.unary()?)))
        } else if self.is("-") {
            self.position += 1;
            let operand = self.unary()?;
            match operand.node {
                Node::Literal(Kind::Int | Kind::Float) => at(token.offset, operand.node),
                _ => at(token.offset, Node::Minus(Box::new(operand))),
            }
        } else {
            self.member()?
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn member(&mut self) -> Parsed<'a> {
        let mut operand = self.primary()?;
        loop {
            let token = self.peek();
            if self.take(".") {
                let optional = self.take("?");
                let name = self.next();
                if !matches!(name.kind, Kind::Identifier | Kind::Escaped) {
                    let message = format!("Syntax error: no viable alternative at input '.{}'", name.text);
                    return Err(fault(name, message));
                }
                let paren = self.peek();
                operand = if self.take("(") {
                    let arguments = self.arguments(")")?;
                    let target = Some(Box::new(operand));
                    at(paren.offset, Node::Call { target, function: name.text, arguments })
                } else {
                    let field = name.text.trim_matches('`');
                    at(token.offset, Node::Select { operand: Box::new(operand), field, optional })
                };
            } else if self.take("[") {
                self.take("?");
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                operand = at(token.offset, Node::Index { operand: Box::new(operand), index });
            } else if self.is("{") && is_message(&operand) {
                self.position += 1;
                operand = at(token.offset, Node::Message { fields: self.fields()? });
            } else {
                return Ok(operand);
            }
        }
    }

    fn primary(&mut self) -> Parsed<'a> {
        let token = self.next();
        let node = match (token.kind, token.text) {
            (Kind::Identifier, "true" | "false") => Node::Bool,
            (Kind::Identifier, "null") => Node::Null,
            (Kind::Identifier, _) => return self.name(token),
            (Kind::Int | Kind::Uint | Kind::Float | Kind::String | Kind::Bytes, _) => Node::Literal(token.kind),
            (Kind::Symbol, ".") if self.peek().kind == Kind::Identifier => {
                let name = self.next();
                return self.name(name);
            }
            (Kind::Symbol, "(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            (Kind::Symbol, "[") => Node::List(self.arguments("]")?),
            (Kind::Symbol, "{") => Node::Map(self.entries()?),
            _ => {
                let message = format!("Syntax error: mismatched input '{}' expecting {PRIMARY}", token.text);
                return Err(fault(token, message));
            }
        };
        Ok(at(token.offset, node))
    }

    fn name(&mut self, token: Token<'a>) -> Parsed<'a> {
        if RESERVED.contains(&token.text) {
            return Err(fault(token, format!("reserved identifier: {}", token.text)));
        }
        let paren = self.peek();
        if self.take("(") {
            let arguments = self.arguments(")")?;
            return Ok(at(paren.offset, Node::Call { target: None, function: token.text, arguments }));
        }
        Ok(at(token.offset, Node::Name(token.text)))
    }

    /// Expressions with commas between them, up to `end`.
    fn arguments(&mut self, end: &str) -> Result<Vec<Expression<'a>>, Fault> {
        let mut arguments = Vec::new();
        while !self.take(end) {
            self.take("?");
            arguments.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(arguments)
    }

    fn entries(&mut self) -> Result<Vec<(Expression<'a>, Expression<'a>)>, Fault> {
        let mut entries = Vec::new();
        while !self.take("}") {
            self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }

    fn fields(&mut self) -> Result<Vec<Expression<'a>>, Fault> {
        let mut fields = Vec::new();
        while !self.take("}") {
            self.take("?");
            let name = self.next();
            if !matches!(name.kind, Kind::Identifier | Kind::Escaped) {
                let message = format!("Syntax error: mismatched input '{}' expecting IDENTIFIER", name.text);
                return Err(fault(name, message));
            }
            self.expect(":")?;
            fields.push(self.expression()?);
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }
}

/// Whether this can name a type.
fn is_message(operand: &Expression<'_>) -> bool {
    match &operand.node {
        Node::Name(_) => true,
        Node::Select { operand, optional: false, .. } => is_message(operand),
        _ => false,
    }
}
