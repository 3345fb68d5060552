//! Selectors of devices: CEL expressions over a device.
//!
//! Expressions are kept, not compiled. What is refused here is what can be told without a compiler: none at all, one
//! that is too long, one that is nothing but an unknown name, or a literal that is no truth. Other mistakes in syntax and
//! types, and too high a cost, pass.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::lists::slice;

const SELECTORS_MAX: usize = 32;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;

const EMPTY: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', \
                     '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                     IDENTIFIER}";

pub(super) fn validate_all(path: Path<'_>, selectors: &[Value], errors: &mut Errors) {
    slice(path, selectors, SELECTORS_MAX, errors, |path, selector, errors| {
        let path = path.child("cel");
        if selector.has("cel") {
            validate(path.child("expression"), selector.get("cel").str("expression"), errors);
        } else {
            errors.required(path, "");
        }
    });
}

fn validate(path: Path<'_>, expression: &str, errors: &mut Errors) {
    if expression.len() > EXPRESSION_MAX_BYTES {
        errors.too_long(path, EXPRESSION_MAX_BYTES);
    } else if let Some(words) = refusal(expression) {
        errors.invalid(path, expression, words);
    }
}

/// Why the expression cannot be right, as a compiler would say it.
fn refusal(expression: &str) -> Option<String> {
    if expression.is_empty() {
        return Some(EMPTY.to_owned());
    }
    if is_name(expression) && !KNOWN.contains(&expression) {
        return Some(format!(
            "compilation failed: ERROR: <input>:1:1: undeclared reference to '{expression}' (in container '')\n | \
             {expression}\n | ^"
        ));
    }
    if let Some(name) = expression.strip_suffix('!').filter(|name| is_name(name) && !RESERVED.contains(name)) {
        let (column, dots) = (name.len() + 1, ".".repeat(name.len()));
        return Some(format!(
            "compilation failed: ERROR: <input>:1:{column}: Syntax error: extraneous input '!' expecting <EOF>\n | \
             {expression}\n | {dots}^"
        ));
    }
    literal_type(expression).map(|kind| format!("must evaluate to bool or the unknown type, not {kind}"))
}

/// What is declared, and the names of types, which are values as well.
const KNOWN: [&str; 34] = [
    "device",
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that are no names.
const RESERVED: [&str; 4] = ["true", "false", "null", "in"];

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

/// The type of an expression that is nothing but a number, a plain text or null.
fn literal_type(expression: &str) -> Option<&'static str> {
    /// So many digits always fit.
    const DIGITS_MAX: usize = 18;
    let digits =
        |text: &str| !text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    if expression == "null" {
        return Some("null_type");
    }
    for mark in ['"', '\''] {
        let inner = expression.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
        if inner.is_some_and(|inner| !inner.contains([mark, '\\', '\n', '\r'])) {
            return Some("string");
        }
    }
    let number = expression.strip_prefix('-').unwrap_or(expression);
    if digits(number) {
        return Some("int");
    }
    if expression.strip_suffix('u').is_some_and(digits) {
        return Some("uint");
    }
    let (whole, part) = number.split_once('.')?;
    (digits(whole) && digits(part)).then_some("double")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_without_a_compiler() {
        let long = "x".repeat(EXPRESSION_MAX_BYTES + 1);
        for (expression, wrong) in [("true", 0), ("device.driver == 'x'", 0), ("", 1), ("nothing", 1), (&long, 1)] {
            let mut errors = Errors::new();
            validate(Path::new("x"), expression, &mut errors);
            assert_eq!(errors.len(), wrong, "{expression}");
        }
        for (expression, kind) in
            [("-1", "int"), ("3u", "uint"), ("1.5", "double"), ("'a'", "string"), ("null", "null_type")]
        {
            let words = format!("must evaluate to bool or the unknown type, not {kind}");
            assert_eq!(refusal(expression), Some(words), "{expression}");
        }
        for expression in ["'a' == 'b'", "1 == 1", "-", "1.", "device", "true", "'a", "1u2"] {
            assert_eq!(refusal(expression), None, "{expression}");
        }
        assert!(refusal("a!").is_some_and(|words| words.ends_with("expecting <EOF>\n | a!\n | .^")));
    }
}
