//! Where in an object a walk is. Lives on the stack and costs nothing until it is written down.

use std::fmt::Write;

/// Different messages of upstream name the same place differently; each way is a method.
#[derive(Clone, Copy)]
pub struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a str),
    /// An entry of a map, or a field that is not there.
    Entry(&'a str),
    Index(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Dotted,
    FieldPath,
    Validator,
}

impl<'a> Trail<'a> {
    pub const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub fn property(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Property(name) }
    }

    pub fn entry(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Entry(name) }
    }

    pub fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Index(index) }
    }

    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// As strict field validation names places: `spec.map.key[0]`.
    pub fn dotted(&self) -> String {
        self.text(Style::Dotted)
    }

    /// As validation errors name them: `spec.map[key][0]`.
    pub fn field_path(&self) -> String {
        self.text(Style::FieldPath)
    }

    /// As the validator of values names them: as [`Trail::dotted`], but an entry of a map, or a field that is not there,
    /// has a point in front even at the root.
    pub fn validator_path(&self) -> String {
        self.text(Style::Validator)
    }

    fn text(&self, style: Style) -> String {
        let mut text = self.parent.map(|parent| parent.text(style)).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Entry(name) if style == Style::FieldPath => {
                let _ = write!(text, "[{name}]");
            }
            Step::Property(name) | Step::Entry(name) => {
                let is_entry = matches!(self.step, Step::Entry(_));
                let has_point = match style {
                    Style::Validator => is_entry || !text.is_empty(),
                    _ => self.parent.is_some_and(|parent| !parent.is_root()),
                };
                if has_point {
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
