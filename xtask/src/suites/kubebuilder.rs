//! A project as kubebuilder makes it: two versions of a kind, webhooks that default, validate and convert. Its own tests
//! run on our programs, sideloaded; then it is installed in a running rkube, and runs.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Setting;
use crate::clients;
use crate::command::{run_quietly, say};

const VERSION: &str = "1.36.4";
const PROJECT: &[&[&str]] = &[
    &["init", "--domain", "example.com", "--repo", "my-operator"],
    &["create", "api", "--group", "mygroup", "--version", "v1", "--kind", "MyResource", "--resource", "--controller"],
    &[
        "create",
        "api",
        "--group",
        "mygroup",
        "--version",
        "v2",
        "--kind",
        "MyResource",
        "--resource",
        "--controller=false",
    ],
    &[
        "create",
        "webhook",
        "--group",
        "mygroup",
        "--version",
        "v1",
        "--kind",
        "MyResource",
        "--defaulting",
        "--programmatic-validation",
        "--conversion",
        "--spoke",
        "v2",
    ],
];
/// The sample of the project has nothing in its spec, which its own schema refuses.
const SAMPLE: &str = r#"{"apiVersion":"mygroup.example.com/v1","kind":"MyResource",
    "metadata":{"name":"one","namespace":"default"},"spec":{"foo":"x"}}"#;
/// What the operator logs when it sees a resource: the one line that we write into the project.
const SEEN: &str = "seen by the operator";

pub fn run(setting: &Setting) -> Result<()> {
    let (kubebuilder, setup_envtest) = clients::kubebuilder(&setting.root)?;
    let project = setting.directory.join("my-operator");
    make_project(&project, &kubebuilder)?;
    let bin = project.join("bin");
    sideload(setting, &setup_envtest, &bin)?;
    let make = |targets: &[&str]| {
        let mut make = Command::new("make");
        // By a tag: what it would take by itself is a branch, which not every proxy has.
        make.current_dir(&project).args(targets).arg("ENVTEST_VERSION=v0.24.1");
        make.arg(format!("ENVTEST_K8S_VERSION={VERSION}"));
        make
    };
    say("make manifests test");
    run_quietly(&mut make(&["manifests", "test"]))?;

    let rkube = Running::start(setting)?;
    say("make install, make run");
    run_quietly(make(&["install"]).env("KUBECONFIG", &rkube.kubeconfig))?;
    let mut operator = make(&["run"]);
    operator.env("KUBECONFIG", &rkube.kubeconfig).env("ENABLE_WEBHOOKS", "false");
    operator.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut operator = Group::spawn(&mut operator)?;
    let log = BufReader::new(operator.0.stderr.take().context("it was asked for")?);
    let mut lines = log.lines().map_while(Result::ok);
    ensure!(lines.any(|line| line.contains("Starting workers")), "the operator did not start");
    let kubectl = clients::kubectl(&setting.root)?;
    let sample = setting.directory.join("my-resource.json");
    std::fs::write(&sample, SAMPLE)?;
    run_quietly(Command::new(kubectl).env("KUBECONFIG", &rkube.kubeconfig).args(["apply", "-f"]).arg(sample))?;
    ensure!(lines.any(|line| line.contains(SEEN)), "the operator did not reconcile");
    say("kubebuilder: its tests pass, and the operator reconciles");
    Ok(())
}

/// Made anew each time: what kubebuilder writes is under test, too.
fn make_project(project: &Path, kubebuilder: &Path) -> Result<()> {
    // The programs that were sideloaded last time are read-only.
    let _ = Command::new("chmod").args(["-R", "u+w"]).arg(project).output();
    let _ = std::fs::remove_dir_all(project);
    std::fs::create_dir_all(project)?;
    say("kubebuilder init, create api, create webhook");
    for arguments in PROJECT {
        run_quietly(Command::new(kubebuilder).current_dir(project).args(*arguments))?;
    }
    let path = project.join("internal/controller/myresource_controller.go");
    let written = std::fs::read_to_string(&path)?;
    let line = "_ = logf.FromContext(ctx)";
    ensure!(written.contains(line), "the controller does not look as it did");
    std::fs::write(&path, written.replace(line, &format!("logf.FromContext(ctx).Info({SEEN:?})")))?;
    Ok(())
}

fn sideload(setting: &Setting, setup_envtest: &Path, bin: &Path) -> Result<()> {
    let mut archive = Command::new(&setting.rkube).args(["envtest", "--tar"]).stdout(Stdio::piped()).spawn()?;
    let from = archive.stdout.take().context("it was asked for")?;
    let loaded = Command::new(setup_envtest).args(["sideload", VERSION, "--bin-dir"]).arg(bin).stdin(from).status()?;
    ensure!(archive.wait()?.success() && loaded.success(), "the programs cannot be sideloaded");
    Ok(())
}

/// A child that ends with its handle, and with all that it started: `go run` leaves its program behind.
struct Group(Child);

impl Group {
    fn spawn(command: &mut Command) -> Result<Group> {
        Ok(Group(command.process_group(0).spawn()?))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

struct Running {
    _process: Group,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(setting: &Setting) -> Result<Running> {
        let mut command = Command::new(&setting.rkube);
        command
            .args(["up", "--node=none", "--store=memory", "--listen=127.0.0.1:0", "--data-dir"])
            .arg(setting.directory.join("up"));
        let mut process = Group::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("it was asked for")?).read_line(&mut line)?;
        let (_, kubeconfig) = line.trim_end().split_once("KUBECONFIG=").context("rkube did not get ready")?;
        Ok(Running { _process: process, kubeconfig: kubeconfig.into() })
    }
}
