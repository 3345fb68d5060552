//! Mail addresses as Go's `net/mail` reads them: one address, with or without a name, comments and a group around it.

/// Whether the text is exactly one address.
pub(super) fn is_address(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    reader.address(true) == Some(1) && reader.skip_comments() && reader.rest.is_empty()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// How many addresses: a group may have any number.
    fn address(&mut self, may_be_group: bool) -> Option<usize> {
        self.skip_blanks();
        if self.rest.is_empty() {
            return None;
        }
        let start = self.rest;
        if self.specification().is_some() {
            self.skip_blanks();
            if self.take('(') && !self.comment() {
                return None;
            }
            return Some(1);
        }
        self.rest = start;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_blanks();
        if may_be_group && self.take(':') {
            return self.group();
        }
        self.take('<').then_some(())?;
        self.specification()?;
        self.take('>').then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_blanks();
        let mut count = 0;
        if self.take(';') {
            return self.skip_comments().then_some(count);
        }
        loop {
            count += self.address(false)?;
            if !self.skip_comments() {
                return None;
            }
            if self.take(';') {
                return self.skip_comments().then_some(count);
            }
            self.take(',').then_some(())?;
        }
    }

    /// `local@domain`
    fn specification(&mut self) -> Option<()> {
        self.skip_blanks();
        if self.rest.starts_with('"') {
            let quoted = self.quoted()?;
            (quoted > 0).then_some(())?;
        } else {
            self.strict_atom()?;
        }
        self.take('@').then_some(())?;
        self.skip_blanks();
        if !self.take('[') {
            return self.strict_atom();
        }
        let (literal, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        let is_literal = |letter: char| is_visible(letter) && !matches!(letter, '[' | '\\');
        (literal.chars().all(is_literal) && literal.parse::<std::net::IpAddr>().is_ok()).then_some(())
    }

    /// Words of a name; what follows the last one is left.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_blanks();
            if self.rest.is_empty() {
                return Some(());
            }
            let start = self.rest;
            let word = if start.starts_with('"') { self.quoted().map(|_| ()) } else { self.atom().map(|_| ()) };
            if word.is_none() {
                self.rest = start;
                return (words > 0).then_some(());
            }
            words += 1;
        }
    }

    /// How many letters a quoted string has.
    fn quoted(&mut self) -> Option<usize> {
        let mut count = 0;
        let mut escaped = false;
        for (at, letter) in self.rest.char_indices().skip(1) {
            let blank = matches!(letter, ' ' | '\t');
            match letter {
                _ if escaped => {
                    (is_visible(letter) || blank).then_some(())?;
                    escaped = false;
                    count += 1;
                }
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(count);
                }
                '\\' => escaped = true,
                _ => {
                    (is_visible(letter) || blank).then_some(())?;
                    count += 1;
                }
            }
        }
        None
    }

    fn atom(&mut self) -> Option<&'a str> {
        let is_atom = |letter: char| is_visible(letter) && !"()<>[]:;@\\,\"".contains(letter);
        let end = self.rest.find(|letter| !is_atom(letter)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!atom.is_empty()).then_some(atom)
    }

    /// An atom whose points stand between letters.
    fn strict_atom(&mut self) -> Option<()> {
        let atom = self.atom()?;
        atom.split('.').all(|part| !part.is_empty()).then_some(())
    }

    /// Says whether all comments that are here end.
    fn skip_comments(&mut self) -> bool {
        self.skip_blanks();
        while self.take('(') {
            if !self.comment() {
                return false;
            }
            self.skip_blanks();
        }
        true
    }

    /// The rest of a comment, comments inside of it included; says whether it ends.
    fn comment(&mut self) -> bool {
        let mut depth = 1;
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => {
                    letters.next();
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[at + 1..];
                return true;
            }
        }
        self.rest = "";
        false
    }

    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }
}

fn is_visible(letter: char) -> bool {
    matches!(letter, '!'..='~') || !letter.is_ascii()
}
