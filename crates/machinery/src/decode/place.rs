//! Where in a document the decoder is. Lives on the stack and costs nothing until an error is worded.

use crate::schema::Type;

#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field {
        name: &'static str,
        owner: &'static Type,
    },
    /// An inline struct, which type errors name and strict errors do not.
    Inline {
        name: &'static str,
        owner: &'static Type,
    },
    Index(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, step: Step::Root };

    pub(super) fn field(&'a self, name: &'static str, owner: &'static Type) -> Place<'a> {
        Place { parent: Some(self), step: Step::Field { name, owner } }
    }

    pub(super) fn inline(&'a self, name: &'static str, owner: &'static Type) -> Place<'a> {
        Place { parent: Some(self), step: Step::Inline { name, owner } }
    }

    pub(super) fn index(&'a self, index: usize) -> Place<'a> {
        Place { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn key(&'a self, key: &'a str) -> Place<'a> {
        Place { parent: Some(self), step: Step::Key(key) }
    }

    /// The innermost struct on the way here.
    pub(super) fn owner(&self) -> Option<&'static str> {
        match self.step {
            Step::Field { owner, .. } | Step::Inline { owner, .. } => Some(owner.short_name()),
            Step::Root | Step::Index(_) | Step::Key(_) => self.parent.and_then(Place::owner),
        }
    }

    /// The way here in fields alone: `spec.containers.name`.
    pub(super) fn fields(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &|step, out| match step {
            Step::Field { name, .. } | Step::Inline { name, .. } => append(out, name),
            Step::Root | Step::Index(_) | Step::Key(_) => {}
        });
        out
    }

    /// The way to the field `name` of this struct, indexes included: `spec.containers[0].name`.
    pub(super) fn strict_path(&self, name: &str, with_keys: bool) -> String {
        let mut out = String::new();
        self.write(&mut out, &|step, out| match step {
            Step::Field { name, .. } => append(out, name),
            Step::Key(name) if with_keys => append(out, name),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
            Step::Root | Step::Inline { .. } | Step::Key(_) => {}
        });
        append(&mut out, name);
        out
    }

    fn write(&self, out: &mut String, step: &dyn Fn(Step<'_>, &mut String)) {
        if let Some(parent) = self.parent {
            parent.write(out, step);
        }
        step(self.step, out);
    }
}

fn append(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}
