//! The name by which a pod knows itself.

use rkube_machinery::Value;

/// What the kernel takes as a host's name, and what upstream lets a pod's be.
const FQDN_MAX: usize = 64;
const HOSTNAME_MAX: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostname {
    pub short: String,
    /// Empty without a subdomain.
    pub domain: String,
}

pub fn of(pod: &Value, cluster_domain: &str) -> Result<Hostname, String> {
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    let pod_name = metadata.str("name");
    if spec.has("hostnameOverride") {
        return Ok(Hostname { short: truncate(pod_name, spec.str("hostnameOverride"))?, domain: String::new() });
    }
    let given = if spec.str("hostname").is_empty() { pod_name } else { spec.str("hostname") };
    let domain = match spec.str("subdomain") {
        "" => String::new(),
        subdomain => format!("{subdomain}.{}.svc.{cluster_domain}", metadata.str("namespace")),
    };
    Ok(Hostname { short: truncate(pod_name, given)?, domain })
}

impl Hostname {
    /// What the kernel is told.
    pub fn for_kernel(&self, pod: &Value) -> Result<String, String> {
        if self.domain.is_empty() || !pod.get("spec").bool("setHostnameAsFQDN") {
            return Ok(self.short.clone());
        }
        let fqdn = format!("{}.{}", self.short, self.domain);
        if fqdn.len() > FQDN_MAX {
            return Err(format!(
                "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
                 ({FQDN_MAX} characters is the max, {} characters requested)",
                fqdn.len()
            ));
        }
        Ok(fqdn)
    }
}

fn truncate(pod_name: &str, hostname: &str) -> Result<String, String> {
    if hostname.len() <= HOSTNAME_MAX {
        return Ok(hostname.to_owned());
    }
    let truncated = hostname.get(..HOSTNAME_MAX).unwrap_or_default().trim_end_matches(['-', '.']);
    if truncated.is_empty() {
        return Err(format!("hostname for pod {pod_name:?} was invalid: {hostname:?}"));
    }
    Ok(truncated.to_owned())
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn names_come_from_the_pod() {
        let long = format!("{}-.{}", "a".repeat(61), "b".repeat(20));
        let table = [
            ("web-0".to_owned(), "", ("web-0", "", "web-0")),
            ("web-0".to_owned(), r#""hostname":"h""#, ("h", "", "h")),
            ("web-0".to_owned(), r#""subdomain":"s""#, ("web-0", "s.shop.svc.cluster.local", "web-0")),
            (
                "web-0".to_owned(),
                r#""subdomain":"s","setHostnameAsFQDN":true"#,
                ("web-0", "s.shop.svc.cluster.local", "web-0.s.shop.svc.cluster.local"),
            ),
            ("web-0".to_owned(), r#""hostnameOverride":"a.b","subdomain":"s""#, ("a.b", "", "a.b")),
            (long.clone(), "", (&long[..61], "", &long[..61])),
        ];
        for (name, spec, (short, domain, kernel)) in table {
            let text = format!(r#"{{"metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{{spec}}}}}"#);
            let pod = json::parse(text.as_bytes()).unwrap();
            let found = of(&pod, "cluster.local").unwrap();
            assert_eq!((found.short.as_str(), found.domain.as_str()), (short, domain), "{text}");
            assert_eq!(found.for_kernel(&pod).as_deref(), Ok(kernel), "{text}");
        }
        let long = format!(
            r#"{{"metadata":{{"name":"{}","namespace":"shop"}},"spec":{{"subdomain":"s","setHostnameAsFQDN":true}}}}"#,
            "a".repeat(60)
        );
        let pod = json::parse(long.as_bytes()).unwrap();
        let refused = of(&pod, "cluster.local").unwrap().for_kernel(&pod).unwrap_err();
        assert!(refused.ends_with("is too long (64 characters is the max, 85 characters requested)"), "{refused}");
    }
}
