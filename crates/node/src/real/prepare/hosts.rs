//! A container's `/etc/hosts`.

use std::net::IpAddr;

use rkube_machinery::Value;

const MANAGED: &str = "# Kubernetes-managed hosts file.\n";
const MANAGED_ON_HOST: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// Of a pod with a network of its own.
pub fn managed(addresses: &[IpAddr], hostname: &str, domain: &str, aliases: &[Value]) -> String {
    let mut text = format!("{MANAGED}{LOCAL}");
    for address in addresses {
        text.push_str(&match domain {
            "" => format!("{address}\t{hostname}\n"),
            domain => format!("{address}\t{hostname}.{domain}\t{hostname}\n"),
        });
    }
    text + &of_aliases(aliases)
}

/// Of a pod on the host's network, whose own file is `of_host`.
pub fn on_host(of_host: &str, aliases: &[Value]) -> String {
    format!("{MANAGED_ON_HOST}{of_host}{}", of_aliases(aliases))
}

fn of_aliases(aliases: &[Value]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = "\n# Entries added by HostAliases.\n".to_owned();
    for alias in aliases {
        let names: Vec<&str> = alias.list("hostnames").iter().map(Value::as_str).collect();
        text.push_str(&format!("{}\t{}\n", alias.str("ip"), names.join("\t")));
    }
    text
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn files_are_those_of_upstream() {
        let address = "203.0.113.1".parse().unwrap();
        let aliases =
            [object! { "ip": "123.45.67.89", "hostnames": vec![Value::from("some.domain"), Value::from("host3")] }];
        assert_eq!(
            managed(&[address], "podFoo", "domainFoo", &aliases),
            "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
             fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n\
             203.0.113.1\tpodFoo.domainFoo\tpodFoo\n\n# Entries added by HostAliases.\n\
             123.45.67.89\tsome.domain\thost3\n"
        );
        assert!(managed(&[address], "podFoo", "", &[]).ends_with("\n203.0.113.1\tpodFoo\n"));
        assert_eq!(
            on_host("127.0.0.1 localhost\n", &aliases[..]),
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n\
             # Entries added by HostAliases.\n123.45.67.89\tsome.domain\thost3\n"
        );
    }
}
