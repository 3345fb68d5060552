//! ResourceClaims: themselves, and the devices that they may get at worst, by class.

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, Value};

use crate::amounts::{self, Amounts, count};
use crate::{Measure, Scopes};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// After the name of a device class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// More devices no claim gets.
const ALLOCATION_MAX: i64 = 32;

pub fn counts(name: &str) -> bool {
    name == COUNT || name.ends_with(DEVICES)
}

pub fn measure(claim: &Value) -> Measure {
    let mut usage = Amounts::from([(Text::new_static(COUNT), count(1))]);
    for request in claim.get("spec").get("devices").list("requests") {
        let alternatives = request.list("firstAvailable");
        if !alternatives.is_empty() {
            // Only one of them is taken: of each class, the most that it may be.
            let mut most = Amounts::new();
            for (class, number) in alternatives.iter().map(devices).filter(|(_, number)| !number.is_zero()) {
                amounts::raise(&mut most, &Amounts::from([(class, number)]));
            }
            amounts::add(&mut usage, &most);
        } else if request.has("exactly") {
            let (class, number) = devices(request.get("exactly"));
            amounts::add_one(&mut usage, &class, &number);
        }
    }
    Measure { scopes: Scopes::None, usage, expires: None }
}

fn devices(request: &Value) -> (Text, Quantity) {
    let number = match request.str("allocationMode") {
        "ExactCount" => request.int("count"),
        "All" => ALLOCATION_MAX,
        _ => 0,
    };
    (Text::from(format!("{}{DEVICES}", request.str("deviceClassName"))), count(number))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;
    use crate::amounts::to_text;

    #[test]
    fn claims_take_devices_of_classes() {
        let exact = |class: &str, count: i64| object! { "deviceClassName": class, "allocationMode": "ExactCount", "count": count };
        let all = |class: &str| object! { "deviceClassName": class, "allocationMode": "All" };
        let of = |class: &str, count: i64| format!("{class}.deviceclass.resource.k8s.io/devices={count}");
        let table = [
            (vec![], vec![]),
            (vec![object! { "exactly": exact("a", 2) }], vec![of("a", 2)]),
            (vec![object! { "exactly": exact("a", 2) }, object! { "exactly": exact("a", 3) }], vec![of("a", 5)]),
            (vec![object! { "exactly": all("a") }], vec![of("a", 32)]),
            (
                vec![object! { "firstAvailable": vec![exact("a", 2), exact("b", 4), exact("a", 1)] }],
                vec![of("a", 2), of("b", 4)],
            ),
            (vec![object! { "name": "of another age" }], vec![]),
        ];
        for (requests, expected) in table {
            let devices = object! { "requests": requests };
            let mut expected = expected;
            expected.push("count/resourceclaims.resource.k8s.io=1".to_owned());
            expected.sort_unstable();
            let claim = object! { "spec": object! { "devices": devices } };
            assert_eq!(to_text(&measure(&claim).usage), expected.join(","));
        }
    }
}
