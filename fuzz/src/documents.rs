//! Documents made from bytes: of any form, or roughly in the form of a type with a wrong part here and there. What
//! libFuzzer changes in the bytes changes a choice, so that it soon reaches deep into a type.

use rkube_machinery::schema::{Shape, Type, TypeRef};
use rkube_machinery::{Map, Text, Value};

/// Documents stay this shallow, so that bytes are not used up on one branch.
const DEPTH_MAX: usize = 6;

/// Texts on which something depends.
const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "x-1",
    "A_b",
    "é\u{1f600}",
    "1",
    "0",
    "-1",
    "1Gi",
    "0.5",
    "50%",
    "1e3",
    "90s",
    "aGk=",
    "a=b",
    "2020-01-01T00:00:00Z",
    "2020-01-01T01:00:00.5+01:00",
    "10.0.0.1",
    "::1",
    "fd00::/8",
    "10.0.0.0/8",
    "TCP",
    "Always",
    "Never",
    "None",
    "ClusterIP",
    "NodePort",
    "ExternalName",
    "kubernetes.io/x",
    "k8s.io/y/z",
    "In",
    "Exists",
    "replace",
    "merge",
    "delete",
    "null",
    "true",
    "~",
    "<<",
    "app.example.com",
    "v1",
    "ConfigMap",
    "/a/b",
    "../a",
    "$(A)",
    " ",
    "\n",
    "\0",
    "Guaranteed",
    "nginx:1",
    "f:a",
    "k:{\"name\":\"a\"}",
    "v:1",
    "i:0",
    ".",
    "-",
    "/a/0",
    "/-",
    "/metadata/name",
];

/// Keys of documents that follow no type.
const KEYS: &[&str] = &[
    "a",
    "b",
    "metadata",
    "name",
    "spec",
    "containers",
    "labels",
    "annotations",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "managedFields",
    "f:metadata",
    "k:{}",
    "status",
    "ports",
    "finalizers",
    "",
    "é",
];

/// Choices, one byte each; when the bytes are used up, always the first.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Choices(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % bound.max(1)
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == chance - 1
    }

    pub fn one_of<'b>(&mut self, texts: &[&'b str]) -> &'b str {
        texts[self.below(texts.len())]
    }

    /// Any type of the table.
    pub fn kind(&mut self) -> &'static Type {
        let index = self.below(256) * 256 + self.below(256);
        let count = TypeRef::all().count();
        TypeRef::all().nth(index % count).map_or_else(|| unreachable!("the table is not empty"), TypeRef::get)
    }

    /// A type of objects that are stored: with an apiVersion, a kind and metadata of its own.
    pub fn object_kind(&mut self) -> &'static Type {
        let named = |kind: &&'static Type| {
            let metadata = kind.field("metadata").map(|field| &field.shape);
            kind.type_meta && matches!(metadata, Some(Shape::Struct(meta)) if meta.short_name() == "ObjectMeta")
        };
        let kinds: Vec<&'static Type> = TypeRef::all().map(TypeRef::get).filter(named).collect();
        let index = self.below(256) * 256 + self.below(256);
        kinds[index % kinds.len()]
    }

    pub fn text(&mut self) -> Text {
        Text::new(self.one_of(TEXTS))
    }

    /// A document that follows no type.
    pub fn any(&mut self, depth: usize) -> Value {
        let deep = if depth >= DEPTH_MAX { 6 } else { 8 };
        match self.below(deep) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2 => Value::Int(self.number()),
            3 => Value::Float(self.number() as f64 / 3.0 + 0.25),
            4 | 5 => Value::String(self.text()),
            6 => (0..self.below(4)).map(|_| self.any(depth + 1)).collect::<Vec<_>>().into(),
            _ => {
                let entry = |choices: &mut Self| (Text::new(choices.one_of(KEYS)), choices.any(depth + 1));
                let entries = (0..self.below(5)).map(|_| entry(self)).collect();
                Value::Object(Map::in_order(entries))
            }
        }
    }

    /// A document of roughly this type.
    pub fn fitting(&mut self, kind: &'static Type, depth: usize) -> Value {
        let mut entries = Vec::new();
        for field in kind.json_fields() {
            let wanted = if depth == 0 { 2 } else { 4 + depth };
            if self.is_empty() || depth > DEPTH_MAX || !self.one_in(wanted) {
                continue;
            }
            entries.push((Text::new_static(field.name), self.of_shape(&field.shape, depth)));
        }
        if self.one_in(24) {
            entries.push((Text::new(self.one_of(KEYS)), self.any(depth + 1)));
        }
        Value::Object(Map::in_order(entries))
    }

    fn of_shape(&mut self, shape: &Shape, depth: usize) -> Value {
        match self.below(40) {
            39 => return Value::Null,
            38 => return self.any(depth + 1),
            _ => {}
        }
        match shape {
            Shape::String => Value::String(self.text()),
            Shape::Bool | Shape::SchemaOrBool => Value::Bool(self.one_in(2)),
            Shape::Int32 | Shape::Int64 => Value::Int(self.number()),
            Shape::Double => Value::Float(self.number() as f64 + 0.5),
            Shape::Bytes => Value::from(self.one_of(&["aGk=", "", "YQ==", "*"])),
            Shape::Time => Value::from(self.one_of(&["2020-01-01T01:00:00+01:00", "1970-01-01T00:00:00Z", "x"])),
            Shape::MicroTime => Value::from(self.one_of(&["2020-01-01T00:00:00.000001Z", "0001-01-01T00:00:00Z"])),
            Shape::Duration => Value::from(self.one_of(&["90s", "0", "-1h0.5m", "x"])),
            Shape::Quantity => Value::from(self.one_of(&["1024Ki", "0.5", "1500m", "0", "-1", "9e18", "1n", "x"])),
            Shape::IntOrString => match self.one_in(2) {
                true => Value::Int(self.number()),
                false => Value::String(self.text()),
            },
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => self.any(depth + 1),
            Shape::SchemaOrArray | Shape::SchemaOrStrings | Shape::WrappedStrings => {
                (0..self.below(3)).map(|_| Value::String(self.text())).collect::<Vec<_>>().into()
            }
            Shape::Struct(kind) => self.fitting(kind.get(), depth + 1),
            Shape::List(item) => (0..self.below(4)).map(|_| self.of_shape(item, depth + 1)).collect::<Vec<_>>().into(),
            Shape::Map(item) => {
                let entry = |choices: &mut Self| (choices.text(), choices.of_shape(item, depth + 1));
                Value::Object(Map::in_order((0..self.below(4)).map(|_| entry(self)).collect()))
            }
        }
    }

    fn number(&mut self) -> i64 {
        const NUMBERS: &[i64] = &[0, 1, 2, 3, -1, 80, 443, 30_000, 65_535, 65_536, 1 << 31, i64::MAX, i64::MIN];
        NUMBERS[self.below(NUMBERS.len())]
    }
}
