//! Ownership and apply on small objects of real kinds.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::schema::TypeRef;

fn parse(json: &str) -> Value {
    text::parse(json).unwrap_or_else(|| panic!("not JSON: {json}"))
}

fn view(kind: &str) -> TableView {
    let package = if kind == "Deployment" { "apps" } else { "core" };
    TableView::of(TypeRef::find(&format!("io.k8s.api.{package}.v1.{kind}")).unwrap())
}

/// An object that several managers write to, one after the other.
struct Cluster {
    live: Value,
    kind: &'static str,
    second: u32,
}

impl Cluster {
    fn new(kind: &'static str) -> Self {
        Cluster { live: Value::Null, kind, second: 0 }
    }

    fn write<T>(&mut self, manager: &str, subresource: &str, act: impl FnOnce(&Value, &WriteContext<'_>) -> T) -> T {
        let time = format!("2026-01-01T00:00:{:02}Z", self.second);
        self.second += 1;
        let context = WriteContext { manager, api_version: "v1", kind: self.kind, subresource, time: &time };
        act(&self.live, &context)
    }

    fn update(&mut self, manager: &str, object: &str) {
        self.update_of(manager, "", object, Reset::Nothing);
    }

    fn update_of(&mut self, manager: &str, subresource: &str, object: &str, reset: Reset<'_>) {
        let mut new = self.complete(object);
        let schema = view(self.kind);
        self.write(manager, subresource, |live, context| track_update(live, &mut new, schema, context, reset, None));
        self.store(new);
    }

    fn apply(&mut self, manager: &str, config: &str, force: bool) -> Result<(), ApplyError> {
        let (config, schema) = (self.complete(config), view(self.kind));
        let applied = self
            .write(manager, "", |live, context| apply(live, &config, schema, context, force, Reset::Nothing, None))?;
        self.store(applied);
        Ok(())
    }

    fn complete(&self, object: &str) -> Value {
        let mut object = parse(object);
        object.set("apiVersion", "v1");
        object.set("kind", self.kind);
        object.object_mut("metadata").set("name", "x");
        object
    }

    fn store(&mut self, mut object: Value) {
        object.object_mut("metadata").set("uid", "1");
        self.live = object;
    }

    /// The entries, one per line: manager, operation, subresource, second, fields.
    fn owners(&self) -> String {
        let line = |entry: &Value| {
            let time = entry.str("time").get(17..19).unwrap_or("-").to_owned();
            let (manager, operation) = (entry.str("manager"), entry.str("operation"));
            let subresource = entry.str("subresource");
            format!("{manager} {operation}{subresource} {time} {}", json::to_string(entry.get("fieldsV1")))
        };
        self.live.get("metadata").list("managedFields").iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn at(&self, path: &[&str]) -> String {
        json::to_string(self.live.at(path))
    }
}

#[test]
fn creation_gives_everything_to_the_creator() {
    let cases = [
        (
            "ConfigMap",
            r#"{"metadata":{"labels":{"app":"a"},"resourceVersion":"1"},"data":{"k":"v"}}"#,
            r#"m Update 00 {"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"c","image":"i","resources":{},"ports":[{"containerPort":80},{"containerPort":443,"protocol":"UDP"}]}],"nodeSelector":{"a":"b"}},"status":{}}"#,
            r#"m Update 00 {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"k:{\"containerPort\":443,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}},"f:nodeSelector":{}}}"#,
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"finalizers":["b","a"],"ownerReferences":[{"uid":"u","name":"n"}]}}"#,
            r#"m Update 00 {"f:metadata":{"f:finalizers":{".":{},"v:\"a\"":{},"v:\"b\"":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}}}"#,
        ),
    ];
    for (kind, object, owners) in cases {
        let mut cluster = Cluster::new(kind);
        cluster.update("m", object);
        assert_eq!(cluster.owners(), owners);
    }
}

