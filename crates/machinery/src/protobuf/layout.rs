//! The schema table seen from the wire: each type's fields by number, and where each stands in JSON.

use std::sync::LazyLock;

use crate::schema::{Field, Shape, Type, TypeRef};

/// Fields of a type that are in protobuf, in ascending order of their numbers.
pub(super) struct Layout {
    pub(super) ty: &'static Type,
    pub(super) entries: Vec<Entry>,
}

pub(super) struct Entry {
    pub(super) field: &'static Field,
    /// The first place among the type's JSON fields; inline structs take as many as they have fields.
    pub(super) slot: usize,
    /// The layout of the struct in the field, in its lists or maps.
    child: usize,
}

impl Layout {
    /// The layout of a type. `None` only for a type that is not in the table.
    pub(super) fn of(ty: &'static Type) -> Option<&'static Layout> {
        LAYOUTS.binary_search_by(|layout| layout.ty.name.cmp(ty.name)).ok().map(|index| &LAYOUTS[index])
    }

    pub(super) fn find(&'static self, number: u32) -> Option<&'static Entry> {
        let index = self.entries.binary_search_by_key(&number, |entry| entry.field.number).ok()?;
        self.entries.get(index)
    }
}

impl Entry {
    /// The struct in the field, in its lists or maps. Only asked for where there is one.
    pub(super) fn child(&self) -> &'static Layout {
        &LAYOUTS[self.child]
    }
}

/// The layout behind the `schema-or-…` shapes.
pub(super) fn schema_props() -> Option<&'static Layout> {
    LAYOUTS.get(*SCHEMA_PROPS)
}

static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| TypeRef::all().map(|ty| layout(ty.get())).collect());

static SCHEMA_PROPS: LazyLock<usize> = LazyLock::new(|| {
    position(TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"))
});

fn layout(ty: &'static Type) -> Layout {
    let mut entries = Vec::with_capacity(ty.fields.len());
    let mut slot = 0;
    for field in ty.fields {
        let target = target(&field.shape);
        if field.number != 0 {
            entries.push(Entry { field, slot, child: position(target) });
        }
        slot += match target {
            Some(target) if field.inline => target.json_len(),
            _ => 1,
        };
    }
    entries.sort_by_key(|entry| entry.field.number);
    Layout { ty, entries }
}

fn target(shape: &Shape) -> Option<TypeRef> {
    match shape {
        Shape::Struct(target) => Some(*target),
        Shape::List(item) | Shape::Map(item) => target(item),
        _ => None,
    }
}

fn position(target: Option<TypeRef>) -> usize {
    target.and_then(|target| TypeRef::all().position(|candidate| candidate == target)).unwrap_or(0)
}
