use proptest::prelude::*;

use super::*;
use crate::object;
use crate::patch::generators::{any_object, any_value};
use crate::schema::TypeRef;

fn kind(name: &str) -> &'static Type {
    TypeRef::find(name).unwrap().get()
}

fn pod() -> &'static Type {
    kind("io.k8s.api.core.v1.Pod")
}

fn named(name: &str) -> Value {
    object! { "name": name }
}

fn container(name: &str, image: &str) -> Value {
    object! { "name": name, "image": image }
}

fn directive(name: &str, directive: &str) -> Value {
    object! { "name": name, "$patch": directive }
}

fn texts(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

/// A pod with the containers `a`, `b`, `c` and the finalizers `x`, `y`.
fn document() -> Value {
    object! {
        "metadata": object! { "name": "p", "labels": object! { "l": "1", "m": "2" }, "finalizers": texts(&["x", "y"]) },
        "spec": object! {
            "containers": vec![container("a", "1"), container("b", "2"), container("c", "3")],
            "tolerations": vec![object! { "key": "k" }],
            "volumes": vec![object! { "name": "v", "emptyDir": Value::object() }],
        },
    }
}

fn patched(patch: Value) -> Result<Value, PatchError> {
    apply(&patch, &document(), pod())
}

fn names(spec_patch: Value) -> Vec<String> {
    let result = patched(object! { "spec": spec_patch }).unwrap();
    result.get("spec").list("containers").iter().map(|item| item.str("name").to_owned()).collect()
}

#[test]
fn lists_with_a_key_are_merged_and_ordered() {
    for (containers, order) in [
        (vec![container("b", "9")], "a b c"),
        (vec![container("d", "9")], "d a b c"),
        (vec![container("c", "9"), container("a", "9")], "b c a"),
        (vec![directive("b", "delete")], "a c"),
        (vec![directive("b", "delete"), container("b", "9")], "b a c"),
        (vec![object! { "$patch": "replace" }, container("d", "9"), container("a", "9")], "d a"),
        (vec![object! { "$patch": "replace" }], ""),
    ] {
        let text = format!("{containers:?}");
        assert_eq!(names(object! { "containers": containers }).join(" "), order, "{text}");
    }
    let merged =
        patched(object! { "spec": object! { "containers": vec![object! { "name": "b", "tty": true }] } }).unwrap();
    let expected = object! { "name": "b", "image": "2", "tty": true };
    assert_eq!(merged.get("spec").list("containers")[1], expected);
}

#[test]
fn set_element_order_sorts() {
    let order = |names: &[&str]| names.iter().map(|name| named(name)).collect::<Vec<_>>();
    for (containers, wanted, result) in [
        (None, order(&["c", "b", "a"]), "c b a"),
        (None, order(&["c", "a"]), "b c a"),
        (Some(vec![container("d", "9")]), order(&["b", "d", "a"]), "b d a c"),
        (Some(vec![directive("a", "delete")]), order(&["c", "b"]), "c b"),
        // The new one takes the room that the deleted one leaves behind the server's own.
        (Some(vec![container("d", "9"), directive("a", "delete")]), order(&["d"]), "b c d"),
    ] {
        let mut spec = object! { "$setElementOrder/containers": wanted };
        if let Some(containers) = containers {
            spec.set("containers", containers);
        }
        let text = format!("{spec:?}");
        assert_eq!(names(spec).join(" "), result, "{text}");
    }
}

#[test]
fn scalar_lists_are_merged_and_deleted_from() {
    for (metadata, result) in [
        (object! { "finalizers": texts(&["z"]) }, &["z", "x", "y"][..]),
        (object! { "finalizers": texts(&["y", "x"]) }, &["y", "x"]),
        (object! { "$deleteFromPrimitiveList/finalizers": texts(&["x", "q"]) }, &["y"]),
        (object! { "$setElementOrder/finalizers": texts(&["y", "x"]) }, &["y", "x"]),
        (
            object! {
                "finalizers": texts(&["z"]),
                "$deleteFromPrimitiveList/finalizers": texts(&["x"]),
                "$setElementOrder/finalizers": texts(&["y", "z"]),
            },
            &["y", "z"],
        ),
    ] {
        let text = format!("{metadata:?}");
        let patched = patched(object! { "metadata": metadata }).unwrap();
        assert_eq!(*patched.at(&["metadata", "finalizers"]), texts(result), "{text}");
    }
}

#[test]
fn maps_are_merged_replaced_and_retained() {
    let mut retaining = object! { "name": "v", "hostPath": object! { "path": "/" } };
    retaining.set("$retainKeys", texts(&["name", "hostPath"]));
    for (patch, path, result) in [
        (
            object! { "metadata": object! { "labels": object! { "l": Value::Null, "n": "3" } } },
            &["metadata", "labels"][..],
            object! { "m": "2", "n": "3" },
        ),
        (
            object! { "metadata": object! { "labels": object! { "$patch": "replace", "n": "3" } } },
            &["metadata", "labels"],
            object! { "n": "3" },
        ),
        (
            object! { "metadata": object! { "labels": object! { "$patch": "delete" } } },
            &["metadata", "labels"],
            object! {},
        ),
        (
            object! { "metadata": object! { "annotations": object! { "a": Value::Null, "b": "1" } } },
            &["metadata", "annotations"],
            object! { "b": "1" },
        ),
        (
            object! { "spec": object! { "tolerations": vec![object! { "key": "other" }] } },
            &["spec", "tolerations"],
            vec![object! { "key": "other" }].into(),
        ),
        (
            object! { "spec": object! { "volumes": vec![retaining] } },
            &["spec", "volumes"],
            vec![object! { "name": "v", "hostPath": object! { "path": "/" } }].into(),
        ),
        (object! { "$patch": "delete" }, &[], object! {}),
    ] {
        let text = format!("{patch:?}");
        assert_eq!(*patched(patch).unwrap().at(path), result, "{text}");
    }
}

#[test]
fn errors_read_as_upstream_words_them() {
    use PatchError::{BadRequest, Crash, Unexplained, Unprocessable};
    let spec = |spec: Value| object! { "spec": spec };
    let metadata = |metadata: Value| object! { "metadata": metadata };
    let containers = |items: Vec<Value>| spec(object! { "containers": items });
    for (patch, error) in [
        (
            containers(vec![object! { "image": "x", "args": texts(&["b", "c"]) }]),
            Unexplained("map: map[args:[b c] image:x] does not contain declared merge key: name".into()),
        ),
        (
            containers(vec![directive("a", "merge")]),
            Unexplained("merging lists cannot yet be specified in the patch".into()),
        ),
        (
            containers(vec![directive("a", "bogus")]),
            Unexplained("unknown patch type: bogus in map: map[$patch:bogus name:a]".into()),
        ),
        (
            metadata(object! { "$patch": 5 }),
            Unexplained("unknown patch type: %!s(int64=5) in map: map[$patch:5]".into()),
        ),
        (
            containers(vec!["x".into()]),
            Unexplained(
                "list element types are not identical: [[map[image:1 name:a] map[image:2 name:b] map[image:3 name:c]] \
                 [x]]"
                    .into(),
            ),
        ),
        (metadata(object! { "$retainKeys": 1 }), BadRequest("invalid patch format of retainKeys".into())),
        (
            metadata(object! { "$retainKeys": texts(&["name"]), "labels": Value::object() }),
            BadRequest("invalid patch format of retainKeys".into()),
        ),
        (
            metadata(object! { "$deleteFromPrimitiveList": texts(&["x"]) }),
            BadRequest("invalid patch format of primitive list".into()),
        ),
        (
            metadata(object! { "$setElementOrder": texts(&["x"]) }),
            BadRequest("invalid patch format of setElementOrder list".into()),
        ),
        (
            metadata(object! { "$setElementOrder/finalizers": "x" }),
            Unexplained("expected a []interface {}, but received a string".into()),
        ),
        (
            metadata(object! { "$setElementOrder/nope": texts(&["x"]) }),
            Unexplained("unable to find api field in struct ObjectMeta for the json field \"nope\"".into()),
        ),
        (
            metadata(object! { "$setElementOrder/finalizers": texts(&["x"]), "finalizers": texts(&["y"]) }),
            Unexplained("The order in patch list:\n[y]\n doesn't match $setElementOrder list:\n[x]\n".into()),
        ),
        (
            object! { "$setElementOrder/spec": vec![] },
            Unexplained("expected a []interface {}, but received a map[string]interface {}".into()),
        ),
        (spec(object! { "$setElementOrder/tolerations": vec![object! { "key": "k" }] }), Crash),
        (
            Value::Array(vec![]),
            BadRequest("json: cannot unmarshal array into Go value of type map[string]interface {}".into()),
        ),
    ] {
        let text = format!("{patch:?}");
        assert_eq!(patched(patch), Err(error), "{text}");
    }
    let nested = object! { "metadata": object! { "finalizers": vec![texts(&["x"])] } };
    let lists = Err(Unprocessable("lists of lists are not supported".into()));
    assert_eq!(apply(&nested, &nested, pod()), lists);
}

#[test]
fn what_has_no_schema_cannot_be_merged_below() {
    let revision = kind("io.k8s.api.apps.v1.ControllerRevision");
    let data = |value: &str| object! { "data": object! { "spec": object! { "a": value } } };
    assert_eq!(
        apply(&data("2"), &data("1"), revision).unwrap_err().to_string(),
        "unable to find api field in struct RawExtension for the json field \"spec\""
    );
    let request = kind("io.k8s.api.certificates.v1.CertificateSigningRequest");
    let extra = object! { "spec": object! { "extra": object! { "e": texts(&["1"]) } } };
    assert_eq!(
        apply(&extra, &extra, request).unwrap_err().to_string(),
        "merging an object in json but data type is not struct, instead is: map"
    );
}

proptest! {
    #[test]
    fn an_empty_patch_changes_nothing(document in any_object()) {
        prop_assert_eq!(apply(&Value::object(), &document, pod()), Ok(document));
    }

    #[test]
    fn any_patch_is_applied_or_refused(patch in any_value(), document in any_object()) {
        let _ = apply(&patch, &document, pod());
    }

    #[test]
    fn a_deleted_item_comes_back_when_added(name in "[a-c]", image in "[4-9]") {
        let patch = |item: Value| object! { "spec": object! { "containers": vec![item] } };
        let without = apply(&patch(directive(&name, "delete")), &document(), pod()).unwrap();
        let left = without.get("spec").list("containers").len();
        let with = apply(&patch(container(&name, &image)), &without, pod()).unwrap();
        prop_assert_eq!(left, 2);
        prop_assert_eq!(&with.get("spec").list("containers")[0], &container(&name, &image));
    }

    #[test]
    fn twice_is_once_without_directives(
        labels in prop::collection::btree_map("[l-o]", "[1-3]", 0..4),
        images in prop::collection::btree_map("[a-e]", "[1-9]", 0..4),
        finalizers in prop::collection::vec("[x-z]", 0..4),
    ) {
        let labels: Map = labels.iter().map(|(key, value)| (Text::new(key), value.as_str())).collect();
        let containers: Vec<Value> = images.iter().map(|(name, image)| container(name, image)).collect();
        let finalizers: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
        let patch = object! {
            "metadata": object! { "labels": labels, "finalizers": finalizers },
            "spec": object! { "containers": containers },
        };
        let once = patched(patch.clone()).unwrap();
        prop_assert_eq!(apply(&patch, &once, pod()), Ok(once));
    }
}
