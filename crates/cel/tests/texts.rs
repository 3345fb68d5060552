//! What is said of texts that are no expressions: the words, and the places.

use rkube_cel::Environment;

const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                       IDENTIFIER}";

/// Each fault as `line:column message`.
fn faults(text: &str) -> Vec<String> {
    let issues = Environment::new().parse(text).map(drop).expect_err(text);
    issues
        .issues
        .iter()
        .map(|issue| format!("{}:{} {}", issue.location.line, issue.location.column + 1, issue.message))
        .collect()
}

#[test]
fn faults_of_syntax() {
    let operand =
        |place: &str, found: &str| format!("{place} Syntax error: mismatched input '{found}' expecting {OPERAND}");
    let table: [(&str, Vec<String>); 20] = [
        ("", vec![operand("1:0", "<EOF>")]),
        ("1 +", vec![operand("1:4", "<EOF>")]),
        ("(a", vec!["1:3 Syntax error: missing ')' at '<EOF>'".to_owned()]),
        ("a)", vec!["1:2 Syntax error: extraneous input ')' expecting <EOF>".to_owned()]),
        ("[1,2,, 3]", vec!["1:6 Syntax error: mismatched input ',' expecting ']'".to_owned()]),
        ("-)", vec!["1:2 Syntax error: no viable alternative at input '-)'".to_owned(), operand("1:2", ")")]),
        ("a.true", vec!["1:3 Syntax error: mismatched input 'true' expecting IDENTIFIER".to_owned()]),
        ("a.1", vec!["1:2 Syntax error: extraneous input '.1' expecting <EOF>".to_owned()]),
        ("a.?1", {
            let wanted = "Syntax error: mismatched input '1' expecting {IDENTIFIER, ESC_IDENTIFIER}";
            vec![format!("1:4 {wanted}"), "1:4 unsupported ident kind".to_owned()]
        }),
        ("a = b", {
            let unknown = "1:3 Syntax error: token recognition error at: '= '".to_owned();
            vec![unknown, "1:5 Syntax error: extraneous input 'b' expecting <EOF>".to_owned()]
        }),
        ("'abc", vec!["1:1 Syntax error: token recognition error at: ''abc'".to_owned(), operand("1:5", "<EOF>")]),
        ("a ? b", vec!["1:6 Syntax error: mismatched input '<EOF>' expecting ':'".to_owned()]),
        ("x.`a b`", vec!["1:3 unsupported syntax: '`'".to_owned()]),
        ("for", vec!["1:1 reserved identifier: for".to_owned()]),
        ("99999999999999999999", vec!["1:1 invalid int literal".to_owned()]),
        ("'\\ud800'", vec!["1:1 invalid unicode code point".to_owned()]),
        ("has(a)", vec!["1:5 invalid argument to has() macro".to_owned()]),
        ("a.all(1, true)", vec!["1:7 argument must be a simple name".to_owned()]),
        ("a.map(b.c, true)", vec!["1:8 argument is not an identifier".to_owned()]),
        ("a\n  .all(x, x, true)", vec!["2:11 duplicate variable name: x".to_owned()]),
    ];
    for (text, wanted) in table {
        assert_eq!(faults(text), wanted, "{text:?}");
    }
}

#[test]
fn faults_point_into_their_line() {
    let environment = Environment::new();
    let issues = environment.compile("'é' +\n\tnope").map(drop).expect_err("it is undeclared").to_string();
    let wanted = "ERROR: <input>:2:2: undeclared reference to 'nope' (in container '')\n |  nope\n | .^";
    assert_eq!(issues, wanted);
    let issues = environment.compile("'é' + é").map(drop).expect_err("it is no word").to_string();
    assert!(
        issues
            .starts_with("ERROR: <input>:1:7: Syntax error: token recognition error at: 'é'\n | 'é' + é\n | .．....＾")
    );
}

#[test]
fn faults_of_literals() {
    let table = [
        ("duration('1x')", "invalid duration argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'"),
        (
            "'%d'.format(['x'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format([])", "index 0 out of range"),
        ("'%s'.format([1, 2])", "too many arguments supplied to string.format (expected 1, got 2)"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("'a'.find('(')", "error parsing regexp: missing closing ): `(`"),
        ("[1].all(x, x)", "expected type 'bool' but found 'int'"),
        ("1.all(x, x)", "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"),
        ("quantity('1').x", "unexpected failed resolution of 'kubernetes.Quantity'"),
        ("'a'.x", "type 'string' does not support field selection"),
    ];
    for (text, wanted) in table {
        let error = Environment::new().compile(text).map(drop).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
