//! PersistentVolumeClaims: themselves and the storage that they ask for, in all and by class.

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, Value};

use crate::amounts::count;
use crate::{Amounts, Measure, Scopes};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Between the name of a storage class and one of the two above.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub fn counts(name: &str) -> bool {
    let of_class = |resource: &str| name.strip_suffix(resource).is_some_and(|class| class.ends_with(OF_CLASS));
    matches!(name, COUNT | CLAIMS | STORAGE) || of_class(CLAIMS) || of_class(STORAGE)
}

pub fn measure(claim: &Value) -> Measure {
    let mut usage = Amounts::from([(Text::new_static(COUNT), count(1)), (Text::new_static(CLAIMS), count(1))]);
    let class = class(claim);
    let of_class = |resource: &str| Text::from(format!("{class}{OF_CLASS}{resource}"));
    if !class.is_empty() {
        usage.insert(of_class(CLAIMS), count(1));
    }
    if let Some(storage) = storage(claim) {
        if !class.is_empty() {
            usage.insert(of_class(STORAGE), storage.clone());
        }
        usage.insert(Text::new_static(STORAGE), storage);
    }
    Measure { scopes: Scopes::VolumeClaim { attributes_classes: attributes_classes(claim) }, usage, expires: None }
}

fn class(claim: &Value) -> &str {
    let annotations = claim.get("metadata").get("annotations");
    if annotations.has(CLASS_ANNOTATION) {
        return annotations.str(CLASS_ANNOTATION);
    }
    claim.get("spec").str("storageClassName")
}

/// In whole bytes. A volume that grows counts as large as it is to be, and one whose growth was taken back as large as it is.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |holder: &Value, list: &str| Quantity::parse(holder.map(list).str("storage")).ok();
    let asked = amount(claim.get("spec").get("resources"), "requests")?;
    let allocated = amount(claim.get("status"), "allocatedResources");
    let larger = allocated.filter(|allocated| *allocated > asked).unwrap_or(asked);
    let whole = Quantity::new(larger.value(), larger.format());
    Some(if whole == larger { larger } else { whole })
}

fn attributes_classes(claim: &Value) -> Vec<Text> {
    let status = claim.get("status");
    let names = [
        claim.get("spec").str("volumeAttributesClassName"),
        status.str("currentVolumeAttributesClassName"),
        status.get("modifyVolumeStatus").str("targetVolumeAttributesClassName"),
    ];
    let mut names: Vec<Text> = names.into_iter().filter(|name| !name.is_empty()).map(Text::new).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;
    use crate::amounts::to_text;

    #[test]
    fn claims_take_storage_of_their_class() {
        let spec = |class: &str, storage: &str| {
            let resources = object! { "requests": object! { "storage": storage } };
            object! { "storageClassName": class, "resources": resources }
        };
        let grown = |storage: &str| object! { "allocatedResources": object! { "storage": storage } };
        let plain = "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage";
        let of_gold = "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
                       gold.storageclass.storage.k8s.io/requests.storage=1Gi";
        let table = [
            (spec("", "1Gi"), Value::Null, format!("{plain}=1Gi")),
            (spec("", "100m"), Value::Null, format!("{plain}=1")),
            (spec("", "1Gi"), grown("2Gi"), format!("{plain}=2Gi")),
            (spec("", "1Gi"), grown("1Mi"), format!("{plain}=1Gi")),
            (
                spec("gold", "1Gi"),
                Value::Null,
                format!("count/persistentvolumeclaims=1,{of_gold},persistentvolumeclaims=1,requests.storage=1Gi"),
            ),
            (object! {}, Value::Null, "count/persistentvolumeclaims=1,persistentvolumeclaims=1".to_owned()),
        ];
        for (spec, status, expected) in table {
            assert_eq!(to_text(&measure(&object! { "spec": spec, "status": status }).usage), expected);
        }
    }

    #[test]
    fn an_annotation_names_the_class_first() {
        let metadata = object! { "annotations": object! { "volume.beta.kubernetes.io/storage-class": "old" } };
        let claim = object! { "metadata": metadata, "spec": object! { "storageClassName": "new" } };
        assert_eq!(class(&claim), "old");
    }

    #[test]
    fn all_attributes_classes_count_that_a_claim_refers_to() {
        let modifying = object! { "targetVolumeAttributesClassName": "gold" };
        let status = object! { "currentVolumeAttributesClassName": "silver", "modifyVolumeStatus": modifying };
        let claim = object! { "spec": object! { "volumeAttributesClassName": "gold" }, "status": status };
        assert_eq!(attributes_classes(&claim), ["gold", "silver"]);
        assert_eq!(attributes_classes(&Value::Null), Vec::<Text>::new());
    }
}
