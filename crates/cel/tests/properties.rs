//! What holds for any text: an answer, no panic; what is printed reads back the same.

use proptest::prelude::*;
use rkube_cel::{Activation, Budget, Environment, Type, Value};

/// Words that make up texts which are nearly expressions.
const WORDS: &[&str] = &[
    "x",
    "i",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "?",
    "!",
    "-",
    "+",
    "*",
    "==",
    "<",
    "&&",
    "||",
    "in",
    "1",
    "2u",
    "0.5",
    "'a'",
    "b'\\x01'",
    "r'\\'",
    "true",
    "null",
    "has(x.a)",
    ".all(e, ",
    ".map(e, e",
    ".filter(k, ",
    "size(",
    "x.?a",
    "[?",
    ".sortBy(e, e)",
    ".optMap(o, o)",
    "cel.bind(v, 1, v)",
    "{'k': 1}",
    "[1, 2]",
    ".transformMap(k, v, v)",
    "\"",
    "\\",
    "\n",
    "é",
    " ",
];

fn environment() -> Environment<'static> {
    Environment::new().with_bind().variable("x", Type::Dyn).variable("i", Type::Int)
}

fn try_all(text: &str) {
    let environment = environment();
    let Ok(tree) = environment.parse(text) else { return };
    let printed = tree.to_string();
    // Parentheses that are printed count as levels, too.
    if let Ok(again) = environment.parse(&printed) {
        assert_eq!(again.to_string(), printed, "{text}");
    } else {
        assert!(printed.len() > 200, "{text} is printed as {printed}");
    }
    if let Ok(program) = environment.compile(text) {
        let activation = Activation::new().value("i", Value::Int(3)).value("x", Value::list(vec![Value::Int(1)]));
        let _ = program.evaluate(&activation, &mut Budget::new(10_000));
    }
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in ".{0,60}") {
        try_all(&text);
    }

    #[test]
    fn nearly_expressions_get_an_answer(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
        try_all(&words.concat());
    }
}

#[test]
fn printed_macros_read_back() {
    for text in [
        "x.all(e, e > 1)",
        "x.exists(k, v, k == v)",
        "x.exists_one(e, e)",
        "x.map(e, e + 1).filter(e, e > 2)",
        "x.map(e, e > 1, e * 2)",
        "x.transformList(k, v, k)",
        "x.transformMap(k, v, v > 1, v)",
        "x.transformMapEntry(k, v, {k: v})",
        "x.sortBy(e, -e)[0]",
        "optional.of(1).optMap(o, o + 1).orValue(2)",
        "cel.bind(v, 1 + 2, v * v)",
        "has(x.a.b) ? x.?a[?0] : -(1)",
        "Foo{a: 1, ?b: x}.a in [1, ?x]",
        "!(x && i == -1) || 'é\\n\\'' + \"\\\"\" == r'\\d'",
    ] {
        let environment = environment();
        let printed = environment.parse(text).expect("it is right").to_string();
        let again = environment.parse(&printed).unwrap_or_else(|issues| panic!("{printed}: {issues}"));
        assert_eq!(again.to_string(), printed, "{text}");
    }
}

#[test]
fn deep_texts_are_refused() {
    for (text, limit) in [
        ("(".repeat(300) + "1" + &")".repeat(300), "expression recursion limit exceeded: 250"),
        ("[".repeat(300) + &"]".repeat(300), "expression recursion limit exceeded: 250"),
        ("1".to_owned() + &" + 1".repeat(300), "max recursion depth exceeded"),
        ("x".to_owned() + &".a".repeat(300), "max recursion depth exceeded"),
        ("x(".repeat(200) + "1" + &".a.b)".repeat(200), "max recursion depth exceeded"),
        (" ".repeat(100_001), "expression code point size exceeds limit: size: 100001, limit 100000"),
    ] {
        let issues = environment().parse(&text).map(drop).expect_err("it is too deep").to_string();
        assert!(issues.contains(limit), "{issues}");
    }
}
