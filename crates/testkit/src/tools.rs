//! Other people's programs, pointed at an rkube.
//!
//! | variable | what it names |
//! | --- | --- |
//! | `RKUBE_TEST_KUBECTL` | kubectl, 1.30 or newer |
//! | `RKUBE_TEST_KUBECTL_OLD` | kubectl 1.20 |
//! | `RKUBE_TEST_HELM` | helm 3 |
//! | `RKUBE_TEST_PYTHON` | a python that has the packages `flask`, `kopf` and `kubernetes` |
//! | `RKUBE_TEST_GO_PROGRAMS` | the directory of the programs built from `tests/clients` |
//! | `RKUBE_TEST_ETCD` | etcd, 3.4 or newer |
//!
//! Without the variable, kubectl, helm and etcd are looked for on the path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Finished, Process};
use crate::rkube::Rkube;

/// A program with the environment that makes it talk to one rkube, and to nothing of the person who runs the tests.
pub struct Tool {
    program: PathBuf,
    first_arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    /// A program with arguments by which it is run, where it has to be run somewhere else.
    entering: Vec<OsString>,
}

impl Tool {
    /// Runs it; the caller looks at how it went.
    pub fn attempt(&self, arguments: &[&str]) -> Finished {
        Finished::run(&mut self.command(arguments), "")
    }

    /// Runs it, and panics unless it succeeds.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Finished {
        self.attempt(arguments).expect_success()
    }

    /// As [`Tool::run`], with something on standard input.
    #[track_caller]
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        self.attempt_with_input(arguments, input).expect_success()
    }

    /// As [`Tool::attempt`], with something on standard input.
    pub fn attempt_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        Finished::run(&mut self.command(arguments), input)
    }

    /// Leaves it running; its lines can be read as they come.
    pub fn start(&self, arguments: &[&str]) -> Process {
        Process::spawn_with_lines(self.command(arguments).stderr(Stdio::inherit()))
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.entering.iter().map(OsString::as_os_str).chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(&self.first_arguments).args(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Rkube {
    pub fn kubectl(&self) -> Option<Tool> {
        self.tool("RKUBE_TEST_KUBECTL", Some("kubectl"))
    }

    /// The oldest that people still have.
    pub fn old_kubectl(&self) -> Option<Tool> {
        self.tool("RKUBE_TEST_KUBECTL_OLD", None)
    }

    pub fn helm(&self) -> Option<Tool> {
        self.tool("RKUBE_TEST_HELM", Some("helm"))
    }

    /// A script in `tests/clients/python`.
    pub fn python(&self, script: &str) -> Option<Tool> {
        let mut tool = self.tool("RKUBE_TEST_PYTHON", None)?;
        tool.first_arguments.push(client_files().join("python").join(script).display().to_string());
        Some(tool)
    }

    /// A module of the python environment, such as `kopf`.
    pub fn python_module(&self, module: &str) -> Option<Tool> {
        let mut tool = self.tool("RKUBE_TEST_PYTHON", None)?;
        tool.first_arguments.extend(["-m".to_owned(), module.to_owned()]);
        Some(tool)
    }

    /// A program built from `tests/clients/NAME`.
    pub fn go_program(&self, name: &str) -> Option<Tool> {
        let mut tool = self.tool("RKUBE_TEST_GO_PROGRAMS", None)?;
        tool.program.push(name);
        Some(tool)
    }

    fn tool(&self, variable: &'static str, on_path: Option<&str>) -> Option<Tool> {
        let program = find(variable, on_path)?;
        let home = self.scratch_directory().join("home");
        let environment = vec![
            ("KUBECONFIG", self.kubeconfig().to_owned()),
            // Discovery caches, helm's state and python's configuration stay in this test.
            ("HOME", home.clone()),
            ("KUBECACHEDIR", home.join("kube-cache")),
            ("XDG_CACHE_HOME", home.join("cache")),
            ("XDG_CONFIG_HOME", home.join("config")),
            ("XDG_DATA_HOME", home.join("share")),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
            ("NO_PROXY", "*".into()),
        ];
        Some(Tool { program, first_arguments: Vec::new(), environment, entering: self.entering() })
    }
}

/// Where a program built from `tests/clients/NAME` is, for tests that need no rkube.
pub fn go_program(name: &str) -> Option<PathBuf> {
    find("RKUBE_TEST_GO_PROGRAMS", None).map(|directory| directory.join(name))
}

/// Where an etcd is, for tests of the store over it.
pub fn etcd() -> Option<PathBuf> {
    find("RKUBE_TEST_ETCD", Some("etcd"))
}

/// What tests feed to clients: programs, charts, manifests.
pub fn client_files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

fn find(variable: &str, on_path: Option<&str>) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = named.or_else(|| {
        let name = on_path?;
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
    });
    if found.is_none() {
        let notice = format!("{variable} is not set: run the tests with `cargo xtask test`");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{notice}");
        eprintln!("skipped: {notice}");
    }
    found
}
