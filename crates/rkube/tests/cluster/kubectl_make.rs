//! What people type: objects made from flags, and the commands that change one thing of them.

use rkube_testkit::Tool;

use crate::start;

/// Arguments, and what the answer contains.
type Steps = &'static [(&'static str, &'static str)];

/// Words are split at spaces; `~` stands for a space within one.
#[track_caller]
fn follow(kubectl: &Tool, steps: Steps) {
    for (arguments, answer) in steps {
        let words: Vec<String> = arguments.split(' ').map(|word| word.replace('~', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        kubectl.run(&words).says(answer);
    }
}

#[test]
fn objects_from_flags() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    follow(&kubectl, FROM_FLAGS);
    let directory = rkube.scratch_directory();
    let (certificate, key) =
        (rkube.data_directory().join("pki/admin.crt"), rkube.data_directory().join("pki/admin.key"));
    let (certificate, key) = (format!("--cert={}", certificate.display()), format!("--key={}", key.display()));
    kubectl.run(&["create", "secret", "tls", "pair", &certificate, &key]).says("secret/pair created");
    kubectl.run(&["get", "secret", "pair"]).says("kubernetes.io/tls   2");
    let file = directory.join("words.txt");
    std::fs::write(&file, "some words").unwrap();
    let from_file = format!("--from-file={}", file.display());
    kubectl.run(&["create", "configmap", "words", &from_file]);
    kubectl.run(&["get", "configmap", "words", "-o", r"jsonpath={.data.words\.txt}"]).says("some words");
    let token = kubectl.run(&["create", "token", "builder", "--audience=x", "--duration=10m"]).stdout;
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
}

const FROM_FLAGS: Steps = &[
    ("create namespace team", "namespace/team created"),
    ("create deployment web --image=registry.example/web:1 --replicas=3 --port=8080", "deployment.apps/web created"),
    ("create job once --image=registry.example/job:1 -- sh -c true", "job.batch/once created"),
    ("create cronjob nightly --image=registry.example/job:1 --schedule=0~1~*~*~* -- true", "nightly created"),
    ("create job from-cron --from=cronjob/nightly", "job.batch/from-cron created"),
    ("get job from-cron -o jsonpath={.metadata.ownerReferences[0].name}", "nightly"),
    ("create ingress shop --class=edge --rule=shop.example/*=web:80,tls=shop-tls", "ingress.networking.k8s.io/shop"),
    ("get ingress shop", "shop.example"),
    ("create quota budget --hard=configmaps=100,services=20", "resourcequota/budget created"),
    ("create role reader --verb=get,list --resource=pods,deployments.apps", "role.rbac.authorization.k8s.io/reader"),
    ("get role reader -o jsonpath={.rules[*].apiGroups}", r#"[""] ["apps"]"#),
    ("create clusterrole metrics --verb=get --non-resource-url=/metrics", "metrics created"),
    ("create clusterrole all --aggregation-rule=example.com/aggregate=true", "all created"),
    ("create rolebinding reader --role=reader --user=jane --group=dev --serviceaccount=default:builder", "created"),
    ("get rolebinding reader -o wide", "Role/reader"),
    ("create clusterrolebinding metrics --clusterrole=metrics --serviceaccount=default:builder", "created"),
    ("create serviceaccount builder", "serviceaccount/builder created"),
    ("create secret docker-registry pull --docker-server=r.example --docker-username=u --docker-password=p", "created"),
    ("get secret pull", "kubernetes.io/dockerconfigjson"),
    ("create secret generic words --from-literal=a=b --type=example.com/words", "secret/words created"),
    ("create configmap settings --from-literal=colour=red", "configmap/settings created"),
    ("create service clusterip web --tcp=80:8080 --clusterip=10.96.55.55", "service/web created"),
    ("get service web", "10.96.55.55"),
    ("create service nodeport np --tcp=80:8080 --node-port=30555", "service/np created"),
    ("get service np", "80:30555/TCP"),
    ("create service loadbalancer lb --tcp=80", "service/lb created"),
    ("create service externalname ext --external-name=db.example.com", "service/ext created"),
    ("get service ext", "db.example.com"),
    ("create priorityclass high --value=1000 --description=words", "priorityclass.scheduling.k8s.io/high created"),
    ("create pdb web --selector=app=web --min-available=1", "poddisruptionbudget.policy/web created"),
    ("expose deployment web --name=exposed --port=80 --target-port=8080", "service/exposed exposed"),
    ("get service exposed -o jsonpath={.spec.selector.app}:{.spec.ports[0].targetPort}", "web:8080"),
    ("run solo --image=registry.example/solo:1 --port=80 --labels=app=solo --env=A=b", "pod/solo created"),
    ("run dry --image=registry.example/solo:1 --restart=Never --dry-run=server", "pod/dry created (server dry run)"),
    ("autoscale deployment web --min=2 --max=5 --cpu-percent=60", "autoscaled"),
    ("get hpa web -o jsonpath={.spec.minReplicas}-{.spec.maxReplicas}", "2-5"),
];

#[test]
fn one_thing_at_a_time() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    follow(&kubectl, ONE_THING);
    let taken = kubectl.attempt(&["scale", "deployment", "web", "--replicas=9", "--current-replicas=3"]);
    assert!(taken.expect_failure().stderr.contains("Expected replicas to be 3, was 4"));
    let paused = kubectl.attempt(&["rollout", "pause", "deployment/web"]).expect_failure();
    assert!(paused.stderr.contains("already paused"), "{}", paused.stderr);
    follow(&kubectl, &[("rollout resume deployment/web", "resumed"), ("rollout restart deployment/web", "restarted")]);
    let restarted = r"jsonpath={.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}";
    kubectl.run(&["get", "deployment", "web", "-o", restarted]).says("T");
}

const ONE_THING: Steps = &[
    ("create deployment web --image=registry.example/web:1 --replicas=3", "created"),
    ("create configmap settings --from-literal=colour=red", "created"),
    ("create serviceaccount builder", "created"),
    ("set image deployment/web web=registry.example/web:2", "deployment.apps/web image updated"),
    ("get deployment web -o jsonpath={..image}", "registry.example/web:2"),
    ("set env deployment/web COLOUR=red", "env updated"),
    ("set env deployment/web --from=configmap/settings --prefix=S_", "env updated"),
    ("set env deployment/web --list", "COLOUR=red"),
    ("set env deployment/web COLOUR-", "env updated"),
    ("get deployment web -o jsonpath={..env[*].valueFrom.configMapKeyRef.key}", "colour"),
    ("set resources deployment/web --limits=cpu=200m,memory=64Mi --requests=cpu=100m", "resource requirements updated"),
    ("get deployment web -o jsonpath={..resources.limits.memory}", "64Mi"),
    ("set serviceaccount deployment web builder", "serviceaccount updated"),
    ("get deployment web -o jsonpath={..serviceAccountName}", "builder"),
    ("create service clusterip web --tcp=80", "created"),
    ("set selector service web app=other", "selector updated"),
    ("get service web -o wide", "app=other"),
    ("create role r --verb=get --resource=pods", "created"),
    ("create rolebinding r --role=r --user=jane", "created"),
    ("set subject rolebinding r --user=joe", "subjects updated"),
    ("get rolebinding r -o wide", "jane, joe"),
    ("scale deployment web --replicas=5 --current-replicas=3", "deployment.apps/web scaled"),
    ("patch deployment web --subresource=scale --type=merge -p {\"spec\":{\"replicas\":4}}", "web patched"),
    ("get deployment web -o jsonpath={.spec.replicas}", "4"),
    ("rollout history deployment/web", "deployment.apps/web"),
    ("rollout pause deployment/web", "paused"),
];

#[test]
fn every_workload_is_scaled_and_gets_images() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifests");
    for group in ["core", "apps", "batch"] {
        kubectl.run(&["create", "-f", &directory.join(group).with_extension("yaml").display().to_string()]);
    }
    for scaled in ["deployment/web", "replicaset/cache", "statefulset/database", "replicationcontroller/old-web"] {
        kubectl.run(&["scale", scaled, "--replicas=7"]).says(" scaled");
        kubectl.run(&["get", scaled, "-o", "jsonpath={.spec.replicas}"]).says("7");
    }
    let with_images = [
        "pod/web",
        "deployment/web",
        "replicaset/cache",
        "statefulset/database",
        "daemonset/agent",
        "replicationcontroller/old-web",
        "cronjob/report",
    ];
    for changed in with_images {
        kubectl.run(&["set", "image", changed, "main=registry.example/new:9"]).says(" image updated");
        kubectl.run(&["get", changed, "-o", "jsonpath={..image}"]).says("registry.example/new:9");
    }
}

