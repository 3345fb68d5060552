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

    /// What comes behind all that was passed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
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
        at += find(text.get(at..)?, [b'"', b'\\'])?;
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
        match text.get(at)? {
            b'"' => at += end_of_text(&text[at + 1..])? + 1,
            b'[' => match end_of_flat(&text[at..]) {
                Some(end) => at += end - 1,
                None => depth += 1,
            },
            b'{' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Where the list ends that begins here, without a look at what is in it; None: not so easily told.
///
/// Half of most objects is who manages their fields: one list with no other in it, and a field behind it. Before its end
/// there is no bracket then, not even in a text; and the end is in no text either, because there the quotation mark
/// behind it would end that one, and no letter follows such a mark.
fn end_of_flat(list: &[u8]) -> Option<usize> {
    let end = 1 + find(list.get(1..)?, [b'[', b']'])?;
    let mut behind = list[end..].strip_prefix(b"]")?;
    while let Some(rest) = behind.strip_prefix(b"}") {
        behind = rest;
    }
    let is_field = matches!(behind, [b',', b'"', letter, ..] if letter.is_ascii_alphabetic());
    is_field.then_some(end + 1)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;

/// Where the first of these bytes is: eight are looked at at once.
fn find<const N: usize>(text: &[u8], wanted: [u8; N]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // Zero is where a byte is as wanted. Of the marks the lowest is right: what is borrowed goes upwards.
        let found = wanted.iter().fold(0, |found, byte| {
            let apart = word ^ (ONES * u64::from(*byte));
            found | (apart.wrapping_sub(ONES) & !apart & TOPS)
        });
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| wanted.contains(byte))?;
    Some(words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    /// What [`end_of_text`] and [`end_of_nested`] find, byte by byte.
    mod slow {
        pub fn end_of_text(text: &[u8]) -> Option<usize> {
            let mut at = 0;
            loop {
                at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
                if text[at] == b'"' {
                    return Some(at);
                }
                at += 2;
            }
        }

        pub fn end_of_nested(text: &[u8]) -> Option<usize> {
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
    }

    /// Values whose texts look like what is around them.
    fn value() -> impl Strategy<Value = String> {
        let text = r#"[a\[\]{},:]{0,4}(\\["\\n])?[a\[\]{},:é]{0,12}"#.prop_map(|text| format!("\"{text}\""));
        let leaf = prop_oneof![text.clone(), Just("{}".to_owned()), Just("[]".to_owned()), Just("-1.5e3".to_owned())];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            let fields = prop::collection::vec((text.clone(), inner.clone()), 0..5).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            });
            let list = prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(",")));
            prop_oneof![fields, list]
        })
    }

    proptest! {
        #[test]
        fn the_end_of_a_text_is_where_it_is_byte_by_byte(text in r#"[a-z"\\\x00\x7fé€]{0,40}"#, from in 0..40_usize) {
            let text = text.as_bytes();
            let text = &text[from.min(text.len())..];
            for end in 0..=text.len() {
                prop_assert_eq!(end_of_text(&text[..end]), slow::end_of_text(&text[..end]));
            }
        }

        #[test]
        fn bytes_are_found_where_they_are(text in prop::collection::vec(any::<u8>(), 0..80), wanted in any::<[u8; 2]>()) {
            prop_assert_eq!(find(&text, wanted), text.iter().position(|byte| wanted.contains(byte)));
        }

        #[test]
        fn the_end_of_a_value_is_where_it_is_byte_by_byte(values in prop::collection::vec(value(), 1..4)) {
            let fields: Vec<String> = values.iter().map(|value| format!("\"a\":{value}")).collect();
            let text = format!("{{{}}}", fields.join(","));
            let text = text.as_bytes();
            json::parse(text).unwrap();
            for begin in (0..text.len()).filter(|at| b"[{".contains(&text[*at]) && !in_text(text, *at)) {
                for end in begin..=text.len() {
                    let part = &text[begin..end];
                    prop_assert_eq!(end_of_nested(part), slow::end_of_nested(part));
                }
            }
        }
    }

    /// Whether a text began before, and has not ended.
    fn in_text(text: &[u8], at: usize) -> bool {
        let mut from = 0;
        while let Some(begin) = text[from..at].iter().position(|byte| *byte == b'"') {
            match slow::end_of_text(&text[from + begin + 1..at]) {
                Some(end) => from += begin + end + 2,
                None => return true,
            }
        }
        false
    }

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
