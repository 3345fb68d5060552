//! From a script to what is to be done.

#[derive(Clone, Debug)]
pub enum Command {
    Simple { assignments: Vec<(String, Word)>, words: Vec<Word>, redirections: Vec<Redirection> },
    If { arms: Vec<(List, List)>, otherwise: List },
    While { condition: List, body: List, until: bool },
    For { name: String, words: Vec<Word>, body: List },
    Group(List),
}

/// Pipelines with what stands before each: whether it is run depends on how the one before ended.
pub type List = Vec<(Joint, Vec<Command>, Ending)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    Always,
    IfWell,
    IfNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Wait,
    Background,
}

#[derive(Clone, Debug)]
pub enum Redirection {
    From(Word),
    To {
        descriptor: u8,
        file: Word,
        append: bool,
    },
    /// Goes where the other one of stdout and stderr goes.
    Same {
        descriptor: u8,
    },
}

pub type Word = Vec<Part>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Literal(String),
    Variable { name: String, default: String, quoted: bool },
    Substitution { script: String, quoted: bool },
}

#[derive(Clone, Debug)]
enum Token {
    Word(Word),
    Operator(String),
}

pub fn parse(script: &str) -> Result<List, String> {
    let mut parser = Parser { tokens: tokens(script)?, at: 0 };
    let list = parser.list(&[])?;
    match parser.peek() {
        None => Ok(list),
        Some(token) => Err(format!("unexpected {token:?}")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn operator(&self) -> &str {
        match self.peek() {
            Some(Token::Operator(operator)) => operator,
            _ => "",
        }
    }

    /// The word that stands here, if nothing in it is quoted or replaced.
    fn keyword(&self) -> &str {
        match self.peek() {
            Some(Token::Word(word)) => match word.as_slice() {
                [Part::Literal(text)] => text,
                _ => "",
            },
            _ => "",
        }
    }

    fn expect(&mut self, keyword: &str) -> Result<(), String> {
        self.separators();
        if self.keyword() != keyword {
            return Err(format!("{keyword} expected"));
        }
        self.at += 1;
        Ok(())
    }

    fn separators(&mut self) {
        while matches!(self.operator(), ";" | "\n") {
            self.at += 1;
        }
    }

    fn list(&mut self, ends: &[&str]) -> Result<List, String> {
        let mut list = List::new();
        let mut joint = Joint::Always;
        loop {
            self.separators();
            if self.peek().is_none()
                || ends.contains(&self.keyword()) && !self.keyword().is_empty()
                || self.operator() == ")"
            {
                return Ok(list);
            }
            let mut pipeline = vec![self.command()?];
            while self.operator() == "|" {
                self.at += 1;
                pipeline.push(self.command()?);
            }
            let (next, ending) = match self.operator() {
                "&&" => (Joint::IfWell, Ending::Wait),
                "||" => (Joint::IfNot, Ending::Wait),
                "&" => (Joint::Always, Ending::Background),
                _ => (Joint::Always, Ending::Wait),
            };
            if matches!(self.operator(), "&&" | "||" | "&") {
                self.at += 1;
            }
            list.push((joint, pipeline, ending));
            joint = next;
        }
    }

    fn command(&mut self) -> Result<Command, String> {
        self.separators();
        match self.keyword().to_owned().as_str() {
            "if" => self.conditional(),
            keyword @ ("while" | "until") => {
                self.at += 1;
                let condition = self.list(&["do"])?;
                let body = self.body()?;
                Ok(Command::While { condition, body, until: keyword == "until" })
            }
            "for" => {
                self.at += 1;
                let name = self.keyword().to_owned();
                self.at += 1;
                self.expect("in")?;
                let mut words = Vec::new();
                while let Some(Token::Word(word)) = self.peek() {
                    words.push(word.clone());
                    self.at += 1;
                }
                Ok(Command::For { name, words, body: self.body()? })
            }
            "{" => {
                self.at += 1;
                let list = self.list(&["}"])?;
                self.expect("}")?;
                Ok(Command::Group(list))
            }
            _ if self.operator() == "(" => {
                self.at += 1;
                let list = self.list(&[])?;
                self.at += 1;
                Ok(Command::Group(list))
            }
            _ => self.simple(),
        }
    }

    fn body(&mut self) -> Result<List, String> {
        self.expect("do")?;
        let body = self.list(&["done"])?;
        self.expect("done")?;
        Ok(body)
    }

    fn conditional(&mut self) -> Result<Command, String> {
        let (mut arms, mut otherwise) = (Vec::new(), List::new());
        while matches!(self.keyword(), "if" | "elif") {
            self.at += 1;
            let condition = self.list(&["then"])?;
            self.expect("then")?;
            arms.push((condition, self.list(&["elif", "else", "fi"])?));
        }
        if self.keyword() == "else" {
            self.at += 1;
            otherwise = self.list(&["fi"])?;
        }
        self.expect("fi")?;
        Ok(Command::If { arms, otherwise })
    }

    fn simple(&mut self) -> Result<Command, String> {
        let (mut assignments, mut words, mut redirections) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            match self.peek().cloned() {
                Some(Token::Word(word)) => {
                    self.at += 1;
                    match assignment(&word).filter(|_| words.is_empty()) {
                        Some(assignment) => assignments.push(assignment),
                        None => words.push(word),
                    }
                }
                Some(Token::Operator(operator)) if operator.contains(['<', '>']) => {
                    self.at += 1;
                    redirections.push(self.redirection(&operator)?);
                }
                _ => break,
            }
        }
        if words.is_empty() && assignments.is_empty() && redirections.is_empty() {
            return Err(format!("unexpected {:?}", self.peek()));
        }
        Ok(Command::Simple { assignments, words, redirections })
    }

    fn redirection(&mut self, operator: &str) -> Result<Redirection, String> {
        let (descriptor, operator) = match operator.strip_prefix('2') {
            Some(rest) => (2, rest),
            None => (1, operator.strip_prefix('1').unwrap_or(operator)),
        };
        if operator.starts_with(">&") {
            return Ok(Redirection::Same { descriptor });
        }
        let Some(Token::Word(file)) = self.peek().cloned() else {
            return Err("a file expected".to_owned());
        };
        self.at += 1;
        Ok(match operator {
            "<" => Redirection::From(file),
            operator => Redirection::To { descriptor, file, append: operator == ">>" },
        })
    }
}

fn assignment(word: &Word) -> Option<(String, Word)> {
    let Part::Literal(first) = word.first()? else {
        return None;
    };
    let (name, value) = first.split_once('=')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    let mut parts = vec![Part::Literal(value.to_owned())];
    parts.extend_from_slice(&word[1..]);
    Some((name.to_owned(), parts))
}

/// The longest first.
const OPERATORS: [&str; 16] =
    ["2>&1", "1>&2", ">&2", ">&1", "2>>", "1>>", "&&", "||", ">>", "2>", "1>", ";", "&", "|", "<", ">"];

fn tokens(script: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = script;
    while let Some(first) = rest.chars().next() {
        let at_word = rest.trim_start_matches([' ', '\t']).len() != rest.len()
            || tokens.last().is_none_or(|last| matches!(last, Token::Operator(_)));
        if matches!(first, ' ' | '\t') {
            rest = &rest[1..];
        } else if rest.starts_with("\\\n") {
            rest = &rest[2..];
        } else if first == '#' && (at_word || script.as_bytes().get(script.len() - rest.len() - 1) == Some(&b' ')) {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if matches!(first, '\n' | '(' | ')') {
            tokens.push(Token::Operator(first.to_string()));
            rest = &rest[1..];
        } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            tokens.push(Token::Operator((*operator).to_owned()));
            rest = &rest[operator.len()..];
        } else {
            let (word, left) = word(rest)?;
            tokens.push(Token::Word(word));
            rest = left;
        }
    }
    Ok(tokens)
}

fn word(text: &str) -> Result<(Word, &str), String> {
    let mut parts = Word::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
            '\'' => {
                let end = rest[1..].find('\'').ok_or("a quote does not end")?;
                parts.push(Part::Literal(String::new()));
                literal(&mut parts, &rest[1..=end]);
                rest = &rest[end + 2..];
            }
            '"' => rest = quoted(&rest[1..], &mut parts)?,
            '$' => rest = dollar(rest, false, &mut parts)?,
            '\\' => {
                let next = rest[1..].chars().next().unwrap_or('\\');
                literal(&mut parts, &next.to_string());
                rest = rest.get(1 + next.len_utf8()..).unwrap_or_default();
            }
            other => {
                literal(&mut parts, &other.to_string());
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    Ok((parts, rest))
}

/// What is in double quotes, up to and beyond their end.
fn quoted<'a>(text: &'a str, parts: &mut Word) -> Result<&'a str, String> {
    // A quoted word is a word, even an empty one.
    parts.push(Part::Literal(String::new()));
    let mut rest = text;
    loop {
        let first = rest.chars().next().ok_or("a quote does not end")?;
        match first {
            '"' => return Ok(&rest[1..]),
            '$' => rest = dollar(rest, true, parts)?,
            '\\' if rest[1..].starts_with(['"', '\\', '$', '`']) => {
                literal(parts, &rest[1..2]);
                rest = &rest[2..];
            }
            other => {
                literal(parts, &other.to_string());
                rest = &rest[other.len_utf8()..];
            }
        }
    }
}

