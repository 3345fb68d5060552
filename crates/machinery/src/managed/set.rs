//! Sets of fields as tries of path elements, and the form in which they stand in `fieldsV1`.

use super::element::{ElementError, PathElement};
use crate::json;
use crate::value::{Map, Text, Value};

/// A set of paths. The path of a node is in the set where the node is marked a member; a node that is no member has
/// members below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In the order of their elements.
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

/// Why `fieldsV1` could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
    #[error("expected a map of path elements")]
    Shape,
}

impl FieldSet {
    pub const fn new() -> Self {
        FieldSet { nodes: Vec::new() }
    }

    /// The set of these paths of field names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::Field(Text::new(name))).collect::<Vec<_>>());
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the path; the paths above it are not added. The empty path is nobody's.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let index = match self.find(first) {
            Ok(index) => index,
            Err(index) => {
                self.nodes.insert(index, Node { element: first.clone(), member: false, below: FieldSet::new() });
                index
            }
        };
        match rest.is_empty() {
            true => self.nodes[index].member = true,
            false => self.nodes[index].below.insert(rest),
        }
    }

    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => self.get(first).is_some_and(|node| match rest.is_empty() {
                true => node.member,
                false => node.below.contains(rest),
            }),
        }
    }

    /// Calls for every path, the members of a level before what lies below it.
    pub fn for_each(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.for_each_below(&mut Vec::new(), visit);
    }

    fn for_each_below(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            path.push(node.element.clone());
            node.below.for_each_below(path, visit);
            path.pop();
        }
    }

    pub(super) fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|index| &self.nodes[index])
    }

    /// The node of the field of this name.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.element.is_field(name))
    }

    /// Adds a node that belongs behind those that are there, in whatever order; [`FieldSet::settle`] puts it right.
    pub(super) fn push(&mut self, element: PathElement, member: bool, below: FieldSet) {
        if member || !below.is_empty() {
            self.nodes.push(Node { element, member, below });
        }
    }

    /// Sorts what was pushed and joins nodes of the same element; says whether there was nothing to do.
    pub(super) fn settle(&mut self) -> bool {
        if self.nodes.windows(2).all(|pair| pair[0].element < pair[1].element) {
            return true;
        }
        self.nodes.sort_unstable_by(|left, right| left.element.cmp(&right.element));
        self.nodes.dedup_by(|later, earlier| {
            let joined = later.element == earlier.element;
            if joined {
                earlier.member |= later.member;
                earlier.below.extend(std::mem::take(&mut later.below));
            }
            joined
        });
        false
    }
}

/// Set arithmetic.
impl FieldSet {
    /// Adds every path of the other set.
    pub fn extend(&mut self, other: FieldSet) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut right = other.nodes.into_iter().peekable();
        for mut left in std::mem::take(&mut self.nodes) {
            while let Some(node) = right.next_if(|node| node.element < left.element) {
                nodes.push(node);
            }
            if let Some(node) = right.next_if(|node| node.element == left.element) {
                left.member |= node.member;
                left.below.extend(node.below);
            }
            nodes.push(left);
        }
        nodes.extend(right);
        self.nodes = nodes;
    }

    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        self.extend(other.clone());
        self
    }

    /// Removes the paths of the other set; what lies below them stays. Says whether there were any.
    pub fn subtract(&mut self, other: &FieldSet) -> bool {
        self.keep_with(other, &|node, other| {
            let own = node.member && other.member;
            node.member &= !other.member;
            node.below.subtract(&other.below) || own
        })
    }

    /// Removes the paths of the other set and everything below them. Says whether there was anything.
    pub fn subtract_below(&mut self, other: &FieldSet) -> bool {
        self.keep_with(other, &|node, other| {
            if other.member {
                node.member = false;
                node.below = FieldSet::new();
                return true;
            }
            node.below.subtract_below(&other.below)
        })
    }

    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// The paths that are in both.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut both = FieldSet::new();
        let mut right = &other.nodes[..];
        for node in &self.nodes {
            if let Some(other) = advance(&mut right, &node.element) {
                let below = node.below.intersection(&other.below);
                both.push(node.element.clone(), node.member && other.member, below);
            }
        }
        both
    }

    /// Lets `change` take from the nodes that both sets have, drops those of which nothing is left, and says whether
    /// any took something.
    fn keep_with(&mut self, other: &FieldSet, change: &dyn Fn(&mut Node, &Node) -> bool) -> bool {
        if other.is_empty() || self.is_empty() {
            return false;
        }
        let mut changed = false;
        let mut right = &other.nodes[..];
        self.nodes.retain_mut(|node| {
            let Some(other) = advance(&mut right, &node.element) else { return true };
            changed |= change(node, other);
            node.member || !node.below.is_empty()
        });
        changed
    }
}

/// Goes on to the node of this element, if there is one. Takes ever larger steps: one of a few elements finds its way
/// through many, thousands of times where an object has thousands of owners.
fn advance<'a>(nodes: &mut &'a [Node], element: &PathElement) -> Option<&'a Node> {
    let is_before = |node: &Node| node.element < *element;
    if nodes.first().is_some_and(is_before) {
        let mut step = 2;
        while nodes.get(step - 1).is_some_and(is_before) {
            step *= 2;
        }
        let (start, end) = (step / 2, step.min(nodes.len()));
        *nodes = &nodes[start + nodes[start..end].partition_point(is_before)..];
    }
    let (first, rest) = nodes.split_first()?;
    (first.element == *element).then(|| {
        *nodes = rest;
        first
    })
}

/// The form in objects.
impl FieldSet {
    pub fn from_fields_v1(fields: &Value) -> Result<FieldSet, FieldsError> {
        FieldSet::read(fields).map(|(set, _)| set)
    }

    /// The set, and whether its entries stood in the order in which we write them.
    pub(super) fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsError> {
        let mut in_order = true;
        match fields {
            Value::Null => Ok((FieldSet::new(), false)),
            Value::Object(map) => read(map, &mut in_order).map(|(set, _)| (set, in_order)),
            Value::Written(text) => FieldSet::read(&json::parse(text.as_bytes()).map_err(|_| FieldsError::Shape)?),
            _ => Err(FieldsError::Shape),
        }
    }

    /// The set as it stands in objects, as text.
    pub fn to_fields_v1(&self) -> Value {
        let mut out = Vec::with_capacity(256);
        self.write(false, &mut String::with_capacity(64), &mut out);
        Value::Written(String::from_utf8_lossy(&out).into())
    }

    fn write(&self, with_self: bool, step: &mut String, out: &mut Vec<u8>) {
        out.push(b'{');
        let with_self = with_self && !self.nodes.is_empty();
        if with_self {
            out.extend_from_slice(b"\".\":{}");
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if with_self || index > 0 {
                out.push(b',');
            }
            step.clear();
            node.element.write(step);
            json::write_string(step, out);
            out.push(b':');
            node.below.write(node.member, step, out);
        }
        out.push(b'}');
    }
}

/// The set below, and whether the path itself is marked.
fn read(map: &Map, in_order: &mut bool) -> Result<(FieldSet, bool), FieldsError> {
    let mut set = FieldSet { nodes: Vec::with_capacity(map.len()) };
    let mut member = false;
    for (key, value) in map.iter() {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = PathElement::parse(key)? else { continue };
        let (below, marked) = match value {
            Value::Object(map) => read(map, in_order)?,
            Value::Null => (FieldSet::new(), true),
            _ => return Err(FieldsError::Shape),
        };
        set.push(element, marked, below);
    }
    *in_order &= set.settle();
    let marked = member || set.is_empty();
    Ok((set, marked))
}
