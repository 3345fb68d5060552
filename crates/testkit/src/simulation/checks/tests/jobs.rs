//! Jobs.

use serde_json::{Value, json};

use super::{A_WHILE, History, conditions, over, owned_by, terminating};

const CONTROLLER: &str = "job-controller";

fn pod(uid: &str) -> Value {
    json!({ "metadata": { "uid": uid, "ownerReferences": owned_by("Job", "j") } })
}

fn indexed(uid: &str, index: &str) -> Value {
    let mut pod = pod(uid);
    pod["metadata"]["annotations"] = json!({ "batch.kubernetes.io/job-completion-index": index });
    pod
}

/// Two completions, two at a time, and so many that succeeded and failed.
fn job(mode: &str, succeeded: u64, failed: u64, ended: &[&str]) -> Value {
    json!({
        "metadata": { "uid": "j" },
        "spec": { "completions": 2, "parallelism": 2, "completionMode": mode },
        "status": { "succeeded": succeeded, "failed": failed, "conditions": conditions(ended) },
    })
}

/// Two pods were made.
fn two() -> History {
    let start = History::new().put("jobs/a/j", &job("NonIndexed", 0, 0, &[])).by(CONTROLLER);
    start.put("pods/a/1", &pod("1")).put("pods/a/2", &pod("2"))
}

fn succeeds(history: History, name: &str) -> History {
    history.put(&format!("pods/a/{name}"), &over(pod(name), "Succeeded"))
}

fn says(history: History, status: (u64, u64), ended: &[&str]) -> History {
    history.put("jobs/a/j", &job("NonIndexed", status.0, status.1, ended))
}

#[test]
fn a_job_counts_what_succeeded() {
    let both = || succeeds(succeeds(two(), "1"), "2");
    says(both(), (2, 0), &["Complete"]).stays_silent();
    // Pods may be gone before they are counted.
    says(both().gone("pods/a/1").gone("pods/a/2"), (2, 0), &["Complete"]).stays_silent();
    says(succeeds(two(), "1"), (2, 0), &[]).says(&["/registry/jobs/a/j: says that 2 succeeded, and 1 pods did"]);
    // A pod that is written again succeeded once.
    says(succeeds(succeeds(two(), "1"), "1"), (2, 0), &[])
        .says(&["/registry/jobs/a/j: says that 2 succeeded, and 1 pods did"]);
    says(both(), (1, 0), &["Complete"]).says(&["/registry/jobs/a/j: is complete with 1 of 2"]);
    says(says(both(), (2, 1), &[]), (1, 1), &[]).says(&["/registry/jobs/a/j: counts backwards: 1 and 1"]);
    says(says(both(), (1, 1), &[]), (1, 0), &[]).says(&["/registry/jobs/a/j: counts backwards: 1 and 0"]);
}

#[test]
fn a_job_has_the_completions_that_were_asked_for() {
    let more = |history: History| succeeds(succeeds(succeeds(history, "1"), "2").put("pods/a/3", &pod("3")), "3");
    says(more(two()), (3, 0), &[]).says(&["/registry/jobs/a/j: 3 succeeded of 2"]);
    // One was made without the controller being told.
    let start = || History::new().put("jobs/a/j", &job("NonIndexed", 0, 0, &[])).by(CONTROLLER);
    let unheard = start().put("pods/a/1", &pod("1")).unheard().put("pods/a/2", &pod("2")).by(CONTROLLER);
    says(more(unheard), (3, 0), &["Complete"]).stays_silent();
    // Which makes no more indexes.
    let start = History::new().put("jobs/a/j", &job("Indexed", 0, 0, &[])).by(CONTROLLER);
    let unheard =
        start.put("pods/a/1", &indexed("1", "0")).unheard().put("pods/a/2", &indexed("2", "1")).by(CONTROLLER);
    more(unheard).put("jobs/a/j", &job("Indexed", 3, 0, &[])).says(&["/registry/jobs/a/j: 3 succeeded of 2"]);
}

#[test]
fn what_is_over_stays_so() {
    let complete = || says(succeeds(succeeds(two(), "1"), "2"), (2, 0), &["Complete"]);
    says(complete(), (2, 0), &["Complete"]).stays_silent();
    says(complete(), (2, 1), &["Complete"]).says(&["/registry/jobs/a/j: is Complete, and its status changes"]);
    says(complete(), (2, 0), &[]).says(&["/registry/jobs/a/j: is Complete, and its status changes"]);
    says(says(two(), (0, 1), &["Failed"]), (0, 2), &["Failed"])
        .says(&["/registry/jobs/a/j: is Failed, and its status changes"]);
    complete().put("pods/a/3", &pod("3")).says(&["/registry/pods/a/3: is made for a Job that is Complete"]);
    // Another one of the same name.
    let mut other = job("NonIndexed", 0, 0, &[]);
    other["metadata"]["uid"] = json!("k");
    complete().gone("jobs/a/j").put("jobs/a/j", &other).stays_silent();
}

#[test]
fn no_more_pods_run_at_a_time_than_may() {
    two().put("pods/a/1", &over(pod("1"), "Failed")).put("pods/a/3", &pod("3")).stays_silent();
    two().put("pods/a/1", &terminating(pod("1"))).put("pods/a/3", &pod("3")).stays_silent();
    let many = "/registry/pods/a/3: its Job has 3 pods at a time, and 2 are allowed";
    two().put("pods/a/3", &pod("3")).says(&[many]);
    // The second was made without the controller being told.
    let start = || History::new().put("jobs/a/j", &job("NonIndexed", 0, 0, &[])).by(CONTROLLER);
    let unheard = || start().put("pods/a/1", &pod("1")).unheard().put("pods/a/2", &pod("2")).by(CONTROLLER);
    unheard().put("pods/a/3", &pod("3")).stays_silent();
    unheard().after(A_WHILE).put("pods/a/3", &pod("3")).says(&[many]);
}

