//! StatefulSet: pods with names, an order and volumes of their own.

mod validate;

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path, quote};

use super::cells;
use super::template::{self, SPEC};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::{self, amounts};
use crate::fields::carry;
use crate::kind::{Column, Kind, Part, Row, RowScale, Rules, RulesRef, Subresource};

pub static KIND: Row = Row {
    group: "apps",
    kind: "StatefulSet",
    resource: "statefulsets",
    singular: "statefulset",
    short_names: &["sts"],
    categories: &["all"],
    type_name: "io.k8s.api.apps.v1.StatefulSet",
    storage_prefix: "statefulsets",
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    scale: Some(RowScale::WORKLOAD),
    columns: &[
        NAME,
        Column::text("Ready", "Number of the pod with ready state", cells::ready_of_desired),
        AGE,
        cells::CONTAINERS,
        cells::IMAGES,
    ],
    strategy: Strategy {
        name_rule: NameRule::Label,
        repeats_meta: Repeats { main: Repeat::Update, status: Repeat::Nothing, other: Repeat::Update },
        reset_fields: ResetFields::STATUS,
        ..Strategy::DEFAULTS
    },
    rules: &StatefulSetRules { max_unavailable: false },
    ..Row::DEFAULTS
};

const REVISIONS_KEPT: i64 = 10;

struct StatefulSetRules {
    /// Whether the gate `MaxUnavailableStatefulSet` is on.
    max_unavailable: bool,
}

/// The kind where the gate `MaxUnavailableStatefulSet` is on.
pub fn with_max_unavailable() -> Kind {
    Kind { rules: RulesRef::Table(&StatefulSetRules { max_unavailable: true }), ..Kind::of(&KIND) }
}

impl Rules for StatefulSetRules {
    fn default(&self, set: &mut Value) {
        let spec = set.object_mut("spec");
        spec.set_default("podManagementPolicy", "OrderedReady");
        default_strategy(spec.object_mut("updateStrategy"), self.max_unavailable);
        let retention = spec.object_mut("persistentVolumeClaimRetentionPolicy");
        retention.set_default("whenDeleted", "Retain");
        retention.set_default("whenScaled", "Retain");
        spec.set_if_absent("replicas", 1);
        spec.set_if_absent("revisionHistoryLimit", REVISIONS_KEPT);
        template::default_template(spec);
        for claim in spec.list_mut("volumeClaimTemplates") {
            default_claim(claim);
        }
    }

    fn prepare_create(&self, set: &mut Value) {
        template::prepare_create(set);
        if !self.max_unavailable {
            drop_max_unavailable(set, &Value::Null);
        }
    }

    fn validate_create(&self, set: &Value, errors: &mut Errors) {
        validate::new_spec(set.get("spec"), &template::options(None), errors);
    }

    fn prepare_update(&self, part: Part, set: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(set, old, "spec");
        }
        carry(set, old, "status");
        if !self.max_unavailable {
            drop_max_unavailable(set, old);
        }
        template::drop_disabled(set, old);
        if !template::same_specs(set.get("spec"), old.get("spec")) {
            template::count_generation(set, old);
        }
    }

    fn validate_update(&self, part: Part, set: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(set, old, errors);
        } else {
            validate::changed_spec(set.get("spec"), old.get("spec"), &template::options(Some(old)), errors);
        }
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        warnings(set, old)
    }
}

fn default_strategy(strategy: &mut Value, max_unavailable: bool) {
    if strategy.set_default("type", "RollingUpdate") {
        strategy.object_mut("rollingUpdate");
    }
    if strategy.str("type") == "RollingUpdate"
        && let Some(rolling) = strategy.find_mut("rollingUpdate")
    {
        rolling.set_if_absent("partition", 0);
        if max_unavailable {
            rolling.set_if_absent("maxUnavailable", 1);
        }
    }
}

fn default_claim(claim: &mut Value) {
    claim.set("apiVersion", "v1");
    claim.set("kind", "PersistentVolumeClaim");
    pod_spec::default_claim_spec(claim.object_mut("spec"));
    let status = claim.object_mut("status");
    status.set_default("phase", "Pending");
    amounts::round_up_list(status, "capacity");
    amounts::round_up_list(status, "allocatedResources");
}

/// How many pods may be missing during a change belongs to a feature that is off, unless that is in use.
fn drop_max_unavailable(set: &mut Value, old: &Value) {
    if old.at(&["spec", "updateStrategy", "rollingUpdate"]).has("maxUnavailable") {
        return;
    }
    let strategy = set.find_mut("spec").and_then(|spec| spec.find_mut("updateStrategy"));
    if let Some(rolling) = strategy.and_then(|strategy| strategy.find_mut("rollingUpdate")) {
        rolling.remove("maxUnavailable");
    }
}

fn warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = match old {
        None => template::warnings(set),
        Some(old) => template::warnings_of_change(set, old),
    };
    let spec = set.get("spec");
    let path = SPEC.child("volumeClaimTemplates");
    for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
        let path = path.index(index);
        // The paths have slips that clients know.
        let path = if old.is_some() { path.child("Spec") } else { path };
        claim_warnings(path, claim.at(&["spec", "resources"]), &mut warnings);
    }
    if spec.int("revisionHistoryLimit") < 0 {
        let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                    recommended";
        warnings.push(text.to_owned());
    }
    warnings
}

/// Bytes are whole.
fn claim_warnings(path: Path<'_>, resources: &Value, warnings: &mut Vec<String>) {
    let path = path.child("resources");
    for field in ["requests", "limits"] {
        let amount = resources.get(field).get("storage"); // tidy: key
        if !amounts::is_whole(amount) {
            let (path, amount) = (path.child(field), quote(amount.as_str()));
            let path = path.key("storage");
            warnings.push(format!("{path}: fractional byte value {amount} is invalid, must be an integer"));
        }
    }
}
