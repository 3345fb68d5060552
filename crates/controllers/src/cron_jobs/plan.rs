//! What to do about the Jobs of a CronJob, as pure functions.

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Text, time};

use crate::cron_jobs::schedule::{Schedule, zone};
use crate::cron_jobs::view::{Concurrency, CronJob, Reference, Status};
use crate::jobs::Job;
use crate::metadata::seconds;

/// More missed starts than this are told.
const MISSED_MAX: i64 = 100;
/// A CronJob is looked at so long after a start is due, so that it is.
const LATE_MICROS: i64 = 100_000;

#[derive(Debug, Default)]
pub struct Plan {
    pub status: Status,
    /// Whether the event is a warning, its reason and its message.
    pub told: Vec<(bool, &'static str, String)>,
    /// The time, in seconds, for which a Job is to be made.
    pub start: Option<i64>,
    /// Jobs that have to go before, which are active until they do.
    pub replace: Vec<Reference>,
    pub again: Option<Duration>,
}

/// `jobs` are those that the CronJob controls; of these `removed`, by their uids, were just deleted. `is_there` says whether
/// there is a Job of a name.
pub fn plan(
    cron: &CronJob,
    jobs: &[Arc<Job>],
    removed: &[Text],
    is_there: &dyn Fn(&str) -> bool,
    now_micros: i64,
) -> Plan {
    let mut plan = Plan { status: cron.status.clone(), ..Plan::default() };
    plan.status.active.retain(|active| !removed.contains(&active.uid));
    follow(jobs, &mut plan);
    let gone: Vec<Reference> =
        plan.status.active.iter().filter(|active| is_gone(active, jobs, is_there)).cloned().collect();
    for job in gone {
        plan.told.push((false, "MissingJob", format!("Active job went missing: {}", job.name)));
        plan.status.active.retain(|active| active.uid != job.uid);
    }
    if cron.deleted.is_none() {
        begin(cron, now_micros, &mut plan);
    }
    plan
}

fn is_gone(active: &Reference, jobs: &[Arc<Job>], is_there: &dyn Fn(&str) -> bool) -> bool {
    !jobs.iter().any(|job| job.item.uid == active.uid) && !is_there(&active.name)
}

/// The oldest Jobs that ended, beyond those that are kept.
pub fn expired(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let oldest = |kind: &str, limit: Option<i64>| -> Vec<Arc<Job>> {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
        let is_ended = |job: &&Arc<Job>| job.end().is_some_and(|end| end.kind == kind);
        let mut ended: Vec<Arc<Job>> = jobs.iter().filter(is_ended).cloned().collect();
        ended.sort_by_cached_key(|job| {
            let started = seconds(job.status.start_time.as_deref());
            (started.is_none(), started, job.item.name.clone())
        });
        ended.truncate(ended.len().saturating_sub(limit));
        ended.retain(|job| job.deleted.is_none());
        ended
    };
    let mut expired = oldest("Complete", cron.successful_limit);
    expired.extend(oldest("Failed", cron.failed_limit));
    expired
}

/// Notes which Jobs have ended.
fn follow(jobs: &[Arc<Job>], plan: &mut Plan) {
    for job in jobs {
        let is_active = plan.status.active.iter().any(|active| active.uid == job.item.uid);
        let Some(end) = job.end() else {
            if !is_active {
                let message = format!("Saw a job that the controller did not create or forgot: {}", job.item.name);
                plan.told.push((true, "UnexpectedJob", message));
            }
            continue;
        };
        if is_active {
            plan.status.active.retain(|active| active.uid != job.item.uid);
            let message = format!("Saw completed job: {}, condition: {}", job.item.name, end.kind);
            plan.told.push((false, "SawCompletedJob", message));
        }
        let done = job.status.completion_time.as_ref().filter(|_| end.kind == "Complete");
        if let Some(done) = done
            && seconds(Some(done)) > seconds(plan.status.last_successful_time.as_deref())
        {
            plan.status.last_successful_time = Some(done.clone());
        }
    }
}

/// Whether a Job is due, and when to look again.
fn begin(cron: &CronJob, now_micros: i64, plan: &mut Plan) {
    let mut warn = |reason, message: String| plan.told.push((true, reason, message));
    let name = cron.time_zone.as_deref().unwrap_or_default();
    if zone(name).is_none() {
        warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"));
        return;
    }
    if cron.suspended {
        return;
    }
    if cron.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            cron.schedule.as_str()
        );
        warn("UnsupportedSchedule", message);
    }
    let schedule = match schedule(cron) {
        Ok(schedule) => schedule,
        Err(why) => {
            warn("UnparseableSchedule", format!("unparseable schedule: {:?} : {why}", cron.schedule.as_str()));
            return;
        }
    };
    let now = now_micros.div_euclid(1_000_000);
    let due = match latest(cron, &plan.status, &schedule, now, true) {
        Ok(latest) => latest,
        Err(why) => {
            warn("InvalidSchedule", format!("invalid schedule: {} : {why}", cron.schedule));
            return;
        }
    };
    if due.missed > MISSED_MAX && due.at.is_some() {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        warn("TooManyMissedTimes", message.to_owned());
    }
    plan.start = due.at.filter(|at| is_wanted(cron, *at, now, plan));
    if let Some(at) = plan.start {
        if cron.concurrency == Concurrency::Replace {
            plan.replace.clone_from(&plan.status.active);
        }
        plan.status.last_schedule_time = Some(time::format_seconds(at));
    }
    plan.again = next_in(cron, &plan.status, &schedule, now_micros);
}

