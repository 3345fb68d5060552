//! `$(NAME)` in commands, arguments, values of variables and `subPathExpr`. `$$` stands for one dollar.

use std::collections::BTreeSet;

use super::env::Variables;

/// References that nobody resolves stay as they are.
pub fn expand(text: &str, resolve: &dyn Fn(&str) -> Option<String>) -> String {
    expand_with(text, &mut |name| resolve(name).unwrap_or_else(|| format!("$({name})")))
}

/// Of commands and arguments.
pub fn expand_all(texts: &[rkube_machinery::Value], variables: &Variables) -> Vec<String> {
    let resolve = |name: &str| variables.get(name).map(str::to_owned);
    texts.iter().map(|text| expand(text.as_str(), &resolve)).collect()
}

/// Of `subPathExpr`, where every reference must have a value that is not empty.
pub fn expand_strictly(text: &str, variables: &Variables) -> Result<String, String> {
    let mut missing = BTreeSet::new();
    let expanded = expand_with(text, &mut |name| {
        let value = variables.get(name).unwrap_or_default();
        if value.is_empty() {
            missing.insert(name.to_owned());
        }
        value.to_owned()
    });
    if missing.is_empty() {
        return Ok(expanded);
    }
    let names: Vec<String> = missing.into_iter().collect();
    Err(format!("missing value for {}", names.join(", ")))
}

fn expand_with(text: &str, resolve: &mut dyn FnMut(&str) -> String) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        expanded.push_str(before);
        rest = match after.chars().next() {
            // The last character of the text.
            None => {
                expanded.push('$');
                after
            }
            Some('$') => {
                expanded.push('$');
                &after[1..]
            }
            Some('(') => match after.find(')') {
                Some(end) => {
                    expanded.push_str(&resolve(&after[1..end]));
                    &after[end + 1..]
                }
                None => {
                    expanded.push_str("$(");
                    &after[1..]
                }
            },
            Some(other) => {
                expanded.push('$');
                expanded.push(other);
                &after[other.len_utf8()..]
            }
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_as_upstream_does() {
        let resolve = |name: &str| match name {
            "VAR_A" => Some("A".to_owned()),
            "VAR_REF" => Some("$(VAR_A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let table = [
            ("$(VAR_A)", "A"),
            ("___$(VAR_A)___", "___A___"),
            ("$(VAR_A)-$(VAR_A)", "A-A"),
            ("$(VAR_REF)", "$(VAR_A)"),
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("f000-$$VAR_A", "f000-$VAR_A"),
            ("foo\\$(VAR_A)bar", "foo\\Abar"),
            ("$(VAR_UNKNOWN)", "$(VAR_UNKNOWN)"),
            ("$(EMPTY)foo", "foo"),
            ("$VAR_A", "$VAR_A"),
            ("${VAR_A}", "${VAR_A}"),
            ("foo$", "foo$"),
            ("$", "$"),
            ("$(", "$("),
            ("$(VAR_A", "$(VAR_A"),
            ("$(($(VAR_A))", "$(($(VAR_A))"),
            ("$()", "$()"),
            ("$é$(VAR_A)", "$éA"),
            ("\n", "\n"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, &resolve), expected, "{text}");
        }
    }

    #[test]
    fn paths_need_all_their_variables() {
        let mut variables = Variables::default();
        variables.set("POD", "web-0");
        variables.set("EMPTY", "");
        assert_eq!(expand_strictly("logs/$(POD)", &variables), Ok("logs/web-0".to_owned()));
        assert_eq!(
            expand_strictly("$(NOPE)/$(EMPTY)/$(POD)", &variables),
            Err("missing value for EMPTY, NOPE".to_owned())
        );
    }
}
