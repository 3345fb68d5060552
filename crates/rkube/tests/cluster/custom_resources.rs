//! Custom resources as people use them with kubectl. The definition is `tests/clients/custom-resources/websites.yaml`;
//! what is expected is what Kubernetes prints.

use rkube_testkit::tools::client_files;
use rkube_testkit::{Finished, Rkube, Tool, eventually};

use crate::start;

/// A site with every field that has something special about it.
const BLOG: &str = "\
apiVersion: example.com/v1
kind: Website
metadata: {name: blog, labels: {tier: web}}
spec:
  domain: blog.example.com
  note: null
  port: http
  extra: {anything: [1, {b: c}]}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: t}, data: {a: b}}
  routes: [{path: /, to: home}]
  tags: [a, b]
";

/// Defines the resource, and says where the definition is.
pub fn define(kubectl: &Tool) -> String {
    let path = client_files().join("custom-resources/websites.yaml").display().to_string();
    kubectl.run(&["apply", "--server-side", "-f", &path]);
    wait_established(kubectl, "websites.example.com");
    path
}

/// `kubectl wait` gives up on a definition that has no conditions yet.
pub fn wait_established(kubectl: &Tool, definition: &str) {
    eventually("the definition is established", || {
        let wait = ["wait", "--for=condition=Established", &format!("crd/{definition}"), "--timeout=30s"];
        let waited = kubectl.attempt(&wait);
        if waited.status.success() { Ok(()) } else { Err(waited.stderr) }
    });
}

fn start_with_blog() -> Option<(Rkube, Tool)> {
    let rkube = start();
    let kubectl = rkube.kubectl()?;
    define(&kubectl);
    kubectl.run_with_input(&["create", "-f", "-"], BLOG).says("website.example.com/blog created");
    Some((rkube, kubectl))
}

#[track_caller]
fn refused(finished: Finished, words: &str) {
    let finished = finished.expect_failure();
    assert!(finished.stderr.contains(words), "{}", finished.stderr);
}

fn lines(finished: &Finished) -> Vec<String> {
    finished.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn they_are_found_by_every_name_and_shown_in_columns() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    for name in ["websites", "website", "ws", "websites.example.com", "websites.v1.example.com", "all", "sites"] {
        let found = kubectl.run(&["get", name, "--ignore-not-found"]);
        assert!(found.stdout.contains("blog"), "{name}: {}", found.stdout);
    }
    let narrow = lines(&kubectl.run(&["get", "ws"]));
    assert_eq!(narrow[0], "NAME DOMAIN REPLICAS READY AGE");
    assert!(narrow[1].starts_with("blog blog.example.com 1 "), "{}", narrow[1]);
    let wide = lines(&kubectl.run(&["get", "ws", "-o", "wide"]));
    assert_eq!(wide[0], "NAME DOMAIN REPLICAS READY IMAGE AGE");
    assert!(wide[1].contains(" nginx "), "{}", wide[1]);
    kubectl.run(&["describe", "website", "blog"]).says("Domain:").says("blog.example.com");
    let spec = kubectl.run(&["get", "website", "blog", "-o", "jsonpath={.spec}"]).stdout;
    let expected = concat!(
        r#"{"domain":"blog.example.com","extra":{"anything":[1,{"b":"c"}]},"image":"nginx","limit":10,"note":null,"#,
        r#""port":"http","replicas":1,"routes":[{"path":"/","to":"home","weight":100}],"tags":["a","b"],"template":"#,
        r#"{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"t"}}}"#
    );
    assert_eq!(spec, expected);
}

#[test]
fn they_are_explained_and_discovered() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    kubectl.run(&["explain", "ws"]).says("GROUP:      example.com").says("A site that is served from a container.");
    kubectl.run(&["explain", "website.spec.domain"]).says("FIELD: domain <string>").says("Where the site is found.");
    kubectl.run(&["explain", "website.metadata.finalizers"]).says("FIELD: finalizers <[]string>");
    let listed = kubectl.run(&["api-resources", "--api-group=example.com", "--no-headers"]);
    assert_eq!(lines(&listed), ["websites ws example.com/v1 true Website"]);
    let names = kubectl.run(&["get", "--raw", "/apis/example.com/v1"]).stdout;
    let (main, status, scale) =
        (r#""name":"websites","#, r#""name":"websites/status","#, r#""name":"websites/scale","#);
    let place = |name: &str| names.find(name).unwrap_or_else(|| panic!("{name} in {names}"));
    assert!(place(main) < place(status) && place(status) < place(scale), "{names}");
}

#[test]
fn fields_and_labels_select() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    let get = |selector: &str| kubectl.attempt(&["get", "websites", "-o", "name", selector]);
    for (selector, found) in [
        ("--field-selector=spec.image=nginx", true),
        ("--field-selector=spec.image!=nginx", false),
        ("--field-selector=metadata.name=blog,spec.image=nginx", true),
        ("--selector=tier=web", true),
        ("--selector=tier=other", false),
    ] {
        let expected = if found { "website.example.com/blog\n" } else { "" };
        assert_eq!(get(selector).expect_success().stdout, expected, "{selector}");
    }
    refused(get("--field-selector=spec.domain=x"), "field label not supported: spec.domain");
}

