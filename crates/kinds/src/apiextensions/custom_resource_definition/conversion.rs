//! How objects get from one version into another: not at all, or by a webhook.

use rkube_machinery::decode::base64;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names, pem};

use super::is_condition_true;
use super::options::DefinitionOptions;
use crate::admissionregistration::client_config;

/// The versions of `ConversionReview` that servers have known for long enough.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NOT_WEBHOOK: &str = "should not be set when strategy is not set to Webhook";

/// `path` is that of `conversion`.
pub fn validate(path: Path<'_>, spec: &Value, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let conversion = spec.get("conversion");
    if conversion.is_null() {
        return;
    }
    let strategy = conversion.str("strategy");
    if strategy != "None" && spec.bool("preserveUnknownFields") {
        errors.invalid(path.child("strategy"), strategy, "must be None if spec.preserveUnknownFields is true");
    }
    match strategy {
        "" => errors.required(path.child("strategy"), ""),
        "None" | "Webhook" => {}
        other => errors.not_supported(path.child("strategy"), other, &["None", "Webhook"]),
    }
    let webhook = conversion.get("webhook");
    let (config, reviews) = (webhook.get("clientConfig"), webhook.get("conversionReviewVersions"));
    let config_path = path.child("webhookClientConfig");
    let reviews_path = path.child("conversionReviewVersions");
    if strategy != "Webhook" {
        if !config.is_null() {
            errors.forbidden(config_path, NOT_WEBHOOK);
        }
        if !reviews.items().is_empty() {
            errors.forbidden(reviews_path, NOT_WEBHOOK);
        }
        return;
    }
    if config.is_null() {
        errors.required(config_path, "required when strategy is set to Webhook");
    } else {
        client_config::validate(config_path, config, errors);
        if let Err(detail) = check_bundle(config)
            && !options.allow_invalid_bundle
        {
            errors.invalid(config_path.child("caBundle"), config.str("caBundle"), detail);
        }
    }
    validate_review_versions(reviews_path, reviews, options.require_known_review_version, errors);
}

fn validate_review_versions(path: Path<'_>, versions: &Value, require_known: bool, errors: &mut Errors) {
    if versions.items().is_empty() {
        return errors.required(path, "");
    }
    for (index, version) in versions.items().iter().enumerate() {
        if versions.items()[..index].contains(version) {
            errors.invalid(path.index(index), version, "duplicate version");
            continue;
        }
        for message in names::dns1035_label(version.as_str()) {
            errors.invalid(path.index(index), version, message);
        }
    }
    if require_known && !has_known_review_version(versions.items()) {
        errors.invalid(path, versions, format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")));
    }
}

fn has_known_review_version(versions: &[Value]) -> bool {
    versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str()))
}

/// Whether an update of this definition must name a version of reviews that is known.
pub fn requires_known_review_version(old: &Value) -> bool {
    let versions = old.get("conversion").get("webhook").list("conversionReviewVersions");
    versions.is_empty() || has_known_review_version(versions)
}

/// Whether an update of this definition may have a bundle that is none: while nobody uses it, and where it has one.
pub fn allows_invalid_bundle(old: &Value) -> bool {
    if !is_condition_true(old, "Established") {
        return true;
    }
    check_bundle(old.get("spec").get("conversion").get("webhook").get("clientConfig")).is_err()
}

/// Why the bundle cannot be used. None at all can.
pub fn check_bundle(config: &Value) -> Result<(), String> {
    let bundle = base64::decode(config.str("caBundle").as_bytes()).unwrap_or_default();
    if bundle.is_empty() {
        return Ok(());
    }
    let failed = |why: &str| Err(format!("unable to load root certificates: {why}"));
    let certificates = || pem::blocks(&bundle).filter(|block| block.label == "CERTIFICATE" && !block.has_headers);
    let is_certificate = |block: &pem::Block| x509_parser::parse_x509_certificate(&block.bytes).is_ok();
    if certificates().any(|block| is_certificate(&block)) {
        return Ok(());
    }
    if certificates().next().is_some() {
        return failed("failed to parse certificate: x509: malformed certificate");
    }
    // Go reads block by block until nothing is left; a text that ends in anything else has no last block.
    let has_rest = !bundle.trim_ascii_end().ends_with(b"-----") || pem::blocks(&bundle).next().is_none();
    failed(if has_rest { "unable to parse bytes as PEM block" } else { "no valid certificate authority data seen" })
}
