//! Job: pods that run until enough of them have succeeded.

pub(crate) mod columns;
mod indexes;
mod policies;
mod selector;
pub(crate) mod spec;
mod status;
mod update;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use crate::core::pod_spec;
use crate::fields::carry;
use crate::kind::{Part, Requester, Row, Rules, Selectable, Subresource};

pub static KIND: Row = Row {
    group: "batch",
    kind: "Job",
    resource: "jobs",
    singular: "job",
    categories: &["all"],
    type_name: "io.k8s.api.batch.v1.Job",
    storage_prefix: "jobs",
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    selectable: &[Selectable {
        label: "status.successful",
        value: |job| job.get("status").int("succeeded").to_string(),
    }],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Update, other: Repeat::Update },
        has_generation: true,
        reset_fields: ResetFields::STATUS,
        orphans_dependents: true,
        deletion_warning: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        ..Strategy::DEFAULTS
    },
    rules: &JobRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");

struct JobRules;

impl Rules for JobRules {
    fn default(&self, job: &mut Value) {
        spec::default_job(job);
    }

    fn prepare_create(&self, job: &mut Value) {
        selector::generate(job);
        job.remove("status");
        pod_spec::drop_disabled(job.object_mut("spec").object_mut("template").object_mut("spec"), &Value::Null);
    }

    fn validate_create(&self, job: &Value, errors: &mut Errors) {
        update::validate_new(job, errors);
    }

    fn prepare_update(&self, part: Part, job: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(job, old, "spec");
        }
        carry(job, old, "status");
        let template = job.object_mut("spec").object_mut("template");
        pod_spec::drop_disabled(template.object_mut("spec"), old.at(&["spec", "template", "spec"]));
    }

    fn validate_update(&self, part: Part, job: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            status::validate(job, old, errors);
        } else {
            update::validate_change(job, old, errors);
        }
    }

    /// The labels that a new job's pods have got are the job's too where it has none.
    fn canonicalize(&self, job: &mut Value) {
        spec::default_labels(job);
    }

    fn warnings(&self, job: &Value, old: Option<&Value>) -> Vec<String> {
        let generation = |job: &Value| job.get("metadata").int("generation");
        match old {
            None => {
                let mut warnings: Vec<String> = name_warning(job).into_iter().collect();
                warnings.extend(spec::warnings(SPEC, job.get("spec")));
                warnings
            }
            Some(old) if generation(job) != generation(old) => spec::warnings(SPEC, job.get("spec")),
            Some(_) => Vec::new(),
        }
    }

    /// Labels that the job got from its pods grow with theirs.
    fn stamp(&self, job: &mut Value, change: Option<(Part, &Value)>, requester: &Requester<'_>) {
        if change.is_none() && requester.gave_no_labels && job.get("metadata").has("labels") {
            let labels = job.at(&["spec", "template", "metadata", "labels"]).clone();
            job.object_mut("metadata").set("labels", labels);
        }
    }
}

/// Names that cannot be a pod's host name.
pub(crate) fn name_warning(object: &Value) -> Option<String> {
    let messages = names::dns1123_label(object.get("metadata").str("name"));
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [{}]",
            messages.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use rkube_machinery::{json, object};

    use super::*;

    fn job() -> Value {
        let container = object! { "name": "c", "image": "i:1" };
        let pods = object! { "containers": vec![container], "restartPolicy": "Never" };
        let metadata = object! { "name": "j", "namespace": "default", "uid": "u-1" };
        let template = object! { "metadata": object! { "labels": object! { "a": "b" } }, "spec": pods };
        let mut job = object! { "metadata": metadata, "spec": object! { "template": template } };
        JobRules.default(&mut job);
        job
    }

    fn texts(errors: &Errors) -> Vec<String> {
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_are_idempotent_and_new_jobs_pass() {
        let mut job = job();
        let once = json::to_string(&job);
        JobRules.default(&mut job);
        assert_eq!(json::to_string(&job), once);
        assert_eq!(job.get("metadata").get("labels"), &object! { "a": "b" });
        JobRules.prepare_create(&mut job);
        JobRules.canonicalize(&mut job);
        assert_eq!(texts(&Kind::of(&KIND).validate_create(&job)), Vec::<String>::new());
        let labels = job.at(&["spec", "template", "metadata", "labels"]);
        assert_eq!(labels.str("batch.kubernetes.io/controller-uid"), "u-1");
        assert_eq!(labels.str("job-name"), "j");
    }

    #[test]
    fn labels_of_the_pods_are_shared_unless_the_job_has_its_own() {
        let stamped = |gave_no_labels: bool| {
            let mut job = job();
            JobRules.prepare_create(&mut job);
            let requester = Requester { user: &Value::object, now: 0, gave_no_labels };
            JobRules.stamp(&mut job, None, &requester);
            job.get("metadata").map("labels").iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(stamped(true).len(), 5);
        assert_eq!(stamped(false), ["a"]);
    }

    #[test]
    fn templates_of_running_jobs_stay() {
        let mut old = job();
        JobRules.prepare_create(&mut old);
        old.object_mut("metadata").set("resourceVersion", "1");
        let mut changed = old.clone();
        changed.object_mut("spec").object_mut("template").object_mut("spec").set("nodeSelector", object! { "a": "b" });
        let errors = Kind::of(&KIND).validate_update(Part::Main, &changed, &old);
        assert_eq!(errors.len(), 1);
        assert!(errors.0[0].to_string().starts_with("spec.template: Invalid value: {\"labels\":{\"a\":\"b\","));
        assert!(errors.0[0].to_string().ends_with("}: field is immutable"));
        old.object_mut("spec").set("suspend", true);
        changed.object_mut("spec").set("suspend", true);
        assert_eq!(texts(&Kind::of(&KIND).validate_update(Part::Main, &changed, &old)), Vec::<String>::new());
        changed.object_mut("spec").object_mut("template").object_mut("spec").set("hostname", "h");
        let errors = texts(&Kind::of(&KIND).validate_update(Part::Main, &changed, &old));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("spec.template.spec: Invalid value: {\"Volumes\":null,"));
    }
}
