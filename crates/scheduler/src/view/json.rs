//! Reading short texts and quantities out of JSON without a copy in between.

use std::borrow::Cow;
use std::fmt;

use rkube_machinery::Text;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::resources::Resources;

/// A text that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(pub Text);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Word;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(Text::new(text)))
            }

            fn visit_unit<E: Error>(self) -> Result<Word, E> {
                Ok(Word::default())
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A map of texts in the order in which it is written, which is by name.
#[derive(Clone, Debug, Default)]
pub struct Words(pub Vec<(Text, Text)>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Words;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of texts")
            }

            fn visit_unit<E: Error>(self) -> Result<Words, E> {
                Ok(Words::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Words, A::Error> {
                let mut words = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some((key, value)) = map.next_entry::<Word, Word>()? {
                    words.push((key.0, value.0));
                }
                words.sort_unstable();
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A quantity is a text, or was written as a number.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Amount<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(serde_json::Number),
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Resources, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Resources;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of resources")
            }

            fn visit_unit<E: Error>(self) -> Result<Resources, E> {
                Ok(Resources::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Resources, A::Error> {
                let mut resources = Resources::default();
                while let Some((name, amount)) = map.next_entry::<Word, Amount<'de>>()? {
                    match amount {
                        Amount::Text(text) => resources.read(&name.0, &text),
                        Amount::Number(number) => resources.read(&name.0, &number.to_string()),
                    }
                }
                Ok(resources)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
