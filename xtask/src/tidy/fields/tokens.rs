//! Rust text as words, literals and marks: as much of the language as [`super::scan`] has to know.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// An identifier, keyword or number.
    Word(&'s str),
    /// A string, without its quotes and as it is written.
    Text(&'s str),
    Mark(char),
}

/// Each with its line, counted from one. Comments and lifetimes are left out.
pub(super) struct Tokens<'s>(Vec<(Token<'s>, usize)>);

impl<'s> Tokens<'s> {
    pub fn of(source: &'s str) -> Tokens<'s> {
        Tokens(tokens(source))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn at(&self, index: usize) -> Token<'s> {
        self.0[index].0
    }

    pub fn line(&self, index: usize) -> usize {
        self.0[index].1
    }

    pub fn word(&self, index: usize) -> Option<&'s str> {
        match self.0.get(index)?.0 {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    pub fn text(&self, index: usize) -> Option<&'s str> {
        match self.0.get(index)?.0 {
            Token::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn mark(&self, index: usize) -> Option<char> {
        match self.0.get(index)?.0 {
            Token::Mark(mark) => Some(mark),
            _ => None,
        }
    }

    /// The bracket that closes this one.
    pub fn matching(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for at in open..self.0.len() {
            match self.mark(at) {
                Some('(' | '[' | '{') => depth += 1,
                Some(')' | ']' | '}') if depth <= 1 => return at,
                Some(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
        }
        self.0.len().saturating_sub(1)
    }

    /// The bracket that this one closes.
    pub fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in (0..=close).rev() {
            match self.mark(at) {
                Some(')' | ']' | '}') => depth += 1,
                Some('(' | '[' | '{') if depth <= 1 => return Some(at),
                Some('(' | '[' | '{') => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// The `;` or the block that ends what begins here.
    pub fn statement_end(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.0.len() {
            match self.mark(at) {
                Some(';' | '{' | '}') => return at,
                Some('(' | '[') => at = self.matching(at),
                _ if self.word(at) == Some("else") => return at,
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// The `,`, `;` or bracket that ends the expression that begins here.
    pub fn expression_end(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.0.len() {
            match self.mark(at) {
                Some(',' | ';' | ')' | ']' | '}') => return at,
                Some('(' | '[' | '{') => at = self.matching(at),
                _ => {}
            }
            at += 1;
        }
        at
    }

    pub fn next_comma(&self, from: usize, end: usize) -> usize {
        let mut at = from;
        while at < end {
            match self.mark(at) {
                Some(',') => return at,
                Some('(' | '[' | '{') => at = self.matching(at),
                _ => {}
            }
            at += 1;
        }
        end
    }
}

fn tokens(source: &str) -> Vec<(Token<'_>, usize)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(rest, first);
        found.extend(token.map(|token| (token, line)));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// What the text begins with, and how long that is.
fn next(rest: &str, first: char) -> (Option<Token<'_>>, usize) {
    if rest.starts_with("//") {
        return (None, rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(text) = raw_string(rest) {
        return text;
    }
    match first {
        '"' => string(rest),
        '\'' => (None, character(rest)),
        _ if is_word(first) => {
            let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
            (Some(Token::Word(&rest[..length])), length)
        }
        _ if first.is_whitespace() => (None, first.len_utf8()),
        _ => (Some(Token::Mark(first)), first.len_utf8()),
    }
}

fn string(rest: &str) -> (Option<Token<'_>>, usize) {
    let mut escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return (Some(Token::Text(&rest[1..index])), index + 1),
            _ => {}
        }
    }
    (None, rest.len())
}

/// `r"…"`, `r#"…"#`.
fn raw_string(rest: &str) -> Option<(Option<Token<'_>>, usize)> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inner = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inner.find(&end)?;
    Some((Some(Token::Text(&inner[..length])), 2 + hashes + length + end.len()))
}

/// The length of a character literal, or of the mark before a lifetime's name.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => rest[2..].char_indices().skip(1).find(|(_, one)| *one == '\'').map_or(1, |(end, _)| end + 3),
        _ => match characters.next() {
            Some((end, '\'')) => end + 1,
            _ => 1,
        },
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
