//! Templates of pods, as they are compared: a fingerprint that is the same for the same template, whatever hash a
//! Deployment put among its labels.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::metadata::{Labels, Pairs};

/// The label that tells the pods of a Deployment's ReplicaSets apart.
pub const HASH_LABEL: &str = "pod-template-hash";

const OFFSET_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// What is kept of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// All of it but the label of the hash.
    pub fingerprint: Fingerprint,
    pub labels: Labels,
}

/// FNV-1a of a value. Fields have no order, and one that is null is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u128);

impl Fingerprint {
    const NULL: Fingerprint = Fingerprint(0);

    fn of(tag: u8, bytes: &[u8]) -> Fingerprint {
        let start = (OFFSET_128 ^ u128::from(tag)).wrapping_mul(PRIME_128);
        Fingerprint(bytes.iter().fold(start, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME_128)))
    }

    /// As a part of something that has it under this name.
    fn named(self, name: &str) -> u128 {
        if self == Fingerprint::NULL {
            return 0;
        }
        let name = Fingerprint::of(b'k', name.as_bytes()).0;
        let mixed =
            self.0.to_le_bytes().iter().fold(name, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME_128));
        mixed ^ mixed >> 64
    }

    fn of_map(sum: u128) -> Fingerprint {
        Fingerprint::of(b'm', &sum.to_le_bytes())
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FingerprintVisitor)
    }
}

struct FingerprintVisitor;

impl<'de> Visitor<'de> for FingerprintVisitor {
    type Value = Fingerprint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Fingerprint, E> {
        Ok(Fingerprint::NULL)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(b'b', &[u8::from(value)]))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(b'i', &i128::from(value).to_le_bytes()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(b'i', &i128::from(value).to_le_bytes()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(b'f', &value.to_bits().to_le_bytes()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(b's', value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fingerprint, A::Error> {
        let mut hash = Fingerprint::of(b'l', &[]);
        while let Some(element) = list.next_element::<Fingerprint>()? {
            let bytes = element.0.to_le_bytes();
            hash.0 = bytes.iter().fold(hash.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME_128));
        }
        Ok(hash)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fingerprint, A::Error> {
        let mut sum = 0_u128;
        while let Some(Name(name)) = map.next_key()? {
            sum = sum.wrapping_add(map.next_value::<Fingerprint>()?.named(&name));
        }
        Ok(Fingerprint::of_map(sum))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TemplateVisitor;
        impl<'de> Visitor<'de> for TemplateVisitor {
            type Value = Template;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a template")
            }

            fn visit_unit<E>(self) -> Result<Template, E> {
                Ok(Template::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Template, A::Error> {
                let (mut sum, mut labels) = (0_u128, Labels::default());
                while let Some(Name(name)) = map.next_key()? {
                    let part = match &*name {
                        "metadata" => {
                            let metadata: Metadata = map.next_value()?;
                            labels = metadata.labels;
                            metadata.sum
                        }
                        "spec" => map.next_value::<Fingerprint>()?.named(&name),
                        _ => map.next_value::<IgnoredAny>().map(|_| 0)?,
                    };
                    sum = sum.wrapping_add(part);
                }
                Ok(Template { fingerprint: Fingerprint::of_map(sum), labels })
            }
        }
        deserializer.deserialize_any(TemplateVisitor)
    }
}

/// The metadata of a template: empty metadata are as good as none.
#[derive(Default)]
struct Metadata {
    sum: u128,
    labels: Labels,
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("metadata")
            }

            fn visit_unit<E>(self) -> Result<Metadata, E> {
                Ok(Metadata::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut metadata = Metadata::default();
                while let Some(Name(name)) = map.next_key()? {
                    let part = if name == "labels" {
                        metadata.labels = map.next_value::<Pairs<'de>>()?.to_labels();
                        let labels = metadata.labels.iter().filter(|(key, _)| *key != HASH_LABEL);
                        let parts = labels.map(|(key, value)| Fingerprint::of(b's', value.as_bytes()).named(key));
                        match parts.fold(0, u128::wrapping_add) {
                            0 => 0,
                            sum => Fingerprint::of_map(sum).named(&name),
                        }
                    } else {
                        map.next_value::<Fingerprint>()?.named(&name)
                    };
                    metadata.sum = metadata.sum.wrapping_add(part);
                }
                Ok(metadata)
            }
        }
        deserializer.deserialize_any(MetadataVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Template {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn templates_are_the_same_but_for_the_label_of_the_hash() {
        let one = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":1}}"#;
        // Another template, and whether it is the same.
        let table = [
            (r#"{"spec":{"x":1,"containers":[{"image":"i","name":"c"}]},"metadata":{"labels":{"app":"a"}}}"#, true),
            (
                r#"{"metadata":{"creationTimestamp":null,"labels":{"app":"a","pod-template-hash":"h"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":1}}"#,
                true,
            ),
            (r#"{"metadata":{"labels":{"app":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":1}}"#, false),
            (
                r#"{"metadata":{"labels":{"app":"a","b":"c"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":1}}"#,
                false,
            ),
            (
                r#"{"metadata":{"labels":{"app":"a"},"annotations":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":1}}"#,
                false,
            ),
            (r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"i","image":"c"}],"x":1}}"#, false),
            (r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}],"x":"1"}}"#, false),
            (
                r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i","e":{}}],"x":1}}"#,
                false,
            ),
            (
                r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}],"x":1}}"#,
                false,
            ),
        ];
        for (other, same) in table {
            assert_eq!(read(one).fingerprint == read(other).fingerprint, same, "{other}");
        }
        let none = read(r#"{"spec":{}}"#).fingerprint;
        assert_eq!(read(r#"{"metadata":{"labels":{"pod-template-hash":"h"}},"spec":{}}"#).fingerprint, none);
        assert_eq!(read(table[1].0).labels.get(HASH_LABEL), Some("h"));
    }
}
