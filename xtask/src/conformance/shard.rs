//! Some of the tests, on an rkube of their own.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::group::Group;
use super::live::Live;
use super::machine::Machine;
use super::outcome::{Outcome, Verdict, focus};
use super::report::{Report, last_lines};

/// An rkube that says nothing for so long never will.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// What is run.
pub(super) struct Programs {
    pub e2e: PathBuf,
    pub kubectl: PathBuf,
    pub rkube: PathBuf,
    pub rkube_flags: Vec<String>,
    /// What the shards' real nodes have; None: there are none.
    pub images: Option<PathBuf>,
}

pub(super) struct Shard {
    pub names: Vec<String>,
    /// For its data, logs and report.
    pub directory: PathBuf,
    /// How long it may take: then ginkgo ends the test that runs, and reports.
    pub limit: Duration,
    /// What ginkgo gets for that before it is killed.
    pub grace: Duration,
}

impl Shard {
    /// An outcome for each name. Each is also sent when it is known.
    pub fn run(&self, programs: &Programs, events: &Sender<Outcome>) -> Vec<Outcome> {
        let mut seen = HashMap::new();
        let broken = self.run_tests(programs, events, &mut seen).err();
        let report = Report::read(&self.report_file());
        let outcome = |name: &String| match (&report, &broken, seen.get(name.as_str())) {
            (Ok(report), _, _) => report.outcome(name),
            // What ended before something broke has ended.
            (Err(_), _, Some(seen)) => seen.clone(),
            (Err(error), None, None) => not_run(name, &format!("{error:#}\n{}", self.last_of_log("e2e.log"))),
            (Err(_), Some(error), None) => not_run(name, &format!("{error:#}")),
        };
        let outcomes: Vec<Outcome> = self.names.iter().map(outcome).collect();
        let news = outcomes
            .iter()
            .filter(|outcome| seen.get(outcome.name.as_str()).is_none_or(|seen| seen.verdict != outcome.verdict));
        // Nobody listens any more only if this process ends.
        news.for_each(|outcome| drop(events.send(outcome.clone())));
        outcomes
    }

