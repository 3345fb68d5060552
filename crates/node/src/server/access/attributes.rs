//! What a request has to be allowed for: subresources of the node, of which one is enough.

use http::Method;

/// A verb on a subresource of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    pub verb: &'static str,
    pub subresource: &'static str,
}

/// In the order in which they are asked for.
pub fn of(method: &Method, path: &str) -> Vec<Attributes> {
    let verb = match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let subresources: &[&'static str] = match path.split('/').nth(1).unwrap_or_default() {
        "pods" | "runningpods" => &["pods", "proxy"],
        "healthz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "checkpoint" => &["checkpoint"],
        "statusz" => &["statusz"],
        "flagz" => &["configz"],
        _ => &["proxy"],
    };
    subresources.iter().map(|subresource| Attributes { verb, subresource }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_upstream_has_them() {
        let table: [(Method, &str, &str, &[&str]); 12] = [
            (Method::GET, "/pods", "get", &["pods", "proxy"]),
            (Method::GET, "/pods/", "get", &["pods", "proxy"]),
            (Method::GET, "/podsx", "get", &["proxy"]),
            (Method::GET, "/runningpods/", "get", &["pods", "proxy"]),
            (Method::GET, "/healthz/ping", "get", &["healthz", "proxy"]),
            (Method::GET, "/configz", "get", &["configz", "proxy"]),
            (Method::GET, "/stats/summary", "get", &["stats"]),
            (Method::GET, "/metrics/resource", "get", &["metrics"]),
            (Method::GET, "/logs/syslog", "get", &["log"]),
            (Method::POST, "/checkpoint/a/b/c", "create", &["checkpoint"]),
            (Method::POST, "/exec/a/b/c", "create", &["proxy"]),
            (Method::HEAD, "/", "", &["proxy"]),
        ];
        for (method, path, verb, subresources) in table {
            let attributes = of(&method, path);
            assert!(attributes.iter().all(|it| it.verb == verb), "{path}");
            assert_eq!(attributes.iter().map(|it| it.subresource).collect::<Vec<_>>(), subresources, "{path}");
        }
    }
}
