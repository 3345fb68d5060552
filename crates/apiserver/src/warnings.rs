//! `Warning` headers: each text once, and as much as clients take.

use std::collections::HashSet;

use http::{HeaderValue, header};
use rkube_machinery::warnings::{CUT_LETTERS, LETTERS_MAX};

use crate::content::Answer;

/// Adds the warnings that a client gets.
pub fn add(answer: &mut Answer, warnings: &[String]) {
    for text in shown(warnings) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            answer.headers_mut().append(header::WARNING, value);
        }
    }
}

fn shown(warnings: &[String]) -> Vec<&str> {
    let mut seen = HashSet::new();
    let mut texts = Vec::new();
    let (mut letters, mut cutting) = (0, false);
    for text in warnings {
        if cutting && letters >= LETTERS_MAX {
            break;
        }
        // A header cannot say control characters: what has any is not said.
        if text.is_empty() || text.contains(char::is_control) || !seen.insert(text.as_str()) {
            continue;
        }
        texts.push(if cutting { cut(text) } else { text });
        letters += texts.last().map_or(0, |text| text.chars().count());
        if !cutting && letters > LETTERS_MAX {
            cutting = true;
            for text in &mut texts {
                *text = cut(text);
            }
            letters = texts.iter().map(|text| text.chars().count()).sum();
        }
    }
    texts
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(CUT_LETTERS).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_once() {
        let texts = ["a", "", "ö", "a", "c\n"].map(str::to_owned);
        assert_eq!(shown(&texts), ["a", "ö"]);
    }

    #[test]
    fn many_letters_are_cut() {
        let long = |letter: char| letter.to_string().repeat(1000);
        let fits: Vec<String> = "abcd".chars().map(long).collect();
        assert_eq!(shown(&fits), fits);
        let more: Vec<String> = ('a'..='z').map(long).collect();
        let cut = shown(&more);
        assert!(cut.iter().all(|text| text.len() == CUT_LETTERS));
        assert_eq!(cut.len(), LETTERS_MAX / CUT_LETTERS);
        let many: Vec<String> = (0..100_000).map(|number| format!("{number:08}")).collect();
        assert_eq!(shown(&many).len(), LETTERS_MAX / 8 + 1, "the first that does not fit is cut, and said");
    }
}