    /// Returns when all has ended that was started. `seen` gets what ended and how, as far as that could be followed.
    fn run_tests<'names>(
        &'names self,
        programs: &Programs,
        events: &Sender<Outcome>,
        seen: &mut HashMap<&'names str, Outcome>,
    ) -> Result<()> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        // Ended after everybody who works in it.
        let machine = Machine::new(programs, &self.directory)?;
        let group = Group::new()?;
        let (mut rkube, kubeconfig) = self.start_rkube(&group, programs, &machine)?;
        let mut command = self.e2e_command(programs, &machine, &kubeconfig);
        let mut tests = group.spawn(command.stdout(Stdio::piped()).stderr(self.file("e2e.stderr.log")?))?;
        let output = tests.stdout.take().context("it was asked for")?;
        let log = self.file("e2e.log")?;
        let followed = std::thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            let group = &group;
            scope.spawn(move || {
                // An error here means that all went well, and nobody has to be stopped.
                let late = end.recv_timeout(self.limit.saturating_add(self.grace));
                if late == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    group.end();
                }
            });
            scope.spawn(move || {
                // Whatever it left behind would hold the pipe open.
                let _ = tests.wait();
                drop(ended);
                group.end();
            });
            self.follow(output, log, events, seen)
        });
        let _ = rkube.wait();
        followed
    }

    /// Reads what ginkgo says to its end.
    fn follow<'names>(
        &'names self,
        output: impl Read,
        mut log: File,
        events: &Sender<Outcome>,
        seen: &mut HashMap<&'names str, Outcome>,
    ) -> Result<()> {
        let mut live = Live::new(&self.names);
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("cannot read what e2e.test says")?;
            log.write_all(&line).and_then(|()| log.write_all(b"\n")).context("cannot write the log")?;
            if let Some(ended) = live.read(&String::from_utf8_lossy(&line)) {
                let outcome = Outcome {
                    name: ended.name.to_owned(),
                    verdict: ended.verdict,
                    seconds: Some(ended.seconds),
                    reason: "e2e.test did not write its report".to_owned(),
                };
                let _ = events.send(outcome.clone());
                seen.insert(ended.name, outcome);
            }
        }
        Ok(())
    }

    /// Returns with its kubeconfig when it is ready.
    fn start_rkube(&self, group: &Group, programs: &Programs, machine: &Machine) -> Result<(Child, PathBuf)> {
        let mut command = machine.command(&programs.rkube);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(self.directory.join("data"));
        command.args(machine.rkube_flags()).args(&programs.rkube_flags);
        if !programs.rkube_flags.iter().any(|flag| flag.starts_with("--store")) {
            command.args(["--store", "memory"]);
        }
        let mut rkube = group.spawn(command.stdout(Stdio::piped()).stderr(self.file("rkube.log")?))?;
        let line = first_line(&mut rkube)?;
        match line.trim().split_once("KUBECONFIG=") {
            Some((_, file)) => Ok((rkube, file.into())),
            None => bail!("rkube did not get ready: {line}\n{}", self.last_of_log("rkube.log")),
        }
    }

    fn e2e_command(&self, programs: &Programs, machine: &Machine, kubeconfig: &Path) -> Command {
        let mut command = machine.command(&programs.e2e);
        // kubectl caches discovery by address, and addresses come again: no cache but the shard's own.
        command.current_dir(&self.directory).env("HOME", &self.directory).env_remove("KUBECONFIG");
        command.arg("--kubeconfig").arg(kubeconfig).arg("--kubectl-path").arg(&programs.kubectl);
        // There may be no nodes, and nothing that runs pods.
        command.args(["--provider=skeleton", "--num-nodes=1", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1"]);
        command.args(["--ginkgo.v", "--ginkgo.no-color"]);
        command.arg(format!("--ginkgo.timeout={}s", self.limit.as_secs()));
        command.arg("--ginkgo.json-report").arg(self.report_file());
        // A flag each, of which ginkgo makes one expression: the kernel bounds the length of an argument.
        command.args(self.names.iter().map(|name| format!("--ginkgo.focus={}", focus(name))));
        command
    }

    fn report_file(&self) -> PathBuf {
        self.directory.join("report.json")
    }

    fn file(&self, name: &str) -> Result<File> {
        let path = self.directory.join(name);
        File::create(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    fn last_of_log(&self, name: &str) -> String {
        let bytes = std::fs::read(self.directory.join(name)).unwrap_or_default();
        last_lines(Some(&String::from_utf8_lossy(&bytes)))
    }
}

/// Empty if it ends without one, or says nothing for too long.
fn first_line(child: &mut Child) -> Result<String> {
    let output = child.stdout.take().context("it was asked for")?;
    let (sender, line) = channel();
    // Ends with the process at the latest.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(output).read_line(&mut line);
        sender.send(line)
    });
    Ok(line.recv_timeout(READY_TIMEOUT).unwrap_or_default())
}

fn not_run(name: &str, reason: &str) -> Outcome {
    Outcome { name: name.to_owned(), verdict: Verdict::Failed, seconds: None, reason: format!("not run: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const REPORT: &str = r#"[{"SpecReports":[
        {"LeafNodeType":"It","LeafNodeText":"[sig-a] one [Conformance]","State":"passed","RunTime":1000000000},
        {"LeafNodeType":"It","LeafNodeText":"[sig-a] two","State":"skipped","Failure":{"Message":"no nodes"}}]}]"#;
    const SAYS: &str = "echo '[sig-a] one [Conformance] [sig-a]'; echo '• [1.000 seconds]'";

    /// Runs scripts in place of the programs; returns what was found and what was sent.
    fn run(test: &str, rkube: &str, e2e: &str, limit: Duration) -> (Vec<(Verdict, String)>, usize) {
        let directory = std::env::temp_dir().join(format!("xtask-shard-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let program = |name: &str, script: &str| {
            let path = directory.join(name);
            // Written by a process of its own: what this one has open for writing another test could take along into
            // a child, and then it cannot be run.
            let text = format!("#!/bin/sh\n{script}\n");
            let written = Command::new("sh").args(["-c", "printf %s \"$1\" > \"$0\""]).arg(&path).arg(text).status();
            assert!(written.unwrap().success());
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let programs = Programs {
            e2e: program("e2e", e2e),
            kubectl: "kubectl".into(),
            rkube: program("rkube", rkube),
            rkube_flags: Vec::new(),
            images: None,
        };
        let names = ["[sig-a] one", "[sig-a] two"].map(str::to_owned).into();
        let shard = Shard { names, directory: directory.join("shard"), limit, grace: Duration::ZERO };
        let (sender, events) = channel();
        let outcomes = shard.run(&programs, &sender);
        drop(sender);
        std::fs::remove_dir_all(&directory).unwrap();
        (outcomes.into_iter().map(|outcome| (outcome.verdict, outcome.reason)).collect(), events.iter().count())
    }

    const READY: &str = "echo 'ready in 1 ms  https://127.0.0.1:1  KUBECONFIG=/k'; sleep 1000";
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn the_report_has_the_last_word_and_everything_is_told_once() {
        let (outcomes, told) = run("report", READY, &format!("{SAYS}\necho '{REPORT}' > report.json; exit 1"), LONG);
        assert_eq!(outcomes[0].0, Verdict::Passed);
        assert_eq!(outcomes[1], (Verdict::Skipped, "no nodes".to_owned()));
        assert_eq!(told, 2);
    }

    #[test]
    fn what_ended_before_a_crash_has_ended() {
        let (outcomes, told) = run("crash", READY, &format!("{SAYS}; echo 'panic: oh'; exit 2"), LONG);
        assert_eq!((outcomes[0].0, outcomes[1].0), (Verdict::Passed, Verdict::Failed));
        assert!(outcomes[1].1.ends_with("panic: oh"), "{}", outcomes[1].1);
        assert_eq!(told, 2);
    }

    #[test]
    fn what_hangs_is_killed() {
        let (outcomes, _) = run("hang", READY, &format!("{SAYS}; sleep 1000"), Duration::from_secs(1));
        assert_eq!((outcomes[0].0, outcomes[1].0), (Verdict::Passed, Verdict::Failed));
    }

    #[test]
    fn without_an_rkube_nothing_passes() {
        let (outcomes, told) = run("dead", "echo broken >&2; exit 1", SAYS, LONG);
        assert!(outcomes.iter().all(|(verdict, reason)| *verdict == Verdict::Failed && reason.ends_with("broken")));
        assert_eq!(told, 2);
    }
}
