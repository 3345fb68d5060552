//! What a connection is asked to be: the query of the request, checked, and as the object that admission is shown.

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{GroupResource, Status, Value, object, time};

use crate::proxy::encode_query;
use crate::request::number;

/// The options as an object of the kind that upstream has for them. `below` is what follows `proxy` in the path.
pub fn object_of(resource: &str, subresource: &str, query: &ConnectQuery<'_>, below: &str) -> Result<Value, Status> {
    let mut object = object! { "apiVersion": "v1" };
    match (resource, subresource) {
        (resource, "proxy") => {
            let kind = match resource {
                "pods" => "PodProxyOptions",
                "services" => "ServiceProxyOptions",
                _ => "NodeProxyOptions",
            };
            object.set("kind", kind);
            object.set("path", below.trim_matches('/'));
        }
        (_, "portforward") => {
            object.set("kind", "PodPortForwardOptions");
            object.set("ports", query.ports()?);
        }
        (_, subresource) => {
            let executes = subresource == "exec";
            object.set("kind", if executes { "PodExecOptions" } else { "PodAttachOptions" });
            for field in ["stdin", "stdout", "stderr", "tty"] {
                if query.is_true(field) {
                    object.set(field, true);
                }
            }
            if let Some(container) = query.first("container") {
                object.set("container", container);
            }
            if executes {
                object.set("command", query.all("command").map(Value::from).collect::<Vec<_>>());
            }
        }
    }
    Ok(object)
}

/// The same as a node is asked for it.
pub fn node_query(options: &Value) -> String {
    let mut pairs = Vec::new();
    for (field, name) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if options.bool(field) {
            pairs.push((name, "1"));
        }
    }
    pairs.extend(options.list("command").iter().map(|word| ("command", word.as_str())));
    let ports: Vec<String> =
        options.list("ports").iter().map(|port| port.as_int().unwrap_or_default().to_string()).collect();
    let ports = ports.join(",");
    if !ports.is_empty() {
        pairs.push(("port", &ports));
    }
    encode_query(&pairs)
}

/// The query of a connection.
pub struct ConnectQuery<'a>(pub &'a [(String, String)]);

impl ConnectQuery<'_> {
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.first(name).is_some_and(|text| !text.starts_with('0') && !text.eq_ignore_ascii_case("false"))
    }

    /// What a node is asked for of a log.
    pub fn log_query(&self) -> String {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for name in ["follow", "previous", "timestamps"] {
            if self.is_true(name) {
                pairs.push((name, "true"));
            }
        }
        for name in ["sinceSeconds", "sinceTime", "tailLines", "limitBytes"] {
            if let Some(value) = self.first(name).filter(|value| !matches!(*value, "" | "null")) {
                pairs.push((name, value));
            }
        }
        encode_query(&pairs)
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let mut bad = None;
        let value = self.first(name).and_then(|text| number(text, &mut bad));
        bad.map_or(Ok(value), |why| Err(Status::bad_request(why)))
    }

    /// What can be said of the options of a log without the pod.
    pub fn check_log(&self, name: &str) -> Result<(), Status> {
        let since_seconds = self.number("sinceSeconds")?;
        let since_time = self.first("sinceTime");
        if let Some(text) = since_time.filter(|text| !matches!(*text, "" | "null")) {
            time::parse(text).map_err(Status::bad_request)?;
        }
        let tail_lines = self.number("tailLines")?;
        let limit_bytes = self.number("limitBytes")?;
        let mut errors = Errors::new();
        if let Some(lines) = tail_lines.filter(|lines| *lines < 0) {
            errors.invalid(Path::new("tailLines"), lines, "must be greater than or equal to 0");
        }
        if let Some(bytes) = limit_bytes.filter(|bytes| *bytes < 1) {
            errors.invalid(Path::new("limitBytes"), bytes, "must be greater than 0");
        }
        match (since_seconds, since_time) {
            (Some(_), Some(_)) => {
                errors.forbidden(Path::new("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified");
            }
            (Some(seconds), None) if seconds < 1 => {
                errors.invalid(Path::new("sinceSeconds"), seconds, "must be greater than 0");
            }
            _ => {}
        }
        if self.first("stream").is_some() {
            errors.forbidden(Path::new("stream"), "may not be specified");
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupResource::new("", "PodLogOptions"), name, &errors))
    }

    fn ports(&self) -> Result<Vec<Value>, Status> {
        let mut ports = Vec::new();
        for text in self.all("ports").flat_map(|texts| texts.split(',')) {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(bad_port(text, "invalid syntax"));
            }
            let port: u16 = text.parse().map_err(|_| bad_port(text, "value out of range"))?;
            ports.push(i64::from(port).into());
        }
        Ok(ports)
    }
}

fn bad_port(text: &str, why: &str) -> Status {
    Status::bad_request(format!("cannot convert to []int32: strconv.ParseUint: parsing {}: {why}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Vec<(String, String)> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn options_of_logs_are_checked_without_the_pod() {
        let invalid = |what: &str| format!("PodLogOptions \"p\" is invalid: {what}");
        for (text, want) in [
            ("", String::new()),
            ("tailLines=0&limitBytes=1&sinceSeconds=1&follow=maybe", String::new()),
            ("sinceTime=", String::new()),
            ("tailLines=-1", invalid("tailLines: Invalid value: -1: must be greater than or equal to 0")),
            ("limitBytes=0", invalid("limitBytes: Invalid value: 0: must be greater than 0")),
            ("sinceSeconds=0", invalid("sinceSeconds: Invalid value: 0: must be greater than 0")),
            (
                "sinceSeconds=0&sinceTime=2020-01-01T00:00:00Z",
                invalid("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
            ("stream=Stdout", invalid("stream: Forbidden: may not be specified")),
            ("tailLines=", "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
            (
                "limitBytes=99999999999999999999",
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
            ),
            (
                "sinceTime=bad",
                "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \"2006\"".to_owned(),
            ),
        ] {
            let got = ConnectQuery(&query(text)).check_log("p").err().map(|status| status.message).unwrap_or_default();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn ports_are_numbers() {
        assert!(ConnectQuery(&query("ports=1,65535&ports=2")).ports().is_ok());
        let why = ConnectQuery(&query("ports=1,x")).ports().unwrap_err().message;
        assert_eq!(why, "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax");
    }

    #[test]
    fn nodes_are_asked_in_their_own_words() {
        let of = |subresource: &str, text: &str| {
            let query = query(text);
            node_query(&object_of("pods", subresource, &ConnectQuery(&query), "").unwrap())
        };
        assert_eq!(
            of("exec", "command=sh&stdin=true&stdout=1&stderr=false&tty=0&command=-c"),
            "command=sh&command=-c&input=1&output=1"
        );
        assert_eq!(of("attach", "stdout=true&stderr=true&tty=true&command=x"), "error=1&output=1&tty=1");
        assert_eq!(of("portforward", "ports=80,443"), "port=80%2C443");
        assert_eq!(of("portforward", ""), "");
        let log = |text: &str| ConnectQuery(&query(text)).log_query();
        assert_eq!(log("tailLines=5&follow=true&container=c&previous=false"), "follow=true&tailLines=5");
        assert_eq!(log("sinceTime=2020-01-01T00:00:00Z"), "sinceTime=2020-01-01T00%3A00%3A00Z");
    }
}
