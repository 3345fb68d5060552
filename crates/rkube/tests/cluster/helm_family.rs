//! A chart with a library, subcharts that it finds by `file://`, hooks and a test: how it is made ready, installed, changed,
//! broken and repaired, and what people look at on the way. The charts are in `tests/clients/charts/family`.

use std::path::Path;

use rkube_testkit::tools::client_files;
use rkube_testkit::{Rkube, Tool};

use crate::kubectl_rollout::start_with_nodes;

struct Shop {
    helm: Tool,
    kubectl: Tool,
    chart: String,
}

impl Shop {
    /// A copy of the charts, whose dependencies are not there yet.
    fn new(rkube: &Rkube) -> Option<Shop> {
        let (helm, kubectl) = (rkube.helm()?, rkube.kubectl()?);
        let copies = rkube.scratch_directory().join("family");
        copy(&client_files().join("charts/family"), &copies);
        Some(Shop { helm, kubectl, chart: copies.join("shop").display().to_string() })
    }

    /// What depends on what is put together from the inside out.
    fn build(&self) {
        let store = format!("{}/../store", self.chart);
        self.helm.run(&["dependency", "list", &self.chart]).says("missing");
        self.helm.run(&["dependency", "build", &store]);
        self.helm.run(&["dependency", "build", &self.chart]).says("Saving 3 charts");
        let listed = self.helm.run(&["dependency", "list", &self.chart]).stdout;
        assert!(listed.contains("ok") && !listed.contains("missing"), "{listed}");
    }

