//! Charts as large and deep as those that people install, in `tests/clients/charts`: rendered and applied in every way,
//! and through the life of a release.

use rkube_testkit::{Rkube, Tool, eventually, tools::client_files};

use crate::start;

/// One test per chart: its name, a changed value, and where to see it.
macro_rules! charts {
    ($($chart:ident: $value:literal, $object:literal, $path:literal, $before:literal => $after:literal;)*) => {
        $(#[test]
        fn $chart() {
            let rkube = start();
            let Some(installed) = Installed::new(&rkube, stringify!($chart)) else { return };
            installed.apply();
            installed.release($value, &["get", $object, "-o", concat!("jsonpath=", $path)], $before, $after);
        })*
    };
}

charts![
    edge: "replicas=3,autoscaling.enabled=false", "deployment/demo-edge-controller", "{.spec.replicas}", "1" => "3";
    database: "replicas.count=4", "statefulset/demo-database-replicas", "{.spec.replicas}", "2" => "4";
    monitoring: "server.retention=30d", "statefulset/demo-monitoring-server",
        "{.spec.template.spec.containers[0].args[1]}", "=10d" => "=30d";
    pipelines: "agents.small.max=20", "configmap/demo-pipelines-agent-small", "{.data}", "max: 10" => "max: 20";
    issuer: "version=v1.19.0", "deployment/demo-issuer-webhook", "{..image}", "v1.18.0" => "v1.19.0";
];

/// A chart, and the clients to bring it to a cluster.
struct Installed {
    helm: Tool,
    kubectl: Tool,
    chart: String,
    /// The rendered objects.
    file: String,
    count: usize,
}

impl Installed {
    fn new(rkube: &Rkube, name: &str) -> Option<Installed> {
        let (helm, kubectl) = (rkube.helm()?, rkube.kubectl()?);
        let chart = client_files().join("charts").join(name).display().to_string();
        let rendered = helm.run(&["template", "demo", &chart, "--skip-tests", "--no-hooks"]).stdout;
        let file = rkube.scratch_directory().join("rendered.yaml");
        std::fs::write(&file, &rendered).unwrap();
        let count = rendered.lines().filter(|line| line.starts_with("kind: ")).count();
        Some(Installed { helm, kubectl, chart, file: file.display().to_string(), count })
    }

    /// By dry run, on the server's side, on the client's side; each time the second apply changes nothing.
    fn apply(&self) {
        let dry = self.kubectl.run(&["apply", "--dry-run=server", "-f", &self.file]).stdout;
        assert_eq!(dry.matches(" created (server dry run)").count(), self.count, "{dry}");
        assert_eq!(self.left(), "", "a dry run stores nothing");
        for side in ["--server-side=true", "--server-side=false"] {
            let applied = self.kubectl.run(&["apply", side, "-f", &self.file]).stdout;
            let word = if side.ends_with("true") { " serverside-applied" } else { " created" };
            assert_eq!(applied.matches(word).count(), self.count, "{applied}");
            // Controllers may still be at work on what came before.
            eventually("applying again changes nothing", || {
                let before = self.versions();
                self.kubectl.run(&["apply", side, "--validate=false", "-f", &self.file]);
                let after = self.versions();
                if before == after { Ok(()) } else { Err(format!("{before}\n{after}")) }
            });
            assert_eq!(self.kubectl.run(&["diff", side, "-f", &self.file]).stdout, "");
            self.release_claims();
            // Waiting, kubectl asks for five objects a second.
            self.kubectl.run(&["delete", "-f", &self.file, "--wait=false"]);
            self.wait_until_gone();
        }
    }

    /// Install, upgrade with another value, roll back, uninstall.
    fn release(&self, value: &str, look: &[&str], before: &str, after: &str) {
        self.helm.run(&["install", "demo", &self.chart]).says("STATUS: deployed");
        self.kubectl.run(look).says(before);
        self.helm.run(&["upgrade", "demo", &self.chart, "--set", value]).says("REVISION: 2");
        self.kubectl.run(look).says(after);
        self.helm.run(&["rollback", "demo", "1"]).says("Rollback was a success");
        self.kubectl.run(look).says(before);
        self.helm.run(&["history", "demo"]).says("superseded").says("Rollback to 1");
        self.release_claims();
        self.helm.run(&["uninstall", "demo"]).says("release \"demo\" uninstalled");
        self.wait_until_gone();
    }

    fn wait_until_gone(&self) {
        eventually("everything goes", || match self.left() {
            left if left.is_empty() => Ok(()),
            left => Err(left),
        });
    }

    /// What protects claims waits for controllers that this test does not wait for.
    fn release_claims(&self) {
        let claims = self.kubectl.run(&["get", "persistentvolumeclaims", "-o", "name"]).stdout;
        for claim in claims.lines() {
            self.kubectl.run(&["patch", claim, "-p", r#"{"metadata":{"finalizers":null}}"#]);
        }
    }

    fn left(&self) -> String {
        self.kubectl.run(&["get", "-f", &self.file, "--ignore-not-found", "-o", "name"]).stdout
    }

    fn versions(&self) -> String {
        let column = "-o=custom-columns=:.metadata.resourceVersion";
        self.kubectl.run(&["get", "-f", &self.file, "--no-headers", column]).stdout
    }
}
