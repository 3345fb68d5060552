//! Every kind that is served, from `kubectl create` to `kubectl delete`. The objects are in `tests/manifests`, a file
//! per API group; `tables` beside them has what Kubernetes itself shows of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rkube_testkit::{Finished, Rkube, Tool, eventually};

use crate::start;

/// One test per file, so that they run side by side.
macro_rules! groups {
    ($($group:ident),* $(,)?) => {
        const GROUPS: &[&str] = &[$(stringify!($group)),*];
        $(#[test]
        fn $group() {
            // The node of these manifests is nowhere, and is to stay as it is for however long this takes.
            let arguments = ["--store=memory", "--node-startup-grace-period=1h"];
            let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &arguments);
            let Some(kubectl) = rkube.kubectl() else { return };
            Manifest::read(stringify!($group)).live(&rkube, &kubectl);
        })*
    };
}

groups![
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
];

/// Asked and answered, never stored.
const REVIEWS: &[&str] = &["authentication", "authorization"];

#[test]
fn every_served_kind_has_a_manifest() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let listed = kubectl.run(&["api-resources", "--verbs=create", "--no-headers"]).stdout;
    let served: BTreeSet<(String, String)> = listed.lines().map(version_and_kind).collect();
    let files = GROUPS.iter().chain(REVIEWS).map(|group| Manifest::read(group));
    let known: BTreeSet<(String, String)> = files.flat_map(|file| file.kinds).collect();
    // A binding is not kept: it says where a pod is to run.
    let binding = ("v1".to_owned(), "Binding".to_owned());
    let missing: Vec<_> = served.difference(&known).filter(|kind| **kind != binding).collect();
    assert!(missing.is_empty(), "without an example in tests/manifests: {missing:?}");
}

#[test]
fn reviews_are_answered() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    for group in REVIEWS {
        let manifest = Manifest::read(group);
        // Without PATCH kubectl cannot tell that the server validates, and looks for a custom resource.
        let create = ["create", "--validate=false", "-f", &manifest.path, "-o", "yaml"];
        let answer = kubectl.run(&create).stdout;
        assert_eq!(answer.matches("\nstatus:").count(), manifest.kinds.len(), "{answer}");
        manifest.explain(&kubectl);
    }
}

/// A file of objects of different kinds.
struct Manifest {
    group: String,
    path: String,
    /// `apiVersion` and `kind` of each object.
    kinds: Vec<(String, String)>,
}

impl Manifest {
    fn read(group: &str) -> Manifest {
        let path = directory().join(group).with_extension("yaml");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let values = |key: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let kinds = values("apiVersion").into_iter().zip(values("kind")).collect();
        Manifest { group: group.to_owned(), path: path.display().to_string(), kinds }
    }

