//! Where in an object the fields of its `Scale` lie.

use rkube_machinery::Text;

use super::row::RowScale;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The number that a scale reads and writes.
    pub spec_replicas: Box<[Text]>,
    pub status_replicas: Box<[Text]>,
    /// What a scale shows as text in `status.selector`; empty: nothing.
    pub selector: Box<[Text]>,
    pub selector_form: SelectorForm,
}

/// How a kind writes its selector down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorForm {
    /// An object with `matchLabels` and `matchExpressions`.
    LabelSelector,
    /// A map of labels and their values.
    Labels,
    /// The selector's own text.
    Text,
}

impl ScalePaths {
    pub(super) fn of(row: RowScale) -> ScalePaths {
        let path = |path: &[&'static str]| path.iter().copied().map(Text::new_static).collect();
        ScalePaths {
            spec_replicas: path(row.spec_replicas),
            status_replicas: path(row.status_replicas),
            selector: path(row.selector),
            selector_form: row.selector_form,
        }
    }
}
