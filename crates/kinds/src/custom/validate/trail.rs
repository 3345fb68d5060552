//! Where in an object the walk is, as upstream's validator names places. Costs nothing until something is wrong.

#[derive(Clone, Copy)]
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a str),
    Entry(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    pub(super) const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub(super) fn property(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Property(name) }
    }

    /// An entry of a map, or a field that is not there: they have a point in front even at the root.
    pub(super) fn entry(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Entry(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.parent.map(Trail::text).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Property(name) if text.is_empty() => text.push_str(name),
            Step::Property(name) | Step::Entry(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
        text
    }
}
