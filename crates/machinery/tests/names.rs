//! What holds between the checks of names, whatever the text.

use proptest::prelude::*;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::names::*;

fn fine(messages: Vec<String>) -> bool {
    messages.is_empty()
}

fn passes(check: impl Fn(Path<'_>, &str, &mut Errors), text: &str) -> bool {
    let mut errors = Errors::new();
    check(Path::new("x"), text, &mut errors);
    errors.is_empty()
}

proptest! {
    /// The stricter a check, the more of the others pass too.
    #[test]
    fn strict_names_pass_lenient_checks(text in "[-._/a-zA-Z0-9%*]{0,20}|[a-z0-9.-]{0,10}|\\PC{0,8}") {
        let implies = |strict: bool, lenient: bool| !strict || lenient;
        prop_assert!(implies(fine(dns1035_label(&text)), fine(dns1123_label(&text))));
        prop_assert!(implies(fine(dns1123_label(&text)), fine(dns1123_subdomain(&text))));
        prop_assert!(implies(fine(dns1123_subdomain(&text)), fine(dns1123_subdomain_caseless(&text))));
        prop_assert!(implies(fine(dns1123_subdomain(&text)), fine(dns1123_subdomain_with_underscore(&text))));
        prop_assert!(implies(fine(dns1123_subdomain(&text)), fine(path_segment_name(&text))));
        prop_assert!(implies(fine(dns1123_label(&text)), fine(label_value(&text)) && fine(qualified_name(&text))));
        prop_assert!(implies(fine(c_identifier(&text)), fine(env_var_name(&text)) && fine(relaxed_env_var_name(&text))));
        prop_assert!(implies(passes(domain_prefixed_key, &text), fine(qualified_name(&text))));
    }

    /// An address that passes is written as it is printed.
    #[test]
    fn canonical_addresses_stay(text in "[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9a-f:]{2,20}|::ffff:[0-9.]{7,12}") {
        if passes(address::ip, &text) {
            prop_assert_eq!(address::parse_sloppy(&text).map(|address| address.to_string()), Some(text));
        }
    }

    #[test]
    fn canonical_subnets_contain_their_address(text in "[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2}|[0-9a-f:]{2,12}/[0-9]{1,3}") {
        if passes(address::cidr, &text) {
            let subnet = Subnet::parse_sloppy(&text).ok_or_else(|| TestCaseError::fail("is a subnet"))?;
            prop_assert_eq!(subnet.masked(), subnet.address);
            prop_assert!(subnet.contains(subnet.address));
            prop_assert_eq!(subnet.to_string(), text);
        }
    }
}
