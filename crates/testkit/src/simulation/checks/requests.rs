//! Who asks for a certificate gets it when that was approved, and no other later.

use std::collections::HashMap;

use super::view::CertificateRequest;

#[derive(Default)]
pub(super) struct Requests {
    /// The certificates that were given, with the uid of the request, by its key.
    given: HashMap<String, (String, String)>,
}

impl Requests {
    pub fn request(&mut self, key: &str, request: Option<CertificateRequest>) -> Option<String> {
        let old = self.given.remove(key);
        let CertificateRequest { metadata, status } = request?;
        let has = |kind: &str| status.conditions.iter().any(|one| one.r#type == kind && one.status == "True");
        if let Some((uid, certificate)) = &old
            && *uid == metadata.uid
            && *certificate != status.certificate
        {
            return Some("had another certificate".to_owned());
        }
        if status.certificate.is_empty() {
            return None;
        }
        let is_right = has("Approved") && !has("Denied") && !has("Failed");
        self.given.insert(key.to_owned(), (metadata.uid, status.certificate));
        (old.is_none() && !is_right).then(|| "gets a certificate that nobody has approved of".to_owned())
    }
}
