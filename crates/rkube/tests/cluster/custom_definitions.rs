//! Definitions of custom resources that change, clash and go while their objects live.

use rkube_testkit::{Finished, Tool, eventually};

use crate::custom_resources::{define, wait_established};
use crate::start;

/// A definition of a resource in `example.com`. `more` stands in its names, `versions` are whole.
fn definition(plural: &str, kind: &str, more: &str, versions: &[String]) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.example.com}}\n\
         spec:\n  group: example.com\n  scope: Namespaced\n  names: {{plural: {plural}, kind: {kind}{more}}}\n  \
         versions:\n{}",
        versions.concat()
    )
}

fn version(name: &str, flags: &str, properties: &str) -> String {
    format!(
        "  - name: {name}\n    {flags}\n    schema:\n      openAPIV3Schema:\n        type: object\n        \
         properties: {properties}\n"
    )
}

const STORED: &str = "{served: true, storage: true}";

fn flags(text: &str) -> String {
    text.trim_matches(['{', '}']).split(", ").collect::<Vec<_>>().join("\n    ")
}

fn stored(properties: &str) -> String {
    version("v1", &flags(STORED), properties)
}

fn apply(kubectl: &Tool, text: &str) {
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], text);
}

fn condition(kubectl: &Tool, name: &str, kind: &str) -> String {
    let path =
        format!("jsonpath={{range .status.conditions[?(@.type=='{kind}')]}}{{.status}} {{.reason}} {{.message}}");
    kubectl.run(&["get", "crd", name, "-o", &(path + "{end}")]).stdout
}

fn eventually_is(what: &str, expected: &str, found: impl Fn() -> String) {
    eventually(what, || {
        let found = found();
        if found == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
    });
}

fn widget(spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {spec}\n")
}

