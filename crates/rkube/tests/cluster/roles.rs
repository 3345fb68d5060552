//! Users with roles, as kubectl shows them: they can do what their bindings say, and nothing else.

use rkube_testkit::{Finished, Rkube, Tool, eventually};

/// kubectl for who has a token, and for nobody else.
struct AsUser<'a> {
    rkube: &'a Rkube,
    kubectl: &'a Tool,
    token: String,
}

impl AsUser<'_> {
    fn attempt(&self, arguments: &[&str]) -> Finished {
        self.attempt_with_input(arguments, "")
    }

    fn attempt_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        let authority = self.rkube.data_directory().join("pki/ca.crt").display().to_string();
        let server = ["--server", self.rkube.url(), "--certificate-authority", &authority, "--token", &self.token];
        let mut command = self.kubectl.command(&[&server[..], arguments].concat());
        Finished::run(command.env("KUBECONFIG", "/dev/null"), input)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], why: &str) {
        let refused = self.attempt(arguments).expect_failure();
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

fn start() -> (tempfile::TempDir, Rkube) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "token-a,alice,1,dev\ntoken-b,bob,2,ops\n").unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", &flag]);
    (directory, rkube)
}

#[test]
fn a_user_can_do_what_its_binding_says() {
    let (_directory, rkube) = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let user = |token: &str| AsUser { rkube: &rkube, kubectl: &kubectl, token: token.to_owned() };
    let (alice, bob) = (user("token-a"), user("token-b"));
    let nothing = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the \
                   namespace \"default\"";
    alice.refused(&["get", "configmaps"], nothing);
    alice.attempt(&["auth", "can-i", "--list"]).expect_success().says("selfsubjectaccessreviews").says("[/healthz]");
    assert!(alice.attempt(&["auth", "can-i", "get", "configmaps"]).expect_failure().stdout.starts_with("no"));

    kubectl.run(&["create", "role", "reader", "--verb=get,list", "--resource=configmaps"]);
    kubectl.run(&["create", "role", "writer", "--verb=update,patch", "--resource=configmaps", "--resource-name=mine"]);
    kubectl.run(&["create", "rolebinding", "reader", "--role=reader", "--user=alice", "--group=ops"]);
    kubectl.run(&["create", "rolebinding", "writer", "--role=writer", "--user=alice"]);
    kubectl.run(&["create", "configmap", "mine"]);
    kubectl.run(&["create", "configmap", "yours"]);

    alice.attempt(&["get", "configmaps"]).expect_success().says("mine").says("yours");
    bob.attempt(&["get", "configmap", "yours"]).expect_success();
    alice.attempt(&["label", "configmap", "mine", "a=b"]).expect_success();
    alice.refused(&["label", "configmap", "yours", "a=b"], "User \"alice\" cannot patch resource \"configmaps\"");
    bob.refused(&["label", "configmap", "mine", "c=d"], "User \"bob\" cannot patch resource \"configmaps\"");
    alice.refused(&["delete", "configmap", "mine"], "User \"alice\" cannot delete resource \"configmaps\"");
    alice.refused(&["get", "configmaps", "-n", "kube-system"], "in the namespace \"kube-system\"");
    alice.refused(&["get", "configmaps", "-A"], "at the cluster scope");
    alice.refused(&["get", "secrets"], "User \"alice\" cannot list resource \"secrets\"");
    let list = alice.attempt(&["auth", "can-i", "--list"]).expect_success();
    let rows: Vec<Vec<&str>> = list.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["configmaps", "[]", "[mine]", "[update", "patch]"]), "{}", list.stdout);
    assert!(rows.contains(&vec!["configmaps", "[]", "[]", "[get", "list]"]), "{}", list.stdout);
    alice.attempt(&["auth", "can-i", "update", "configmaps/mine"]).expect_success().says("yes");
    alice.attempt(&["auth", "can-i", "update", "configmaps/yours"]).expect_failure().says("no");

    kubectl.run(&["delete", "role", "reader"]);
    let gone = "in the namespace \"default\": RBAC: role.rbac.authorization.k8s.io \"reader\" not found";
    alice.refused(&["get", "configmaps"], gone);
    kubectl.run(&["delete", "rolebinding", "reader"]);
    alice.refused(&["get", "configmaps"], nothing);
}

