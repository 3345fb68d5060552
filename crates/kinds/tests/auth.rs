//! Roles, webhooks, policies, certificates, API services and reviews: what is wrong with them, in words.

use rkube_kinds::kind::{Part, Requester};
use rkube_kinds::{Kind, all, find};
use rkube_machinery::{Value, decode, json, object};

fn kind(group: &str, version: &str, resource: &str) -> &'static Kind {
    find(group, version, resource).expect("the kind is there")
}

fn read(kind: &Kind, text: &str) -> Value {
    let raw = json::parse(text.as_bytes()).expect("the text is JSON");
    let schema = kind.schema.table().expect("the type is in the table");
    let mut value = decode::decode(raw, schema).expect("the text fits the type").value;
    kind.rules.default(&mut value);
    value
}

fn create(kind: &Kind, text: &str) -> Vec<String> {
    let mut object = read(kind, text);
    kind.rules.prepare_create(&mut object);
    kind.validate_create(&object).0.iter().map(ToString::to_string).collect()
}

fn update(kind: &Kind, part: Part, old: &str, new: &str) -> Vec<String> {
    let (old, mut object) = (read(kind, old), read(kind, new));
    kind.rules.prepare_update(part, &mut object, &old);
    kind.validate_update(part, &object, &old).0.iter().map(ToString::to_string).collect()
}

fn check(kind: &Kind, meta: &str, table: &[(&str, &[&str])]) {
    for (body, wanted) in table {
        let comma = if body.is_empty() { "" } else { "," };
        assert_eq!(create(kind, &format!("{{{meta}{comma}{body}}}")), *wanted, "{body}");
    }
}

const LOCAL: &str = r#""metadata":{"name":"x","namespace":"default","resourceVersion":"1"}"#;
const GLOBAL: &str = r#""metadata":{"name":"x","resourceVersion":"1"}"#;
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

