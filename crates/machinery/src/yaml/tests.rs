//! Samples of what Go's library reads and writes.

use super::*;
use crate::json;

fn read(text: &str) -> String {
    json::to_string(&parse(text.as_bytes()).unwrap())
}

fn written(text: &str) -> String {
    write(&json::parse(text.as_bytes()).unwrap())
}

#[test]
fn scalars_resolve_as_in_yaml_1_1() {
    for (text, want) in [
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("~", "null"),
        ("", "null"),
        ("017", "15"),
        ("08", "8"),
        ("0x1F", "31"),
        ("0b101", "5"),
        ("1_000", "1000"),
        ("1.0", "1"),
        ("1.5e3", "1500"),
        (".5", "0.5"),
        ("12e", "\"12e\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("1:30", "\"1:30\""),
        ("\"yes\"", "\"yes\""),
        ("'1'", "\"1\""),
        ("!!str 1", "\"1\""),
        ("!!float 1", "1"),
        ("!!binary aGk=", "\"hi\""),
        ("-", "[null]"),
        ("18446744073709551615", "18446744073709552000"),
    ] {
        assert_eq!(read(text), want, "{text}");
    }
}

#[test]
fn documents_read_as_their_json() {
    for (text, want) in [
        ("b: 1\na: {c: [x, 2]}\n", r#"{"a":{"c":["x",2]},"b":1}"#),
        ("---\na: 1\n---\nb: 2\n", r#"{"a":1}"#),
        ("# nothing\n", "null"),
        ("- ? |2+\n\n  : null\n", r#"[{"\n":null}]"#),
        ("1: a\ntrue: b\n", r#"{"1":"a","true":"b"}"#),
        ("a: &x {k: 1}\nb: *x\n", r#"{"a":{"k":1},"b":{"k":1}}"#),
        ("base: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\n", r#"{"b":{"k":1,"l":3},"base":{"k":1,"l":2}}"#),
        ("a: |\n  x\n  y\nb: >-\n  p\n  q\n", r#"{"a":"x\ny\n","b":"p q"}"#),
        ("{\"a\": [1, \"x\\n\"]}", r#"{"a":[1,"x\n"]}"#),
    ] {
        assert_eq!(read(text), want, "{text}");
    }
}

#[test]
fn repeated_keys_keep_the_last_and_are_strict_errors() {
    let document = parse_document(b"a: 1\nb:\n  c: 1\n  c: 2\na: 2\n").unwrap();
    assert_eq!(json::to_string(&document.value), r#"{"a":2,"b":{"c":2}}"#);
    assert_eq!(
        document.strict.unwrap(),
        "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
    );
    let document = parse_document(b"a: 1\na: |\n  b\n").unwrap();
    assert_eq!(document.strict.unwrap(), "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map");
    assert!(parse_document(b"a: 1\n").unwrap().strict.is_none());
    assert!(parse_document(b"true: 1\n'true': 2\n").unwrap().strict.is_none());
}

#[test]
fn what_cannot_be_read_is_said() {
    let error = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
    assert!(error("a: [1\nb: 2").starts_with("yaml: line "));
    assert_eq!(error("a: *x"), "yaml: unknown anchor 'x' referenced");
    assert_eq!(error("a: &x [*x]"), "yaml: anchor 'x' value contains itself");
    assert_eq!(error("!!int x"), "yaml: cannot decode !!str `x` as a !!int");
    assert_eq!(error("<<: 1"), "yaml: map merge requires map or sequence of maps as the value");
    assert_eq!(error(".nan"), "json: unsupported value: NaN");
}

#[test]
fn faults_are_found_where_go_finds_them() {
    for (text, want) in [
        ("\ta: b\n", "yaml: found character that cannot start any token"),
        ("a:\n  \tb: c\n", "yaml: line 2: found character that cannot start any token"),
        ("a:\n  b: c\n\td: e\n", "yaml: line 3: found a tab character that violates indentation"),
        ("a: b\n\t\n", "yaml: line 2: found a tab character that violates indentation"),
        ("a: |\n\tb\n", "yaml: line 2: found a tab character where an indentation space is expected"),
        ("a:\n  b: \"c\"d\n", "yaml: line 1: did not find expected key"),
        ("{\"a\": \"b\" \"c\": d}", "yaml: did not find expected ',' or '}'"),
        ("- \"a\" b\n", "yaml: did not find expected '-' indicator"),
        ("a: b\nc: }\n", "yaml: line 1: did not find expected node content"),
        ("a: b\nc: {d: e}}\n", "yaml: line 1: did not find expected key"),
        ("}", "yaml: did not find expected node content"),
        ("a: [b\nc: d\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: 'b\nc: d\n", "yaml: line 3: found unexpected end of stream"),
        ("a: \"b\nc: d\n---\n", "yaml: line 3: found unexpected document indicator"),
        ("a: \"b\n...\n", "yaml: line 2: found unexpected document indicator"),
        ("a: \"\\x1\"\n", "yaml: did not find expected hexdecimal number"),
        ("a: b\nc d\n", "yaml: line 3: could not find expected ':'"),
        ("a: {b: c\nd: e\n", "yaml: line 1: did not find expected ',' or '}'"),
        ("- {a: b\n- c\n", "yaml: line 2: did not find expected ',' or '}'"),
        (": a\n", "yaml: did not find expected key"),
        ("%YAML 1.2\n---\na: b\n", "yaml: found incompatible YAML document"),
        ("%FOO\na: b\n", "yaml: found unknown directive name"),
        ("a: !e!x b\n", "yaml: found undefined tag handle"),
        ("[a]: b\nc: {\n", "yaml: line 2: did not find expected node content"),
        ("[a]: b\n", "yaml: invalid map key: []interface {}{\"a\"}"),
        ("null: [a, ~]\n", NULL_KEY),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), want, "{text}");
    }
}

const NULL_KEY: &str =
    "unsupported map key of type: %!s(<nil>), key: <nil>, value: []interface {}{\"a\", interface {}(nil)}";

#[test]
fn what_go_reads_is_read() {
    for (text, want) in [
        ("a:\tb\nc:\td\n", r#"{"a":"b","c":"d"}"#),
        ("a:\n  b: \"c\nd\\\"\n\n e\"\nf: g\n", r#"{"a":{"b":"c d\"\ne"},"f":"g"}"#),
        ("a:\n  b: 'c\nd''e'\n", r#"{"a":{"b":"c d'e"}}"#),
        (".nan: a\n-.inf: b\n", r#"{"-.inf":"b",".nan":"a"}"#),
        ("a: b # c\n\t\nd: e\n", r#"{"a":"b","d":"e"}"#),
    ] {
        assert_eq!(read(text), want, "{text}");
    }
}

#[test]
fn bombs_are_refused() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(",")));
    }
    assert_eq!(parse(text.as_bytes()).unwrap_err(), Error::Content("document contains excessive aliasing".to_owned()));
    let deep = "[".repeat(json::DEPTH_MAX + 1);
    assert!(parse(deep.as_bytes()).is_err());
}

#[test]
fn documents_are_laid_out_as_go_lays_them_out() {
    for (text, want) in [
        ("{}", "{}\n"),
        ("null", "null\n"),
        (r#"{"b":[1,{"c":"x","d":[]},[2,3]],"a":{}}"#, "a: {}\nb:\n- 1\n- c: x\n  d: []\n- - 2\n  - 3\n"),
        (r#"{"a":{"b":{"c":null}}}"#, "a:\n  b:\n    c: null\n"),
        (
            r#"{"a":"yes","b":"1","c":"","d":"x y","e":"2020-01-01T00:00:00Z","f":"null","g":"1:30"}"#,
            "a: \"yes\"\nb: \"1\"\nc: \"\"\nd: x y\ne: \"2020-01-01T00:00:00Z\"\nf: \"null\"\ng: \"1:30\"\n",
        ),
        (
            r#"{"a":"x: y","b":"- x","c":"it's","d":"a#b","e":"a #b","f":" x","g":"@x","h":"a\tb","i":"*"}"#,
            "a: 'x: y'\nb: '- x'\nc: it's\nd: a#b\ne: 'a #b'\nf: ' x'\ng: '@x'\nh: \"a\\tb\"\ni: '*'\n",
        ),
        (
            r#"{"a":"x\ny\n","b":"x\ny","c":"x\n\n","d":" x\ny","e":"x \ny"}"#,
            "a: |\n  x\n  y\nb: |-\n  x\n  y\nc: |+\n  x\n\nd: |2-\n   x\n  y\ne: \"x \\ny\"\n",
        ),
        (r#"{"a10":1,"a9":2,"B":3,"a-":4,"a":5}"#, "B: 3\na: 5\na-: 4\na9: 2\na10: 1\n"),
        (r#"{"a":1.5,"b":1234567.5,"c":1e21,"d":-0.00001}"#, "a: 1.5\nb: 1.2345675e+06\nc: 1e+21\nd: -1e-05\n"),
        (r#"{"a":"😀"}"#, "a: \"\\U0001F600\"\n"),
    ] {
        assert_eq!(written(text), want, "{text}");
    }
}

#[test]
fn long_lines_are_folded_behind_column_80() {
    let long = format!("{{\"a\":\"{}\"}}", ["word"; 20].join(" "));
    let want = format!("a: {}\n  {}\n", ["word"; 16].join(" "), ["word"; 4].join(" "));
    assert_eq!(written(&long), want);
}

#[test]
fn depth_is_refused_where_it_is_reached() {
    for open in ["- ", "? "] {
        let error = parse(format!("{}]", open.repeat(20_000)).as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "yaml: exceeded max depth of 10000", "{open}");
    }
    let second = format!("a:\n{}", "- ".repeat(20_000));
    assert_eq!(parse(second.as_bytes()).unwrap_err().to_string(), "yaml: line 2: exceeded max depth of 10000");
    for deep in ["[".repeat(20_000), "{a: ".repeat(20_000), "- ".repeat(5_000)] {
        assert_eq!(parse(deep.as_bytes()).unwrap_err().to_string(), "yaml: exceeded max depth", "{deep:.10}");
    }
    assert!(parse("- ".repeat(1_000).as_bytes()).is_ok());
}