#[test]
fn who_gives_rights_must_have_them() {
    let (_directory, rkube) = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let alice = AsUser { rkube: &rkube, kubectl: &kubectl, token: "token-a".to_owned() };
    // The controller has summed it up.
    eventually("`admin` has its rules", || match kubectl.run(&["get", "clusterrole", "admin", "-o", "yaml"]).stdout {
        text if text.contains("deployments/scale") && text.contains("rolebindings") => Ok(()),
        text => Err(text),
    });
    kubectl.run(&["create", "rolebinding", "alice", "--clusterrole=admin", "--user=alice"]);
    alice.attempt(&["create", "deployment", "a", "--image=a"]).expect_success();
    alice.attempt(&["create", "role", "some", "--verb=get", "--resource=pods"]).expect_success();
    alice.attempt(&["create", "rolebinding", "friend", "--clusterrole=view", "--user=bob"]).expect_success();
    let more = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" (groups=[\"dev\" \
                \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}";
    alice.refused(&["create", "role", "more", "--verb=get", "--resource=nodes,pods"], more);
    alice.refused(
        &["create", "rolebinding", "me", "--clusterrole=cluster-admin", "--user=alice"],
        "is attempting to grant RBAC permissions not currently held",
    );
    alice.refused(&["create", "clusterrole", "x", "--verb=get", "--resource=pods"], "cannot create resource");
}

/// A role that carries the label of an aggregated one is a part of it, as long as it is there.
#[test]
fn roles_are_summed_up() {
    let (_directory, rkube) = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let bob = AsUser { rkube: &rkube, kubectl: &kubectl, token: "token-b".to_owned() };
    kubectl.run(&["create", "clusterrolebinding", "bob", "--clusterrole=view", "--user=bob"]);
    let may = || bob.attempt(&["auth", "can-i", "list", "nodes"]).stdout.starts_with("yes");
    let role = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"nodes",
        "labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
        "rules":[{"verbs":["list"],"apiGroups":[""],"resources":["nodes"]}]}"#;
    kubectl.run_with_input(&["apply", "-f", "-"], role);
    let until = |wanted: bool| if may() == wanted { Ok(()) } else { Err(format!("is {}", !wanted)) };
    eventually("bob may", || until(true));
    // `admin` is the sum of `edit`, which is the sum of `view`.
    eventually("`admin` has it, too", || match kubectl.run(&["get", "clusterrole", "admin", "-o", "yaml"]).stdout {
        text if text.contains("- nodes") => Ok(()),
        text => Err(text),
    });
    kubectl.run(&["delete", "clusterrole", "nodes"]);
    eventually("bob may not", || until(false));
}

#[test]
fn roles_are_reconciled() {
    let (_directory, rkube) = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let rules = |rules: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"List","items":[
            {{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"r","namespace":"default"}},
                "rules":[{rules}]}},
            {{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{{"name":"r","namespace":"default"}},
                "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}},
                "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}}]}}]}}"#
        )
    };
    let pods = r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#;
    let secrets = r#"{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}"#;
    let reconcile = |text: &str| kubectl.run_with_input(&["auth", "reconcile", "-f", "-"], text);
    reconcile(&rules(pods)).says("role.rbac.authorization.k8s.io/r reconciled");
    let added = reconcile(&rules(secrets)).stderr;
    assert!(added.contains("missing rules added"), "{added}");
    let role = kubectl.run(&["get", "role", "r", "-o", "yaml"]).stdout;
    assert!(role.contains("pods") && role.contains("secrets"), "{role}");
    let alice = AsUser { rkube: &rkube, kubectl: &kubectl, token: "token-a".to_owned() };
    alice.attempt(&["auth", "can-i", "get", "secrets"]).expect_success().says("yes");
}

#[test]
fn service_accounts_have_roles() {
    let (_directory, rkube) = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "serviceaccount", "robot"]);
    let token = kubectl.run(&["create", "token", "robot"]).stdout.trim().to_owned();
    let robot = AsUser { rkube: &rkube, kubectl: &kubectl, token };
    robot.refused(&["get", "pods"], "User \"system:serviceaccount:default:robot\" cannot list resource \"pods\"");
    kubectl.run(&["create", "rolebinding", "robot", "--clusterrole=edit", "--serviceaccount=default:robot"]);
    robot.attempt(&["create", "configmap", "a"]).expect_success();
    robot.refused(&["get", "nodes"], "at the cluster scope");
    let groups = "--group=system:serviceaccounts:default";
    kubectl.run(&["create", "clusterrolebinding", "robots", "--clusterrole=system:node-problem-detector", groups]);
    robot.refused(&["get", "node", "none"], "nodes \"none\" not found");
    robot.attempt(&["auth", "whoami"]).expect_success().says("system:serviceaccounts:default");
    // A review tells by what somebody may.
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{
        "user":"system:serviceaccount:default:robot",
        "resourceAttributes":{"verb":"create","resource":"configmaps","namespace":"default"}}}"#;
    let said = kubectl.run_with_input(&["create", "-f", "-", "-o", "yaml"], review);
    said.says(r#"RBAC: allowed by RoleBinding "robot/default" of ClusterRole "edit" to ServiceAccount"#);
}
