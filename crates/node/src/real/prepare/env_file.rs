//! Files of variables that containers of a pod write for those that start later: `NAME='value'`, and nothing else.

/// No more is read of a file: values are environment variables, of which a process gets no more.
pub const BYTES_MAX: u64 = 64 * 1024;

/// The value of a key; None where it is not there, empty where a space follows the sign.
pub fn find(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| format!("invalid environment variable format at line {number}: {what}");
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        let trimmed = name.trim_end_matches([' ', '\t']);
        if trimmed.is_empty() {
            return Err(wrong("empty variable name"));
        }
        if trimmed != name {
            return Err(wrong("whitespace before '=' is not allowed"));
        }
        if value.starts_with([' ', '\t']) {
            // As in a shell: the variable is empty, and what follows is a command.
            if name == key {
                return Ok(Some(String::new()));
            }
            continue;
        }
        let first = value.strip_prefix('\'').ok_or_else(|| wrong("value must be enclosed in single quotes"))?;
        let value = quoted(first, number, &mut lines)?;
        if name == key {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// What stands before the closing quote, on this line or a later one.
fn quoted<'a>(
    first: &'a str,
    start: usize,
    lines: &mut impl Iterator<Item = (&'a str, usize)>,
) -> Result<String, String> {
    let (mut value, mut rest, mut number) = (String::new(), first, start);
    loop {
        if let Some((inside, after)) = rest.split_once('\'') {
            value.push_str(inside);
            let after = after.trim_start_matches([' ', '\t']);
            if !after.is_empty() && !after.starts_with('#') {
                return Err(format!(
                    "invalid environment variable format at line {number}: unexpected content after closing quote"
                ));
            }
            return Ok(value);
        }
        value.push_str(rest);
        value.push('\n');
        (rest, number) = lines.next().ok_or_else(|| {
            format!("invalid environment variable format starting at line {start}: unclosed single quote")
        })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quoted_values_are_taken() {
        let at = |line: usize, what: &str| Err(format!("invalid environment variable format at line {line}: {what}"));
        let value = |text: &str| Ok(Some(text.to_owned()));
        let table = [
            ("A='x'", value("x")),
            ("# c\n\n  A='x' # more\n", value("x")),
            ("B='1'\nA='two words'\n", value("two words")),
            ("A='one\ntwo'", value("one\ntwo")),
            ("A= 'x'", value("")),
            ("B='1'", Ok(None)),
            ("A=x", at(1, "value must be enclosed in single quotes")),
            ("A ='x'", at(1, "whitespace before '=' is not allowed")),
            ("='x'", at(1, "empty variable name")),
            ("\nA", at(2, "missing '='")),
            ("A='x'y", at(1, "unexpected content after closing quote")),
            ("A='x", Err("invalid environment variable format starting at line 1: unclosed single quote".to_owned())),
        ];
        for (text, expected) in table {
            assert_eq!(find(text, "A"), expected, "{text:?}");
        }
    }
}