    /// All that happens to the objects of a cluster.
    fn live(&self, rkube: &Rkube, kubectl: &Tool) {
        self.expect_each(self.run(kubectl, &["create"]), " created");
        self.compare_table(&self.run(kubectl, &["get"]).stdout, "txt");
        self.compare_table(&self.run(kubectl, &["get", "-o", "wide"]).stdout, "wide.txt");
        self.describe(kubectl);
        self.explain(kubectl);
        self.change(rkube, kubectl);
        self.apply(kubectl);
        // What protects volumes and the like waits for controllers that this test does not wait for.
        self.run(kubectl, &["patch", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        self.expect_each(self.run(kubectl, &["delete", "--timeout=30s"]), " deleted");
    }

    fn describe(&self, kubectl: &Tool) {
        let described = kubectl.attempt(&["describe", "-f", &self.path]);
        let names = described.stdout.lines().filter(|line| line.starts_with("Name:")).count();
        // A kubectl older than a kind's stable version looks for its beta, and says that it is not served.
        let unknown = described.stderr.contains("could not find the requested resource");
        assert!(names == self.kinds.len() || unknown, "{}\n{}", described.stdout, described.stderr);
    }

    fn explain(&self, kubectl: &Tool) {
        for (version, kind) in &self.kinds {
            let version_flag = format!("--api-version={version}");
            let explained = kubectl.run(&["explain", &version_flag, &kind.to_lowercase()]);
            let plain = version.rsplit('/').next().unwrap_or_default();
            explained.says(&format!("KIND:       {kind}\n")).says(&format!("VERSION:    {plain}\n")).says("FIELDS:\n");
        }
    }

    fn change(&self, rkube: &Rkube, kubectl: &Tool) {
        self.expect_each(self.run(kubectl, &["label", "stage=test"]), " labeled");
        self.expect_each(self.run(kubectl, &["annotate", "note=one"]), " annotated");
        let patches = [
            ("strategic", r#"{"metadata":{"labels":{"a":"1","stage":null}}}"#),
            ("merge", r#"{"metadata":{"labels":{"b":"2"}}}"#),
            ("json", r#"[{"op":"add","path":"/metadata/labels/c","value":"3"}]"#),
        ];
        for (kind, patch) in patches {
            self.expect_each(self.run(kubectl, &["patch", "--type", kind, "-p", patch]), " patched");
        }
        let mut edit = kubectl.command(&["edit", "-f", &self.path]);
        edit.env("KUBE_EDITOR", "sed -i s/note:.one/note:\\ two/").env("TMPDIR", rkube.scratch_directory());
        self.expect_each(Finished::run(&mut edit, "").expect_success(), " edited");
        let columns = "-o=custom-columns=:.metadata.labels.stage,:.metadata.labels.a,:.metadata.labels.b,\
                       :.metadata.labels.c,:.metadata.annotations.note";
        let changed = self.run(kubectl, &["get", "--no-headers", columns]).stdout;
        for line in changed.lines() {
            assert_eq!(collapse(line), "<none> 1 2 3 two", "{changed}");
        }
    }

    /// On both sides; the second time nothing changes, whatever kubectl thinks: what a server fills into lists makes it
    /// say `configured`.
    fn apply(&self, kubectl: &Tool) {
        for (side, word) in [("--server-side=false", " configured"), ("--server-side=true", " serverside-applied")] {
            let force = if side.ends_with("true") { "--force-conflicts=true" } else { "--force-conflicts=false" };
            self.expect_each(self.run(kubectl, &["apply", side, force]), word);
            let versions = || {
                let column = "-o=custom-columns=:.metadata.resourceVersion";
                self.run(kubectl, &["get", "--no-headers", column]).stdout
            };
            // Controllers may still be at work on what came before.
            eventually("applying again changes nothing", || {
                let before = versions();
                self.run(kubectl, &["apply", side, force, "--validate=false"]);
                let after = versions();
                if before == after { Ok(()) } else { Err(format!("{before}\n{after}")) }
            });
            assert_eq!(self.run(kubectl, &["diff", side, force]).stdout, "");
        }
    }

    #[track_caller]
    fn run(&self, kubectl: &Tool, arguments: &[&str]) -> Finished {
        let arguments = [arguments, &["-f", &self.path]].concat();
        kubectl.run(&arguments)
    }

    #[track_caller]
    fn expect_each(&self, finished: Finished, ending: &str) {
        let count = finished.stdout.lines().filter(|line| line.contains(ending)).count();
        assert_eq!(count, self.kinds.len(), "{ending:?} in\n{}\n{}", finished.stdout, finished.stderr);
    }

    /// In the recording `?` stands for a cell that controllers write, and `*` at the end for several.
    #[track_caller]
    fn compare_table(&self, table: &str, extension: &str) {
        let path = directory().join("tables").join(&self.group).with_extension(extension);
        let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: Vec<String> = table.lines().map(collapse).collect();
        let same = lines.len() == expected.lines().count()
            && expected.lines().zip(&lines).all(|(expected, line)| is_row(line, expected));
        assert!(same, "--- expected\n{expected}--- shown\n{}", lines.join("\n"));
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifests")
}

/// Of a line of `kubectl api-resources`, which may lack a short name.
fn version_and_kind(line: &str) -> (String, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let scope = words.iter().position(|word| matches!(*word, "true" | "false"));
    let scope = scope.unwrap_or_else(|| panic!("an unexpected line: {line}"));
    (words[scope - 1].to_owned(), words[scope + 1].to_owned())
}

fn is_row(line: &str, expected: &str) -> bool {
    let (words, mut wanted): (Vec<&str>, Vec<&str>) = (line.split(' ').collect(), expected.split(' ').collect());
    let open = wanted.last() == Some(&"*");
    if open {
        wanted.pop();
    }
    let fits = if open { words.len() >= wanted.len() } else { words.len() == wanted.len() };
    fits && wanted.iter().zip(&words).all(|(wanted, word)| *wanted == "?" || wanted == word)
}

/// One space between words, and no ages, which differ from run to run.
fn collapse(line: &str) -> String {
    let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// `5s`, `3m20s`, `6y317d`.
fn is_age(word: &str) -> bool {
    let starts_well = word.starts_with(|first: char| first.is_ascii_digit());
    let ends_well = word.ends_with(['s', 'm', 'h', 'd', 'y']);
    starts_well && ends_well && word.chars().all(|part| part.is_ascii_digit() || "smhdy".contains(part))
}
