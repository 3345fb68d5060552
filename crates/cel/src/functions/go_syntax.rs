//! Regular expressions as Go reads them (RE2 with Perl's classes), turned into the syntax of the `regex` crate.
//!
//! The two agree on most patterns and mean the same by them, but not on what is an error, and have other words for it.
//! So the pattern is read here as Go reads it, and written again in a form that only has what both understand.

/// Counts in repetitions, and of repetitions in each other, go up to this.
const REPEAT_MAX: u64 = 1000;
const DIGITS: &str = "0-9";
const BLANKS: &str = "\\t\\n\\x0C\\r ";
const WORDS: &str = "0-9A-Za-z_";
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// The pattern for the `regex` crate, or what is wrong with it in Go's words.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut reader = Reader { whole: pattern, rest: pattern, out: String::new(), groups: vec![Group::default()] };
    let mut last_repeat = None;
    while let Some(letter) = reader.rest.chars().next() {
        let before = reader.rest;
        last_repeat = reader.element(letter, last_repeat)?.then_some(before);
    }
    match reader.groups.len() {
        1 => Ok(reader.out),
        _ => Err(fault("missing closing )", pattern)),
    }
}

fn fault(what: &str, part: &str) -> String {
    format!("{what}: `{part}`")
}

/// A group that is not closed yet.
#[derive(Default)]
struct Group {
    /// How often the last element is repeated, with what is repeated in it; none: nothing is there to repeat.
    last: Option<u64>,
    /// The largest of all elements so far.
    max: u64,
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    groups: Vec<Group>,
}

impl<'a> Reader<'a> {
    /// Reads what is next, and says whether it was a repetition.
    fn element(&mut self, letter: char, last_repeat: Option<&'a str>) -> Result<bool, String> {
        match letter {
            '(' if self.rest.starts_with("(?") => self.perl_group()?,
            '(' => {
                self.copy(1);
                self.groups.push(Group::default());
            }
            '|' => {
                self.copy(1);
                self.push(None);
            }
            ')' => self.close()?,
            '^' | '$' | '.' => {
                self.copy(1);
                self.push(Some(1));
            }
            '[' => self.class()?,
            '*' | '+' | '?' => {
                let (before, after) = (self.rest, &self.rest[1..]);
                self.repeat(before, after, 1, last_repeat)?;
                return Ok(true);
            }
            '{' => {
                if let Some((min, max, after)) = counts(self.rest) {
                    self.counted(min, max, after, last_repeat)?;
                    return Ok(true);
                }
                self.literal('{');
                self.skip(1);
            }
            '\\' => self.escape()?,
            other => {
                self.literal(other);
                self.skip(other.len_utf8());
            }
        }
        Ok(false)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.rest[..bytes]);
        self.skip(bytes);
    }

    /// Notes what can be repeated now.
    fn push(&mut self, last: Option<u64>) {
        if let Some(group) = self.groups.last_mut() {
            group.last = last;
            group.max = group.max.max(last.unwrap_or(0));
        }
    }

    fn literal(&mut self, letter: char) {
        self.out.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
        self.push(Some(1));
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.len() == 1 {
            return Err(fault("unexpected )", self.whole));
        }
        let inner = self.groups.pop().unwrap_or_default();
        self.copy(1);
        self.push(Some(inner.max.max(1)));
        Ok(())
    }

    fn counted(&mut self, min: u64, max: Option<u64>, after: &'a str, last: Option<&'a str>) -> Result<(), String> {
        let before = self.rest;
        if min > REPEAT_MAX || max.is_some_and(|max| max > REPEAT_MAX || min > max) {
            return Err(fault("invalid repeat count", &before[..before.len() - after.len()]));
        }
        let count = max.unwrap_or(min);
        self.repeat(before, after, count.max(1), last)?;
        let weight = self.groups.last().and_then(|group| group.last).unwrap_or(1);
        if (min >= 2 || max.is_some_and(|max| max >= 2)) && weight > REPEAT_MAX {
            return Err(fault("invalid repeat count", &before[..before.len() - self.rest.len()]));
        }
        Ok(())
    }

    fn repeat(&mut self, before: &'a str, after: &'a str, count: u64, last: Option<&'a str>) -> Result<(), String> {
        let after = after.strip_prefix('?').unwrap_or(after);
        if let Some(last) = last {
            return Err(fault("invalid nested repetition operator", &last[..last.len() - after.len()]));
        }
        let operator = &before[..before.len() - after.len()];
        let Some(weight) = self.groups.last().and_then(|group| group.last) else {
            return Err(fault("missing argument to repetition operator", operator));
        };
        self.copy(operator.len());
        self.push(Some(weight.saturating_mul(count)));
        Ok(())
    }

    /// A named group, one that only groups, or flags.
    fn perl_group(&mut self) -> Result<(), String> {
        let text = self.rest;
        let name_at = match text.as_bytes() {
            [_, _, b'P', b'<', _, ..] => Some(4),
            [_, _, b'<', _, ..] => Some(3),
            _ => None,
        };
        if let Some(start) = name_at {
            let Some(end) = text.find('>') else { return Err(fault("invalid named capture", text)) };
            let name = text.get(start..end).unwrap_or("");
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(fault("invalid named capture", &text[..=end]));
            }
            // Nobody asks for a group by its name, which Go may use twice.
            self.out.push('(');
            self.skip(end + 1);
            self.groups.push(Group::default());
            return Ok(());
        }
        let (mut negated, mut flagged) = (false, false);
        for (at, letter) in text.char_indices().skip(2) {
            let end = at + letter.len_utf8();
            let wrong = || Err(fault("invalid or unsupported Perl syntax", &text[..end]));
            match letter {
                'i' | 'm' | 's' | 'U' => flagged = true,
                '-' if !negated => (negated, flagged) = (true, false),
                ':' | ')' if !negated || flagged => {
                    if letter == ':' {
                        self.groups.push(Group::default());
                        self.copy(end);
                    } else if text[2..at].is_empty() {
                        self.skip(end);
                    } else {
                        self.copy(end);
                    }
                    return Ok(());
                }
                _ => return wrong(),
            }
        }
        Err(fault("invalid or unsupported Perl syntax", text))
    }

    fn escape(&mut self) -> Result<(), String> {
        let text = self.rest;
        match text.chars().nth(1) {
            Some('A' | 'z' | 'B') => {
                self.copy(2);
                self.push(Some(1));
            }
            Some('b') => {
                self.out.push_str("(?-u:\\b)");
                self.skip(2);
                self.push(Some(1));
            }
            Some('C') => return Err(fault("invalid escape sequence", "\\C")),
            Some('Q') => {
                let (quoted, rest) = text[2..].split_once("\\E").unwrap_or((&text[2..], ""));
                quoted.chars().for_each(|letter| self.literal(letter));
                self.rest = rest;
            }
            _ => {
                if let Some((class, rest)) = unicode_class(text)?.or_else(|| perl_class(text, false)) {
                    self.out.push_str(&class);
                    self.rest = rest;
                    self.push(Some(1));
                    return Ok(());
                }
                let (letter, rest) = escaped(text)?;
                self.write_code(letter);
                self.rest = rest;
                self.push(Some(1));
            }
        }
        Ok(())
    }

    fn write_code(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(letter) => self.out.push_str(&format!("\\x{{{:X}}}", u32::from(letter))),
            // Half of a surrogate pair, which no text has.
            None => self.out.push_str("[a&&b]"),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        self.copy(1);
        if self.rest.starts_with('^') {
            self.copy(1);
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let text = self.rest;
            if let Some((class, rest)) = posix_class(text)?.or(unicode_class(text)?).or_else(|| perl_class(text, true))
            {
                self.out.push_str(&class);
                self.rest = rest;
                continue;
            }
            let (low, mut rest) = class_letter(text, whole)?;
            let mut high = low;
            if rest.starts_with('-') && rest.len() >= 2 && !rest.starts_with("-]") {
                (high, rest) = class_letter(&rest[1..], whole)?;
                if high < low {
                    return Err(fault("invalid character class range", &text[..text.len() - rest.len()]));
                }
            }
            self.rest = rest;
            self.write_code(low);
            if high != low {
                self.out.push('-');
                self.write_code(high);
            }
        }
        self.copy(1);
        self.push(Some(1));
        Ok(())
    }
}

