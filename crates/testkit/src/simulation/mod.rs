//! A cluster that lives through days in which everything happens that users do and all that can go wrong: the real code, in
//! virtual time, from one seed.
//!
//! - `workload/`: what users do.
//! - `checks/`: what holds at every write.
//! - `converged/`: what holds at the end, when nothing goes wrong any more.
//!
//! A run is a function of its seed and of what [`Simulation`] says: [`Report::digest`] tells two runs apart.

mod checks;
mod converged;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Chaos, Faults, TestCluster};
use checks::Checks;
use workload::Workload;

/// Small enough to fill up when some are lost, large enough for everything when none is.
const NODES: usize = 4;
const TEMPLATE: &str = r#"{"kind": "Node", "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "60"}}}"#;
/// Also those that are off unless somebody asks for them.
const CONTROLLERS: &str = "*,bootstrap-signer-controller,token-cleaner-controller";
/// For the work of controllers and scheduler: one leads, the others take over.
const CANDIDATES: usize = 2;
/// Users do something so often, on average.
const PERIOD: Duration = Duration::from_secs(60);
/// When faults end, everything is as it should be within this time.
const CONVERGED_MAX: Duration = Duration::from_secs(60 * 60);
/// How often is looked whether it is.
const LOOK: Duration = Duration::from_secs(20);
/// So long is watched whether a cluster in which nothing happens writes anything.
const QUIET: Duration = Duration::from_secs(15 * 60);

/// What is to be run.
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    seed: u64,
    time: Duration,
    faults: Faults,
}

/// What became of it.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    /// Of all that was written and all that went wrong.
    pub digest: u64,
    pub writes: u64,
    pub faults: u64,
    /// What should not have been, in order. Empty: all is well.
    pub violations: Vec<String>,
    /// What happened, line by line, if that was asked for.
    pub lines: Vec<String>,
}

impl Simulation {
    pub fn of_seed(seed: u64) -> Simulation {
        Simulation { seed, time: Duration::from_secs(6 * 3600), faults: Faults::all() }
    }

    /// For how long users do things and things go wrong.
    pub fn time(mut self, time: Duration) -> Simulation {
        self.time = time;
        self
    }

    pub fn faults(mut self, faults: Faults) -> Simulation {
        self.faults = faults;
        self
    }

    /// Has the report tell everything line by line.
    pub fn with_lines(mut self) -> Simulation {
        self.faults.lines = true;
        self
    }

    /// Runs it, on a runtime of one thread. Ends early when something is not as it should be.
    pub async fn run(self) -> Report {
        let builder = TestCluster::builder().nodes(NODES).node_template(TEMPLATE).candidates(CANDIDATES);
        let builder = builder.controllers(CONTROLLERS).virtual_time().seed(self.seed);
        let cluster = builder.faults(self.faults).start().await;
        let chaos = cluster.chaos().expect("it was asked for").clone();
        let violations: Violations = Arc::default();
        let checks = Checks::new(violations.clone());
        let quiet = checks.quiet();
        chaos.observe(Box::new(checks));
        let mut workload = Workload::new(cluster.client(), cluster.clock().clone(), self.seed);
        workload.begin().await;
        let found = |violations: &Violations| !violations.lock().is_empty();

        let mut left = self.time;
        while !left.is_zero() && !found(&violations) {
            let step = workload.a_while(PERIOD * 2).min(left);
            cluster.advance(step).await;
            left -= step;
            workload.act(&chaos).await;
        }
        if !found(&violations) {
            cluster.end_faults().await;
            let client = cluster.client();
            // While there are quotas, not everything that is wanted may be.
            converge(&cluster, &violations, async || converged::miscounted_quota(&client).await).await;
            workload.end().await;
            converge(&cluster, &violations, async || converged::problem(&client).await).await;
        }
        if !found(&violations) {
            // Events about what was are still on their way.
            cluster.advance(QUIET).await;
            quiet.begin();
            cluster.advance(QUIET).await;
        }
        let report = report(self.seed, &chaos, &violations);
        cluster.shutdown().await;
        report
    }
}

/// Waits until nothing is wrong any more, or until something has been found.
async fn converge(cluster: &TestCluster, violations: &Violations, problem: impl AsyncFn() -> Option<String>) {
    let mut waited = Duration::ZERO;
    while violations.lock().is_empty() {
        cluster.advance(LOOK).await;
        waited += LOOK;
        match problem().await {
            None => return,
            Some(problem) if waited >= CONVERGED_MAX => {
                violations.lock().push(format!("not converged after {waited:?}: {problem}"));
            }
            Some(_) => {}
        }
    }
}

/// What was found, by those who look for it.
type Violations = Arc<Mutex<Vec<String>>>;

fn report(seed: u64, chaos: &Chaos, violations: &Violations) -> Report {
    Report {
        seed,
        digest: chaos.digest(),
        writes: chaos.writes(),
        faults: chaos.faults(),
        violations: violations.lock().clone(),
        lines: chaos.lines(),
    }
}