#[test]
fn an_index_has_one_pod_at_a_time() {
    let start = || History::new().put("jobs/a/j", &job("Indexed", 0, 0, &[])).by(CONTROLLER);
    let first = || start().put("pods/a/1", &indexed("1", "0"));
    first().put("pods/a/2", &indexed("2", "1")).stays_silent();
    first().put("pods/a/1", &over(indexed("1", "0"), "Failed")).put("pods/a/2", &indexed("2", "0")).stays_silent();
    first()
        .put("pods/a/2", &indexed("2", "0"))
        .says(&["/registry/pods/a/2: is made for an index that /registry/pods/a/1 is for"]);
    let unheard = start().unheard().put("pods/a/1", &indexed("1", "0")).by(CONTROLLER);
    unheard.put("pods/a/2", &indexed("2", "0")).stays_silent();
}

#[test]
fn a_suspended_job_makes_no_pods() {
    let mut suspended = job("NonIndexed", 0, 0, &[]);
    suspended["spec"]["suspend"] = json!(true);
    let start = |seconds| {
        let start = History::new().put("jobs/a/j", &job("NonIndexed", 0, 0, &[])).put("jobs/a/j", &suspended);
        start.by(CONTROLLER).after(seconds)
    };
    start(10).put("pods/a/1", &pod("1")).stays_silent();
    start(A_WHILE)
        .put("pods/a/1", &pod("1"))
        .says(&["/registry/pods/a/1: its Job has 1 pods at a time, and 0 are allowed"]);
    start(A_WHILE).put("jobs/a/j", &job("NonIndexed", 0, 0, &[])).put("pods/a/1", &pod("1")).stays_silent();
}

#[test]
fn a_pod_is_replaced_when_it_may_be() {
    let start = |policy: &str| {
        let mut job = job("NonIndexed", 0, 0, &[]);
        job["spec"]["podReplacementPolicy"] = json!(policy);
        let start = History::new().put("jobs/a/j", &job).by(CONTROLLER);
        start.put("pods/a/1", &pod("1")).put("pods/a/2", &pod("2")).put("pods/a/2", &terminating(pod("2")))
    };
    start("TerminatingOrFailed").put("pods/a/3", &pod("3")).stays_silent();
    start("Failed")
        .put("pods/a/3", &pod("3"))
        .says(&["/registry/pods/a/3: its Job has 3 pods at a time, and 2 are allowed"]);
    start("Failed").put("pods/a/2", &over(pod("2"), "Failed")).put("pods/a/3", &pod("3")).stays_silent();
    start("Failed").gone("pods/a/2").put("pods/a/3", &pod("3")).stays_silent();
}

fn with_indexes(completed: &str, failed: &str) -> Value {
    let mut job = job("Indexed", 0, 0, &[]);
    job["status"]["completedIndexes"] = json!(completed);
    job["status"]["failedIndexes"] = json!(failed);
    job
}

#[test]
fn an_index_that_is_done_stays_so() {
    let start = || History::new().by(CONTROLLER).put("jobs/a/j", &with_indexes("0,3-5", "7"));
    start().put("pods/a/1", &indexed("1", "1")).stays_silent();
    for index in ["0", "4", "7"] {
        let done = format!("/registry/pods/a/1: is made for index {index}, which is done");
        start().put("pods/a/1", &indexed("1", index)).says(&[&done]);
    }
    start().put("jobs/a/j", &with_indexes("0-5", "7")).stays_silent();
    start()
        .put("jobs/a/j", &with_indexes("0,3,4", "7"))
        .says(&["/registry/jobs/a/j: has forgotten that index 5 is done"]);
    start()
        .put("jobs/a/j", &with_indexes("0,3-5", "5,7"))
        .says(&["/registry/jobs/a/j: says of index 5 that it succeeded and that it failed"]);
}

#[test]
fn a_policy_says_when_enough_have_succeeded() {
    let ends = |rule: Value, completed: &str, succeeded: u64| {
        let two =
            ["1", "2"].iter().fold(History::new().put("jobs/a/j", &job("Indexed", 0, 0, &[])), |history, name| {
                history.put(&format!("pods/a/{name}"), &over(pod(name), "Succeeded"))
            });
        let mut job = job("Indexed", succeeded, 0, &["Complete"]);
        job["spec"]["completions"] = json!(4);
        job["spec"]["successPolicy"] = json!({ "rules": [rule] });
        job["status"]["completedIndexes"] = json!(completed);
        two.put("jobs/a/j", &job)
    };
    let early = |succeeded: u64| format!("/registry/jobs/a/j: is complete with {succeeded} of 4");
    ends(json!({ "succeededCount": 2 }), "1,3", 2).stays_silent();
    ends(json!({ "succeededCount": 2 }), "1", 1).says(&[&early(1)]);
    ends(json!({ "succeededIndexes": "0-1" }), "0,1", 2).stays_silent();
    ends(json!({ "succeededIndexes": "0-1" }), "0,2", 2).says(&[&early(2)]);
    ends(json!({ "succeededIndexes": "0-1", "succeededCount": 1 }), "1", 1).stays_silent();
    ends(json!({ "succeededIndexes": "0-1", "succeededCount": 1 }), "2", 1).says(&[&early(1)]);
}