/// `{2}`, `{2,}` or `{2,3}`, and what follows; none: the brace is a letter.
fn counts(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let (min, rest) = number(&text[1..])?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, Some(min), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, None, rest));
    }
    let (max, rest) = number(rest)?;
    Some((min, Some(max), rest.strip_prefix('}')?))
}

fn number(text: &str) -> Option<(u64, &str)> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    (!digits.is_empty() && !leading_zero).then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}

type Class<'a> = (String, &'a str);

fn perl_class(text: &str, in_class: bool) -> Option<Class<'_>> {
    let letter = text.strip_prefix('\\')?.chars().next()?;
    let class = match letter.to_ascii_lowercase() {
        'd' => DIGITS,
        's' => BLANKS,
        'w' => WORDS,
        _ => return None,
    };
    let written = match (letter.is_ascii_uppercase(), in_class) {
        (true, _) => format!("[^{class}]"),
        (false, true) => class.to_owned(),
        (false, false) => format!("[{class}]"),
    };
    Some((written, &text[2..]))
}

fn posix_class(text: &str) -> Result<Option<Class<'_>>, String> {
    let Some(end) = text.strip_prefix("[:").and_then(|rest| rest.find(":]")) else { return Ok(None) };
    let (class, rest) = text.split_at(end + 4);
    let name = &class[2..end + 2];
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(fault("invalid character class range", class));
    }
    Ok(Some((class.to_owned(), rest)))
}

