//! The API types as static tables, made from `schema/types.tsv` when the crate is built.
//!
//! One table drives decoding, protobuf, patches, server-side apply and OpenAPI. A [`Type`] lists its fields in the
//! order in which they are written; `inline` fields are structs whose fields stand in the parent's JSON but in a
//! message of their own in protobuf.

mod of_kind;
pub mod structural;

pub use of_kind::Schema;

use std::fmt;
use std::sync::OnceLock;

use crate::short_text;
use crate::value::{Text, key};

include!(concat!(env!("OUT_DIR"), "/types.rs"));

pub struct Type {
    /// The name in OpenAPI: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// Whether the object carries `apiVersion` and `kind`.
    pub type_meta: bool,
    /// Server-side apply takes or leaves the struct as a whole.
    pub atomic: bool,
    /// The struct's own fields, inline ones included.
    pub fields: &'static [Field],
    /// The fields in JSON order: the struct that declares each (this one, or an inline one), and where in it.
    json: &'static [(TypeRef, u16)],
    /// Positions in `json` and their names, each at the place that its name's hash with `seed` says: no two names of
    /// a type have the same. The number of places is a power of two.
    places: &'static [(&'static str, u16)],
    seed: u64,
    /// Where in JSON order the fields are that Go writes even where they are not set. `decode` finds them.
    pub(crate) written_unset: OnceLock<Box<[u16]>>,
}

pub struct Field {
    pub name: &'static str,
    /// The name as a key of a [`Map`](crate::value::Map).
    pub key: Text,
    /// The field as `managedFields` write it where it has nothing below it: `"f:name":{}`.
    pub owned: &'static str,
    pub inline: bool,
    pub shape: Shape,
    /// The protobuf field number; 0: not in protobuf.
    pub number: u32,
    /// As Go's messages word it, without the pointer: `v1.ObjectMeta`, `map[string]string`.
    pub go_type: &'static str,
    pub pointer: bool,
    pub required: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub list: ListType,
    /// Whether the list type stands in the table (else it is atomic because nothing is said).
    pub list_given: bool,
    pub list_keys: &'static [&'static str],
    /// A map that server-side apply takes or leaves as a whole.
    pub map_atomic: bool,
    pub patch_merge: bool,
    pub patch_retain_keys: bool,
    pub patch_replace: bool,
    pub merge_key: &'static str,
    /// As JSON, where the published schema has one.
    pub default: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// The field sets of `managedFields`: any JSON.
    FieldsV1,
    /// An embedded object: any JSON.
    RawExtension,
    /// Any JSON.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    /// A list of strings that has a protobuf message of its own (`ExtraValue`, `Verbs`).
    WrappedStrings,
    Struct(TypeRef),
    List(&'static Shape),
    Map(&'static Shape),
}

/// A type in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TypeRef(u16);

impl TypeRef {
    /// The type of this OpenAPI name.
    pub fn find(name: &str) -> Option<TypeRef> {
        TYPES.binary_search_by(|candidate| candidate.name.cmp(name)).ok().map(|index| TypeRef(index as u16))
    }

    pub fn get(self) -> &'static Type {
        &TYPES[self.0 as usize]
    }

    pub fn all() -> impl Iterator<Item = TypeRef> {
        (0..TYPES.len()).map(|index| TypeRef(index as u16))
    }
}

impl std::ops::Deref for TypeRef {
    type Target = Type;
    fn deref(&self) -> &Type {
        &TYPES[self.0 as usize]
    }
}

impl fmt::Debug for TypeRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Type {
    /// The type's name alone: `Pod`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// The name's package: `io.k8s.api.core.v1`.
    pub fn package(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(package, _)| package)
    }

    /// The field of this JSON name, inline structs' fields included.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.position(name).map(|position| self.json_field(position))
    }

    /// Where the field of this JSON name stands in [`Type::json_fields`].
    pub fn position(&self, name: &str) -> Option<usize> {
        let place = short_text::hash(name, self.seed) as usize & (self.places.len() - 1);
        let (found, position) = self.places[place];
        (short_text::same(found, name) && !name.is_empty()).then_some(position as usize)
    }

    /// How many fields the JSON form has, without `apiVersion` and `kind`.
    pub fn json_len(&self) -> usize {
        self.json.len()
    }

    pub fn json_field(&'static self, position: usize) -> &'static Field {
        self.follow(position).1
    }

    /// The struct that declares the field (this one, or an inline one) and the field.
    pub fn follow(&'static self, position: usize) -> (&'static Type, &'static Field) {
        let (owner, index) = self.json[position];
        let owner = owner.get();
        (owner, &owner.fields[index as usize])
    }

    /// The fields as they stand in JSON, in order, without `apiVersion` and `kind`.
    pub fn json_fields(&'static self) -> impl Iterator<Item = &'static Field> {
        (0..self.json.len()).map(|position| self.json_field(position))
    }
}

impl Field {
    /// Whether apply sees a list here whose items have an identity.
    pub fn is_associative(&self) -> bool {
        matches!(self.shape, Shape::List(_)) && self.list != ListType::Atomic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_through_inline_structs() {
        let probe = TypeRef::find("io.k8s.api.core.v1.Probe").unwrap().get();
        let names: Vec<_> = probe.json_fields().map(|field| field.name).collect();
        assert_eq!(&names[..4], ["exec", "httpGet", "tcpSocket", "grpc"]);
        assert_eq!(probe.field("httpGet").unwrap().go_type, "v1.HTTPGetAction");
        assert!(probe.field("nothing").is_none());
    }

    #[test]
    fn flags_are_read() {
        let spec = TypeRef::find("io.k8s.api.core.v1.PodSpec").unwrap().get();
        let volumes = spec.field("volumes").unwrap();
        assert!(volumes.patch_merge && volumes.patch_retain_keys);
        assert_eq!(volumes.list_keys, ["name"]);
        assert!(spec.field("nodeSelector").unwrap().map_atomic);
    }
}