#[test]
fn roles_say_verbs_and_resources() {
    let table: &[(&str, &[&str])] = &[
        (r#""rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#, &[]),
        (
            r#""rules":[{}]"#,
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            r#""rules":[{"verbs":["get"],"nonResourceURLs":["/x"],"resources":["a"]}]"#,
            &[
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and \
                 non-resource URLs",
            ],
        ),
    ];
    check(kind(RBAC, "v1", "roles"), LOCAL, table);
    let table: &[(&str, &[&str])] = &[(
        r#""aggregationRule":{}"#,
        &["aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
           aggregationRule is non-nil"],
    )];
    check(kind(RBAC, "v1", "clusterroles"), GLOBAL, table);
}

#[test]
fn bindings_keep_their_role() {
    let bindings = kind(RBAC, "v1", "rolebindings");
    let body = |name: &str| format!(r#"{{{LOCAL},"roleRef":{{"kind":"Role","name":"{name}"}}}}"#);
    assert_eq!(
        update(bindings, Part::Main, &body("a"), &body("b")),
        [
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot \
          change roleRef"
        ]
    );
    let table: &[(&str, &[&str])] = &[(
        r#""roleRef":{"kind":"Role","name":"a"},"subjects":[{"kind":"ServiceAccount","name":"s","apiGroup":"x"}]"#,
        &[
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"\"",
            "subjects[0].namespace: Required value",
        ],
    )];
    check(kind(RBAC, "v1", "clusterrolebindings"), GLOBAL, table);
}

#[test]
fn webhooks_are_reachable_and_their_rules_do_not_overlap() {
    let hook = |rest: &str| {
        format!(r#""webhooks":[{{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],{rest}}}]"#)
    };
    let service = r#""clientConfig":{"service":{"name":"s","namespace":"d"}}"#;
    let url = |url: &str| hook(&format!(r#""clientConfig":{{"url":"{url}"}}"#));
    let rules = |rule: &str| hook(&format!(r#"{service},"rules":[{{"operations":["CREATE"],{rule}}}]"#));
    let table: &[(String, &[&str])] = &[
        (hook(service), &[]),
        (url("https://a.b/c"), &[]),
        (
            url("http://u@"),
            &[
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired \
                 format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified; desired format: \
                 https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
            ],
        ),
        (
            hook(r#""clientConfig":{"service":{"name":"s","port":-1,"path":"/A"}}"#),
            &[
                "webhooks[0].clientConfig.service.name: Required value",
                "webhooks[0].clientConfig.service.port: Invalid value: -1: port is not valid: must be between 1 and \
                 65535, inclusive",
                "webhooks[0].clientConfig.service.path: Invalid value: \"/A\": segment[0]: a lowercase RFC 1123 subdomain \
                 must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            rules(r#""apiGroups":["*","a"],"apiVersions":[""],"resources":["pods/*","pods/log","*","x"]"#),
            &[
                "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other \
                 API groups",
                "webhooks[0].rules[0].apiVersions[0]: Required value",
                "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify \
                 pods/log",
                "webhooks[0].rules[0].resources: Invalid value: [\"pods/*\",\"pods/log\",\"*\",\"x\"]: if '*' is present, \
                 must not specify other resources without subresources",
            ],
        ),
    ];
    let webhooks = kind(ADMISSION, "v1", "validatingwebhookconfigurations");
    for (body, wanted) in table {
        assert_eq!(create(webhooks, &format!("{{{GLOBAL},{body}}}")), *wanted, "{body}");
    }
}

#[test]
fn old_faults_of_webhooks_may_stay() {
    let webhooks = kind(ADMISSION, "v1", "mutatingwebhookconfigurations");
    let body = |effects: &str| {
        format!(
            r#"{{{GLOBAL},"webhooks":[{{"name":"a.b.c","sideEffects":"{effects}","admissionReviewVersions":["v1"],
               "clientConfig":{{"url":"https://a"}}}}]}}"#
        )
    };
    assert_eq!(update(webhooks, Part::Main, &body("Some"), &body("Unknown")), Vec::<String>::new());
    assert_eq!(
        update(webhooks, Part::Main, &body("None"), &body("Some")),
        ["webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\""]
    );
}

#[test]
fn policies_have_expressions_that_compile() {
    let constraints = r#""matchConstraints":{"resourceRules":[{"operations":["*"],"apiGroups":["*"],
        "apiVersions":["*"],"resources":["*"]}]}"#;
    let table: &[(String, &[&str])] = &[
        (format!(r#""spec":{{{constraints},"validations":[{{"expression":"object.a == 1"}}]}}"#), &[]),
        (
            format!(r#""spec":{{{constraints}}}"#),
            &[
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        ),
        (
            format!(
                r#""spec":{{{constraints},"variables":[{{"name":"a","expression":"1"}},{{"name":"in","expression":"2"}}],
                   "validations":[{{"expression":"variables.a == 1"}},{{"expression":"variables.b == 1"}},
                   {{"expression":"true","message":" ","messageExpression":"1","reason":"X"}}],
                   "auditAnnotations":[{{"key":"k","valueExpression":"1"}}]}}"#
            ),
            &[
                "spec.variables[1].name: Invalid value: \"in\": must be a valid CEL identifier",
                "spec.validations[1].expression: Invalid value: \"variables.b == 1\": compilation failed: ERROR: \
                 <input>:1:10: undefined field 'b'\n | variables.b == 1\n | .........^",
                "spec.validations[2].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
                "spec.validations[2].message: Invalid value: \" \": must be non-empty if specified",
                "spec.validations[2].reason: Unsupported value: \"X\": supported values: \"Forbidden\", \"Invalid\", \
                 \"RequestEntityTooLarge\"",
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string \
                 null_type] but got int",
            ],
        ),
    ];
    let policies = kind(ADMISSION, "v1", "validatingadmissionpolicies");
    for (body, wanted) in table {
        assert_eq!(create(policies, &format!("{{{GLOBAL},{body}}}")), *wanted, "{body}");
    }
    let body = format!(
        r#"{{{GLOBAL},"spec":{{{},"mutations":[{{"patchType":"JSONPatch","applyConfiguration":{{}}}}]}}}}"#,
        constraints.replace("\"operations\":[\"*\"]", "\"operations\":[\"DELETE\"]")
    );
    assert_eq!(
        create(kind(ADMISSION, "v1", "mutatingadmissionpolicies"), &body),
        [
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \
             \"CONNECT\", \"CREATE\", \"UPDATE\"",
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when \
             patchType is JSONPatch",
            "spec.reinvocationPolicy: Required value",
        ]
    );
}

#[test]
fn bindings_of_policies_name_their_parameters() {
    let table: &[(&str, &[&str])] = &[(
        r#""spec":{"policyName":"p","paramRef":{"name":"n","selector":{}},"validationActions":["Deny","Warn","Deny"]}"#,
        &[
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions[2]: Duplicate value: \"Deny\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\"]: must not contain both Deny and Warn \
             (repeating the same validation failure information in the API response and headers serves no purpose)",
        ],
    )];
    check(kind(ADMISSION, "v1", "validatingadmissionpolicybindings"), GLOBAL, table);
    // An older version says what the others must be told.
    let old = kind(ADMISSION, "v1alpha1", "mutatingadmissionpolicybindings");
    let body = format!(r#"{{{GLOBAL},"spec":{{"policyName":"p","paramRef":{{"name":"n"}}}}}}"#);
    assert_eq!(create(old, &body), Vec::<String>::new());
}

#[test]
fn api_services_are_named_by_version_and_group() {
    let services = kind("apiregistration.k8s.io", "v1", "apiservices");
    let table: &[(&str, &[&str])] = &[(
        r#""spec":{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1001,"caBundle":"AAAA"}"#,
        &[
            "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.g\"",
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle",
        ],
    )];
    check(services, GLOBAL, table);
    let mut local = read(services, r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}"#);
    services.rules.prepare_create(&mut local);
    assert_eq!(local.get("status").list("conditions")[0].str("lastTransitionTime"), "2026-01-01T00:00:00Z");
    let available = services.columns.iter().nth(2).unwrap();
    assert_eq!(available.cell(&local, 0), Value::from("True"));
}

#[test]
fn certificates_are_asked_for_by_the_one_who_asks() {
    let requests = kind("certificates.k8s.io", "v1", "certificatesigningrequests");
    let mut csr = read(requests, r#"{"spec":{"username":"mallory","groups":["a"]}}"#);
    requests.rules.prepare_create(&mut csr);
    let user = || object! { "username": "alice", "groups": vec!["b".into()] };
    requests.rules.stamp(&mut csr, None, &Requester { user: &user, now: 0, gave_no_labels: true });
    assert_eq!(csr.get("spec").str("username"), "alice");
    assert_eq!(json::to_string(csr.at(&["spec", "groups"])), r#"["b"]"#);
    let table: &[(&str, &[&str])] = &[(
        r#""spec":{"signerName":"kubernetes.io/legacy-unknown","usages":["x","x"],"expirationSeconds":5}"#,
        &[
            "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST",
            "spec.usages[0]: Unsupported value: \"x\": supported values: \"any\", \"cert sign\", \"client auth\", \"code \
             signing\", \"content commitment\", \"crl sign\", \"data encipherment\", \"decipher only\", \"digital \
             signature\", \"email protection\", \"encipher only\", \"ipsec end system\", \"ipsec tunnel\", \"ipsec user\", \
             \"key agreement\", \"key encipherment\", \"microsoft sgc\", \"netscape sgc\", \"ocsp signing\", \"s/mime\", \
             \"server auth\", \"signing\", \"timestamping\"",
            "spec.usages[1]: Unsupported value: \"x\": supported values: \"any\", \"cert sign\", \"client auth\", \"code \
             signing\", \"content commitment\", \"crl sign\", \"data encipherment\", \"decipher only\", \"digital \
             signature\", \"email protection\", \"encipher only\", \"ipsec end system\", \"ipsec tunnel\", \"ipsec user\", \
             \"key agreement\", \"key encipherment\", \"microsoft sgc\", \"netscape sgc\", \"ocsp signing\", \"s/mime\", \
             \"server auth\", \"signing\", \"timestamping\"",
            "spec.usages[1]: Duplicate value: \"x\"",
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via \
             this API version",
            "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
        ],
    )];
    check(requests, GLOBAL, table);
}

#[test]
fn approvals_are_written_in_their_own_place() {
    let requests = kind("certificates.k8s.io", "v1", "certificatesigningrequests");
    let of = |kind: &str| {
        format!(r#"{{{GLOBAL},"status":{{"conditions":[{{"type":"{kind}","status":"True","reason":"r"}}]}}}}"#)
    };
    let status_only =
        |texts: Vec<String>| -> Vec<String> { texts.into_iter().filter(|text| text.starts_with("status")).collect() };
    let none = format!("{{{GLOBAL}}}");
    assert_eq!(
        status_only(update(requests, Part::Status, &none, &of("Approved"))),
        ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
    );
    let approval = Part::Other("approval");
    assert_eq!(status_only(update(requests, approval, &none, &of("Approved"))), Vec::<String>::new());
    assert_eq!(
        status_only(update(requests, approval, &of("Denied"), &none)),
        ["status.conditions: Forbidden: updates may not remove a condition of type \"Denied\""]
    );
    let old = read(requests, &none);
    let mut new = read(requests, &of("Approved"));
    let user = Value::object;
    requests.rules.stamp(&mut new, Some((approval, &old)), &Requester { user: &user, now: 60, gave_no_labels: true });
    assert_eq!(new.get("status").list("conditions")[0].str("lastTransitionTime"), "1970-01-01T00:01:00Z");
}

#[test]
fn pods_ask_with_a_key_of_their_own() {
    let requests = kind("certificates.k8s.io", "v1beta1", "podcertificaterequests");
    let spec = r#""spec":{"signerName":"a.b/c","podName":"p","podUID":"1","serviceAccountName":"s",
        "serviceAccountUID":"2","nodeName":"n","nodeUID":"3","maxExpirationSeconds":3600"#;
    let table: &[(String, &[&str])] = &[
        (
            format!("{spec}}}"),
            &[
                "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
            ],
        ),
        (
            format!(r#"{spec},"stubPKCS10Request":"AAAA"}}"#),
            &["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"],
        ),
        (
            format!(r#"{spec},"pkixPublicKey":"AAAA","proofOfPossession":"AAAA"}}"#).replace("3600", "60"),
            &[
                "spec.maxExpirationSeconds: Invalid value: 60: must be in the range [3600, 7862400]",
                "spec.pkixPublicKey: Invalid value: \"AAAA\": must be a valid PKIX-serialized public key",
            ],
        ),
    ];
    for (body, wanted) in table {
        assert_eq!(create(requests, &format!("{{{LOCAL},{body}}}")), *wanted, "{body}");
    }
    let of = |status: &str| format!("{{{LOCAL},\"status\":{status}}}");
    let end = |kind: &str| {
        format!(
            r#""conditions":[{{"type":"{kind}","status":"True","reason":"r","lastTransitionTime":"2026-01-01T00:00:00Z"}}]"#
        )
    };
    let denied = of(&format!("{{{}}}", end("Denied")));
    assert_eq!(update(requests, Part::Status, &of("{}"), &denied), Vec::<String>::new());
    assert_eq!(
        update(requests, Part::Status, &denied, &of("{}")),
        ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"]
    );
    assert_eq!(
        update(requests, Part::Status, &of("{}"), &of(&format!("{{{},\"certificateChain\":\"x\"}}", end("Issued")))),
        [
            "status.certificateChain: Invalid value: \"x\": issued certificate chain must contain at least one certificate"
        ]
    );
}

#[test]
fn reviews_ask_one_thing() {
    let table: &[(&str, &[&str])] = &[
        (
            r#""spec":{}"#,
            &[
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes \
                 must be specified",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
                "metadata: Invalid value: {\"name\":\"x\",\"resourceVersion\":\"1\"}: must be empty",
            ],
        ),
        (
            r#""spec":{"user":"u","resourceAttributes":{"fieldSelector":{},"labelSelector":{"rawSelector":"a",
               "requirements":[{"key":"!","operator":"In"}]}},"nonResourceAttributes":{"path":"/p"}}"#,
            &[
                "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/p\",\"Verb\":\"\"}: cannot be specified in \
                 combination with resourceAttributes",
                "spec.resourceAttributes.fieldSelector.requirements: Required value: when \
                 spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
                "spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a\": may not specified at the same \
                 time as requirements",
                "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'",
                "spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: \"!\": name part must consist \
                 of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "metadata: Invalid value: {\"name\":\"x\",\"resourceVersion\":\"1\"}: must be empty",
            ],
        ),
    ];
    check(kind("authorization.k8s.io", "v1", "subjectaccessreviews"), GLOBAL, table);
}

#[test]
fn storage_versions_agree() {
    let versions = kind("internal.apiserver.k8s.io", "v1alpha1", "storageversions");
    let body = |status: &str| format!(r#"{{{GLOBAL},"status":{status}}}"#);
    assert_eq!(
        update(
            versions,
            Part::Status,
            &body("{}"),
            &body(r#"{"storageVersions":[{"apiServerID":"a","encodingVersion":"v1"}],"conditions":[{}]}"#)
        )[..2],
        [
            "status.storageVersions[0].decodableVersions: Invalid value: null: decodableVersions must include \
             encodingVersion v1",
            "status.commonEncodingVersion: Invalid value: null: the common encoding version is v1",
        ]
    );
}

#[test]
fn defaults_change_nothing_the_second_time() {
    let text = format!(
        r#"{{{GLOBAL},"spec":{{"paramRef":{{}},"matchResources":{{"resourceRules":[{{}}]}},"service":{{}},
           "matchConstraints":{{"excludeResourceRules":[{{}}]}}}},"webhooks":[{{"rules":[{{}}],"clientConfig":
           {{"service":{{}}}}}}],"subjects":[{{"kind":"User"}},{{"kind":"ServiceAccount"}}]}}"#
    );
    for kind in all().iter().filter(|kind| kind.group.contains("k8s.io") && kind.group != "events.k8s.io") {
        let raw = json::parse(text.as_bytes()).expect("the text is JSON");
        let Ok(decoded) = decode::decode(raw, kind.schema.table().expect("a schema")) else { continue };
        let mut once = decoded.value;
        kind.rules.default(&mut once);
        let mut twice = once.clone();
        kind.rules.default(&mut twice);
        assert_eq!(once, twice, "{}", kind.kind);
    }
}