fn unicode_class(text: &str) -> Result<Option<Class<'_>>, String> {
    let Some(negated) = ["\\p", "\\P"].into_iter().position(|start| text.starts_with(start)) else { return Ok(None) };
    let Some(first) = text[2..].chars().next() else { return Ok(None) };
    let wrong = |part: &str| Err(fault("invalid character class range", part));
    let (name, end) = match first {
        '{' => match text.find('}') {
            Some(end) => (&text[3..end], end + 1),
            None => return wrong(text),
        },
        letter => (&text[2..2 + letter.len_utf8()], 2 + letter.len_utf8()),
    };
    let inverted = usize::from(name.starts_with('^'));
    let name = &name[inverted..];
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let of = |kind: &&str| regex_syntax::Parser::new().parse(&format!("\\p{{{kind}{name}}}")).is_ok();
    let Some(kind) = ["gc=", "sc="].into_iter().find(|kind| plain && of(kind)) else { return wrong(&text[..end]) };
    let letter = if negated ^ inverted == 1 { 'P' } else { 'p' };
    Ok(Some((format!("\\{letter}{{{kind}{name}}}"), &text[end..])))
}

fn class_letter<'a>(text: &'a str, whole: &str) -> Result<(u32, &'a str), String> {
    match text.chars().next() {
        None => Err(fault("missing closing ]", whole)),
        Some('\\') => escaped(text),
        Some(letter) => Ok((u32::from(letter), &text[letter.len_utf8()..])),
    }
}

/// The letter that an escape stands for, and what follows.
fn escaped(text: &str) -> Result<(u32, &str), String> {
    let Some(letter) = text[1..].chars().next() else {
        return Err(fault("trailing backslash at end of expression", ""));
    };
    let rest = &text[1 + letter.len_utf8()..];
    let wrong = |rest: &str| Err(fault("invalid escape sequence", &text[..text.len() - rest.len()]));
    let octal = |rest: &str| rest.starts_with(|letter: char| letter.is_digit(8));
    let code = match letter {
        '1'..='7' if !octal(rest) => return wrong(rest),
        '0'..='7' => {
            let digits = text[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            let code = text[1..=digits].bytes().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'));
            return Ok((code, &text[1 + digits..]));
        }
        'x' => return hexadecimal(text),
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => u32::from(other),
        _ => return wrong(rest),
    };
    Ok((code, rest))
}

/// `\x41` or `\x{41}`
fn hexadecimal(text: &str) -> Result<(u32, &str), String> {
    let wrong = |bytes: usize| Err(fault("invalid escape sequence", &text[..bytes.min(text.len())]));
    let braced = text[2..].starts_with('{');
    let mut code = 0;
    let mut digits = 0;
    for (at, letter) in text.char_indices().skip(if braced { 3 } else { 2 }) {
        let end = at + letter.len_utf8();
        match letter.to_digit(16) {
            Some(digit) => code = code * 16 + digit,
            None if braced && letter == '}' && digits > 0 => return Ok((code, &text[end..])),
            // Go looks at both digits before it objects to the first.
            None if !braced && digits == 0 => {
                let second = text[end..].chars().next().map_or(0, char::len_utf8);
                return if second == 0 { Err(fault("invalid UTF-8", "")) } else { wrong(end + second) };
            }
            None => return wrong(end),
        }
        digits += 1;
        if code > u32::from(char::MAX) {
            return wrong(end);
        }
        if !braced && digits == 2 {
            return Ok((code, &text[end..]));
        }
    }
    wrong(text.len())
}

#[cfg(test)]
mod tests {
    use crate::functions::regexes::compile;

    #[test]
    fn faults_are_worded_as_go_words_them() {
        for (pattern, words) in [
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("x[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(|+?)", "missing argument to repetition operator: `+?`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{3,1}", "invalid repeat count: `{3,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){100}", "invalid repeat count: `{100}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?<n-1>a)", "invalid named capture: `(?<n-1>`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\Z", "invalid escape sequence: `\\Z`"),
            ("\\xg1", "invalid escape sequence: `\\xg1`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(compile(pattern).unwrap_err(), format!("error parsing regexp: {words}"), "{pattern}");
        }
    }

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            ("^{,2}$", "{,2}", true),
            ("^a{$", "a{", true),
            ("^[]a]+$", "]a", true),
            ("^[a&&b]+$", "&ab", true),
            ("^[^\\D]$", "5", true),
            ("^[\\w-]+$", "a-b", true),
            ("^\\Qa.b\\E$", "a.b", true),
            ("^\\Qa.b\\E$", "axb", false),
            ("^\\d$", "٣", false),
            ("^\\pL$", "é", true),
            ("^\\P{^Greek}$", "α", true),
            ("^\\x41\\x{42}\\103$", "ABC", true),
            ("^(?P<n>a)(?<n>b)$", "ab", true),
            ("(?i)^ABC$", "abc", true),
            ("^a(?)b$", "ab", true),
            ("^[[:alpha:][:^digit:]]+$", "a-", true),
            ("a\\b", "aé", true),
            ("^.$", "\n", false),
            ("^a$", "a\n", false),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} {text}");
        }
    }
}