#[test]
fn a_schema_changes_under_its_objects() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let schema = |fields: &str| stored(&format!("{{spec: {{type: object, properties: {{{fields}}}}}}}"));
    let put = |fields: &str| apply(&kubectl, &definition("widgets", "Widget", "", &[schema(fields)]));
    put("a: {type: string}, b: {type: string}");
    wait_established(&kubectl, "widgets.example.com");
    kubectl.run_with_input(&["create", "-f", "-"], &widget("{a: x, b: q}"));
    let spec = || kubectl.run(&["get", "widget", "w", "-o", "jsonpath={.spec}"]).stdout;
    assert_eq!(spec(), r#"{"a":"x","b":"q"}"#);

    let watch = kubectl.start(&["get", "--raw", "/apis/example.com/v1/widgets?watch=true&allowWatchBookmarks=true"]);
    let first = watch.next_line(rkube_testkit::TIMEOUT).expect("an event");
    assert!(first.starts_with(r#"{"type":"ADDED""#), "{first}");

    put("a: {type: string}, b: {type: string}, c: {type: integer, default: 7}");
    eventually_is("an old object has the new default", r#"{"a":"x","b":"q","c":7}"#, spec);
    let mut left = watch.next_line(rkube_testkit::TIMEOUT);
    while left.is_some() {
        left = watch.next_line(rkube_testkit::TIMEOUT);
    }
    put("a: {type: string}, c: {type: integer, default: 7}");
    eventually_is("a field that is not in the schema any more is pruned", r#"{"a":"x","c":7}"#, spec);
    put("a: {type: string}, b: {type: string}, c: {type: integer}");
    eventually_is("it was not lost as long as nobody wrote", r#"{"a":"x","b":"q"}"#, spec);
    kubectl.run(&["explain", "widget.spec.c"]).says("FIELD: c <integer>");

    // A stricter schema does not count for what stays as it is.
    put("a: {type: string, maxLength: 1}, b: {type: string, enum: [z]}");
    eventually_is("the new rule is in force", "1", || {
        let patch = ["patch", "widget", "w", "--type=merge", "-p", r#"{"spec":{"a":"long"}}"#];
        kubectl.attempt(&patch).status.code().unwrap_or_default().to_string()
    });
    kubectl.run(&["patch", "widget", "w", "--type=merge", "-p", r#"{"spec":{"a":"k"}}"#]);
    assert_eq!(spec(), r#"{"a":"k","b":"q"}"#);
}

#[test]
fn who_comes_first_has_the_names() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    apply(&kubectl, &definition("firsts", "Thing", ", shortNames: [th]", &[stored("{}")]));
    wait_established(&kubectl, "firsts.example.com");
    apply(&kubectl, &definition("seconds", "Thing", ", shortNames: [th, se], singular: first", &[stored("{}")]));
    let names = || condition(&kubectl, "seconds.example.com", "NamesAccepted");
    eventually_is("names clash", r#"False ListKindConflict "ThingList" is already in use"#, names);
    assert_eq!(
        condition(&kubectl, "seconds.example.com", "Established"),
        "False NotAccepted not all names are accepted"
    );
    kubectl.attempt(&["get", "seconds"]).expect_failure();
    kubectl.run(&["get", "firsts"]);

    kubectl.run(&["delete", "crd", "firsts.example.com", "--timeout=30s"]);
    wait_established(&kubectl, "seconds.example.com");
    assert_eq!(names(), "True NoConflicts no conflicts found");
    kubectl.run(&["get", "seconds"]);
    kubectl.run(&["get", "th"]);
}

#[test]
fn a_definition_goes_after_its_objects() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let text = definition("widgets", "Widget", "", &[stored("{spec: {type: object}}")]);
    apply(&kubectl, &text);
    wait_established(&kubectl, "widgets.example.com");
    kubectl.run_with_input(&["create", "-f", "-"], &widget("{}"));
    kubectl.run_with_input(&["create", "-f", "-"], &widget("{}").replace("name: w", "name: free"));
    let finalizers = |value: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{value}}}}}"#);
        kubectl.run(&["patch", "widget", "w", "--type=merge", "-p", &patch]);
    };
    finalizers(r#"["example.com/hold"]"#);
    kubectl.run(&["delete", "crd", "widgets.example.com", "--wait=false"]);
    eventually_is("only the held one is left", "widget.example.com/w\n", || {
        kubectl.run(&["get", "widgets", "-o", "name"]).stdout
    });
    eventually("it says that it goes", || {
        let found = condition(&kubectl, "widgets.example.com", "Terminating");
        if found.starts_with("True InstanceDeletion") { Ok(()) } else { Err(found) }
    });
    let late = widget("{}").replace("name: w", "name: late");
    let late = Finished::run(&mut kubectl.command(&["create", "-f", "-"]), &late).expect_failure();
    let words = "create not allowed while custom resource definition is terminating";
    assert!(late.stderr.contains(words), "{}", late.stderr);
    finalizers("null");
    kubectl.run(&["wait", "--for=delete", "crd/widgets.example.com", "--timeout=30s"]);
    let gone = kubectl.attempt(&["get", "--raw", "/apis/example.com/v1/widgets"]).expect_failure();
    assert!(gone.stderr.contains("could not find the requested resource"), "{}", gone.stderr);

    apply(&kubectl, &text);
    wait_established(&kubectl, "widgets.example.com");
    assert_eq!(kubectl.run(&["get", "widgets", "-o", "name"]).stdout, "", "nothing of the old one comes back");
}

#[test]
fn versions_are_served_warned_of_and_withdrawn() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let schema = "{spec: {type: object, properties: {a: {type: string}}}}";
    let versions = |first: &str| {
        let v1 = version("v1", &flags("{served: true, storage: true}"), schema);
        definition("widgets", "Widget", "", &[version("v1alpha1", &flags(first), schema), v1])
    };
    apply(&kubectl, &versions("{served: true, storage: false, deprecated: true}"));
    wait_established(&kubectl, "widgets.example.com");
    let old = widget("{a: x}").replace("example.com/v1", "example.com/v1alpha1");
    let created = kubectl.run_with_input(&["create", "-f", "-"], &old);
    let warning = "Warning: example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget";
    assert!(created.stderr.contains(warning), "{}", created.stderr);
    let owners = ["get", "widget", "w", "-o", "jsonpath={.metadata.managedFields[*]['apiVersion','fieldsV1']}"];
    assert_eq!(kubectl.run(&owners).stdout, r#"example.com/v1alpha1 {"f:spec":{".":{},"f:a":{}}}"#);
    for name in ["v1", "v1alpha1"] {
        let shown = kubectl.run(&["get", &format!("widgets.{name}.example.com"), "w", "-o", "yaml"]);
        shown.says(&format!("apiVersion: example.com/{name}\n")).says("  a: x\n");
    }
    let own = r#"{served: true, storage: false, deprecated: true, deprecationWarning: "use the new one"}"#;
    apply(&kubectl, &versions(own));
    eventually("it warns in its own words", || {
        let got = kubectl.run(&["get", "widgets.v1alpha1.example.com"]);
        if got.stderr.contains("Warning: use the new one\n") { Ok(()) } else { Err(got.stderr) }
    });
    apply(&kubectl, &versions("{served: false, storage: false}"));
    eventually("it is not served any more", || {
        let got = kubectl.attempt(&["get", "--raw", "/apis/example.com/v1alpha1/widgets"]);
        if got.status.success() { Err(got.stdout) } else { Ok(()) }
    });
    kubectl.run(&["get", "widgets.v1.example.com", "w"]).says("w");
}

/// What the numbers, forms and paths of custom resources look like on the wire.
#[test]
fn the_wire_is_that_of_kubernetes() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    define(&kubectl);
    let schema = "{spec: {type: object, properties: {size: {type: number, format: double}, o: {type: object}}}, \
                   status: {type: object, default: {phase: New}, properties: {phase: {type: string}}}}";
    let text = definition("widgets", "Widget", "", &[version("v1", &flags(STORED), schema)])
        .replace("    schema:", "    subresources: {status: {}}\n    schema:");
    apply(&kubectl, &text);
    wait_established(&kubectl, "widgets.example.com");
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let create = |spec: &str| {
        let body =
            format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{spec}}}"#);
        Finished::run(&mut kubectl.command(&["create", "--raw", path, "-f", "-"]), &body)
    };
    for (spec, words) in [
        (r#"{"size":1e400}"#, "json: cannot unmarshal number 1e400 into Go value of type float64"),
        (r#"{"o":1.5}"#, r#"spec.o in body must be of type object: \"number\""#),
        ("1.5", r#"spec in body must be of type object: \"number\""#),
    ] {
        let refused = create(spec).expect_failure().stderr;
        assert!(refused.contains(&words.replace('\\', "")), "{spec}: {refused}");
    }
    let created = create(r#"{"size":2.50}"#).expect_success().says(r#""spec":{"size":2.5},"status":{"phase":"New"}"#);
    let order = [
        "creationTimestamp",
        "generation",
        "managedFields",
        "apiVersion\":\"example",
        "fieldsType",
        "manager\"",
        "name\"",
        "uid",
    ];
    let metadata = created.stdout.split_once("\"metadata\"").map_or("", |(_, rest)| rest);
    let places: Vec<_> = order.iter().map(|key| metadata.find(&format!("\"{key}"))).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?} {metadata}");
    let get = |path: &str| kubectl.attempt(&["get", "--raw", path]);
    get(path)
        .expect_success()
        .says(r#"{"apiVersion":"example.com/v1","items":["#)
        .says(r#""metadata":{"continue":"","#);
    for missing in ["/apis/example.com/v1/nothing", "/apis/example.com/v2", "/apis/example.com/v1/widgets/w"] {
        let plain = get(missing).expect_failure().stderr;
        assert!(plain.contains("the server could not find the requested resource"), "{missing}: {plain}");
    }
    let scale = get(&format!("{path}/w/scale")).expect_failure().stderr;
    assert!(scale.contains(r#"widgets.example.com "w" not found"#), "{scale}");

    let replicas = r#"{"apiVersion":"example.com/v1","kind":"Website","metadata":{"name":"x"},"spec":{"domain":"a","replicas":"3"}}"#;
    let sites = "/apis/example.com/v1/namespaces/default/websites";
    let refused =
        Finished::run(&mut kubectl.command(&["create", "--raw", sites, "-f", "-"]), replicas).expect_failure();
    let words =
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 3 is of the type string, expected int64";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}