    fn get(&self, object: &str, path: &str) -> String {
        self.kubectl.run(&["get", object, "-o", &format!("jsonpath={path}")]).stdout
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn who_looks_for_the_fault_of_a_chart_finds_it() {
    let rkube = start_with_nodes();
    let Some(shop) = Shop::new(&rkube) else { return };
    let early = shop.helm.attempt(&["template", "demo", &shop.chart]).expect_failure();
    assert!(early.stderr.contains("missing in charts/ directory"), "{}", early.stderr);
    shop.build();
    shop.helm.run(&["lint", &shop.chart]).says("1 chart(s) linted, 0 chart(s) failed");
    shop.helm.attempt(&["lint", &shop.chart, "--set", "broken=true"]).expect_failure();
    let rendered = shop.helm.run(&["template", "--debug", "demo", &shop.chart, "--set", "archive.enabled=true"]).stdout;
    for source in ["shop/charts/store/templates/store.yaml", "shop/charts/archive/templates/store.yaml"] {
        assert!(rendered.contains(&format!("# Source: {source}")), "{rendered}");
    }
    assert!(rendered.contains("example.com/region: north"), "subcharts know what is global:\n{rendered}");
    assert!(!rendered.contains("# Source: shop/charts/common"), "a library makes nothing:\n{rendered}");
    let broken = shop.helm.attempt(&["template", "--debug", "demo", &shop.chart, "--set", "broken=true"]);
    let broken = broken.expect_failure();
    assert!(broken.stderr.contains("YAML parse error on shop/templates/shop.yaml"), "{}", broken.stderr);
    assert!(broken.stdout.contains("- this is no map"), "what was rendered is shown all the same: {}", broken.stdout);
}

#[test]
fn a_family_of_charts_lives_and_goes() {
    let rkube = start_with_nodes();
    let Some(shop) = Shop::new(&rkube) else { return };
    let (helm, kubectl) = (&shop.helm, &shop.kubectl);
    shop.build();
    let wait = ["--wait", "--timeout=60s"];
    helm.run(&[&["install", "demo", &shop.chart][..], &wait].concat()).says("STATUS: deployed").says("demo is open.");
    assert_eq!(shop.get("configmap/demo-shop", "{.data.greeting} {.data.address}"), "hello store.internal");
    assert_eq!(shop.get("statefulset/demo-store", "{.status.readyReplicas}"), "1");
    assert_eq!(shop.get("job/demo-shop-migrate", "{.status.succeeded}"), "1");
    assert_eq!(shop.get("configmap/demo-shop-migration", "{.data.revision}"), "1");
    kubectl.attempt(&["get", "job", "demo-shop-announce"]).expect_failure();
    helm.run(&["test", "demo", "--timeout=60s"]).says("TEST SUITE:     demo-shop-greets").says("Succeeded");

    let manifest = helm.run(&["get", "manifest", "demo"]).stdout;
    assert!(manifest.contains("name: demo-store") && !manifest.contains("demo-shop-migrate"), "{manifest}");
    helm.run(&["get", "hooks", "demo"]).says("name: demo-shop-migrate").says("name: demo-shop-greets");
    helm.run(&["get", "values", "demo"]).says("null");
    helm.run(&["get", "values", "demo", "--all"]).says("region: north");
    helm.run(&["status", "demo"]).says("STATUS: deployed").says("TEST SUITE:     demo-shop-greets");

    let changed = ["--set", "greeting=welcome,store.enabled=false,archive.enabled=true"];
    helm.run(&[&["upgrade", "demo", &shop.chart][..], &wait, &changed].concat()).says("REVISION: 2");
    kubectl.attempt(&["get", "statefulset", "demo-store"]).expect_failure();
    assert_eq!(shop.get("statefulset/demo-archive", "{.status.readyReplicas}"), "2");
    helm.run(&["get", "values", "demo"]).says("greeting: welcome");

    // A hook that fails keeps everything as it was.
    let failing = ["--reuse-values", "--set", "greeting=oops,migrationCode=3"];
    let failed = helm.attempt(&[&["upgrade", "demo", &shop.chart][..], &wait, &failing].concat()).expect_failure();
    assert!(failed.stderr.contains("pre-upgrade hooks failed"), "{}", failed.stderr);
    assert_eq!(shop.get("configmap/demo-shop", "{.data.greeting}"), "welcome");
    helm.run(&["status", "demo"]).says("STATUS: failed").says("REVISION: 3");
    helm.run(&["history", "demo"]).says("superseded").says("deployed").says("failed").says("pre-upgrade hooks failed");
    helm.run(&[&["rollback", "demo", "1"][..], &wait].concat()).says("Rollback was a success");
    assert_eq!(shop.get("configmap/demo-shop", "{.data.greeting}"), "hello");
    kubectl.attempt(&["get", "statefulset", "demo-archive"]).expect_failure();
    helm.run(&["history", "demo"]).says("Rollback to 1");

    helm.run(&[&["uninstall", "demo"][..], &wait].concat()).says("release \"demo\" uninstalled");
    kubectl.attempt(&["get", "deployment", "demo-shop"]).expect_failure();
    assert_eq!(shop.get("job/demo-shop-farewell", "{.status.succeeded}"), "1", "hooks are nobody's to remove");
}

#[test]
fn a_job_from_a_cron_job_runs_to_its_end() {
    let rkube = start_with_nodes();
    let Some(kubectl) = rkube.kubectl() else { return };
    let image = "--image=registry.example/job:1";
    kubectl.run(&["create", "cronjob", "x", image, "--schedule=0 0 1 1 *", "--", "sh", "-c", "exit 0"]);
    kubectl.run(&["create", "job", "--from=cronjob/x", "by-hand"]).says("job.batch/by-hand created");
    kubectl.run(&["wait", "--for=condition=complete", "job/by-hand", "--timeout=60s"]).says("condition met");
    let path =
        "jsonpath={.metadata.ownerReferences[0].name} {.metadata.annotations.cronjob\\.kubernetes\\.io/instantiate}";
    assert_eq!(kubectl.run(&["get", "job", "by-hand", "-o", path]).stdout, "x manual");
    kubectl.run(&["delete", "cronjob", "x", "--cascade=foreground", "--wait", "--timeout=60s"]);
    kubectl.attempt(&["get", "job", "by-hand"]).expect_failure();
}