/// Whether a Job is made for a time that has come.
fn is_wanted(cron: &CronJob, at: i64, now: i64, plan: &mut Plan) -> bool {
    if cron.deadline_seconds.is_some_and(|deadline| at.saturating_add(deadline) < now) {
        let message = format!("Missed scheduled time to start a job: {}", rfc1123(at));
        plan.told.push((true, "MissSchedule", message));
        return false;
    }
    let name = job_name(cron, at);
    let is_known = plan.status.active.iter().any(|active| active.name == name.as_str());
    if is_known || seconds(plan.status.last_schedule_time.as_deref()) == Some(at) {
        return false;
    }
    if cron.concurrency == Concurrency::Forbid && !plan.status.active.is_empty() {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        plan.told.push((false, "JobAlreadyActive", message.to_owned()));
        return false;
    }
    true
}

pub fn schedule(cron: &CronJob) -> Result<Schedule, String> {
    let name = cron.time_zone.as_deref().unwrap_or_default();
    let zone = zone(name).ok_or_else(|| format!("unknown time zone {name}"))?;
    Schedule::parse(&cron.schedule, zone)
}

pub fn job_name(cron: &CronJob, at: i64) -> String {
    format!("{}-{}", cron.item.name, at.div_euclid(60))
}

struct Latest {
    /// Since when times count.
    since: i64,
    /// The last time that has come.
    at: Option<i64>,
    /// How many have come before it; 0: it is the only one.
    missed: i64,
}

/// The last time of the schedule that has come. However many were missed, few are looked at.
fn latest(
    cron: &CronJob,
    status: &Status,
    schedule: &Schedule,
    now: i64,
    with_deadline: bool,
) -> Result<Latest, String> {
    let mut since = seconds(status.last_schedule_time.as_deref()).or(cron.created).unwrap_or(now);
    if let Some(deadline) = cron.deadline_seconds.filter(|_| with_deadline) {
        since = since.max(now.saturating_sub(deadline));
    }
    let never = || "time difference between two schedules is less than 1 second".to_owned();
    let first = schedule.next(since).ok_or_else(never)?;
    let second = schedule.next(first).ok_or_else(never)?;
    if now < first {
        return Ok(Latest { since, at: None, missed: 0 });
    }
    if now < second {
        return Ok(Latest { since, at: Some(first), missed: 0 });
    }
    let between = (second - first).max(1);
    let missed = (now - first) / between + 1;
    let mut at = None;
    let mut next = schedule.next(first.saturating_add((missed - 2) * between));
    while let Some(time) = next.filter(|time| *time <= now) {
        at = Some(time);
        next = schedule.next(time);
    }
    Ok(Latest { since, at, missed })
}

/// When the next Job is due.
pub fn next_in(cron: &CronJob, status: &Status, schedule: &Schedule, now_micros: i64) -> Option<Duration> {
    let now = now_micros.div_euclid(1_000_000);
    let from = match latest(cron, status, schedule, now, false) {
        Ok(Latest { at: Some(at), .. }) => at,
        Ok(Latest { since, missed: 0, .. }) => since,
        _ => now,
    };
    let micros = schedule.next(from)?.saturating_mul(1_000_000).saturating_add(LATE_MICROS).saturating_sub(now_micros);
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// As mails have it.
fn rfc1123(at: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, second) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let (year, month, day) = time::civil_from_days(days);
    let weekday = usize::try_from(days.rem_euclid(7)).map_or("", |place| DAYS[place]);
    let month = usize::try_from(month - 1).ok().and_then(|place| MONTHS.get(place)).unwrap_or(&"");
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_in_mails() {
        assert_eq!(rfc1123(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc1123(1_136_239_445), "Mon, 02 Jan 2006 22:04:05 +0000");
    }
}
