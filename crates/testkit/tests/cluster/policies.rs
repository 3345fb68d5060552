//! ValidatingAdmissionPolicies whose expressions are checked against the kinds that they are for.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus};
use rkube_operator::kube::api::{Api, Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;

struct Policies {
    cluster: TestCluster,
}

impl Policies {
    fn api(&self) -> Api<ValidatingAdmissionPolicy> {
        Api::all(self.cluster.client())
    }

    /// Waits until the policy is checked as it is.
    async fn checked(&self, name: &str) -> ValidatingAdmissionPolicyStatus {
        let api = self.api();
        self.cluster
            .eventually("the policy is checked", async || {
                let policy = api.get(name).await.map_err(|error| error.to_string())?;
                let status = policy.status.unwrap_or_default();
                let is_new = status.observed_generation == policy.metadata.generation;
                if is_new && status.type_checking.is_some() { Ok(status) } else { Err(format!("{status:?}")) }
            })
            .await
    }
}

#[tokio::test]
async fn warnings_tell_of_wrong_types() {
    let policies = Policies { cluster: TestCluster::builder().virtual_time().start().await };
    let rule =
        json!({ "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"] });
    let validation = json!({
        "expression": "object.spec.replicas > 1 && object.spec.template.spec.containers.all(c, c.image != '')",
        "messageExpression": "'wants replicas > 1, got ' + string(object.spec.replicas)",
    });
    let spec = json!({ "matchConstraints": { "resourceRules": [rule] }, "validations": [validation] });
    let policy = serde_json::from_value(json!({ "metadata": { "name": "replicas" }, "spec": spec })).unwrap();
    policies.api().create(&PostParams::default(), &policy).await.unwrap();
    let status = policies.checked("replicas").await;
    assert_eq!(status.type_checking.unwrap().expression_warnings.unwrap_or_default(), []);

    let wrong = json!([{
        "expression": "object.spec.replicas > '1'",
        "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
    }]);
    let patch = Patch::Merge(json!({ "spec": { "validations": wrong } }));
    policies.api().patch("replicas", &PatchParams::default(), &patch).await.unwrap();
    let warnings = policies.checked("replicas").await.type_checking.unwrap().expression_warnings.unwrap();
    let fields: Vec<&str> = warnings.iter().map(|warning| warning.field_ref.as_str()).collect();
    assert_eq!(fields, ["spec.validations[0].expression", "spec.validations[0].messageExpression"]);
    let expected = "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:22: \
                    found no matching overload for '_>_' applied to '(int, string)'";
    assert!(warnings[0].warning.starts_with(expected), "{}", warnings[0].warning);
    assert!(warnings[1].warning.contains("'_+_' applied to '(string, int)'"), "{}", warnings[1].warning);
}
