//! What is wrong with pods, in the words that clients know.

use crate::common::{check, errors, kind, made, pod};
use rkube_machinery::json;

#[test]
fn resources() {
    check(&[
        (
            "",
            r#""resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}"#,
            &[
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            "",
            r#""resources":{"limits":{"x":"1"}}"#,
            &[
                "spec.containers[0].resources.limits[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.limits[x]: Invalid value: \"x\": must be a standard resource for containers",
                "spec.containers[0].resources.requests[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.requests[x]: Invalid value: \"x\": must be a standard resource for containers",
            ],
        ),
        (
            "",
            r#""resources":{"requests":{"example.com/gpu":"1"}}"#,
            &[
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            "",
            r#""resources":{"limits":{"example.com/gpu":"1500m"}}"#,
            &[
                "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
            ],
        ),
        (
            "",
            r#""resources":{"limits":{"hugepages-2Mi":"3Mi"}}"#,
            &[
                "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            ],
        ),
        (
            "",
            r#""resources":{"claims":[{"name":"a"},{"name":"a"}]}"#,
            &[
                "spec.containers[0].resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty",
                "spec.containers[0].resources.claims[1]: Duplicate value: \"a\"",
                "spec.containers[0].resources.claims[1]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty",
            ],
        ),
        (
            r#""resources":{"limits":{"cpu":"1"},"requests":{"cpu":"500m"}}"#,
            r#""resources":{"requests":{"cpu":"600m"},"limits":{"cpu":"2"}}"#,
            &[
                "spec.resources.requests[cpu]: Invalid value: \"500m\": must be greater than or equal to aggregate container requests of 600m",
                "spec.resources.containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            ],
        ),
        (
            r#""resources":{"limits":{"ephemeral-storage":"1"}}"#,
            "",
            &[
                "spec.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
            ],
        ),
        (
            r#""resourceClaims":[{"name":"a"}]"#,
            "",
            &[
                "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ],
        ),
    ]);
}

#[test]
fn probes_and_hooks() {
    check(&[
        (
            "",
            r#""livenessProbe":{"exec":{},"tcpSocket":{"port":1},"successThreshold":2}"#,
            &[
                "spec.containers[0].livenessProbe.exec.command: Required value",
                "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            "",
            r#""readinessProbe":{"httpGet":{"port":0,"scheme":"x","httpHeaders":[{"name":"a b","value":""}]},"terminationGracePeriodSeconds":1}"#,
            &[
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: \"x\": supported values: \"HTTP\", \"HTTPS\"",
                "spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
            ],
        ),
        (
            "",
            r#""lifecycle":{"preStop":{"sleep":{"seconds":31}}}"#,
            &[
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (
            r#""initContainers":[{"name":"i","image":"i","livenessProbe":{"exec":{"command":["x"]}}}]"#,
            "",
            &[
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            "",
            r#""restartPolicyRules":[{"action":"x"}]"#,
            &[
                "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"x\": supported values: \"Restart\", \"RestartAllContainers\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
        ),
    ]);
}

#[test]
fn containers() {
    check(&[
        (
            r#""hostNetwork":true"#,
            r#""ports":[{"containerPort":80,"hostPort":81},{"containerPort":80,"name":"A"}]"#,
            &[
                "spec.containers[0].ports[1].name: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.containers[0].ports[1].name: Invalid value: \"A\": must contain at least one letter (a-z)",
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
        (
            r#""initContainers":[{"name":"c","image":" i"}]"#,
            r#""ports":[{"containerPort":80,"hostPort":81},{"containerPort":81,"hostPort":81}]"#,
            &[
                "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//81\"",
                "spec.initContainers[0].name: Duplicate value: \"c\"",
                "spec.initContainers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
            ],
        ),
        (
            r#""restartPolicy":"Never""#,
            r#""resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]"#,
            &[
                "spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            ],
        ),
        (
            r#""ephemeralContainers":[{"name":"c","image":"i","targetContainerName":"x","ports":[{"containerPort":1}]}]"#,
            "",
            &[
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
            ],
        ),
        (
            "",
            r#""imagePullPolicy":"x","terminationMessagePolicy":"y""#,
            &[
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"y\": supported values: \"File\", \"FallbackToLogsOnError\"",
                "spec.containers[0].imagePullPolicy: Unsupported value: \"x\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
    ]);
}

#[test]
fn security() {
    check(&[
        (
            "",
            r#""securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]}}"#,
            &[
                "spec.containers[0].securityContext: Invalid value: {\"Capabilities\":{\"Add\":[\"CAP_SYS_ADMIN\"],\"Drop\":null},\"Privileged\":null,\"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ],
        ),
        (
            "",
            r#""securityContext":{"procMount":"Unmasked"}"#,
            &[
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
            ],
        ),
        (
            r#""securityContext":{"seccompProfile":{"type":"Unconfined","localhostProfile":"x"}}"#,
            "",
            &[
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"Unconfined\",\"LocalhostProfile\":\"x\"}: can only be set when seccomp type is Localhost",
            ],
        ),
        (
            r#""securityContext":{"appArmorProfile":{"type":"Localhost"},"seLinuxChangePolicy":"MountOption"}"#,
            "",
            &[
                "spec.securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost",
                "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
            ],
        ),
        (
            r#""hostNetwork":true,"hostUsers":false,"hostPID":true,"securityContext":{"sysctls":[{"name":"net.a","value":""},{"name":"A","value":""}]}"#,
            "",
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
                "spec.securityContext.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
            ],
        ),
        (
            r#""os":{"name":"windows"},"hostPID":true"#,
            r#""securityContext":{"privileged":false}"#,
            &[
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (
            r#""os":{"name":"linux"}"#,
            r#""securityContext":{"windowsOptions":{"hostProcess":true,"runAsUserName":""}}"#,
            &[
                "spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"\": runAsUserName cannot be an empty string",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
                "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
            ],
        ),
    ]);
}

#[test]
fn placement() {
    check(&[
        (
            r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Gt"}],"matchFields":[{"key":"x","operator":"Exists"}]}]}}}"#,
            "",
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator",
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: \"x\": not a valid field selector key",
            ],
        ),
        (
            r#""affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"a","namespaces":["A"],"matchLabelKeys":["x"]}]}}"#,
            "",
            &[
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
        (
            r#""topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway","minDomains":0,"nodeTaintsPolicy":"x"},{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway"}]"#,
            "",
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, ScheduleAnyway}\"",
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                "spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: \"x\": supported values: \"Honor\", \"Ignore\"",
            ],
        ),
        (
            r#""tolerations":[{"operator":"Equal","tolerationSeconds":1,"effect":"x"},{"key":"k","operator":"Exists","value":"v"},{"key":"k","operator":"Gt","value":"1"}]"#,
            "",
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "spec.tolerations[0].effect: Invalid value: \"x\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "spec.tolerations[0].effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[2].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            ],
        ),
        (
            r#""schedulingGates":[{"name":"a"},{"name":"a"}],"nodeName":"n""#,
            "",
            &[
                "spec.schedulingGates[1]: Duplicate value: \"a\"",
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        ),
        (
            r#""activeDeadlineSeconds":0,"preemptionPolicy":"x","overhead":{"cpu":"-1"}"#,
            "",
            &[
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                "spec.preemptionPolicy: Unsupported value: \"x\": supported values: \"PreemptLowerPriority\", \"Never\"",
                "spec.overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
    ]);
}

#[test]
fn names_and_addresses() {
    check(&[
        (
            r#""dnsPolicy":"None""#,
            "",
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            r#""dnsConfig":{"nameservers":["1.1.1.1","1.1.1.2","1.1.1.3","01.1.1.4"],"searches":["A"]}"#,
            "",
            &[
                "spec.dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"01.1.1.4\"]: must not have more than 3 nameservers",
                "spec.dnsConfig.nameservers[3]: Invalid value: \"01.1.1.4\": must not have leading 0s",
                "spec.dnsConfig.searches[0]: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            r#""hostnameOverride":"a.b","hostNetwork":true"#,
            "",
            &["spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"],
        ),
        (
            r#""hostAliases":[{"ip":"x"}]"#,
            "",
            &[
                "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
        (
            r#""readinessGates":[{"conditionType":"/"}],"restartPolicy":"x","nodeSelector":{"a":"b c"}"#,
            "",
            &[
                "spec.restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                "spec.nodeSelector: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                "spec.readinessGates[0].conditionType: Invalid value: \"/\": prefix part must be non-empty",
                "spec.readinessGates[0].conditionType: Invalid value: \"/\": name part must be non-empty",
                "spec.readinessGates[0].conditionType: Invalid value: \"/\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
    ]);
}

#[test]
fn new_pods_wait() {
    let gated =
        pod(r#""schedulingGates":[{"name":"g"}],"serviceAccount":"old""#, r#""resources":{"limits":{"cpu":"1"}}"#);
    assert_eq!(gated.get("status").str("phase"), "Pending");
    assert_eq!(gated.get("status").str("qosClass"), "Burstable");
    assert_eq!(gated.get("status").list("conditions")[0].str("reason"), "SchedulingGated");
    assert_eq!(gated.get("spec").str("serviceAccountName"), "old");
    assert_eq!(gated.get("metadata").int("generation"), 1);
    assert_eq!(gated.get("spec").list("containers")[0].get("resources").get("requests").str("cpu"), "1");
}

#[test]
fn label_keys_are_merged_into_selectors() {
    let object = made(
        r#"{"metadata":{"name":"p","namespace":"n","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],
            "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule",
            "labelSelector":{},"matchLabelKeys":["a","missing"]}]}}"#,
    );
    let selector = object.get("spec").list("topologySpreadConstraints")[0].get("labelSelector");
    let want = r#"{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}"#;
    assert_eq!(json::to_string(selector), want);
    assert_eq!(errors(&object), Vec::<String>::new());
}

#[test]
fn features_that_are_off_leave_nothing() {
    let object = pod(
        r#""schedulingGroup":{"podGroupName":"g"},"volumes":[{"name":"v","projected":{"sources":[{"podCertificate":{"signerName":"a.b/c","keyType":"x"}}]}}]"#,
        r#""lifecycle":{"stopSignal":"SIGTERM"}"#,
    );
    assert!(!object.get("spec").has("schedulingGroup"));
    assert!(!object.get("spec").list("containers")[0].has("lifecycle"));
    assert!(!object.get("spec").list("volumes")[0].get("projected").list("sources")[0].has("podCertificate"));
}

#[test]
fn warnings_are_given() {
    let object = pod(
        r#""nodeSelector":{"beta.kubernetes.io/os":"linux"},"volumes":[{"name":"v","gitRepo":{"repository":"r"}},
           {"name":"s","secret":{"secretName":"x","items":[{"key":"a","path":"a"},{"key":"b","path":"a/b"}]}}],
           "hostAliases":[{"ip":"1.1.1.1"},{"ip":"1.1.1.1"}],"imagePullSecrets":[{}]"#,
        r#""env":[{"name":"A","value":"1"},{"name":"A","value":"2"}],"resources":{"limits":{"memory":"1m"}},
           "ports":[{"containerPort":1,"name":"x"},{"containerPort":1,"name":"x"}]"#,
    );
    assert_eq!(
        kind().rules.warnings(&object, None),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "volume \"s\" (Secret \"x\"): overlapping paths: \"a/b\" with \"a\"",
            "spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\"",
            "spec.imagePullSecrets[0].name: invalid empty name \"\"",
            "spec.containers[0].resources.limits[memory]: fractional byte value \"1m\" is invalid, must be an integer",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"1m\" is invalid, must be an integer",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[1]: duplicate port name \"x\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
        ]
    );
}
