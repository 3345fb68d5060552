//! Where in an object a walk is. Lives on the stack and costs nothing until it is written down.

use std::fmt::Write;

#[derive(Clone, Copy)]
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a str),
    /// An entry of a map.
    Entry(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    pub(super) const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub(super) fn property(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Property(name) }
    }

    pub(super) fn entry(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Entry(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// As strict field validation names places: `spec.map.key[0]`.
    pub(super) fn dotted(&self) -> String {
        self.text(false)
    }

    /// As validation errors name them: `spec.map[key][0]`.
    pub(super) fn field_path(&self) -> String {
        self.text(true)
    }

    fn text(&self, bracketed: bool) -> String {
        let mut text = self.parent.map(|parent| parent.text(bracketed)).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Entry(name) if bracketed => {
                let _ = write!(text, "[{name}]");
            }
            Step::Property(name) | Step::Entry(name) => {
                if self.parent.is_some_and(|parent| !parent.is_root()) {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
        }
        text
    }
}