#[test]
fn nodes() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run_with_input(&["create", "-f", "-"], "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}");
    follow(
        &kubectl,
        &[
            ("taint nodes n1 dedicated=tests:NoSchedule", "node/n1 tainted"),
            ("get node n1 -o jsonpath={.spec.taints[?(@.key==\"dedicated\")].value}", "tests"),
            ("taint nodes n1 dedicated-", "node/n1 untainted"),
            ("cordon n1", "node/n1 cordoned"),
            ("get node n1", "SchedulingDisabled"),
            ("drain n1 --dry-run=server", "node/n1 drained (server dry run)"),
            ("uncordon n1", "node/n1 uncordoned"),
            ("patch node n1 --subresource=status -p {\"status\":{\"capacity\":{\"example.com/x\":\"3\"}}}", "patched"),
            ("describe node n1", "example.com/x:  3"),
        ],
    );
}

#[test]
fn certificates_are_decided_on() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifests/certificates.yaml");
    let text = std::fs::read_to_string(manifest).unwrap();
    kubectl.run_with_input(&["create", "-f", "-"], &text);
    kubectl.run_with_input(&["create", "-f", "-"], &text.replace("name: jane", "name: joe"));
    follow(
        &kubectl,
        &[
            ("certificate approve jane", "jane approved"),
            ("certificate deny joe", "joe denied"),
            ("get csr jane", "Approved"),
            ("get csr joe", "Denied"),
            ("describe csr jane", "Common Name:    jane"),
        ],
    );
}

