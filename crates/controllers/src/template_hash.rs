//! The hash of a template by which a Deployment names its ReplicaSets, and a DaemonSet its revisions: upstream's, so that
//! the names are the same.
//!
//! Upstream hashes the text in which a Go library dumps the template's struct: every field by its name in Go with its type,
//! whether it is set or not. The schema table has the types and their order; the names that are not just the JSON names
//! are listed here. Quantities that do not fit into 64 bits are dumped in another way: their hashes are stable, but our
//! own.

use rkube_machinery::schema::{Field, Shape, Type, TypeRef};
use rkube_machinery::{Value, json};

const TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
/// The letters of which names are made that shall spell nothing.
const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Decimal digits of which there may be so many in a number of 64 bits.
const DIGITS_MAX: i64 = 18;

/// Fields whose names in Go are not their names in JSON with a capital.
const GO_NAMES: [(&str, &str); 40] = [
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("csi", "CSI"),
    ("diskURI", "DataDiskURI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("endpoints", "EndpointsName"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("metadata", "ObjectMeta"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("pool", "RBDPool"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("serviceAccount", "DeprecatedServiceAccount"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
];
/// Of one type only.
const GO_NAMES_OF_RBD: [(&str, &str); 3] = [("image", "RBDImage"), ("monitors", "CephMonitors"), ("user", "RadosUser")];

/// The hash of the template of an object that has one, as part of a name. Another one for each count of names that were taken.
pub fn template_hash(owner_json: &[u8], collisions: Option<i64>) -> String {
    // Stored objects can be read; one that could not would have been left out before.
    let owner = json::parse(owner_json).unwrap_or_default();
    hash(owner.at(&["spec", "template"]), collisions)
}

fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut dump = Fnv(0x811c_9dc5);
    dump.text("(v1.PodTemplateSpec)");
    if let Some(schema) = TypeRef::find(TEMPLATE) {
        dump.fields(schema.get(), template);
    }
    if let Some(collisions) = collisions {
        let [a, b, c, d, ..] = collisions.to_le_bytes();
        dump.bytes(&[a, b, c, d, 0, 0, 0, 0]);
    }
    let digits = dump.0.to_string().into_bytes();
    digits.iter().map(|digit| char::from(SAFE_LETTERS[usize::from(*digit) % SAFE_LETTERS.len()])).collect()
}

/// FNV-1a of what is written to it.
struct Fnv(u32);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn fields(&mut self, schema: &Type, value: &Value) {
        self.text("{");
        for (place, field) in schema.fields.iter().enumerate() {
            if place > 0 {
                self.text(" ");
            }
            self.field(schema, field, if field.inline { value } else { value.get(field.name) });
        }
        self.text("}");
    }

    fn field(&mut self, schema: &Type, field: &Field, value: &Value) {
        self.name(schema, field);
        self.text(if field.pointer { ":(*" } else { ":(" });
        self.text(field.go_type);
        self.text(")");
        if field.pointer && value.is_null() { self.text("<nil>") } else { self.value(&field.shape, value) }
    }

    fn name(&mut self, schema: &Type, field: &Field) {
        if field.inline {
            return self.text(field.go_type.rsplit('.').next().unwrap_or_default());
        }
        let of_type = if schema.short_name() == "RBDVolumeSource" { &GO_NAMES_OF_RBD[..] } else { &[] };
        let mut known = GO_NAMES.iter().chain(of_type);
        if let Some((_, name)) = known.find(|(name, _)| *name == field.name) {
            return self.text(name);
        }
        let (first, rest) = field.name.split_at(1);
        self.text(&first.to_ascii_uppercase());
        self.text(rest);
    }

    /// A value that may be missing: then it is what Go has instead.
    fn value(&mut self, shape: &Shape, value: &Value) {
        match shape {
            Shape::Bool => self.text(if matches!(value, Value::Bool(true)) { "true" } else { "false" }),
            Shape::Int32 | Shape::Int64 => self.text(&value.as_int().unwrap_or(0).to_string()),
            // A template has only times that are not set.
            Shape::Time | Shape::MicroTime => {
                self.text("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
            }
            Shape::Quantity => self.quantity(value.as_str()),
            Shape::IntOrString => self.int_or_string(value),
            Shape::Struct(schema) => self.fields(schema.get(), value),
            Shape::List(element) => self.list(element, value),
            Shape::Map(element) => self.map(element, value),
            _ => self.text(value.as_str()),
        }
    }

    fn list(&mut self, element: &Shape, value: &Value) {
        let Value::Array(elements) = value else { return self.text("<nil>") };
        if elements.is_empty() {
            return self.text("<nil>");
        }
        for (place, value) in elements.iter().enumerate() {
            self.text(if place > 0 { " " } else { "[" });
            self.value(element, value);
        }
        self.text("]");
    }

    fn map(&mut self, element: &Shape, value: &Value) {
        let Value::Object(map) = value else { return self.text("<nil>") };
        let mut entries: Vec<(&str, &Value)> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        if entries.is_empty() {
            return self.text("<nil>");
        }
        entries.sort_by_key(|(key, _)| *key);
        for (place, (key, value)) in entries.into_iter().enumerate() {
            self.text(if place > 0 { " " } else { "map[" });
            self.text(key);
            self.text(":");
            self.value(element, value);
        }
        self.text("]");
    }

    fn int_or_string(&mut self, value: &Value) {
        let (kind, number, text) = match value {
            Value::String(text) => (1, 0, text.as_str()),
            other => (0, other.as_int().unwrap_or(0), ""),
        };
        self.text(&format!("{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"));
    }

    fn quantity(&mut self, text: &str) {
        let Quantity { value, scale, cached, format } = Quantity::read(text);
        let cached = if cached { text } else { "" };
        self.text(&format!("{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}}"));
        self.text(" d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>}");
        self.text(&format!(" s:(string){cached} Format:(resource.Format){format}}}"));
    }
}

