//! How a webhook is reached: by a URL, or by a service of the cluster.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::go_url;

const FORM: &str = "; desired format: https://host[/path]";

pub fn default(config: &mut Value) {
    if let Some(service) = config.find_mut("service") {
        service.set_if_absent("port", 443);
    }
}

pub fn validate(path: Path<'_>, config: &Value, errors: &mut Errors) {
    match (config.has("url"), config.has("service")) {
        (true, false) => validate_url(path.child("url"), config.str("url"), errors),
        (false, true) => validate_service(path.child("service"), config.get("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_url(path: Path<'_>, text: &str, errors: &mut Errors) {
    let url = match go_url::parse(text) {
        Ok(url) => url,
        Err(error) => return errors.required(path, format!("url must be a valid URL: {error}{FORM}")),
    };
    if url.scheme != "https" {
        errors.invalid(path, url.scheme.as_str(), format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = &url.user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        errors.invalid(path, &url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        errors.invalid(path, &url.query, "query parameters are not permitted in the URL");
    }
}

/// Upstream looks at the namespace under the field of the name and the other way round; clients know it so.
fn validate_service(path: Path<'_>, service: &Value, errors: &mut Errors) {
    if service.str("namespace").is_empty() {
        errors.required(path.child("name"), "");
    }
    if service.str("name").is_empty() {
        errors.required(path.child("namespace"), "");
    }
    let port = service.int("port");
    let messages = names::port_number(port);
    if !messages.is_empty() {
        errors.invalid(path.child("port"), port, format!("port is not valid: {}", messages.join(", ")));
    }
    validate_path(path.child("path"), service.str("path"), errors);
}

fn validate_path(path: Path<'_>, text: &str, errors: &mut Errors) {
    if text.is_empty() || text == "/" {
        return;
    }
    if text == "//" {
        return errors.invalid(path, text, "segment[0] may not be empty");
    }
    if !text.starts_with('/') {
        errors.invalid(path, text, "must start with a '/'");
    }
    // The first byte goes, whatever it is.
    let rest = text.get(1..).unwrap_or_default();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, text, format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errors.invalid(path, text, format!("segment[{index}]: {message}"));
        }
    }
}