#[test]
fn an_update_takes_what_it_changes() {
    let mut cluster = Cluster::new("ConfigMap");
    cluster.update("a", r#"{"data":{"x":"1","y":"1"}}"#);
    cluster.update("b", r#"{"data":{"x":"2","y":"1"}}"#);
    assert_eq!(
        cluster.owners(),
        "a Update 00 {\"f:data\":{\".\":{},\"f:y\":{}}}\nb Update 01 {\"f:data\":{\"f:x\":{}}}"
    );
    // What nobody changed keeps its time, and an owner of nothing goes.
    cluster.update("c", r#"{"data":{"y":"1"}}"#);
    assert_eq!(cluster.owners(), r#"a Update 00 {"f:data":{".":{},"f:y":{}}}"#);
}

#[test]
fn managed_fields_that_a_client_sends() {
    let entry = r#"{"manager":"sent","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{}}}}"#;
    let kept = r#"a Update 00 {"f:data":{".":{},"f:x":{}}}"#;
    let cases = [
        ("[]", ""),
        ("[{}]", ""),
        (r#"[{"manager":"bad","operation":"Nope"}]"#, kept),
        (
            r#"[{"manager":"bad","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"nonsense":{}}}]"#,
            kept,
        ),
        (&format!("[{entry}]"), r#"sent Update - {"f:data":{"f:x":{}}}"#),
    ];
    for (sent, owners) in cases {
        let mut cluster = Cluster::new("ConfigMap");
        cluster.update("a", r#"{"data":{"x":"1"}}"#);
        cluster.update("b", &format!(r#"{{"metadata":{{"managedFields":{sent}}},"data":{{"x":"1"}}}}"#));
        assert_eq!(cluster.owners(), owners, "{sent}");
    }
}

#[test]
fn untracked_objects_stay_so_until_the_first_apply() {
    let mut cluster = Cluster::new("ConfigMap");
    cluster.store(parse(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"x":"1"}}"#));
    cluster.update("a", r#"{"data":{"x":"2"}}"#);
    assert_eq!(cluster.owners(), "");
    cluster.apply("b", r#"{"data":{"y":"1"}}"#, false).unwrap();
    assert_eq!(
        cluster.owners(),
        "b Apply 01 {\"f:data\":{\"f:y\":{}}}\nbefore-first-apply Update 01 {\"f:data\":{\".\":{},\"f:x\":{}}}"
    );
}

#[test]
fn subresources_have_entries_of_their_own() {
    let mut cluster = Cluster::new("Service");
    cluster.update_of(
        "a",
        "",
        r#"{"spec":{"type":"ClusterIP"},"status":{"loadBalancer":{}}}"#,
        Reset::Fields(&[&["status"]]),
    );
    let status = r#"{"spec":{"type":"NodePort"},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}"#;
    cluster.update_of("b", "status", status, Reset::Fields(&[&["spec"]]));
    assert_eq!(
        cluster.owners(),
        "a Update 00 {\"f:spec\":{\"f:type\":{}}}\nb Updatestatus 01 {\"f:status\":{\"f:loadBalancer\":{\"f:ingress\":{}}}}"
    );
}

#[test]
fn only_some_fields_of_a_resource_are_kept() {
    let mut set = FieldSet::from_fields_v1(&parse(
        r#"{"f:metadata":{"f:labels":{}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{},"f:resources":{"f:limits":{}}}}}}"#,
    ))
    .unwrap();
    Reset::AllBut(&[&["spec", "containers", "*", "resources"]]).filter(&mut set);
    let kept = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:resources":{"f:limits":{}}}}}}"#;
    assert_eq!(json::to_string(&set.to_fields_v1()), kept);
}

#[test]
fn old_updaters_are_put_together() {
    let mut cluster = Cluster::new("ConfigMap");
    let mut data = Vec::new();
    for number in 0..13 {
        data.push(format!(r#""k{number:02}":"1""#));
        cluster.update(&format!("m{number:02}"), &format!(r#"{{"data":{{{}}}}}"#, data.join(",")));
    }
    let owners = cluster.owners();
    assert_eq!(owners.lines().count(), 10);
    let first = r#"ancient-changes Update 03 {"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{},"f:k03":{}}}"#;
    assert_eq!(owners.lines().next(), Some(first));
}

#[test]
fn apply_merges_and_removes_what_is_no_longer_applied() {
    let mut cluster = Cluster::new("ConfigMap");
    cluster.apply("a", r#"{"data":{"x":"1","y":"1"},"metadata":{"finalizers":["f","g"]}}"#, false).unwrap();
    cluster.apply("b", r#"{"data":{"y":"1","z":"1"}}"#, false).unwrap();
    assert_eq!(cluster.at(&["data"]), r#"{"x":"1","y":"1","z":"1"}"#);
    cluster.apply("a", r#"{"metadata":{"finalizers":["g"]}}"#, false).unwrap();
    assert_eq!(cluster.at(&["data"]), r#"{"y":"1","z":"1"}"#);
    assert_eq!(cluster.at(&["metadata", "finalizers"]), r#"["g"]"#);
    assert_eq!(
        cluster.owners(),
        "b Apply 01 {\"f:data\":{\"f:y\":{},\"f:z\":{}}}\na Apply 02 {\"f:metadata\":{\"f:finalizers\":{\"v:\\\"g\\\"\":{}}}}"
    );
}

#[test]
fn apply_finds_items_by_key() {
    let mut cluster = Cluster::new("Pod");
    let pod = r#"{"spec":{"containers":[{"name":"a","image":"1","ports":[{"containerPort":80,"protocol":"TCP","name":"h"}]},{"name":"b","image":"1"}],"tolerations":[{"key":"x"}]}}"#;
    cluster.update("u", pod);
    let config = r#"{"spec":{"containers":[{"name":"b","args":["z"]},{"name":"a","ports":[{"containerPort":80,"hostPort":8}]}],"tolerations":[{"key":"y"}]}}"#;
    cluster.apply("s", config, true).unwrap();
    assert_eq!(
        cluster.at(&["spec"]),
        r#"{"containers":[{"name":"b","image":"1","args":["z"]},{"name":"a","image":"1","ports":[{"name":"h","hostPort":8,"containerPort":80,"protocol":"TCP"}]}],"tolerations":[{"key":"y"}]}"#
    );
}

#[test]
fn an_item_that_another_owns_by_its_key_alone_stays() {
    let mut cluster = Cluster::new("PersistentVolumeClaim");
    cluster.update("other", r#"{"status":{"phase":"Pending","conditions":[{"type":"X","status":"True"}]}}"#);
    let owned = r#"{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"X\"}":{".":{}}}}}"#;
    let entry = format!(
        r#"[{{"manager":"other","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{owned}}}]"#
    );
    cluster.live.object_mut("metadata").set("managedFields", parse(&entry));
    for _ in 0..3 {
        cluster.apply("a", r#"{"status":{}}"#, false).unwrap();
        assert_eq!(cluster.at(&["status", "phase"]), r#""Pending""#);
        assert!(cluster.at(&["status", "conditions"]).contains(r#""type":"X""#));
    }
}

#[test]
fn conflicts_are_worded_and_forced() {
    let mut cluster = Cluster::new("ConfigMap");
    cluster.update("kubectl", r#"{"data":{"key":"1","more":"1"}}"#);
    let conflict = cluster.apply("s", r#"{"data":{"key":"2"}}"#, false).unwrap_err();
    assert_eq!(conflict.to_string(), r#"Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.key"#);
    let ApplyError::Conflicts { causes, .. } = conflict else { panic!("a conflict") };
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    assert_eq!(causes[0].message, r#"conflict with "kubectl" using v1"#);
    assert_eq!(causes[0].field, ".data.key");

    cluster.apply("t", r#"{"data":{"third":"1"}}"#, false).unwrap();
    let conflict = cluster.apply("s", r#"{"data":{"key":"2","more":"2","third":"2"}}"#, false).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"kubectl\" using v1:\n- .data.key\n- .data.more\nconflicts with \"t\":\n- .data.third"
    );

    // Who agrees on the value shares it; who forces takes it.
    cluster.apply("s", r#"{"data":{"key":"1"}}"#, false).unwrap();
    assert!(cluster.owners().contains(r#"kubectl Update 00 {"f:data":{".":{},"f:key":{},"f:more":{}}}"#));
    cluster.apply("s", r#"{"data":{"key":"2"}}"#, true).unwrap();
    assert!(cluster.owners().contains(r#"kubectl Update 00 {"f:data":{".":{},"f:more":{}}}"#));
    assert_eq!(cluster.at(&["data", "key"]), r#""2""#);
}

#[test]
fn unusable_configurations_are_refused() {
    let cases = [
        ("ConfigMap", r#"{"nope":1}"#, ".nope: field not declared in schema"),
        ("ConfigMap", r#"{"data":{"x":1}}"#, ".data.x: expected string, got &value.valueUnstructured{Value:1}"),
        ("ConfigMap", r#"{"data":["a",{"b":null}]}"#, ".data: expected map, got &{[a map[b:<nil>]]}"),
        ("ConfigMap", r#"{"immutable":"yes"}"#, ".immutable: expected boolean, got &{yes}"),
        ("Pod", r#"{"spec":{"priority":"1"}}"#, ".spec.priority: expected numeric (int or float), got string"),
        ("Pod", r#"{"spec":{"containers":{}}}"#, ".spec.containers: expected list, got &{map[]}"),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}"#,
            r#".spec.containers: duplicate entries for key [name="a"]"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[null]}}"#,
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"name":"v","emptyDir":{"medium":1}}],"tolerations":[{"key":2}]}}"#,
            "errors:\n  .spec.tolerations[0].key: expected string, got &value.valueUnstructured{Value:2}\n  .spec.volumes[name=\"v\"].emptyDir.medium: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "ServiceAccount",
            r#"{"secrets":[{"kind":"x"}]}"#,
            r#".secrets: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#,
        ),
    ];
    for (kind, config, problem) in cases {
        let refused = Cluster::new(kind).apply("s", config, false);
        let Err(ApplyError::Unusable(text)) = refused else { panic!("{config}: {refused:?}") };
        assert_eq!(text, format!("failed to create typed patch object (/x; /v1, Kind={kind}): {problem}"));
    }
    let quantity = unreadable(&Cluster::new("Pod").complete("{}"), "no digits").to_string();
    assert!(quantity.starts_with("failed to convert new object (/x; /v1, Kind=Pod) to proper version: "), "{quantity}");
    let refused = Cluster::new("ConfigMap").apply("s", r#"{"metadata":{"managedFields":[]}}"#, false);
    assert_eq!(refused, Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned())));
}

#[test]
fn kubectl_moves_from_client_side_apply() {
    let annotation = r#""metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"data\":{\"x\":\"1\"}}"}}"#;
    let mut cluster = Cluster::new("ConfigMap");
    cluster.update("kubectl-client-side-apply", &format!(r#"{{{annotation},"data":{{"x":"1","y":"1"}}}}"#));
    assert!(cluster.apply("other", r#"{"data":{"x":"2"}}"#, false).is_err());
    let conflict = cluster.apply("kubectl", r#"{"data":{"x":"2","y":"2"}}"#, false).unwrap_err();
    assert!(conflict.to_string().ends_with("using v1: .data.y"), "{conflict}");
    cluster.apply("kubectl", r#"{"data":{"x":"<"}}"#, false).unwrap();
    let written = cluster.live.at(&["metadata", "annotations"]).str("kubectl.kubernetes.io/last-applied-configuration");
    assert_eq!(
        written,
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n"
    );
}

#[test]
fn other_versions_are_converted() {
    // In v1 the field is called `a`, in v2 `b`; v3 is gone.
    let convert = |object: &Value, version: &str| {
        let (from, to) = if version == "v2" { ("a", "b") } else { ("b", "a") };
        let mut object = object.clone();
        if object.str("apiVersion") != version
            && let Some(value) = object.remove(from)
        {
            object.set(to, value);
        }
        object.set("apiVersion", version);
        (version != "v3").then_some((object, TableView::Deduced))
    };
    let context = |manager, api_version, time| WriteContext { manager, api_version, kind: "K", subresource: "", time };
    let mut object = parse(r#"{"apiVersion":"v2","kind":"K","metadata":{},"b":"1"}"#);
    track_update(
        &Value::Null,
        &mut object,
        TableView::Deduced,
        &context("m", "v2", "1"),
        Reset::Nothing,
        Some(&convert),
    );
    let (mut live, _) = convert(&object, "v1").unwrap();
    let gone = parse(
        r#"{"manager":"g","operation":"Update","apiVersion":"v3","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}"#,
    );
    live.object_mut("metadata").array_mut("managedFields").push(gone);

    let config = parse(r#"{"apiVersion":"v1","kind":"K","a":"2"}"#);
    let applied = |live: &Value, config: &Value, force, time| {
        apply(live, config, TableView::Deduced, &context("s", "v1", time), force, Reset::Nothing, Some(&convert))
    };
    let conflict = applied(&live, &config, false, "2").unwrap_err();
    assert_eq!(conflict.to_string(), r#"Apply failed with 1 conflict: conflict with "m" using v2: .b"#);
    let forced = applied(&live, &config, true, "2").unwrap();
    assert_eq!(forced.get("metadata").list("managedFields").len(), 1);

    // Applied in v2 last time and left out in v1 now.
    let (other, _) = convert(&forced, "v2").unwrap();
    let second = parse(r#"{"apiVersion":"v2","kind":"K","b":"3"}"#);
    let context_v2 = context("s", "v2", "3");
    let other = apply(&other, &second, TableView::Deduced, &context_v2, false, Reset::Nothing, Some(&convert)).unwrap();
    let (other, _) = convert(&other, "v1").unwrap();
    let emptied = applied(&other, &parse(r#"{"apiVersion":"v1","kind":"K"}"#), false, "4").unwrap();
    assert!(!emptied.has("a") && !emptied.has("b"), "{emptied:?}");
}

#[test]
fn times_alone_are_no_change() {
    let mut cluster = Cluster::new("ConfigMap");
    cluster.update("a", r#"{"data":{"x":"1"}}"#);
    let mut new = cluster.live.clone();
    new.object_mut("metadata").array_mut("managedFields")[0].set("time", "2027-01-01T00:00:00Z");
    let mut changed = new.clone();
    keep_times(&cluster.live, &mut new);
    assert_eq!(new, cluster.live);
    changed.object_mut("data").set("x", "2");
    let before = changed.clone();
    keep_times(&cluster.live, &mut changed);
    assert_eq!(changed, before);
}

#[test]
fn sets_do_arithmetic() {
    let set = |json: &str| FieldSet::from_fields_v1(&parse(json)).unwrap();
    let text = |set: &FieldSet| json::to_string(&set.to_fields_v1());
    let left = set(r#"{"f:a":{".":{},"f:b":{}},"f:c":{}}"#);
    let right = set(r#"{"f:a":{},"f:c":{"f:d":{}}}"#);
    assert_eq!(text(&left.difference(&right)), r#"{"f:a":{"f:b":{}},"f:c":{}}"#);
    assert_eq!(text(&left.intersection(&right)), r#"{"f:a":{}}"#);
    assert_eq!(text(&left.clone().union(&right)), r#"{"f:a":{".":{},"f:b":{}},"f:c":{".":{},"f:d":{}}}"#);
    let mut rest = left.clone();
    assert!(rest.subtract_below(&right));
    assert_eq!(text(&rest), r#"{"f:c":{}}"#);
    // Numbers in order of size, places last, unknown steps dropped.
    let mixed = set(r#"{"i:1":{},"x:1":{},"v:10":{},"v:9":{},"k:{\"p\":10}":{},"k:{\"p\":9}":{},"f:z":{}}"#);
    assert_eq!(text(&mixed), r#"{"f:z":{},"k:{\"p\":9}":{},"k:{\"p\":10}":{},"v:9":{},"v:10":{},"i:1":{}}"#);
}

/// Work that grew with the owners times the change would take minutes.
#[test]
fn many_owners_of_a_large_object() {
    const COUNT: usize = 10_000;
    let data = |count: usize, value: &str| {
        let data: Vec<String> = (0..count).map(|number| format!(r#""k{number}":"{value}""#)).collect();
        data.join(",")
    };
    let entry = |number: usize| {
        format!(
            r#"{{"manager":"m{number}","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1",
                "fieldsV1":{{"f:data":{{"f:k{number}":{{}}}}}}}}"#
        )
    };
    let owners: Vec<String> = (0..COUNT).map(entry).collect();
    let mut cluster = Cluster::new("ConfigMap");
    cluster.update("a", &format!(r#"{{"data":{{{}}}}}"#, data(COUNT, "a")));
    let owners = parse(&format!("[{}]", owners.join(",")));
    cluster.live.object_mut("metadata").set("managedFields", owners);
    let count = |cluster: &Cluster| cluster.live.get("metadata").list("managedFields").len();
    let other = format!(r#"{{"data":{{{}}}}}"#, data(COUNT / 2, "b"));
    let ApplyError::Conflicts { causes, .. } = cluster.apply("b", &other, false).unwrap_err() else { panic!() };
    assert_eq!(causes.len(), COUNT / 2);
    cluster.apply("b", &other, true).unwrap();
    assert_eq!(count(&cluster), COUNT / 2 + 1);
    cluster.apply("b", r#"{"data":{}}"#, false).unwrap();
    assert_eq!(cluster.live.map("data").len(), COUNT / 2);
    assert_eq!(count(&cluster), COUNT / 2 + 1);
}

#[test]
fn sets_of_all_sizes_meet() {
    let set = |step: usize, count: usize| {
        let mut set = FieldSet::new();
        for number in (0..count).map(|number| number * step) {
            set.insert(&[PathElement::Field(crate::value::Text::new(format!("{number:05}")))]);
        }
        set
    };
    for (left, right) in (1..12).flat_map(|left| (1..12).map(move |right| (left, right))) {
        for (one, other) in [(3, 100), (40, 7), (0, 5), (33, 33)] {
            let (one, other) = (set(left, one), set(right, other));
            let (mut both, mut rest) = (FieldSet::new(), FieldSet::new());
            one.for_each(&mut |path| if other.contains(path) { both.insert(path) } else { rest.insert(path) });
            assert_eq!((one.intersection(&other), one.difference(&other)), (both, rest));
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3i64..3).prop_map(Value::Int),
        (-3i32..3).prop_map(|number| Value::Float(f64::from(number) / 2.0)),
        "[a-c<]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let name = proptest::sample::select(vec!["name", "spec", "containers", "ports", "metadata", "labels", "a"]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((name, inner), 0..4).prop_map(|entries| {
                Value::Object(crate::value::Map::sorted(
                    entries.into_iter().map(|(key, value)| (key.into(), value)).collect(),
                ))
            }),
        ]
    })
}

fn data() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(("[a-d]", "[12]"), 0..4)
}

fn config(data: &[(String, String)], prefix: &str) -> String {
    let data: std::collections::BTreeMap<_, _> = data.iter().cloned().collect();
    let data: Vec<_> = data.iter().map(|(key, value)| format!(r#""{prefix}{key}":"{value}""#)).collect();
    if data.is_empty() { "{}".to_owned() } else { format!(r#"{{"data":{{{}}}}}"#, data.join(",")) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_panics(live in any_value(), new in any_value(), manager in "[ab]", force: bool) {
        let context = WriteContext { manager: &manager, api_version: "v1", kind: "Pod", subresource: "", time: "t" };
        for schema in [view("Pod"), TableView::Deduced, TableView::Opaque] {
            let mut tracked = new.clone();
            track_update(&live, &mut tracked, schema, &context, Reset::Fields(&[&["status"]]), None);
            let mut config = new.clone();
            config.set("apiVersion", "v1");
            config.set("kind", "Pod");
            let _ = apply(&live, &config, schema, &context, force, Reset::Nothing, None);
            let _ = FieldSet::from_fields_v1(&new);
        }
    }

    #[test]
    fn field_sets_survive_the_round_trip(value in any_value()) {
        let set = fields::field_set(&value, TableView::Deduced);
        let written = set.to_fields_v1();
        prop_assert_eq!(FieldSet::from_fields_v1(&written).unwrap(), set);
    }

    #[test]
    fn applying_twice_is_applying_once(before in data(), config_data in data()) {
        let mut cluster = Cluster::new("ConfigMap");
        cluster.update("u", &config(&before, ""));
        cluster.apply("s", &config(&config_data, ""), true).unwrap();
        let once = cluster.live.clone();
        cluster.apply("s", &config(&config_data, ""), true).unwrap();
        prop_assert_eq!(json::to_string(&cluster.live), json::to_string(&once));
    }

    #[test]
    fn disjoint_appliers_keep_their_fields(steps in proptest::collection::vec((any::<bool>(), data()), 1..8)) {
        let mut cluster = Cluster::new("ConfigMap");
        let mut last = [Vec::new(), Vec::new()];
        for (who, data) in steps {
            let who = usize::from(who);
            cluster.apply(["s", "t"][who], &config(&data, ["x", "y"][who]), false).unwrap();
            last[who] = data;
        }
        let wanted = |who: usize| parse(&config(&last[who], ["x", "y"][who]));
        let mut all: Vec<_> = wanted(0).map("data").iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.extend(wanted(1).map("data").iter().map(|(k, v)| (k.clone(), v.clone())));
        prop_assert_eq!(cluster.live.map("data"), &crate::value::Map::sorted(all));
    }
}
