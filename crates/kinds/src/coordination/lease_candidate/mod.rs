//! LeaseCandidate: somebody who would like to hold a lease, and in which version.

mod semantic_version;

use crate::strategy::{NameRule, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::qualified_name;
use crate::kind::{Column, Part, Row, RowConversion, Rules};

use semantic_version::Version;

/// Stored in this version.
pub static KIND: Row = BETA;

pub static ALPHA: Row = Row {
    version: "v1alpha2",
    type_name: "io.k8s.api.coordination.v1alpha2.LeaseCandidate",
    deprecation: "coordination.k8s.io/v1alpha2 LeaseCandidate is deprecated in v1.35+, unavailable in v1.38+",
    conversion: Some(RowConversion {
        group: GROUP,
        to_stored: |candidate| in_version(candidate, "coordination.k8s.io/v1beta1"),
        from_stored: |candidate| in_version(candidate, "coordination.k8s.io/v1alpha2"),
    }),
    ..BETA
};

const BETA: Row = Row {
    group: GROUP,
    version: "v1beta1",
    kind: "LeaseCandidate",
    resource: "leasecandidates",
    singular: "leasecandidate",
    type_name: "io.k8s.api.coordination.v1beta1.LeaseCandidate",
    storage_prefix: "leasecandidates",
    off_by_default: true,
    deprecation: "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+",
    columns: &[
        NAME,
        Column::text(
            "LeaseName",
            "doc:io.k8s.api.coordination.v1alpha2.LeaseCandidateSpec leaseName",
            |candidate, _| candidate.get("spec").str("leaseName").into(),
        ),
        Column::text("BinaryVersion", "", |candidate, _| candidate.get("spec").str("binaryVersion").into()),
        Column::text("EmulationVersion", "", |candidate, _| candidate.get("spec").str("emulationVersion").into()),
        AGE,
    ],
    strategy: Strategy {
        name_rule: NameRule::ConfigMapKey,
        checks_finalizers: false,
        create_on_update: true,
        unconditional_update: false,
        ..Strategy::DEFAULTS
    },
    rules: &LeaseCandidateRules,
    ..Row::DEFAULTS
};

const GROUP: &str = "coordination.k8s.io";
const OLDEST: &str = "OldestEmulationVersion";
const SPEC: Path<'static> = Path::new("spec");

struct LeaseCandidateRules;

impl Rules for LeaseCandidateRules {
    fn validate_create(&self, candidate: &Value, errors: &mut Errors) {
        let spec = candidate.get("spec");
        if spec.str("leaseName").is_empty() {
            errors.required(SPEC.child("leaseName"), "");
        }
        let emulation = validate_version(spec, "emulationVersion", errors);
        if spec.str("binaryVersion").is_empty() {
            errors.required(SPEC.child("binaryVersion"), "");
        }
        let binary = validate_version(spec, "binaryVersion", errors);
        let both = !spec.str("binaryVersion").is_empty() && !spec.str("emulationVersion").is_empty();
        if both && binary < emulation {
            let detail = "must be greater than or equal to `emulationVersion`";
            errors.invalid(SPEC.child("binaryVersion"), spec.str("binaryVersion"), detail);
        }
        validate_strategy(spec.str("strategy"), &emulation, errors);
    }

    fn validate_update(&self, _part: Part, candidate: &Value, old: &Value, errors: &mut Errors) {
        self.validate_create(candidate, errors);
        let (name, before) = (candidate.get("spec").str("leaseName"), old.get("spec").str("leaseName"));
        if name != before {
            errors.invalid(SPEC.child("leaseName"), name, "field is immutable");
        }
    }
}

fn in_version(mut candidate: Value, version: &'static str) -> Value {
    candidate.set("apiVersion", version);
    candidate
}

/// The version that the field says; the lowest where it says none or nonsense.
fn validate_version<'a>(spec: &'a Value, field: &str, errors: &mut Errors) -> Version<'a> {
    let text = spec.str(field);
    let version = Version::parse(text);
    if version.is_none() && !text.is_empty() {
        errors.invalid(SPEC.child(field), text, "must be a valid semantic version");
    }
    version.unwrap_or_default()
}

fn validate_strategy(strategy: &str, emulation: &Version<'_>, errors: &mut Errors) {
    let path = SPEC.child("strategy");
    if strategy == OLDEST && *emulation == Version::default() {
        let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
        errors.required(SPEC.child("emulationVersion"), detail);
    }
    match strategy {
        "" => errors.required(path, ""),
        OLDEST => {}
        // The field stands twice in the path, as clients know it.
        _ if !strategy.contains('/') => errors.not_supported(path.child("strategy"), strategy, &[OLDEST]),
        _ => qualified_name(path.child("strategy"), strategy, errors),
    }
}
