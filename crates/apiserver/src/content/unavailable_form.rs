//! Forms that a client asked for and that what it gets does not have. This is found out when the request was carried out.

use rkube_machinery::Status;
use rkube_machinery::field::quote;

use super::negotiate::Transform;

#[derive(Debug)]
pub struct UnavailableForm {
    pub status: Status,
    /// Also said in place of a `Status`, which is otherwise shown as it is.
    pub always: bool,
}

/// Why what comes of a request cannot be shown as asked. `what`: what messages call it.
pub fn unavailable_form(
    transform: Transform,
    include: &str,
    is_list: bool,
    is_text: bool,
    what: impl Fn() -> String,
) -> Option<UnavailableForm> {
    let status = match transform {
        Transform::Table(_) if !matches!(include, "" | "None" | "Metadata" | "Object") => {
            let status = Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                quote(include)
            ));
            return Some(UnavailableForm { status, always: true });
        }
        Transform::PartialObjectMetadata(_) if is_list => {
            let what = what();
            unfit(format!("you requested PartialObjectMetadata, but the requested object is a list ({what})"))
        }
        Transform::PartialObjectMetadata(_) if is_text => {
            let message = "object does not implement the Object interfaces".to_owned();
            Status { code: 500, message, ..Status::default() }
        }
        Transform::PartialObjectMetadataList(_) if !is_list => {
            let what = what();
            unfit(format!("you requested PartialObjectMetadataList, but the requested object is not a list ({what})"))
        }
        _ => return None,
    };
    Some(UnavailableForm { status, always: false })
}

fn unfit(message: String) -> Status {
    Status { code: 406, reason: "NotAcceptable", message, ..Status::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_some_forms_and_not_others() {
        let partial = Transform::PartialObjectMetadata("v1");
        let partials = Transform::PartialObjectMetadataList("v1");
        let table = Transform::Table("v1");
        for (transform, include, is_list, want) in [
            (Transform::None, "x", false, ""),
            (partial, "x", false, ""),
            (partials, "x", true, ""),
            (table, "Object", false, ""),
            (partial, "", true, "you requested PartialObjectMetadata, but the requested object is a list (*a.B)"),
            (
                partials,
                "",
                false,
                "you requested PartialObjectMetadataList, but the requested object is not a list (*a.B)",
            ),
            (
                table,
                "x",
                true,
                "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": \
                 must be 'Metadata', 'Object', 'None', or empty",
            ),
        ] {
            let got = unavailable_form(transform, include, is_list, false, || "*a.B".to_owned());
            assert_eq!(got.map(|unavailable| unavailable.status.message).unwrap_or_default(), want);
        }
    }
}