fn dollar<'a>(text: &'a str, quoted: bool, parts: &mut Word) -> Result<&'a str, String> {
    let rest = &text[1..];
    if let Some(inner) = rest.strip_prefix('(') {
        let mut depth = 1;
        let end = inner.char_indices().find(|(_, letter)| {
            depth += i32::from(*letter == '(') - i32::from(*letter == ')');
            depth == 0
        });
        let (end, _) = end.ok_or("a substitution does not end")?;
        parts.push(Part::Substitution { script: inner[..end].to_owned(), quoted });
        return Ok(&inner[end + 1..]);
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let end = inner.find('}').ok_or("a variable does not end")?;
        let (name, default) = inner[..end].split_once(":-").unwrap_or((&inner[..end], ""));
        parts.push(Part::Variable { name: name.to_owned(), default: default.to_owned(), quoted });
        return Ok(&inner[end + 1..]);
    }
    let special =
        rest.starts_with(['?', '$', '!', '#', '@', '*']) || rest.starts_with(|letter: char| letter.is_ascii_digit());
    let end = if special {
        1
    } else {
        rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len())
    };
    if end == 0 {
        literal(parts, "$");
    } else {
        parts.push(Part::Variable { name: rest[..end].to_owned(), default: String::new(), quoted });
    }
    Ok(&rest[end..])
}

fn literal(parts: &mut Word, text: &str) {
    match parts.last_mut() {
        Some(Part::Literal(last)) => last.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}
