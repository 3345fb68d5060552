//! What is wrong with the volumes and environment of pods, in the words that clients know.

use crate::common::{check, errors, pod};

#[test]
fn volumes() {
    let volume = |source: &str| format!(r#""volumes":[{{"name":"v",{source}}}]"#);
    let table: &[(&str, &[&str])] = &[
        (
            r#""emptyDir":{"sizeLimit":"-1"}"#,
            &["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
        ),
        (
            r#""emptyDir":{},"hostPath":{"path":"/"}"#,
            &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            r#""hostPath":{"path":"/a/../b"}"#,
            &["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            r#""gitRepo":{"repository":"","directory":"/x"}"#,
            &[
                "spec.volumes[0].gitRepo.repository: Required value",
                "spec.volumes[0].gitRepo.directory: Invalid value: \"/x\": must be a relative path",
            ],
        ),
        (
            r#""gcePersistentDisk":{"pdName":"","partition":256}"#,
            &[
                "spec.volumes[0].persistentDisk.pdName: Required value",
                "spec.volumes[0].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (
            r#""awsElasticBlockStore":{"volumeID":""}"#,
            &["spec.volumes[0].awsElasticBlockStore.volumeID: Required value"],
        ),
        (
            r#""secret":{"secretName":"s","defaultMode":512,"items":[{"key":"","path":"../x"}]}"#,
            &[
                "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[0].secret.items[0].key: Required value",
                "spec.volumes[0].secret.items[0].path: Invalid value: \"../x\": must not contain '..'",
            ],
        ),
        (
            r#""configMap":{"name":"m","items":[{"key":"k","path":"..x","mode":-1}]}"#,
            &[
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
                "spec.volumes[0].configMap.items[0].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            r#""nfs":{"server":"","path":"x"}"#,
            &[
                "spec.volumes[0].nfs.server: Required value",
                "spec.volumes[0].nfs.path: Invalid value: \"x\": must be an absolute path",
            ],
        ),
        (
            r#""iscsi":{"targetPortal":"","iqn":"x","lun":256,"chapAuthSession":true,"initiatorName":"iqn"}"#,
            &[
                "spec.volumes[0].iscsi.targetPortal: Required value",
                "spec.volumes[0].iscsi.iqn: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
                "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                "spec.volumes[0].iscsi.secretRef: Required value",
                "spec.volumes[0].iscsi.initiatorname: Invalid value: \"iqn\": must be valid format",
            ],
        ),
        (
            r#""glusterfs":{"endpoints":"","path":""}"#,
            &["spec.volumes[0].glusterfs.endpoints: Required value", "spec.volumes[0].glusterfs.path: Required value"],
        ),
        (
            r#""flocker":{"datasetName":"a/b","datasetUUID":"u"}"#,
            &[
                "spec.volumes[0].flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
                "spec.volumes[0].flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
            ],
        ),
        (
            r#""rbd":{"monitors":[],"image":""}"#,
            &["spec.volumes[0].rbd.monitors: Required value", "spec.volumes[0].rbd.image: Required value"],
        ),
        (
            r#""cinder":{"volumeID":"","secretRef":{}}"#,
            &[
                "spec.volumes[0].cinder.volumeID: Required value",
                "spec.volumes[0].cinder.secretRef.name: Required value",
            ],
        ),
        (
            r#""quobyte":{"registry":"x","volume":"v"}"#,
            &[
                "spec.volumes[0].quobyte.registry: Invalid value: \"x\": must be a host:port pair or multiple pairs separated by commas",
            ],
        ),
        (
            r#""fc":{}"#,
            &["spec.volumes[0].fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
        ),
        (
            r#""fc":{"targetWWNs":["a"],"wwids":["b"]}"#,
            &[
                "spec.volumes[0].fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously",
                "spec.volumes[0].fc.lun: Required value: lun is required if targetWWNs is specified",
            ],
        ),
        (
            r#""flexVolume":{"driver":"","options":{"x.k8s.io/a":"b"}}"#,
            &[
                "spec.volumes[0].flexVolume.driver: Required value",
                "spec.volumes[0].flexVolume.options[x.k8s.io/a]: Invalid value: \"x.k8s.io/a\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        (
            r#""azureDisk":{"diskName":"d","diskURI":"x","cachingMode":"y"}"#,
            &[
                "spec.volumes[0].azureDisk.cachingMode: Unsupported value: \"y\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
                "spec.volumes[0].azureDisk.diskURI: Unsupported value: \"x\": supported values: \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\"",
            ],
        ),
        (
            r#""csi":{"driver":"A_b","nodePublishSecretRef":{}}"#,
            &[
                "spec.volumes[0].csi.driver: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.volumes[0].csi.nodePublishSecretRef.name: Required value",
            ],
        ),
        (r#""ephemeral":{}"#, &["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"]),
        (
            r#""ephemeral":{"volumeClaimTemplate":{"metadata":{"name":"x"},"spec":{"accessModes":["A"]}}}"#,
            &[
                "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: \"A\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
        (r#""image":{}"#, &["spec.volumes[0].image.reference: Required value"]),
        (
            r#""downwardAPI":{"items":[{"path":"a","fieldRef":{"fieldPath":"spec.nodeName"}},{"path":"b","resourceFieldRef":{"resource":"limits.cpu"}}]}"#,
            &[
                "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\", \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\"",
                "spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value",
            ],
        ),
    ];
    for (source, want) in table {
        assert_eq!(errors(&pod(&volume(source), "")), *want, "{source}");
    }
}

#[test]
fn projected_volumes() {
    let volume = |source: &str| {
        format!(r#""serviceAccountName":"a","volumes":[{{"name":"v","projected":{{"sources":[{source}]}}}}]"#)
    };
    let table: &[(&str, &[&str])] = &[
        (
            r#"{"serviceAccountToken":{"path":"","expirationSeconds":1}}"#,
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                "spec.volumes[0].projected.path: Required value",
            ],
        ),
        (
            r#"{"secret":{"name":"s","items":[{"key":"a","path":"x"}]}},{"configMap":{"name":"m","items":[{"key":"a","path":"x"}]}}"#,
            &["spec.volumes[0].projected: Invalid value: \"m\": conflicting duplicate paths"],
        ),
        (
            r#"{"secret":{"name":"s"},"configMap":{"name":"m"}}"#,
            &["spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
    ];
    for (source, want) in table {
        assert_eq!(errors(&pod(&volume(source), "")), *want, "{source}");
    }
    let alone = r#""volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#;
    assert_eq!(
        errors(&pod(alone, "")),
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"
        ]
    );
}

#[test]
fn mounts_and_devices() {
    let volumes = r#""volumes":[{"name":"v","emptyDir":{}},{"name":"w","persistentVolumeClaim":{"claimName":"c"}}]"#;
    check(&[
        (
            volumes,
            r#""volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/a"}]"#,
            &["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"],
        ),
        (
            volumes,
            r#""volumeMounts":[{"name":"v","mountPath":"/a","subPath":"/x","subPathExpr":"y"}]"#,
            &[
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"/x\": must be a relative path",
                "spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: \"y\": subPathExpr and subPath are mutually exclusive",
            ],
        ),
        (
            volumes,
            r#""volumeMounts":[{"name":"v","mountPath":"/a","mountPropagation":"Bidirectional"}]"#,
            &[
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
        (
            volumes,
            r#""volumeMounts":[{"name":"v","mountPath":"/a","recursiveReadOnly":"Enabled","mountPropagation":"HostToContainer"}]"#,
            &[
                "spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified",
            ],
        ),
        (
            volumes,
            r#""volumeDevices":[{"name":"v","devicePath":"/d"},{"name":"w","devicePath":"/../d"}]"#,
            &[
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/../d\": can not contain backsteps ('..')",
            ],
        ),
        (
            volumes,
            r#""volumeDevices":[{"name":"w","devicePath":"/d"}],"volumeMounts":[{"name":"w","mountPath":"/d"}]"#,
            &[
                "spec.containers[0].volumeMounts[0].name: Invalid value: \"w\": must not already exist in volumeDevices",
                "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/d\": must not already exist as a path in volumeDevices",
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"w\": must not already exist in volumeMounts",
                "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/d\": must not already exist as a path in volumeMounts",
            ],
        ),
    ]);
}

#[test]
fn environment() {
    check(&[
        (
            "",
            r#""env":[{"name":"a=b"}]"#,
            &[
                "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            ],
        ),
        (
            "",
            r#""env":[{"name":"a","valueFrom":{}}]"#,
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            "",
            r#""env":[{"name":"a","value":"x","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['a b']"}}}]"#,
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            "",
            r#""env":[{"name":"a","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2"}}}]"#,
            &[
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        ),
        (
            "",
            r#""env":[{"name":"a","valueFrom":{"secretKeyRef":{"name":"s","key":""},"configMapKeyRef":{"name":"s","key":"a/b"}}}]"#,
            &[
                "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
        (
            "",
            r#""env":[{"name":"a","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}}]"#,
            &["spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"v\""],
        ),
        (
            "",
            r#""envFrom":[{},{"secretRef":{"name":"s"},"configMapRef":{"name":"s-"}}]"#,
            &[
                "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                "spec.containers[0].envFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
    ]);
}
