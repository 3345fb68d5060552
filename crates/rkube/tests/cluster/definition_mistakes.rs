//! Definitions with the mistakes that people make, and what Kubernetes 1.36 says of each.

use rkube_testkit::Finished;

use crate::start;

const RIGHT: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: websites.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: websites, kind: Website}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
";

const WEBHOOK: &str = "  conversion:\n    strategy: Webhook\n    webhook:\n";

/// A text of the right definition, what stands there instead, and what is said of it: a line, or several that follow
/// `is invalid: `.
const MISTAKES: &[(&str, &str, &[&str])] = &[
    (
        "  scope: Namespaced\n  names: {plural: websites, kind: Website}\n",
        "",
        &[
            r#"metadata.name: Invalid value: "websites.example.com": must be spec.names.plural+"."+spec.group"#,
            "spec.scope: Required value",
            "spec.names.plural: Required value",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
        ],
    ),
    (
        "    schema:\n      openAPIV3Schema:\n        type: object\n",
        "",
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    (
        "    storage: true\n",
        "",
        &[
            r#"spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version"#,
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    ),
    (
        "  versions:\n",
        "{webhook}      clientConfig: {url: \"https://127.0.0.1:8443/convert\"}\n  versions:\n",
        &["spec.conversion.conversionReviewVersions: Required value"],
    ),
    (
        "  versions:\n",
        "{webhook}      conversionReviewVersions: [v1]\n  versions:\n",
        &["spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"],
    ),
    (
        "  versions:\n",
        "{webhook}      conversionReviewVersions: [v1]\n      clientConfig: {url: \"http://127.0.0.1:8443/convert\"}\n  versions:\n",
        &[
            r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ],
    ),
    (
        "  versions:\n",
        "{webhook}      conversionReviewVersions: [v1beta9]\n      clientConfig: {url: \"https://127.0.0.1:8443/convert\"}\n  versions:\n",
        &[
            r#"spec.conversion.conversionReviewVersions: Invalid value: ["v1beta9"]: must include at least one of v1, v1beta1"#,
        ],
    ),
    (
        "  name: websites.example.com",
        "  name: website.example.com",
        &[r#"metadata.name: Invalid value: "website.example.com": must be spec.names.plural+"."+spec.group"#],
    ),
    (
        "Namespaced",
        "namespaced",
        &[r#"spec.scope: Unsupported value: "namespaced": supported values: "Cluster", "Namespaced""#],
    ),
    (
        "        type: object\n",
        "        properties: {spec: {properties: {a: {}}}}\n",
        &[
            "spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
            "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
            "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
        ],
    ),
    (
        "        type: object\n",
        "        type: object\n        properties: {a: {type: array}}\n",
        &["spec.validation.openAPIV3Schema.properties[a].items: Required value: must be specified"],
    ),
    (
        "        type: object\n",
        "        type: object\n        properties: {a: {type: string, default: 3}}\n",
        &[
            r#"spec.validation.openAPIV3Schema.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer""#,
        ],
    ),
    (
        "        type: object\n",
        "        type: object\n        x-kubernetes-validations: [{rule: \"self.spec.x > 1\"}]\n",
        &[
            r#"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.spec.x \u003e 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field 'spec'"#,
        ],
    ),
    (
        "        type: object\n",
        "        type: object\n        properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, properties: {name: {type: string}}}}}\n",
        &[
            "spec.validation.openAPIV3Schema.properties[a].items.properties[name].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    ),
    (
        "    schema:\n",
        "    additionalPrinterColumns: [{name: Age, type: time, jsonPath: metadata.age}]\n    schema:\n",
        &[
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "time": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "metadata.age": must be a simple json path starting with ."#,
        ],
    ),
    (
        "  scope: Namespaced\n",
        "  scope: Namespaced\n  preserveUnknownFields: true\n",
        &[
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ],
    ),
];

#[test]
fn usual_mistakes_get_their_words() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let create = |text: &str| Finished::run(&mut kubectl.command(&["create", "--dry-run=server", "-f", "-"]), text);
    create(RIGHT).expect_success();
    for (place, instead, expected) in MISTAKES {
        let text = RIGHT.replacen(place, &instead.replace("{webhook}", WEBHOOK), 1);
        assert_ne!(text, RIGHT, "{place:?} is not there");
        let said = create(&text).expect_failure().stderr;
        let found: Vec<&str> = said.lines().filter(|line| line.contains(": ")).map(told).collect();
        let found: Vec<&str> = found.into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(found, *expected, "{instead:?}: {said}");
    }
}

#[test]
fn other_mistakes_are_told_too() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let create = |text: &str| Finished::run(&mut kubectl.command(&["create", "--dry-run=server", "-f", "-"]), text);
    for (place, instead, words) in [
        (
            "example.com",
            "example.k8s.io",
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
        (
            "  versions:",
            "  validation: {openAPIV3Schema: {type: object}}\n  versions:",
            "strict decoding error: unknown field \"spec.validation\"",
        ),
        (
            "apiextensions.k8s.io/v1",
            "apiextensions.k8s.io/v1beta1",
            "no matches for kind \"CustomResourceDefinition\" in version \"apiextensions.k8s.io/v1beta1\"",
        ),
    ] {
        let said = create(&RIGHT.replace(place, instead)).expect_failure().stderr;
        assert!(said.contains(words), "{words:?} in {said}");
    }
}

/// What a line says of a field: kubectl puts a sentence in front of one, and a star in front of each of several.
fn told(line: &str) -> &str {
    let line = line.split_once("is invalid: ").map_or(line, |(_, rest)| rest);
    line.strip_prefix("* ").unwrap_or(line)
}
