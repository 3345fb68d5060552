//! CronJob: jobs that start again and again at the times of a schedule.

mod schedule;
mod time_zone;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::job::spec::{self, not_negative};
use super::job::{columns, name_warning};
use crate::columns::{AGE, NAME, NONE, since};
use crate::core::pod_spec::{self, PodOptions};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    group: "batch",
    kind: "CronJob",
    resource: "cronjobs",
    singular: "cronjob",
    short_names: &["cj"],
    categories: &["all"],
    type_name: "io.k8s.api.batch.v1.CronJob",
    storage_prefix: "cronjobs",
    subresources: &[Subresource::STATUS],
    columns: COLUMNS,
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::Update, status: Repeat::Nothing, other: Repeat::Update },
        has_generation: true,
        reset_fields: ResetFields::STATUS,
        ..Strategy::DEFAULTS
    },
    rules: &CronJobRules,
    ..Row::DEFAULTS
};

const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Schedule", "doc:io.k8s.api.batch.v1.CronJobSpec schedule", |object, _| {
        object.get("spec").str("schedule").into()
    }),
    Column::text("Timezone", "doc:io.k8s.api.batch.v1.CronJobSpec timeZone", |object, _| {
        match object.get("spec").get("timeZone") {
            Value::Null => NONE.into(),
            zone => zone.clone(),
        }
    }),
    Column {
        kind: "boolean",
        ..Column::text("Suspend", "doc:io.k8s.api.batch.v1.CronJobSpec suspend", |object, _| {
            match object.get("spec").get("suspend") {
                Value::Bool(true) => "True".into(),
                Value::Bool(false) => "False".into(),
                _ => "<unset>".into(),
            }
        })
    },
    Column {
        kind: "integer",
        ..Column::text("Active", "doc:io.k8s.api.batch.v1.CronJobStatus active", |object, _| {
            i64::try_from(object.get("status").list("active").len()).unwrap_or(i64::MAX).into()
        })
    },
    Column::text("Last Schedule", "doc:io.k8s.api.batch.v1.CronJobStatus lastScheduleTime", |object, now| match object
        .get("status")
        .str("lastScheduleTime")
    {
        "" => NONE.into(),
        moment => since(moment, now).into(),
    }),
    AGE,
    Column::wide("Containers", columns::CONTAINERS, |object, _| columns::containers(job_spec(object), "name")),
    Column::wide("Images", columns::IMAGES, |object, _| columns::containers(job_spec(object), "image")),
    Column::wide("Selector", columns::SELECTOR, |object, _| columns::selector(job_spec(object))),
];

const SPEC: Path<'static> = Path::new("spec");
const TEMPLATE: Path<'static> = SPEC.child("jobTemplate");
const JOB_SPEC: Path<'static> = TEMPLATE.child("spec");
/// The names of its jobs have eleven letters more and must still be labels.
const NAME_MAX: usize = 52;

struct CronJobRules;

impl Rules for CronJobRules {
    fn default(&self, object: &mut Value) {
        let spec = object.object_mut("spec");
        spec.set_default("concurrencyPolicy", "Allow");
        spec.set_if_absent("suspend", false);
        spec.set_if_absent("successfulJobsHistoryLimit", 3);
        spec.set_if_absent("failedJobsHistoryLimit", 1);
        spec::default_inner(spec.object_mut("jobTemplate").object_mut("spec"));
    }

