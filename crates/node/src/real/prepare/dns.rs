//! How a pod finds names: its `/etc/resolv.conf`, by its policy.

use std::net::IpAddr;

use rkube_machinery::Value;
use rkube_runtime::api::DnsConfig;

use crate::pod::spec::{display_name, is_host_network};

/// What resolvers and upstream take at most.
const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LINE_MAX: usize = 2048;
const DOMAIN_MAX: usize = 253;
/// No more is read of the host's own file.
pub const RESOLV_CONF_MAX: u64 = 10 * 1024 * 1024;

/// What the node knows of names.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    /// Those of the cluster's own DNS; none: there is none.
    pub servers: &'a [IpAddr],
    pub domain: &'a str,
    /// What the host itself uses.
    pub host: &'a DnsConfig,
}

/// Something to be told of: reason and message.
pub type Note = (&'static str, String);

pub fn of(pod: &Value, cluster: &Cluster<'_>) -> (DnsConfig, Vec<Note>) {
    let mut notes = Vec::new();
    let mut config = match pod.get("spec").str("dnsPolicy") {
        "None" => DnsConfig::default(),
        "Default" => cluster.host.clone(),
        "ClusterFirst" if is_host_network(pod) => cluster.host.clone(),
        _ if !cluster.servers.is_empty() => of_cluster(pod, cluster),
        _ => {
            let why = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" \
                       policy. Falling back to \"Default\" policy.";
            notes.push(("MissingClusterDNS", format!("pod: {:?}. {why}", display_name(pod))));
            cluster.host.clone()
        }
    };
    let own = pod.get("spec").get("dnsConfig");
    let texts = |field: &str| own.list(field).iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>();
    config.servers = distinct(config.servers.into_iter().chain(texts("nameservers")));
    config.searches = distinct(config.searches.into_iter().chain(texts("searches")));
    for option in own.list("options") {
        set_option(&mut config.options, option.str("name"), option.str("value"));
    }
    limit(&mut config, &mut notes);
    (config, notes)
}

fn of_cluster(pod: &Value, cluster: &Cluster<'_>) -> DnsConfig {
    let own = match cluster.domain {
        "" => Vec::new(),
        domain => {
            let namespace = pod.get("metadata").str("namespace");
            vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()]
        }
    };
    DnsConfig {
        servers: cluster.servers.iter().map(IpAddr::to_string).collect(),
        searches: distinct(own.into_iter().chain(cluster.host.searches.iter().cloned())),
        options: vec!["ndots:5".to_owned()],
    }
}

fn set_option(options: &mut Vec<String>, name: &str, value: &str) {
    let text = if value.is_empty() { name.to_owned() } else { format!("{name}:{value}") };
    match options.iter_mut().find(|option| option.split(':').next() == Some(name)) {
        Some(option) => *option = text,
        None => options.push(text),
    }
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    texts.for_each(|text| {
        if !found.contains(&text) {
            found.push(text);
        }
    });
    found
}

fn limit(config: &mut DnsConfig, notes: &mut Vec<Note>) {
    if config.servers.len() > SERVERS_MAX {
        config.servers.truncate(SERVERS_MAX);
        let line = config.servers.join(" ");
        notes.push((
            "DNSConfigForming",
            format!(
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
                 {line}"
            ),
        ));
    }
    let before = config.searches.len();
    config.searches.truncate(SEARCHES_MAX);
    config.searches.retain(|search| search.len() <= DOMAIN_MAX);
    while config.searches.join(" ").len() > SEARCH_LINE_MAX {
        config.searches.pop();
    }
    if config.searches.len() < before {
        let line = config.searches.join(" ");
        notes.push((
            "DNSConfigForming",
            format!(
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: \
                 {line}"
            ),
        ));
    }
}

