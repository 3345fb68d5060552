//! What pods may know of themselves: fields by their paths, and the resources of containers.

use std::net::IpAddr;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Value};

/// Limits that containers without one are told about, if the node has that resource.
const DEFAULTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Those that a pod as a whole can be limited in.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// A field of a pod that is about to run: also what its status will say.
pub fn of_running(pod: &Value, path: &str, addresses: &[IpAddr], host_addresses: &[IpAddr]) -> Result<String, String> {
    let first = |addresses: &[IpAddr]| addresses.first().map(IpAddr::to_string).unwrap_or_default();
    let all = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    Ok(match path {
        "spec.nodeName" => pod.get("spec").str("nodeName").to_owned(),
        "spec.serviceAccountName" => pod.get("spec").str("serviceAccountName").to_owned(),
        "status.hostIP" => first(host_addresses),
        "status.hostIPs" => all(host_addresses),
        "status.podIP" => first(addresses),
        "status.podIPs" => all(addresses),
        _ => return of_metadata(pod, path),
    })
}

/// A field of a pod's metadata: what volumes may show.
pub fn of_metadata(pod: &Value, path: &str) -> Result<String, String> {
    let metadata = pod.get("metadata");
    if let Some((field, key)) = subscripted(path) {
        return match field {
            "metadata.annotations" => Ok(metadata.map("annotations").str(key).to_owned()),
            "metadata.labels" => Ok(metadata.map("labels").str(key).to_owned()),
            _ => Err(format!("fieldPath {path:?} does not support subscript")),
        };
    }
    match path {
        "metadata.annotations" => Ok(lines_of(metadata.map("annotations"))),
        "metadata.labels" => Ok(lines_of(metadata.map("labels"))),
        "metadata.name" | "metadata.namespace" | "metadata.uid" => {
            Ok(metadata.str(path.trim_start_matches("metadata.")).to_owned())
        }
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// `metadata.labels['key']` taken apart.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// One on each line, by key, the values as Go quotes them.
fn lines_of(map: &Map) -> String {
    let mut entries: Vec<(&str, &str)> = map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    entries.sort_unstable();
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

/// As Go's `strconv.Quote`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            other if (other as u32) < 0x20 || other as u32 == 0x7f => {
                quoted.push_str(&format!("\\x{:02x}", other as u32));
            }
            other if is_unprintable(other) => quoted.push_str(&match other as u32 {
                code if code < 0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// What is known without Unicode's tables: controls, other spaces and invisible ones.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || (character.is_whitespace() && character != ' ')
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(character, '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

/// A resource of a container: of the one that the reference names, or else of this one.
pub fn of_resources(
    pod: &Value,
    container: Option<&Value>,
    reference: &Value,
    allocatable: &Value,
) -> Result<String, String> {
    let name = reference.str("containerName");
    let container = match container.filter(|_| name.is_empty()) {
        Some(container) => container,
        None => named(pod, name).ok_or_else(|| format!("container {name} not found"))?,
    };
    let path = reference.str("resource");
    let unsupported = || format!("unsupported container resource : {path}");
    let (list, resource) = path.split_once('.').ok_or_else(unsupported)?;
    let known = DEFAULTED.contains(&resource) || resource.starts_with("hugepages-");
    if !known || !matches!(list, "limits" | "requests") {
        return Err(unsupported());
    }
    let mut amount = quantity(container.get("resources").get(list).get(resource));
    if list == "limits" && amount.is_zero() && DEFAULTED.contains(&resource) {
        amount = default_limit(pod, resource, allocatable);
    }
    let divisor = quantity(reference.get("divisor"));
    let divisor = if divisor.is_zero() { Quantity::new(1, divisor.format()) } else { divisor };
    let (amount, divisor) = match resource {
        "cpu" => (amount.milli_value(), divisor.milli_value()),
        _ => (amount.value(), divisor.value()),
    };
    // In floating point, as upstream.
    Ok(((amount as f64 / divisor as f64).ceil() as i64).to_string())
}

/// What a container without a limit may use at most: what the pod may, or the node has for pods.
fn default_limit(pod: &Value, resource: &str, allocatable: &Value) -> Quantity {
    let of_node = quantity(allocatable.get(resource));
    let of_pod = quantity(pod.get("spec").get("resources").get("limits").get(resource));
    let limited = OF_PODS.contains(&resource) && !of_pod.is_zero() && allocatable.has(resource);
    if limited { of_pod } else { of_node }
}

fn named<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let spec = pod.get("spec");
    spec.list("containers").iter().chain(spec.list("initContainers")).find(|container| container.str("name") == name)
}

/// Zero where there is none.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::Int(number) => Quantity::new(*number, rkube_machinery::quantity::Format::DecimalSi),
        value => Quantity::parse(value.as_str()).unwrap_or(Quantity::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    fn pod() -> Value {
        json::parse(
            br#"{"metadata":{"name":"web","namespace":"shop","uid":"u1","labels":{"b":"2","a":"1"},
                "annotations":{"note":"say \"hi\"\n","x/y":"z"}},
                "spec":{"nodeName":"n1","serviceAccountName":"sa","containers":[
                {"name":"c","resources":{"requests":{"cpu":"250m","memory":"32Mi"},"limits":{"cpu":"1500m"}}}]}}"#,
        )
        .unwrap()
    }

    #[test]
    fn fields_are_found_by_path() {
        let addresses: Vec<IpAddr> = vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let hosts: Vec<IpAddr> = vec!["192.168.1.1".parse().unwrap()];
        let table = [
            ("metadata.name", Ok("web")),
            ("metadata.uid", Ok("u1")),
            ("metadata.labels", Ok("a=\"1\"\nb=\"2\"")),
            ("metadata.annotations", Ok("note=\"say \\\"hi\\\"\\n\"\nx/y=\"z\"")),
            ("metadata.labels['b']", Ok("2")),
            ("metadata.labels['none']", Ok("")),
            ("metadata.annotations['x/y']", Ok("z")),
            ("spec.nodeName", Ok("n1")),
            ("spec.serviceAccountName", Ok("sa")),
            ("status.hostIP", Ok("192.168.1.1")),
            ("status.podIP", Ok("10.0.0.5")),
            ("status.podIPs", Ok("10.0.0.5,fd00::5")),
            ("spec.x", Err("unsupported fieldPath: spec.x")),
            ("metadata.name['a']", Err("fieldPath \"metadata.name['a']\" does not support subscript")),
        ];
        for (path, expected) in table {
            let found = of_running(&pod(), path, &addresses, &hosts);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
        }
    }

    #[test]
    fn resources_are_divided_and_rounded_up() {
        let allocatable = object! { "cpu": "4", "memory": "8Gi" };
        let pod = pod();
        let table = [
            ("requests.cpu", "", Ok("1")),
            ("requests.cpu", "1m", Ok("250")),
            ("limits.cpu", "1", Ok("2")),
            ("requests.memory", "1Mi", Ok("32")),
            ("requests.memory", "", Ok("33554432")),
            ("limits.memory", "1Gi", Ok("8")),
            ("requests.hugepages-2Mi", "1Mi", Ok("0")),
            ("limits.nvidia.com/gpu", "", Err("unsupported container resource : limits.nvidia.com/gpu")),
        ];
        for (resource, divisor, expected) in table {
            let reference = object! { "containerName": "c", "resource": resource, "divisor": divisor };
            let found = of_resources(&pod, None, &reference, &allocatable);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{resource} {divisor}");
        }
        let unknown = object! { "containerName": "d", "resource": "limits.cpu" };
        assert_eq!(of_resources(&pod, None, &unknown, &allocatable), Err("container d not found".to_owned()));
    }
}
