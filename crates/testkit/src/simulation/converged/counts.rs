//! What objects say of others is true of them: budgets of pods, quotas of what they count, CronJobs of their Jobs, and of
//! pods, that their claims have volumes.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::quantity::Quantity;
use serde_json::Value;

use super::{Cluster, has_condition, name, number, text};

impl Cluster {
    pub(super) fn miscounted(&self) -> Option<String> {
        let budgets = || self.of("poddisruptionbudgets").iter().find_map(|budget| self.miscounted_budget(budget));
        let cron_jobs = || self.of("cronjobs").iter().find_map(|cron_job| self.miscounted_jobs(cron_job));
        budgets().or_else(cron_jobs).or_else(|| self.claimless_pod()).or_else(|| self.wrongly_owned_claim())
    }

    /// Of this namespace.
    fn here<'a>(&'a self, plural: &str, object: &Value) -> impl Iterator<Item = &'a Value> {
        let namespace = text(&object["metadata"]["namespace"]).to_owned();
        self.of(plural).iter().filter(move |other| text(&other["metadata"]["namespace"]) == namespace)
    }

    fn miscounted_budget(&self, budget: &Value) -> Option<String> {
        let app = budget["spec"]["selector"]["matchLabels"]["app"].as_str()?;
        let pods: Vec<&Value> =
            self.here("pods", budget).filter(|pod| pod["metadata"]["labels"]["app"] == app).collect();
        let mut scales = BTreeMap::new();
        for pod in &pods {
            // Of pods that nobody controls it cannot be said how many there are to be.
            let (uid, scale) = self.scale(pod)?;
            scales.insert(uid, scale);
        }
        let healthy = count(pods.iter().filter(|pod| has_condition(pod, "Ready")).count());
        let (all, scale) = (count(pods.len()), scales.values().sum());
        let (least, most) = (&budget["spec"]["minAvailable"], &budget["spec"]["maxUnavailable"]);
        let (expected, desired) = match (least, most) {
            (Value::Number(least), _) => (all, least.as_i64().unwrap_or(0)),
            (Value::String(_), _) => (scale, part(least, scale)),
            _ => (scale, (scale - part(most, scale)).max(0)),
        };
        let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
        let wanted = [expected, desired, healthy, allowed];
        let fields = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"];
        let said = fields.map(|field| number(&budget["status"][field]));
        (said != wanted).then(|| format!("{} says {said:?} ({fields:?}), and {wanted:?} is so", name(budget)))
    }

    /// Who controls a pod, in the end, and how many of them it wants.
    fn scale<'a>(&'a self, pod: &'a Value) -> Option<(&'a str, i64)> {
        let owner = controller(pod)?;
        let plural = match text(&owner["kind"]) {
            "ReplicaSet" => "replicasets",
            "Deployment" => "deployments",
            "StatefulSet" => "statefulsets",
            "ReplicationController" => "replicationcontrollers",
            _ => return None,
        };
        let found = self.of(plural).iter().find(|one| one["metadata"]["uid"] == owner["uid"])?;
        match controller(found) {
            Some(_) => self.scale(found),
            None => Some((text(&owner["uid"]), number(&found["spec"]["replicas"]))),
        }
    }

    /// What it calls active is there and under way, and of what is over no more is kept than is to be.
    fn miscounted_jobs(&self, cron_job: &Value) -> Option<String> {
        let uid = &cron_job["metadata"]["uid"];
        let own: Vec<&Value> = self
            .here("jobs", cron_job)
            .filter(|job| controller(job).is_some_and(|owner| owner["uid"] == *uid))
            .collect();
        let over = |end: &str| count(own.iter().filter(|job| has_condition(job, end)).count());
        let running: BTreeSet<&str> = own
            .iter()
            .filter(|job| !has_condition(job, "Complete") && !has_condition(job, "Failed"))
            .map(|job| text(&job["metadata"]["uid"]))
            .collect();
        let active = cron_job["status"]["active"].as_array().into_iter().flatten();
        if let Some(gone) = active.into_iter().find(|job| !running.contains(text(&job["uid"]))) {
            return Some(format!("{} says that {} is active", name(cron_job), gone["name"]));
        }
        let limits = [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")];
        limits.into_iter().find_map(|(end, limit)| {
            let (kept, most) = (over(end), cron_job["spec"][limit].as_i64()?);
            (kept > most).then(|| format!("{} keeps {kept} Jobs that are {end}, not {most}", name(cron_job)))
        })
    }

    fn claimless_pod(&self) -> Option<String> {
        let running = self.of("pods").iter().filter(|pod| pod["status"]["phase"] == "Running");
        running.into_iter().find_map(|pod| {
            let missing = claims(pod).into_iter().find(|wanted| {
                let mut here = self.here("persistentvolumeclaims", pod);
                !here.any(|claim| claim["metadata"]["name"] == **wanted && claim["status"]["phase"] == "Bound")
            });
            missing.map(|claim| format!("{} runs, and its claim {claim} is not bound", name(pod)))
        })
    }

    /// The claims of the pods that a StatefulSet has go with the set, if that is asked for, and with none of the pods.
    fn wrongly_owned_claim(&self) -> Option<String> {
        self.of("pods").iter().find_map(|pod| {
            let owner = controller(pod).filter(|owner| owner["kind"] == "StatefulSet")?;
            let set = self.of("statefulsets").iter().find(|set| set["metadata"]["uid"] == owner["uid"])?;
            let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
            let expected: &[&str] = if policy["whenDeleted"] == "Delete" { &["StatefulSet"] } else { &[] };
            let templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
            let names =
                templates.map(|it| format!("{}-{}", text(&it["metadata"]["name"]), text(&pod["metadata"]["name"])));
            let names: Vec<String> = names.collect();
            let claim = self.here("persistentvolumeclaims", pod).find(|claim| {
                let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                let owners: Vec<&str> = owners.map(|owner| text(&owner["kind"])).collect();
                names.iter().any(|name| claim["metadata"]["name"] == **name) && owners != expected
            })?;
            Some(format!("{} is owned by {}", name(claim), claim["metadata"]["ownerReferences"]))
        })
    }

    pub(super) fn miscounted_quota(&self) -> Option<String> {
        self.of("resourcequotas").iter().find_map(|quota| {
            let (hard, used) = (&quota["spec"]["hard"], &quota["status"]["used"]);
            let pods =
                self.here("pods", quota).filter(|pod| !matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed"));
            let counts = [("pods", count(pods.count())), ("count/jobs.batch", count(self.here("jobs", quota).count()))];
            counts.into_iter().filter(|(resource, _)| hard[resource].is_string()).find_map(|(resource, there)| {
                let said = Quantity::parse(text(&used[resource])).ok().map(|amount| amount.value());
                (said != Some(there))
                    .then(|| format!("{} says {resource}: {said:?}, and there are {there}", name(quota)))
            })
        })
    }
}

fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

/// The names of the claims that a pod uses.
fn claims(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let named = volumes.filter_map(|volume| {
        if volume["ephemeral"].is_object() {
            return Some(format!("{}-{}", text(&pod["metadata"]["name"]), text(&volume["name"])));
        }
        volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
    });
    named.collect()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number, or a part of all in percent, rounded up.
fn part(value: &Value, all: i64) -> i64 {
    match value.as_str().and_then(|text| text.trim_end_matches('%').parse::<i64>().ok()) {
        Some(percent) => (all * percent + 99) / 100,
        None => number(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::cluster;
    use super::*;

    fn owner(kind: &str, uid: &str) -> Value {
        json!([{ "kind": kind, "uid": uid, "controller": true }])
    }

    fn miscounted(objects: &[(&str, Value)]) -> String {
        cluster(objects).miscounted().unwrap_or_default()
    }

    /// A pod of the app `web`, ready or not, of this ReplicaSet.
    fn pod(is_ready: bool, set: &str) -> (&'static str, Value) {
        let metadata = json!({ "labels": { "app": "web" }, "ownerReferences": owner("ReplicaSet", set) });
        let condition = json!({ "type": "Ready", "status": if is_ready { "True" } else { "False" } });
        ("pods", json!({ "metadata": metadata, "status": { "conditions": [condition] } }))
    }

    #[test]
    fn budgets_say_what_is_so() {
        let says = |mut spec: Value, said: [i64; 4]| {
            spec["selector"] = json!({ "matchLabels": { "app": "web" } });
            let [expected, desired, healthy, allowed] = said;
            let status = json!({
                "expectedPods": expected, "desiredHealthy": desired, "currentHealthy": healthy,
                "disruptionsAllowed": allowed,
            });
            let set = json!({ "metadata": { "uid": "r", "ownerReferences": owner("Deployment", "d") }, "spec": { "replicas": 9 } });
            let deployment = json!({ "metadata": { "uid": "d" }, "spec": { "replicas": 3 } });
            let budget = json!({ "spec": spec, "status": status });
            let sets = [("replicasets", set), ("deployments", deployment), ("poddisruptionbudgets", budget)];
            let pods = [pod(true, "r"), pod(true, "r"), pod(false, "r"), pod(true, "r")];
            miscounted(&[sets.as_slice(), &pods].concat())
        };
        assert_eq!(says(json!({ "minAvailable": 1 }), [4, 1, 3, 2]), "");
        assert_eq!(says(json!({ "minAvailable": "50%" }), [3, 2, 3, 1]), "");
        assert_eq!(says(json!({ "maxUnavailable": "30%" }), [3, 2, 3, 1]), "");
        assert_eq!(says(json!({ "maxUnavailable": 5 }), [3, 0, 3, 3]), "");
        for wrong in [[3, 1, 3, 2], [4, 2, 3, 2], [4, 1, 4, 2], [4, 1, 3, 3]] {
            let said = says(json!({ "minAvailable": 1 }), wrong);
            assert!(
                said.starts_with("/poddisruptionbudgets-0 says [") && said.ends_with("[4, 1, 3, 2] is so"),
                "{said}"
            );
        }
        // Of pods that nobody has it says what it can.
        let budget = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 1 } });
        assert_eq!(miscounted(&[("poddisruptionbudgets", budget), pod(true, "gone")]), "");
    }

    #[test]
    fn cron_jobs_know_their_jobs() {
        let job = |uid: &str, end: &str| {
            let metadata = json!({ "uid": uid, "ownerReferences": owner("CronJob", "c") });
            ("jobs", json!({ "metadata": metadata, "status": { "conditions": [{ "type": end, "status": "True" }] } }))
        };
        let cron_job = |active: &[&str]| {
            let active: Vec<Value> = active.iter().map(|uid| json!({ "name": uid, "uid": uid })).collect();
            let limits = json!({ "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1 });
            ("cronjobs", json!({ "metadata": { "uid": "c" }, "spec": limits, "status": { "active": active } }))
        };
        let kept = [job("1", "Complete"), job("2", "Complete"), job("3", "Failed"), job("4", "Suspended")];
        let of = |active: &[&str], more: &[(&'static str, Value)]| {
            miscounted(&[&[cron_job(active)], kept.as_slice(), more].concat())
        };
        assert_eq!(of(&["4"], &[]), "");
        assert_eq!(of(&[], &[]), "");
        assert_eq!(of(&["1"], &[]), r#"/cronjobs-0 says that "1" is active"#);
        assert_eq!(of(&["5"], &[]), r#"/cronjobs-0 says that "5" is active"#);
        assert_eq!(of(&[], &[job("5", "Complete")]), "/cronjobs-0 keeps 3 Jobs that are Complete, not 2");
        assert_eq!(of(&[], &[job("5", "Failed")]), "/cronjobs-0 keeps 2 Jobs that are Failed, not 1");
    }

    #[test]
    fn who_runs_has_its_claims() {
        let volumes = json!([
            { "name": "a", "persistentVolumeClaim": { "claimName": "persistentvolumeclaims-0" } },
            { "name": "b", "emptyDir": {} },
        ]);
        let of = |phase: &str, claim: &str| {
            let pod = json!({ "spec": { "volumes": volumes }, "status": { "phase": phase } });
            miscounted(&[("pods", pod), ("persistentvolumeclaims", json!({ "status": { "phase": claim } }))])
        };
        assert_eq!(of("Running", "Bound"), "");
        assert_eq!(of("Succeeded", "Pending"), "");
        assert_eq!(of("Running", "Pending"), "/pods-0 runs, and its claim persistentvolumeclaims-0 is not bound");
        let ephemeral =
            json!({ "spec": { "volumes": [{ "name": "a", "ephemeral": {} }] }, "status": { "phase": "Running" } });
        assert_eq!(miscounted(&[("pods", ephemeral)]), "/pods-0 runs, and its claim pods-0-a is not bound");
    }

    #[test]
    fn claims_go_with_whom_they_are_to_go() {
        let of = |when_deleted: &str, owners: Value| {
            let policy = json!({ "whenDeleted": when_deleted, "whenScaled": "Delete" });
            // So that the claim has the name that it gets here.
            let templates = json!([{ "metadata": { "name": "persistentvolumeclaims" } }]);
            let spec = json!({ "persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": templates });
            let set = json!({ "metadata": { "uid": "s" }, "spec": spec });
            let pod = json!({ "metadata": { "ownerReferences": owner("StatefulSet", "s") } });
            let mut found = cluster(&[
                ("statefulsets", set),
                ("pods", pod),
                ("persistentvolumeclaims", json!({ "metadata": { "ownerReferences": owners } })),
            ]);
            let claims = found.kinds.iter_mut().flatten();
            claims.for_each(|object| {
                if object["metadata"]["name"] == "persistentvolumeclaims-0" {
                    object["metadata"]["name"] = json!("persistentvolumeclaims-pods-0");
                }
            });
            found.miscounted().unwrap_or_default()
        };
        assert_eq!(of("Retain", json!([])), "");
        assert_eq!(of("Delete", owner("StatefulSet", "s")), "");
        for (when_deleted, owners) in
            [("Retain", owner("StatefulSet", "s")), ("Delete", json!([])), ("Retain", owner("Pod", "p"))]
        {
            let said = of(when_deleted, owners);
            assert!(said.starts_with("/persistentvolumeclaims-pods-0 is owned by ["), "{said}");
        }
    }

    #[test]
    fn quotas_count_what_is_there() {
        let of = |pods: &str, jobs: &str| {
            let counts = |pods: &str, jobs: &str| json!({ "pods": pods, "count/jobs.batch": jobs });
            let quota = json!({ "spec": { "hard": counts("9", "9") }, "status": { "used": counts(pods, jobs) } });
            let over = json!({ "status": { "phase": "Failed" } });
            let all = [("resourcequotas", quota), ("pods", json!({})), ("pods", over), ("jobs", json!({}))];
            cluster(&all).miscounted_quota().unwrap_or_default()
        };
        assert_eq!(of("1", "1"), "");
        assert_eq!(of("2", "1"), "/resourcequotas-0 says pods: Some(2), and there are 1");
        assert_eq!(of("1", "0"), "/resourcequotas-0 says count/jobs.batch: Some(0), and there are 1");
        let uncounted = json!({ "spec": { "hard": { "pods": "1" } } });
        let said = cluster(&[("resourcequotas", uncounted)]).miscounted_quota();
        assert_eq!(said.as_deref(), Some("/resourcequotas-0 says pods: None, and there are 0"));
    }
}
