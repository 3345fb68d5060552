//! How much of what is warned of reaches a client, so that nobody makes more of it.

use std::collections::HashSet;

/// Where all texts together have more letters than this, each is cut to [`CUT_LETTERS`], and those beyond are left out.
pub const LETTERS_MAX: usize = 4 * 1024;
pub const CUT_LETTERS: usize = 256;

/// Warnings of which there may be as many as pairs of things: each is kept once, and none that would not be told.
pub struct Pairs<'a> {
    out: &'a mut Vec<String>,
    seen: HashSet<String>,
    letters: usize,
}

impl<'a> Pairs<'a> {
    pub fn new(out: &'a mut Vec<String>) -> Self {
        Pairs { out, seen: HashSet::new(), letters: 0 }
    }

    /// For what there can be only as often as there are things.
    pub fn out(&mut self) -> &mut Vec<String> {
        self.out
    }

    pub fn push(&mut self, text: String) {
        if self.is_full() || self.seen.contains(&text) {
            return;
        }
        // What has control characters is not told.
        if !text.contains(char::is_control) {
            self.letters += text.chars().take(CUT_LETTERS).count();
        }
        self.seen.insert(text.clone());
        self.out.push(text);
    }

    /// Whether nothing more would be told.
    pub fn is_full(&self) -> bool {
        self.letters > LETTERS_MAX
    }
}
