//! JSON as it stands in its text: for who wants a few values of an object, and no tree of all of it.

/// Goes through JSON that a server wrote; gives up (None) at anything that is not well-formed, and looks at no more than
/// it is asked for: what is passed need not be right.
pub struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    pub fn new(text: &'a [u8]) -> Scan<'a> {
        Scan { rest: text }
    }

    fn blanks(&mut self) {
        if self.rest.first().is_some_and(u8::is_ascii_whitespace) {
            self.rest = self.rest.trim_ascii_start();
        }
    }

    /// Passes a bracket, or what else stands between values.
    pub fn open(&mut self, bracket: u8) -> Option<()> {
        self.blanks();
        self.rest = self.rest.strip_prefix(&[bracket])?;
        Some(())
    }

    /// The next field of an object, up to its value; `Some(None)` at its end.
    pub fn field(&mut self) -> Option<Option<&'a [u8]>> {
        self.blanks();
        if let Some(rest) = self.rest.strip_prefix(b",") {
            self.rest = rest;
            self.blanks();
        }
        if let Some(rest) = self.rest.strip_prefix(b"}") {
            self.rest = rest;
            return Some(None);
        }
        let field = self.text()?;
        self.open(b':')?;
        Some(Some(field))
    }

    /// A text as it is written, escapes and all.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        self.open(b'"')?;
        let end = end_of_text(self.rest)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Some(text)
    }

    /// A value of any form, as it is written.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        let whole = self.rest;
        let end = match whole.first()? {
            b'"' => end_of_text(&whole[1..])? + 2,
            b'{' | b'[' => end_of_nested(whole)?,
            _ => whole.iter().position(|byte| b",:]} \n\r\t".contains(byte))?,
        };
        let (value, rest) = whole.split_at(end);
        self.rest = rest;
        (!value.is_empty()).then_some(value)
    }

    /// Passes a value of any form.
    pub fn skip(&mut self) -> Option<()> {
        self.value().map(drop)
    }
}

/// Where the quotation mark is that ends the text that begins here.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Where the object or the list ends that begins here.
fn end_of_nested(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        match text[at] {
            b'"' => at += end_of_text(&text[at + 1..])? + 1,
            b'{' | b'[' => depth += 1,
            _ => depth -= 1,
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    /// The fields of an object with their values, as far as they can be read.
    fn fields(text: &str) -> Vec<(String, String)> {
        let mut scan = Scan::new(text.as_bytes());
        let mut found = Vec::new();
        let mut all = || {
            scan.open(b'{')?;
            while let Some(field) = scan.field()? {
                let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                found.push((shown(field), shown(scan.value()?)));
            }
            Some(())
        };
        all();
        found
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#" { "a" : {"x":["}",{"\"]":1}]} ,"b":"\\\"","c":-1.5e3, "d":[] , "e":null,"f":"" }"#;
        let found = fields(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("a", r#"{"x":["}",{"\"]":1}]}"#),
            ("b", r#""\\\"""#),
            ("c", "-1.5e3"),
            ("d", "[]"),
            ("e", "null"),
            ("f", "\"\""),
        ];
        assert_eq!(found, expected);
        let tree = json::parse(text.as_bytes()).unwrap();
        for (key, value) in found {
            assert_eq!(json::parse(value.as_bytes()).unwrap(), *tree.get(key), "{key}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_given_up() {
        let whole = r#"{"a":{"b":["\"",1,true]},"c":"d"}"#;
        for end in 0..whole.len() {
            assert!(fields(&whole[..end]).len() <= 2, "{end}");
        }
        for text in ["", "{", "[]", "{a}", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":"\"}"#, r#"{"a":"b\"#] {
            assert_eq!(fields(text), [], "{text}");
        }
        // Brackets are counted, not told apart: nobody whom this serves writes such a thing.
        assert_eq!(fields(r#"{"a":[}"#), [("a".to_owned(), "[}".to_owned())]);
    }
}
