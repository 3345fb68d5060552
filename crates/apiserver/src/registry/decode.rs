//! The body of a write as an object of the type that is served, with upstream's words for what is none.

use bytes::Bytes;
use rkube_machinery::decode::Decoded;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Status, Value};

use super::body_type::{Fit, Misfit, Named};
use super::write::Write;
use crate::content::{Format, Input};
use crate::request::FieldValidation;

impl Write<'_> {
    /// The body as an object of the served type: checked, canonical, not yet defaulted.
    pub fn decode(&mut self, format: Format, body: &Bytes) -> Result<Value, Status> {
        let kind = &self.request.served.kind;
        let expected = &self.request.served.api_version;
        let decoded = match Input::read(format, body, &kind.schema, expected, &kind.kind) {
            Some(decoded) => decoded,
            None => self.decode_with_care(format, body)?,
        };
        let mut value = self.take_strict(decoded)?;
        if let Some(why) = kind.rules.unreadable(&value) {
            return Err(self.cannot_handle(&kind.version, &kind.kind, &why));
        }
        value.set("kind", kind.kind.clone());
        value.set("apiVersion", expected.as_str());
        Ok(value)
    }

    /// The body by the way that says what is wrong with it.
    fn decode_with_care(&self, format: Format, body: &Bytes) -> Result<Decoded, Status> {
        let kind = &self.request.served.kind;
        let input = Input::parse(format, body).map_err(|error| unrecognized(&kind.kind, format, &error, body))?;
        if input.api_version != self.request.served.api_version || input.kind != kind.kind {
            self.check_type(&input, body)?;
        }
        input.decode(&kind.schema).map_err(|error| self.cannot_handle(&kind.version, &kind.kind, &error))
    }

    /// Whether a body that does not say exactly what is wanted can be taken all the same.
    fn check_type(&self, input: &Input, body: &Bytes) -> Result<(), Status> {
        let kind = &self.request.served.kind;
        let shown = || String::from_utf8_lossy(body).into_owned();
        if self.request.served.is_custom() {
            return self.check_custom_type(input, &shown);
        }
        let named = Named::read(&input.api_version, &input.kind, kind).map_err(|misfit| {
            let shown = summarize(body);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {misfit} ({shown})",
                kind.kind
            ))
        })?;
        let refuse = |why: &str| self.cannot_handle(&named.version, &named.kind, why);
        match named.check(kind, shown) {
            Ok(Fit::Same) => Ok(()),
            Ok(Fit::Internal | Fit::OtherVersion) => Err(Status::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                named.api_version(),
                self.request.served.api_version
            ))),
            Err(misfit) => {
                let unreadable = match &misfit {
                    Misfit::Unrelated { schema: Some(schema), .. } => input.try_decode(schema.get()).err(),
                    _ => None,
                };
                Err(refuse(&unreadable.unwrap_or_else(|| misfit.to_string())))
            }
        }
    }

    /// Custom resources name their type in full, and no other is taken for theirs.
    fn check_custom_type(&self, input: &Input, shown: &dyn Fn() -> String) -> Result<(), Status> {
        let kind = &self.request.served.kind;
        let missing = match (input.kind.as_str(), input.api_version.as_str()) {
            ("", _) => "Kind",
            (_, "") => "apiVersion",
            (_, version) if version != self.request.served.api_version => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({version}) does not match the expected API version ({})",
                    self.request.served.api_version
                )));
            }
            (other, _) => {
                let mut errors = Errors::new();
                errors.invalid(Path::new("kind"), other, format!("must be {}", kind.kind));
                return Err(Status::invalid(&kind.group_kind(), &self.request.info.name, &errors));
            }
        };
        let why = format!("Object '{missing}' is missing in '{}'", shown());
        let named = if input.kind.is_empty() { kind.kind.as_str() } else { &input.kind };
        Err(self.cannot_handle(&kind.version, named, &why))
    }

    /// Applies the field validation that was asked for.
    pub fn take_strict(&mut self, decoded: Decoded) -> Result<Value, Status> {
        self.kept_empties |= decoded.kept_empties;
        if decoded.strict.is_empty() {
            return Ok(decoded.value);
        }
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(decoded.strict.iter().flat_map(|one| each_complaint(one))),
            FieldValidation::Strict => {
                let text = format!("strict decoding error: {}", decoded.strict.join(", "));
                return Err(self.cannot_handle(
                    &self.request.served.kind.version,
                    &self.request.served.kind.kind,
                    &text,
                ));
            }
        }
        Ok(decoded.value)
    }

    fn cannot_handle(&self, version: &str, kind: &str, why: &str) -> Status {
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
            self.request.served.kind.kind
        ))
    }
}

/// What YAML objects to comes in one text; as warnings each thing is said alone.
pub fn each_complaint(text: &str) -> Vec<String> {
    match text.split_once("yaml: unmarshal errors:\n") {
        Some((_, lines)) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

/// The body is not even a document.
fn unrecognized(kind: &str, format: Format, why: &str, body: &[u8]) -> Status {
    let prefix = match format {
        Format::Json => "couldn't get version/kind; json parse error: ",
        Format::Yaml | Format::Protobuf => "",
    };
    let shown = summarize(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {prefix}{why} ({shown})"
    ))
}

/// The first bytes of a body, as text where it looks like JSON.
fn summarize(body: &[u8]) -> String {
    const SHOWN_MAX: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let head = &body[..body.len().min(SHOWN_MAX)];
    let text = match head[0] {
        b'{' => String::from_utf8_lossy(head).into_owned(),
        _ => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN_MAX { format!("{text} ...") } else { text }
}
