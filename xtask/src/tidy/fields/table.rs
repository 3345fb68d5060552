//! The schema table, as far as it says which type has which fields of which shape.

use std::collections::{BTreeMap, BTreeSet};

/// What stands at a place, as the table writes it: `string`, `@TYPE`, `[]SHAPE`, `{}SHAPE`; also `TYPE`.
pub(super) type Shape<'t> = &'t str;
pub(super) type Types<'t> = BTreeSet<&'t str>;

/// A shape of which nothing is known.
pub(super) const ANYTHING: Shape<'static> = "raw";

pub(super) struct Table<'t> {
    types: BTreeMap<&'t str, BTreeMap<&'t str, Shape<'t>>>,
}

impl<'t> Table<'t> {
    pub fn parse(text: &'t str) -> Table<'t> {
        let mut types: BTreeMap<&str, BTreeMap<&str, Shape>> = BTreeMap::new();
        let mut inlined = Vec::new();
        let mut current = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            let (name, shape) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
            let fields = types.entry(current).or_default();
            match name {
                // A field may have the name of the keyword; a type has dots.
                "type" if shape.contains('.') && !shape.starts_with(['@', '[', '{']) => current = shape,
                "-typemeta" => fields.extend([("apiVersion", "string"), ("kind", "string")]),
                "-inline" => inlined.push((current, shape.trim_start_matches('@'))),
                _ => drop(fields.insert(name, shape)),
            }
        }
        for (outer, inner) in inlined {
            let fields = types.get(inner).cloned().unwrap_or_default();
            types.entry(outer).or_default().extend(fields);
        }
        types.remove("");
        Table { types }
    }

    pub fn all(&self) -> Types<'t> {
        self.types.keys().copied().collect()
    }

    /// Those whose last part this is: one in each version.
    pub fn named(&self, name: &str) -> Types<'t> {
        self.types.keys().copied().filter(|full| full.rsplit('.').next() == Some(name)).collect()
    }

    /// Those whose full name stands in the text as a literal.
    pub fn mentioned(&self, text: &str) -> Types<'t> {
        let literals = text.split("\"io.k8s.").skip(1).filter_map(|rest| rest.split('"').next());
        let full = literals.map(|rest| format!("io.k8s.{rest}"));
        full.filter_map(|full| self.types.get_key_value(full.as_str()).map(|(name, _)| *name)).collect()
    }

    /// With all types that are somewhere in these.
    pub fn reach(&self, from: &Types<'t>) -> Types<'t> {
        let mut found = from.clone();
        let mut waiting: Vec<&str> = from.iter().copied().collect();
        while let Some(name) = waiting.pop() {
            for shape in self.types.get(name).into_iter().flat_map(BTreeMap::values) {
                if let Some((_, inner)) = shape.split_once('@')
                    && found.insert(inner)
                {
                    waiting.push(inner);
                }
            }
        }
        found
    }

    /// What stands under this name in a value of this shape; `None`: there is no such thing.
    pub fn child(&self, shape: Shape<'t>, name: &str) -> Option<Shape<'t>> {
        if let Some(fields) = self.types.get(shape.trim_start_matches('@')) {
            return fields.get(name).copied();
        }
        match shape.strip_prefix("{}") {
            Some(value) => Some(value),
            None => is_open(shape).then_some(ANYTHING),
        }
    }

    /// What stands under any name in a value of this shape.
    pub fn children(&self, shape: Shape<'t>) -> Vec<Shape<'t>> {
        match self.types.get(shape.trim_start_matches('@')) {
            Some(fields) => fields.values().copied().collect(),
            None => self.child(shape, "").into_iter().collect(),
        }
    }

    /// The item of a list.
    pub fn item(shape: Shape<'t>) -> Option<Shape<'t>> {
        shape.strip_prefix("[]").or_else(|| is_open(shape).then_some(ANYTHING))
    }
}

/// Whether everything can be in it.
pub(super) fn is_open(shape: Shape<'_>) -> bool {
    matches!(shape, "raw" | "json" | "fields" | "schema-or-bool" | "schema-or-array" | "schema-or-strings")
}

/// Whether an accessor of that name reads or writes such a shape.
pub(super) fn fits(accessor: &str, shape: Shape<'_>) -> bool {
    if is_open(shape) {
        return true;
    }
    let is_list = shape.starts_with("[]") || shape == "wrapped";
    let is_map = shape.starts_with("{}") || (shape.contains('.') && !is_list);
    match accessor {
        "array_mut" | "list" | "list_mut" => is_list,
        "map" | "object_mut" => is_map,
        "bool" => shape == "bool",
        "int" => matches!(shape, "int32" | "int64" | "intorstring"),
        "str" => !is_list && !is_map && !matches!(shape, "bool" | "int32" | "int64" | "double"),
        _ => true,
    }
}
