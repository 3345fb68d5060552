//! What the rule finds, and what it leaves alone.

use super::*;

const TABLE: &str = "# a comment
type\tio.k8s.api.core.v1.Pod
-typemeta
metadata\t@io.k8s.Meta\t1
spec\t@io.k8s.PodSpec\t2\tv1.PodSpec
type\tio.k8s.Meta
labels\t{}string\t1
type\tio.k8s.PodSpec
containers\t[]@io.k8s.Container\t1
nodeName\tstring\t2
type\tstring\t3
overhead\traw\t4
type\tio.k8s.Container
name\tstring\t1
stdin\tbool\t2
type\tio.k8s.api.apps.v1.Deployment
-inline\t@io.k8s.Shared
spec\t@io.k8s.DeploymentSpec\t2
type\tio.k8s.DeploymentSpec
replicas\tint32\t1
type\tio.k8s.Shared
shared\tstring\t1
";

/// Of a file in the folder of pods.
fn found(text: &str) -> Vec<String> {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let row = source("crates/kinds/src/core/pod/mod.rs", r#"type_name: "io.k8s.api.core.v1.Pod","#);
    let sources = Sources(vec![row]);
    findings(&source("crates/kinds/src/core/pod/x.rs", text), &sources, &Table::parse(TABLE))
}

#[test]
fn names_are_those_of_the_right_type() {
    let table = [
        (r#"value.get("spec")"#, 0),
        (r#"value.get("spce")"#, 1),
        (r#"value.get("spec").get("spce").str("x")"#, 2),
        // Only a deployment has that, and no deployment is in reach.
        (r#"value.int("replicas")"#, 1),
        ("// tidy: types Deployment\nvalue.int(\"replicas\"); value.str(\"shared\")", 0),
        ("// tidy: types Deploymnt", 1),
        // There is such a field, but not there.
        (r#"value.get("spec").str("stdin")"#, 1),
        (r#"value.get("spec").get("name")"#, 1),
        (r#"value.get("containers").get("name")"#, 1),
        (r#"labels.get("app") // tidy: key"#, 0),
        (r#"labels.get("example.com/app")"#, 0),
        (r#"value.get("labels").str("app")"#, 0),
        (r#"value.get("overhead").str("anything").int("at all")"#, 0),
        (r#"// value.get("spce")"#, 0),
        (r#"other("spce"); value.starts_with("spce")"#, 0),
        (r#"value.set("spce", 1)"#, 1),
        (r#"value.str("type"); value.str("kind")"#, 0),
        ("x\n#[cfg(test)]\nvalue.get(\"spce\")", 0),
    ];
    for (text, expected) in table {
        assert_eq!(found(text).len(), expected, "{text}: {:?}", found(text));
    }
}

#[test]
fn paths_are_walked() {
    let table = [
        (r#"pod.at(&["spec", "nodeName"])"#, 0),
        (r#"pod.at(&["spec", field])"#, 0),
        (r#"pod.at(&["spec", "stdin"])"#, 1),
        (r#"pod.get("metadata").get(field).str("any key")"#, 0),
        (r#"pod.get("metadata").get(field).get("any key").get("more")"#, 1),
        (r#"pod.at(&["metadata", "nodeName"]); pod.at(PATH)"#, 1),
        ("pod\n    .at(&[\"spec\"])\n    .list(\"containers\")", 0),
        (r#"pod.at(&["nodeName", "spec"])"#, 1),
    ];
    for (text, expected) in table {
        assert_eq!(found(text).len(), expected, "{text}: {:?}", found(text));
    }
}

#[test]
fn accessors_fit_what_they_read() {
    let table = [
        (r#"spec.list("containers"); spec.str("nodeName")"#, 0),
        (r#"spec.list("nodeName")"#, 1),
        (r#"spec.str("containers"); container.int("stdin"); pod.bool("spec")"#, 3),
    ];
    for (text, expected) in table {
        assert_eq!(found(text).len(), expected, "{text}: {:?}", found(text));
    }
}

#[test]
fn values_are_followed() {
    let table = [
        ("{ let spec = pod.get(\"spec\"); spec.str(\"name\"); }", 1),
        // The other way round: the name stands for something else again.
        ("{ let spec = pod.get(\"spec\"); let spec = other(); spec.str(\"name\"); }", 0),
        ("{ { let spec = pod.get(\"spec\"); } spec.str(\"name\"); }", 0),
        ("for one in spec.list(\"containers\") { one.str(\"nodeName\"); one.str(\"name\"); }", 1),
        ("for (index, one) in spec.list(\"containers\").iter().enumerate() { one.str(\"nodeName\"); }", 1),
        ("spec.list(\"containers\").iter().any(|one| one.str(\"nodeName\") == x)", 1),
        ("{ let one = f(); l.list(\"containers\").iter().any(|one| one.bool(\"stdin\")); one.get(\"spec\"); }", 0),
        ("{ let [one] = spec.list(\"containers\") else { return }; one.str(\"nodeName\"); }", 1),
        ("spec.list(\"containers\")[0].str(\"nodeName\")", 1),
        ("{ let spec = pod.get(\"spec\").clone(); spec.str(\"name\"); }", 1),
        ("impl Rules for X { fn f(&self, pod: &Value, old: Option<&Value>) { pod.str(\"name\"); } }", 1),
        ("fn f(pod: &Value) { pod.str(\"name\"); }", 1),
        ("fn f(spec: &Value, object: &Value) { spec.str(\"name\"); object.str(\"name\"); }", 1),
        ("fn f(pods: &[Value]) { pods.str(\"name\"); }", 0),
    ];
    for (text, expected) in table {
        assert_eq!(found(text).len(), expected, "{text}: {:?}", found(text));
    }
}

#[test]
fn folders_without_kinds_have_those_above() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let sources = Sources(vec![
        source("crates/kinds/src/core/pod/mod.rs", r#""io.k8s.api.core.v1.Pod""#),
        source("crates/kinds/src/apps/deployment/mod.rs", r#""io.k8s.api.apps.v1.Deployment""#),
    ]);
    let count = |path: &str| {
        let text = r#"value.int("replicas"); value.str("nodeName")"#;
        findings(&source(path, text), &sources, &Table::parse(TABLE)).len()
    };
    assert_eq!(count("crates/kinds/src/core/shared/x.rs"), 1);
    assert_eq!(count("crates/kinds/src/meta.rs"), 0);
    assert_eq!(count("crates/admission/src/x.rs"), 0);
}

#[test]
fn text_is_cut_into_tokens() {
    use super::tokens::{Token, Tokens};
    let text = "a.b(\"c\\\"d\", r#\"e\"#) // x\n'\\'' 'f' &'life g '{'";
    let tokens = Tokens::of(text);
    let found: Vec<_> = (0..tokens.len()).map(|index| tokens.at(index)).collect();
    let expected = [
        Token::Word("a"),
        Token::Mark('.'),
        Token::Word("b"),
        Token::Mark('('),
        Token::Text("c\\\"d"),
        Token::Mark(','),
        Token::Text("e"),
        Token::Mark(')'),
        Token::Mark('&'),
        Token::Word("life"),
        Token::Word("g"),
    ];
    assert_eq!(found, expected);
}
