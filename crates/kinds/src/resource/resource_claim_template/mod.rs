//! ResourceClaimTemplate: claims that are made for pods.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use super::conversion::{template_from_stored, template_to_stored};
use super::{GROUP, admin, claim_spec, defaults};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::claim_template::validate_template_meta;
use crate::core::pod_spec::go_form;
use crate::kind::{Part, Row, RowConversion, Rules, renamed};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ResourceClaimTemplate",
    resource: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    type_name: "io.k8s.api.resource.v1.ResourceClaimTemplate",
    storage_prefix: "resourceclaimtemplates",
    columns: &[NAME, AGE],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &TemplateRules { default_spec: defaults::claim_spec },
    ..Row::DEFAULTS
};

pub static BETA2: Row = Row {
    version: "v1beta2",
    type_name: "io.k8s.api.resource.v1beta2.ResourceClaimTemplate",
    deprecation: "resource.k8s.io/v1beta2 ResourceClaimTemplate is deprecated in v1.36+, unavailable in v1.39+",
    off_by_default: true,
    conversion: Some(renamed!("resource.k8s.io", "v1beta2", stored as "v1")),
    ..KIND
};

pub static BETA1: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.resource.v1beta1.ResourceClaimTemplate",
    deprecation: "resource.k8s.io/v1beta1 ResourceClaimTemplate is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(RowConversion { group: GROUP, to_stored: template_to_stored, from_stored: template_from_stored }),
    rules: &TemplateRules { default_spec: defaults::old_claim_spec },
    ..KIND
};

const SPEC: Path<'static> = Path::new("spec");

struct TemplateRules {
    default_spec: fn(&mut Value),
}

impl Rules for TemplateRules {
    fn default(&self, template: &mut Value) {
        (self.default_spec)(template.object_mut("spec").object_mut("spec"));
    }

    fn validate_create(&self, template: &Value, errors: &mut Errors) {
        let spec = template.get("spec");
        validate_template_meta(SPEC.child("metadata"), spec.get("metadata"), errors);
        claim_spec::validate(SPEC.child("spec"), spec.get("spec"), errors);
    }

    fn validate_in_namespace(
        &self,
        _part: Part,
        template: &Value,
        old: Option<&Value>,
        namespace: &dyn Fn() -> Value,
        errors: &mut Errors,
    ) {
        if old.is_none() {
            admin::validate_requests(template.at(&["spec", "spec"]), namespace, errors);
        }
    }

    fn validate_update(&self, _part: Part, template: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(template, true, NameRule::Subdomain, errors);
        self.validate_create(template, errors);
        meta::validate_update_again(template, old, errors);
        let spec = template.get("spec");
        if !go_form::same("ResourceClaimTemplateSpec", spec, old.get("spec")) {
            let shown = BadValue::Text(go_form::go_json("ResourceClaimTemplateSpec", spec));
            errors.invalid(SPEC, shown, "field is immutable");
        }
    }
}
