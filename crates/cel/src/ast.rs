//! The tree of an expression, after macros are expanded.

use std::sync::Arc;

/// A part of an expression. `id` is its own; `offset` is where it stands in the text, in characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub id: usize,
    pub offset: Option<usize>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// What stands where the text is wrong.
    Unspecified,
    Literal(Literal),
    Ident(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        test: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<Box<Expr>>,
        arguments: Vec<Expr>,
    },
    /// `optional` has the indices of the elements with a question mark.
    List {
        elements: Vec<Expr>,
        optional: Vec<usize>,
    },
    Map(Vec<Entry>),
    Struct {
        name: Arc<str>,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: usize,
    pub offset: Option<usize>,
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub id: usize,
    pub offset: Option<usize>,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A fold over a list or a map: what the macros become.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The second variable, of those that have two.
    pub variable2: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub initial: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Expr {
    /// `a.b.c` as a name, if it is one.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Calls `visit` with this part and all below it, from the left to the right.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        visit(self);
        match &self.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => operand.walk(visit),
            Kind::Call { target, arguments, .. } => {
                target.iter().for_each(|target| target.walk(visit));
                arguments.iter().for_each(|argument| argument.walk(visit));
            }
            Kind::List { elements, .. } => elements.iter().for_each(|element| element.walk(visit)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                entry.key.walk(visit);
                entry.value.walk(visit);
            }),
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| field.value.walk(visit)),
            Kind::Comprehension(fold) => {
                for part in [&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result] {
                    part.walk(visit);
                }
            }
        }
    }
}