/// A `resolv.conf`. Of several lines with searches the last one counts, of an option the last value.
pub fn parse_resolv_conf(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                let searches = words.filter(|domain| *domain != ".");
                config.searches = searches.map(|domain| domain.trim_end_matches('.').to_owned()).collect();
            }
            Some("options") => words.for_each(|option| {
                let (name, value) = option.split_once(':').unwrap_or((option, ""));
                set_option(&mut config.options, name, value);
            }),
            _ => {}
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn config(servers: &[&str], searches: &[&str], options: &[&str]) -> DnsConfig {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        DnsConfig { servers: texts(servers), searches: texts(searches), options: texts(options) }
    }

    #[test]
    fn policies_decide() {
        let host = config(&["192.0.2.1"], &["corp.example"], &["timeout:2"]);
        let servers = ["10.96.0.10".parse().unwrap()];
        let cluster = Cluster { servers: &servers, domain: "cluster.local", host: &host };
        let of_cluster = config(
            &["10.96.0.10"],
            &["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"],
            &["ndots:5"],
        );
        let own = r#""dnsConfig":{"nameservers":["1.1.1.1"],"searches":["my.dns"],"options":[{"name":"ndots","value":"2"},{"name":"edns0"}]}"#;
        let table = [
            (r#""dnsPolicy":"ClusterFirst""#.to_owned(), of_cluster.clone()),
            (r#""dnsPolicy":"ClusterFirst","hostNetwork":true"#.to_owned(), host.clone()),
            (r#""dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true"#.to_owned(), of_cluster),
            (r#""dnsPolicy":"Default""#.to_owned(), host.clone()),
            (format!(r#""dnsPolicy":"None",{own}"#), config(&["1.1.1.1"], &["my.dns"], &["ndots:2", "edns0"])),
            (
                format!(r#""dnsPolicy":"Default",{own}"#),
                config(&["192.0.2.1", "1.1.1.1"], &["corp.example", "my.dns"], &["timeout:2", "ndots:2", "edns0"]),
            ),
        ];
        for (spec, expected) in table {
            let text = format!(r#"{{"metadata":{{"namespace":"shop"}},"spec":{{{spec}}}}}"#);
            let (found, notes) = of(&json::parse(text.as_bytes()).unwrap(), &cluster);
            assert_eq!((found, notes.len()), (expected, 0), "{spec}");
        }
    }

    #[test]
    fn without_a_dns_of_the_cluster_the_host_is_asked() {
        let host = config(&["192.0.2.1"], &[], &[]);
        let cluster = Cluster { servers: &[], domain: "cluster.local", host: &host };
        let pod =
            json::parse(br#"{"metadata":{"namespace":"n","name":"p","uid":"u"},"spec":{"dnsPolicy":"ClusterFirst"}}"#);
        let (found, notes) = of(&pod.unwrap(), &cluster);
        assert_eq!(found, host);
        assert_eq!(notes[0].0, "MissingClusterDNS");
        assert!(notes[0].1.starts_with("pod: \"p_n(u)\". kubelet does not have ClusterDNS IP"), "{notes:?}");
    }

    #[test]
    fn limits_are_kept_and_told() {
        let host = config(&["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"], &["ok.example", &"x".repeat(254)], &[]);
        let cluster = Cluster { servers: &[], domain: "", host: &host };
        let pod = json::parse(br#"{"metadata":{},"spec":{"dnsPolicy":"Default"}}"#).unwrap();
        let (found, notes) = of(&pod, &cluster);
        assert_eq!(found, config(&["1.1.1.1", "2.2.2.2", "3.3.3.3"], &["ok.example"], &[]));
        assert_eq!(notes.len(), 2);
        assert!(notes[1].1.ends_with("the applied search line is: ok.example"));
    }

    #[test]
    fn resolv_conf_is_read() {
        let text = "# c\nnameserver 1.1.1.1\nsearch a.b. c .\nsearch d.\noptions ndots:1 rotate\noptions ndots:3\n";
        assert_eq!(parse_resolv_conf(text), config(&["1.1.1.1"], &["d"], &["ndots:3", "rotate"]));
    }
}