    fn prepare_create(&self, object: &mut Value) {
        object.remove("status");
        pod_spec::drop_disabled(pods_mut(object), &Value::Null);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        validate_spec(object.get("spec"), None, &PodOptions::for_create(), errors);
        let name = object.get("metadata").str("name");
        if name.len() > NAME_MAX {
            let meta = Path::new("metadata");
            errors.invalid(meta.child("name"), name, format!("must be no more than {NAME_MAX} characters"));
        }
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(object, old, "spec");
        }
        carry(object, old, "status");
        pod_spec::drop_disabled(pods_mut(object), job_spec(old).at(&["template", "spec"]));
    }

    fn validate_update(&self, part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Main {
            let options = PodOptions::for_update(job_spec(old).get("template"));
            validate_spec(object.get("spec"), Some(old.get("spec")), &options, errors);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let Some(old) = old else {
            let mut warnings: Vec<String> = name_warning(object).into_iter().collect();
            warnings.extend(spec::warnings(JOB_SPEC, job_spec(object)));
            return warnings;
        };
        let generation = |object: &Value| object.get("metadata").int("generation");
        let mut warnings = Vec::new();
        if generation(object) != generation(old) {
            warnings = spec::warnings(JOB_SPEC, job_spec(object));
        }
        if object.get("spec").str("schedule").contains("TZ") {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}

fn job_spec(object: &Value) -> &Value {
    object.at(&["spec", "jobTemplate", "spec"])
}

fn pods_mut(object: &mut Value) -> &mut Value {
    let template = object.object_mut("spec").object_mut("jobTemplate");
    template.object_mut("spec").object_mut("template").object_mut("spec")
}

fn validate_spec(spec: &Value, old: Option<&Value>, options: &PodOptions, errors: &mut Errors) {
    if spec.str("schedule").is_empty() {
        errors.required(SPEC.child("schedule"), "");
    } else {
        let zoned_before = old.is_some_and(|old| old.str("schedule").contains("TZ"));
        validate_schedule(spec, zoned_before, errors);
    }
    not_negative(SPEC, spec, "startingDeadlineSeconds", errors);
    if old.is_none_or(|old| old.get("timeZone") != spec.get("timeZone")) {
        time_zone::validate(SPEC.child("timeZone"), spec.get("timeZone"), errors);
    }
    match spec.str("concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.required(SPEC.child("concurrencyPolicy"), ""),
        other => errors.not_supported(SPEC.child("concurrencyPolicy"), other, &["Allow", "Forbid", "Replace"]),
    }
    let job = spec.at(&["jobTemplate", "spec"]);
    spec::validate(JOB_SPEC, job, options, errors);
    if job.has("selector") {
        errors.invalid(JOB_SPEC.child("selector"), job.get("selector"), "`selector` will be auto-generated");
    }
    if job.bool("manualSelector") {
        errors.not_supported(JOB_SPEC.child("manualSelector"), true, &["nil", "false"]);
    }
    not_negative(SPEC, spec, "successfulJobsHistoryLimit", errors);
    not_negative(SPEC, spec, "failedJobsHistoryLimit", errors);
}

/// A time zone in the schedule itself is for those that have had one.
fn validate_schedule(spec: &Value, zoned_before: bool, errors: &mut Errors) {
    let path = SPEC.child("schedule");
    let schedule = spec.str("schedule");
    if let Err(error) = schedule::check(schedule) {
        errors.invalid(path, schedule, error.to_string());
    }
    match (schedule.contains("TZ"), zoned_before) {
        (true, true) if spec.has("timeZone") => {
            errors.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        (true, false) => {
            errors.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    #[test]
    fn defaults_are_idempotent_and_leave_the_job_alone() {
        let mut object = Value::object();
        CronJobRules.default(&mut object);
        let once = json::to_string(&object);
        CronJobRules.default(&mut object);
        assert_eq!(json::to_string(&object), once);
        assert!(!job_spec(&object).has("backoffLimit"));
        assert_eq!(object.get("spec").int("successfulJobsHistoryLimit"), 3);
    }

    #[test]
    fn zones_in_schedules_are_for_old_ones() {
        let spec = |schedule: &str, zone: &str| {
            let mut spec = object! { "schedule": schedule };
            if !zone.is_empty() {
                spec.set("timeZone", zone);
            }
            spec
        };
        let table = [
            ("0 * * * *", "Europe/Paris", false, ""),
            ("TZ=UTC 0 * * * *", "", false, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
            ("TZ=UTC 0 * * * *", "", true, ""),
            ("TZ=UTC 0 * * * *", "UTC", true, "cannot use both timeZone field and TZ or CRON_TZ in schedule"),
        ];
        for (schedule, zone, before, want) in table {
            let mut errors = Errors::new();
            validate_schedule(&spec(schedule, zone), before, &mut errors);
            assert_eq!(errors.is_empty(), want.is_empty(), "{schedule}");
            assert!(want.is_empty() || errors.summary().ends_with(want), "{}", errors.summary());
        }
    }
}