#[test]
fn patches_change_what_the_schema_lets() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    let patch = |kind: &str, text: &str| kubectl.attempt(&["patch", "website", "blog", "--type", kind, "-p", text]);
    let strategic = patch("strategic", r#"{"spec":{"replicas":3}}"#).expect_failure();
    assert_eq!(
        strategic.stderr.trim(),
        "error: application/strategic-merge-patch+json is not supported by example.com/v1, Kind=Website: the body of the \
         request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/apply-patch+yaml"
    );
    patch("merge", r#"{"spec":{"replicas":3,"image":null}}"#).expect_success().says("patched");
    let image = kubectl.run(&["get", "website", "blog", "-o", "jsonpath={.spec.replicas} {.spec.image}"]).stdout;
    assert_eq!(image, "3 nginx", "what is taken away is defaulted again");
    patch("merge", r#"{"spec":{"colour":"red"}}"#).expect_success().says("patched (no change)");
    patch("json", r#"[{"op":"add","path":"/spec/routes/-","value":{"path":"/b"}}]"#).expect_success();
    for (kind, text, words) in [
        ("merge", r#"{"spec":{"replicas":30}}"#, "spec: Invalid value: more replicas than the limit"),
        (
            "json",
            r#"[{"op":"replace","path":"/spec/domain","value":"other.example.com"}]"#,
            "spec.domain: Forbidden: the domain stays blog.example.com",
        ),
        ("json", r#"[{"op":"add","path":"/spec/tags/-","value":"a"}]"#, "spec.tags[2]: Duplicate value: \"a\""),
        (
            "json",
            r#"[{"op":"add","path":"/spec/routes/-","value":{"path":"/"}}]"#,
            "spec.routes[2]: Duplicate value: {\"path\":\"/\"}",
        ),
        (
            "merge",
            r#"{"spec":{"port":true}}"#,
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ),
        ("merge", r#"{"spec":{"template":{"kind":null}}}"#, "spec.template.kind: Required value"),
        ("json", r#"[{"op":"test","path":"/spec/replicas","value":4}]"#, "The request is invalid"),
    ] {
        refused(patch(kind, text), words);
    }
}

#[test]
fn status_and_scale_are_apart() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    let get = |path: &str| kubectl.run(&["get", "website", "blog", "-o", &format!("jsonpath={path}")]).stdout;
    kubectl.run(&["patch", "website", "blog", "--type=merge", "-p", r#"{"status":{"replicas":77}}"#]);
    assert_eq!(get("{.status}"), "");
    let status = r#"{"spec":{"replicas":9},
        "status":{"replicas":5,"selector":"app=blog","conditions":[{"type":"Ready","status":"True"}]}}"#;
    kubectl.run(&["patch", "website", "blog", "--subresource=status", "--type=merge", "-p", status]);
    assert_eq!(get("{.spec.replicas} {.status.replicas} {.metadata.generation}"), "1 5 1");
    kubectl.run(&["wait", "--for=condition=Ready", "website/blog", "--timeout=20s"]);
    kubectl.run(&["wait", "--for=jsonpath={.status.replicas}=5", "website/blog", "--timeout=20s"]);
    assert!(lines(&kubectl.run(&["get", "ws"]))[1].contains(" True "));

    kubectl.run(&["scale", "website", "blog", "--replicas=5"]).says("website.example.com/blog scaled");
    assert_eq!(get("{.spec.replicas} {.metadata.generation}"), "5 2");
    refused(kubectl.attempt(&["scale", "website", "blog", "--replicas=50"]), "more replicas than the limit");
    refused(
        kubectl.attempt(&["scale", "website", "blog", "--replicas=6", "--current-replicas=1"]),
        "Expected replicas to be 1, was 5",
    );
    let scale = kubectl.run(&["get", "website", "blog", "--subresource=scale", "-o", "jsonpath={.spec}{.status}"]);
    assert_eq!(scale.stdout, r#"{"replicas":5}{"replicas":5,"selector":"app=blog"}"#);
}

#[test]
fn appliers_share_lists_by_their_keys() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    define(&kubectl);
    let apply = |manager: &str, spec: &str, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        let arguments = [&["apply", "--server-side", manager.as_str(), "-f", "-"], more].concat();
        let text = format!("apiVersion: example.com/v1\nkind: Website\nmetadata: {{name: shop}}\nspec: {spec}\n");
        Finished::run(&mut kubectl.command(&arguments), &text)
    };
    let one = "{domain: shop, routes: [{path: /a, to: one}, {path: /b, to: two}], tags: [x]}";
    let two = "{domain: shop, routes: [{path: /b, weight: 7}, {path: /c, to: three}], tags: [z]}";
    apply("one", one, &[]).expect_success().says("website.example.com/shop serverside-applied");
    apply("two", two, &[]).expect_success();
    let get = |path: &str| kubectl.run(&["get", "website", "shop", "-o", &format!("jsonpath={{{path}}}")]).stdout;
    assert_eq!(
        get(".spec.routes"),
        r#"[{"path":"/a","to":"one","weight":100},{"path":"/b","to":"two","weight":7},{"path":"/c","to":"three","weight":100}]"#
    );
    assert_eq!(get(".spec.tags"), r#"["x","z"]"#);
    refused(
        apply("two", &two.replace("weight: 7", "to: nine, weight: 7"), &[]),
        "conflict with \"one\": .spec.routes[path=\"/b\"].to",
    );
    apply("one", "{domain: shop, routes: [{path: /a, to: one}]}", &[]).expect_success();
    assert_eq!(
        get(".spec.routes"),
        r#"[{"path":"/a","to":"one","weight":100},{"path":"/b","weight":7},{"path":"/c","to":"three","weight":100}]"#,
        "what one no longer applies and nobody else does is gone"
    );
    assert_eq!(get(".spec.tags"), r#"["z"]"#);
    refused(apply("one", "{domain: shop, colour: red}", &[]), ".spec.colour: field not declared in schema");
}

#[test]
fn clients_apply_and_compare() {
    let Some((_rkube, kubectl)) = start_with_blog() else { return };
    // kubectl never takes a null for applied, nor a list with defaults in it.
    let blog = BLOG.replace("  note: null\n", "").replace("routes: [{path: /, to: home}]", "image: home");
    kubectl.run_with_input(&["apply", "-f", "-"], &blog).says("website.example.com/blog configured");
    kubectl.run_with_input(&["apply", "-f", "-"], &blog).says("website.example.com/blog unchanged");
    assert_eq!(kubectl.run_with_input(&["diff", "-f", "-"], &blog).stdout, "");
    let fewer = blog.replace("  tags: [a, b]\n", "").replace("home", "start");
    kubectl.run_with_input(&["apply", "-f", "-"], &fewer).says("website.example.com/blog configured");
    let spec = kubectl.run(&["get", "website", "blog", "-o", "jsonpath={.spec.tags}{.spec.image}"]).stdout;
    assert_eq!(spec, "start");
}

#[test]
fn what_the_schema_does_not_know_is_refused_told_or_dropped() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    define(&kubectl);
    let text = BLOG.replace("  note: null", "  colour: red");
    let create = |more: &str| Finished::run(&mut kubectl.command(&["create", "-f", "-", more]), &text);
    refused(create("--validate=strict"), "strict decoding error: unknown field \"spec.colour\"");
    let warned = create("--validate=warn").expect_success();
    assert!(warned.stderr.contains("Warning: unknown field \"spec.colour\""), "{}", warned.stderr);
    kubectl.run(&["delete", "website", "blog"]);
    create("--validate=false").expect_success();
    assert_eq!(kubectl.run(&["get", "website", "blog", "-o", "jsonpath={.spec.colour}"]).stdout, "");
    let broken = BLOG.replace("blog.example.com", "UPPER").replace("port: http", "port: 1.5");
    let both = Finished::run(&mut kubectl.command(&["create", "-f", "-"]), &broken);
    let both = both.expect_failure().stderr;
    for words in [
        "spec.domain: Invalid value: \"UPPER\": spec.domain in body should match '^[a-z0-9.-]+$'",
        "spec.port: Invalid value: \"number\": spec.port in body must be of type integer,string: \"number\"",
        "some validation rules were not checked because the object was invalid",
    ] {
        assert!(both.contains(words), "{words:?} in {both}");
    }
}

#[test]
fn a_namespace_takes_them_along() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    define(&kubectl);
    kubectl.run(&["create", "namespace", "short"]);
    kubectl.run_with_input(&["create", "-n", "short", "-f", "-"], BLOG);
    kubectl.run(&[
        "patch",
        "-n",
        "short",
        "ws",
        "blog",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["a.b/c"]}}"#,
    ]);
    kubectl.run(&["delete", "namespace", "short", "--wait=false"]);
    eventually("the website terminates", || {
        let time = kubectl.run(&["get", "-n", "short", "ws", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"]);
        if time.stdout.is_empty() { Err("it has no deletion timestamp".to_owned()) } else { Ok(()) }
    });
    let create =
        Finished::run(&mut kubectl.command(&["create", "-n", "short", "-f", "-"]), &BLOG.replace("blog", "b2"));
    refused(create, "because it is being terminated");
    kubectl.run(&["patch", "-n", "short", "ws", "blog", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.run(&["wait", "--for=delete", "namespace/short", "--timeout=30s"]);
    assert_eq!(kubectl.run(&["get", "ws", "-A"]).stdout, "");
}
