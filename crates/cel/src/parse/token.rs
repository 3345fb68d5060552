//! The kinds of words that an expression is made of, and sets of them.

/// In the order in which messages name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParenthesis,
    RightParenthesis,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    /// An identifier in backticks.
    Escaped,
    End,
}

/// As messages name them: symbols in quotes, the others by the name of their rule.
const NAMES: [(Kind, &str); 36] = [
    (Kind::Equals, "'=='"),
    (Kind::NotEquals, "'!='"),
    (Kind::In, "'in'"),
    (Kind::Less, "'<'"),
    (Kind::LessEquals, "'<='"),
    (Kind::GreaterEquals, "'>='"),
    (Kind::Greater, "'>'"),
    (Kind::And, "'&&'"),
    (Kind::Or, "'||'"),
    (Kind::LeftBracket, "'['"),
    (Kind::RightBracket, "']'"),
    (Kind::LeftBrace, "'{'"),
    (Kind::RightBrace, "'}'"),
    (Kind::LeftParenthesis, "'('"),
    (Kind::RightParenthesis, "')'"),
    (Kind::Dot, "'.'"),
    (Kind::Comma, "','"),
    (Kind::Minus, "'-'"),
    (Kind::Exclamation, "'!'"),
    (Kind::Question, "'?'"),
    (Kind::Colon, "':'"),
    (Kind::Plus, "'+'"),
    (Kind::Star, "'*'"),
    (Kind::Slash, "'/'"),
    (Kind::Percent, "'%'"),
    (Kind::True, "'true'"),
    (Kind::False, "'false'"),
    (Kind::Null, "'null'"),
    (Kind::Float, "NUM_FLOAT"),
    (Kind::Int, "NUM_INT"),
    (Kind::Uint, "NUM_UINT"),
    (Kind::String, "STRING"),
    (Kind::Bytes, "BYTES"),
    (Kind::Identifier, "IDENTIFIER"),
    (Kind::Escaped, "ESC_IDENTIFIER"),
    (Kind::End, "<EOF>"),
];

/// A word and where it stands, in characters.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// A set of kinds of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    pub const EMPTY: Set = Set(0);

    pub const fn of(kinds: &[Kind]) -> Set {
        let mut bits = 0;
        let mut index = 0;
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u8;
            index += 1;
        }
        Set(bits)
    }

    pub const fn with(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// As a message lists it: the end first, the others in their order; braces around more than one.
    pub fn shown(self) -> String {
        let named = |end: bool| {
            NAMES.iter().filter(move |(kind, _)| self.has(*kind) && (*kind == Kind::End) == end).map(|(_, name)| *name)
        };
        let names: Vec<&str> = named(true).chain(named(false)).collect();
        if names.len() == 1 { names[0].to_owned() } else { format!("{{{}}}", names.join(", ")) }
    }
}
