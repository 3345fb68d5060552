//! Texts as numbers: labels, taints and images of nodes are compared as these. A text is kept while somebody uses it, so
//! that nodes that come and go leave nothing behind.

use std::collections::HashMap;

use rkube_machinery::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

#[derive(Default)]
pub struct Symbols {
    by_text: HashMap<Text, Symbol>,
    entries: Vec<Entry>,
    free: Vec<Symbol>,
}

struct Entry {
    text: Text,
    users: u32,
}

impl Symbols {
    /// The text's symbol, for one user more.
    pub fn acquire(&mut self, text: &Text) -> Symbol {
        if let Some(symbol) = self.by_text.get(text) {
            self.entries[symbol.0 as usize].users += 1;
            return *symbol;
        }
        let entry = Entry { text: text.clone(), users: 1 };
        let symbol = match self.free.pop() {
            Some(symbol) => {
                self.entries[symbol.0 as usize] = entry;
                symbol
            }
            None => {
                let number = u32::try_from(self.entries.len()).expect("nodes have fewer labels than that");
                self.entries.push(entry);
                Symbol(number)
            }
        };
        self.by_text.insert(text.clone(), symbol);
        symbol
    }

    /// One user less.
    pub fn release(&mut self, symbol: Symbol) {
        let entry = &mut self.entries[symbol.0 as usize];
        debug_assert!(entry.users > 0, "a symbol is released as often as it was acquired");
        entry.users -= 1;
        if entry.users == 0 {
            self.by_text.remove(&entry.text);
            entry.text = Text::default();
            self.free.push(symbol);
        }
    }

    /// None: no node uses the text.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.by_text.get(text).copied()
    }

    pub fn text(&self, symbol: Symbol) -> &str {
        &self.entries[symbol.0 as usize].text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_while_it_is_used() {
        let mut symbols = Symbols::default();
        let (one, again) = (symbols.acquire(&"a".into()), symbols.acquire(&"a".into()));
        assert_eq!((one, symbols.text(one)), (again, "a"));
        symbols.release(one);
        assert_eq!(symbols.find("a"), Some(again));
        symbols.release(again);
        assert_eq!((symbols.find("a"), symbols.by_text.len()), (None, 0));
        assert_eq!(symbols.acquire(&"b".into()), one, "its number is used again");
    }
}
