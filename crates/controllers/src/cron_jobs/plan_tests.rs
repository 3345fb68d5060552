//! Tables of what is planned for CronJobs and their Jobs.

use std::sync::Arc;

use rkube_machinery::{Text, time};
use rkube_operator::Item;
use serde_json::{Value, json};

use crate::cron_jobs::plan::{self, Plan};
use crate::cron_jobs::view::CronJob;
use crate::jobs::Job;

fn item(name: &str, object: &Value) -> Item {
    Item {
        namespace: "n".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        revision: 1,
        json: object.to_string().into(),
    }
}

fn cron(spec: &Value, status: &Value) -> CronJob {
    let metadata = json!({ "creationTimestamp": "2026-01-01T00:00:30Z" });
    CronJob::read(&item("c", &json!({ "metadata": metadata, "spec": spec, "status": status }))).unwrap()
}

fn job(name: &str, end: Option<&str>, started: &str) -> Arc<Job> {
    let conditions: Vec<Value> = end.map(|end| json!({ "type": end, "status": "True" })).into_iter().collect();
    let status = json!({ "conditions": conditions, "startTime": started, "completionTime": started });
    Arc::new(Job::read(&item(name, &json!({ "metadata": {}, "spec": {}, "status": status }))).unwrap())
}

fn planned(cron: &CronJob, jobs: &[Arc<Job>], now: &str) -> Plan {
    let micros = time::parse(now).unwrap().0 * 1_000_000;
    plan::plan(cron, jobs, &[], &|_| false, micros)
}

fn active(names: &[&str]) -> Value {
    let reference = |name: &&str| json!({ "name": name, "uid": format!("uid-{name}"), "namespace": "n" });
    names.iter().map(reference).collect::<Vec<Value>>().into()
}

#[test]
fn jobs_are_made_when_they_are_due() {
    let every = |more: Value| {
        let mut spec = json!({ "schedule": "*/10 * * * *" });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    };
    let last = |at: &str| json!({ "lastScheduleTime": format!("2026-01-01T{at}Z") });
    // The spec, the status, the time; for which a Job is made, what is told, and in how many seconds it goes on.
    let table = [
        (every(json!({})), json!({}), "00:05:00", None, "", 300),
        (every(json!({})), json!({}), "00:10:00", Some("00:10:00"), "", 600),
        (every(json!({})), json!({}), "00:35:00", Some("00:30:00"), "", 300),
        (every(json!({})), last("00:10:00"), "00:15:00", None, "", 300),
        (every(json!({ "suspend": true })), json!({}), "00:10:00", None, "", 0),
        (every(json!({ "startingDeadlineSeconds": 60 })), json!({}), "00:10:30", Some("00:10:00"), "", 570),
        (every(json!({ "startingDeadlineSeconds": 60 })), json!({}), "00:15:00", None, "", 300),
        (every(json!({})), json!({}), "23:59:00", Some("23:50:00"), "TooManyMissedTimes", 60),
        (every(json!({ "timeZone": "No/Where" })), json!({}), "00:10:00", None, "UnknownTimeZone", 0),
        (json!({ "schedule": "0 0 30 2 *" }), json!({}), "00:10:00", None, "InvalidSchedule", 0),
        (json!({ "schedule": "nonsense" }), json!({}), "00:10:00", None, "UnparseableSchedule", 0),
    ];
    for (spec, status, now, start, told, again) in table {
        let plan = planned(&cron(&spec, &status), &[], &format!("2026-01-01T{now}Z"));
        let expected = start.map(|at| time::parse(&format!("2026-01-01T{at}Z")).unwrap().0);
        assert_eq!(plan.start, expected, "{spec} {now}");
        let reasons: Vec<&str> = plan.told.iter().map(|(_, reason, _)| *reason).collect();
        assert_eq!(reasons.join(" "), told, "{spec} {now}");
        assert_eq!(plan.again.map_or(0, |delay| delay.as_secs()), again, "{spec} {now}");
    }
}

#[test]
fn jobs_that_still_run_are_left_refused_or_replaced() {
    let status = json!({ "active": active(&["a"]), "lastScheduleTime": "2026-01-01T00:10:00Z" });
    let running = [job("a", None, "2026-01-01T00:10:00Z")];
    // The policy, whether a Job is made, and how many go.
    for (policy, starts, replaced) in [("Allow", true, 0), ("Forbid", false, 0), ("Replace", true, 1)] {
        let cron = cron(&json!({ "schedule": "*/10 * * * *", "concurrencyPolicy": policy }), &status);
        let plan = planned(&cron, &running, "2026-01-01T00:20:00Z");
        assert_eq!((plan.start.is_some(), plan.replace.len()), (starts, replaced), "{policy}");
        let is_told = plan.told.iter().any(|(_, reason, _)| *reason == "JobAlreadyActive");
        assert_eq!(is_told, policy == "Forbid");
    }
}

#[test]
fn jobs_that_ended_are_noted_and_the_oldest_go() {
    let status = json!({ "active": active(&["a", "lost"]), "lastScheduleTime": "2026-01-01T05:00:00Z" });
    let spec = json!({ "schedule": "@hourly", "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0 });
    let jobs = [
        job("a", Some("Complete"), "2026-01-01T05:00:00Z"),
        job("b", Some("Complete"), "2026-01-01T03:00:00Z"),
        job("c", Some("Complete"), "2026-01-01T04:00:00Z"),
        job("d", Some("Failed"), "2026-01-01T04:30:00Z"),
        job("e", None, "2026-01-01T04:40:00Z"),
    ];
    let cron = cron(&spec, &status);
    let removed: Vec<Text> = plan::expired(&cron, &jobs).iter().map(|job| job.item.uid.clone()).collect();
    assert_eq!(removed, ["uid-b", "uid-d"]);
    let plan = planned(&cron, &jobs, "2026-01-01T05:10:00Z");
    assert!(plan.status.active.is_empty());
    assert_eq!(plan.status.last_successful_time.as_deref(), Some("2026-01-01T05:00:00Z"));
    let told: Vec<&str> = plan.told.iter().map(|(_, _, message)| message.as_str()).collect();
    let expected = [
        "Saw completed job: a, condition: Complete",
        "Saw a job that the controller did not create or forgot: e",
        "Active job went missing: lost",
    ];
    assert_eq!(told, expected);
}

/// One that ended and was deleted is not told of again; one that could not be is.
#[test]
fn jobs_that_were_removed_are_not_active() {
    let status = json!({ "active": active(&["a", "b"]), "lastScheduleTime": "2026-01-01T05:00:00Z" });
    let cron = cron(&json!({ "schedule": "@hourly", "failedJobsHistoryLimit": 0 }), &status);
    let jobs = ["a", "b"].map(|name| job(name, Some("Failed"), "2026-01-01T05:00:00Z"));
    let micros = time::parse("2026-01-01T05:10:00Z").unwrap().0 * 1_000_000;
    let plan = plan::plan(&cron, &jobs, &["uid-a".into()], &|_| false, micros);
    assert!(plan.status.active.is_empty());
    let told: Vec<&str> = plan.told.iter().map(|(_, _, message)| message.as_str()).collect();
    assert_eq!(told, ["Saw completed job: b, condition: Failed"]);
}

/// However long a clock stood still, few times are looked at, and one Job is made.
#[test]
fn a_clock_that_jumps_a_year_makes_one_job() {
    let plan = planned(&cron(&json!({ "schedule": "* * * * *" }), &json!({})), &[], "2027-01-01T00:00:00Z");
    assert_eq!(plan.start, Some(time::parse("2027-01-01T00:00:00Z").unwrap().0));
}