#[test]
fn questions_about_rights_and_the_cluster() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    follow(
        &kubectl,
        &[
            ("auth can-i create pods", "yes"),
            ("auth can-i * *", "yes"),
            ("auth can-i get /metrics", "yes"),
            ("auth can-i --list", "*.*"),
            ("auth whoami -o jsonpath={.status.userInfo.extra}", "X509SHA256="),
            ("cluster-info", "Kubernetes control plane"),
            ("api-versions", "apps/v1\n"),
            ("wait namespace/default --for=jsonpath={.status.phase}=Active --timeout=30s", "condition met"),
            ("get namespaces --sort-by=.metadata.name -o name", "namespace/default\nnamespace/kube-node-lease\n"),
            ("get namespaces -o custom-columns=N:.metadata.name,P:.status.phase", "default           Active"),
            ("get namespaces -o jsonpath={range~.items[*]}{.metadata.name},{end}", "default,kube-node-lease,"),
        ],
    );
}

#[test]
fn files_in_sets() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let map = |name: &str| {
        format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{set: p}}}}}}\n")
    };
    let both = map("one") + &map("two");
    kubectl.run_with_input(&["apply", "-f", "-"], &both).says("configmap/two created");
    let prune = ["apply", "-f", "-", "--prune", "-l", "set=p", "--prune-allowlist=core/v1/ConfigMap"];
    kubectl.run_with_input(&prune, &map("one")).says("configmap/one unchanged").says("configmap/two pruned");
    kubectl.run_with_input(&["replace", "--force", "-f", "-"], &map("one")).says("configmap/one replaced");
    kubectl.run(&["delete", "configmaps", "--all"]).says("\"one\" deleted");

    let directory = rkube.scratch_directory().join("kustomize");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("kustomization.yaml"), KUSTOMIZATION).unwrap();
    std::fs::write(directory.join("pod.yaml"), KUSTOMIZED).unwrap();
    let directory = directory.display().to_string();
    kubectl.run(&["apply", "-k", &directory]).says("pod/blue-web created").says("configmap/blue-settings-");
    kubectl.run(&["apply", "-k", &directory]).says("pod/blue-web unchanged");
    assert_eq!(kubectl.run(&["diff", "-k", &directory]).stdout, "");
    kubectl.run(&["get", "pod", "blue-web", "-o", "jsonpath={..image} {.metadata.labels.team}"]).says(":2 blue");
    kubectl.run(&["delete", "-k", &directory]).says("pod \"blue-web\" deleted");
}

const KUSTOMIZATION: &str = "\
namePrefix: blue-
labels: [{pairs: {team: blue}}]
resources: [pod.yaml]
images: [{name: registry.example/web, newTag: '2'}]
configMapGenerator: [{name: settings, literals: [colour=red]}]
";

const KUSTOMIZED: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: registry.example/web:1
    envFrom: [{configMapRef: {name: settings}}]
";