/// A quantity as upstream keeps it.
struct Quantity {
    value: i64,
    scale: i64,
    /// Whether the text is kept beside it, because it is canonical at first sight.
    cached: bool,
    format: &'static str,
}

impl Quantity {
    fn read(text: &str) -> Quantity {
        match text {
            "" => Quantity { value: 0, scale: 0, cached: false, format: "" },
            "0" => Quantity { value: 0, scale: 0, cached: true, format: "DecimalSI" },
            _ => Self::read_number(text).unwrap_or(Quantity { value: 0, scale: 0, cached: true, format: "" }),
        }
    }

    /// None: it does not fit.
    fn read_number(text: &str) -> Option<Quantity> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            rest => rest,
        };
        let (binary, exponent, format) = suffix_of(suffix)?;
        let (digits, places) = (i64::try_from(whole.len()).ok()?, i64::try_from(fraction.len()).ok()?);
        let (scale, room) = if binary {
            (0, if fraction.is_empty() { 15 - digits - exponent * 3 / 10 - 1 } else { -1 })
        } else {
            (exponent - places, DIGITS_MAX - digits - places)
        };
        if room < 0 || scale < -9 {
            return None;
        }
        let shifted = format!("{whole}{fraction}");
        let read: i64 = shifted.parse().ok()?;
        let factor = if binary { 1_i64.checked_shl(u32::try_from(exponent).ok()?)? } else { 1 };
        let value = read.checked_mul(factor)?;
        let cached = if binary {
            exponent % 10 == 0 && read & 7 != 0
        } else {
            scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
        };
        Some(Quantity { value: if text.starts_with('-') { -value } else { value }, scale, cached, format })
    }
}

/// Whether a suffix stands for a power of two, which one, and the name of its format.
fn suffix_of(suffix: &str) -> Option<(bool, i64, &'static str)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = decimal.iter().position(|known| *known == suffix) {
        return Some((false, 3 * i64::try_from(place).ok()? - 9, "DecimalSI"));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(place) = binary.iter().position(|known| *known == suffix) {
        return Some((true, 10 * (i64::try_from(place).ok()? + 1), "BinarySI"));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((false, exponent, "DecimalExponent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each a template, and what upstream's function says of it without and with a collision.
    #[test]
    fn hashes_are_upstreams() {
        for line in include_str!("hash_vectors.txt").lines() {
            let (hashes, template) = line.split_once(' ').unwrap();
            let template = json::parse(template.as_bytes()).unwrap();
            assert_eq!(format!("{}/{}", hash(&template, None), hash(&template, Some(1))), hashes, "{template:?}");
        }
    }

    #[test]
    fn a_number_beyond_64_bits_has_a_hash_as_well() {
        let of = |cpu: &str| {
            let template = format!(r#"{{"spec":{{"overhead":{{"cpu":"{cpu}"}}}}}}"#);
            hash(&json::parse(template.as_bytes()).unwrap(), None)
        };
        assert_ne!(of("12345678901234567890"), of("12345678901234567891"));
    }
}
