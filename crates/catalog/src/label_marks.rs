//! Labels at a glance: who looks for objects by a label goes through many that do not have it, and each of them lies
//! somewhere else in memory. LabelMarks lie beside each other, in the map itself.

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::value::Text;

/// Two bits of sixty-four for each label of an object. Many objects have the marks of a label that they do not have; none
/// has a label without its marks. Whoever chooses labels so that marks are alike makes others look, and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelMarks(u64);

impl LabelMarks {
    pub fn of(labels: &[(Text, Text)]) -> LabelMarks {
        labels.iter().fold(LabelMarks::default(), |marks, (key, value)| marks.and(key, value))
    }

    /// The marks that all have whom a selector selects.
    pub fn wanted(selector: &Selector) -> LabelMarks {
        let requirements = selector.requirements().iter();
        let exact = requirements.filter_map(|requirement| Some((requirement.key(), requirement.only_value()?)));
        exact.fold(LabelMarks::default(), |marks, (key, value)| marks.and(key, value))
    }

    fn and(self, key: &str, value: &str) -> LabelMarks {
        let hash = FixedState::default().hash_one((key, value));
        LabelMarks(self.0 | 1 << (hash & 63) | 1 << (hash >> 6 & 63))
    }

    /// Whether an object with these marks may be one of those that are wanted.
    pub fn may_be(self, wanted: LabelMarks) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(Text, Text)> {
        text.split_terminator(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn whom_a_selector_selects_has_its_marks() {
        let all = ["", "a=b", "a=c", "a=b,c=d", "c=d", "a=,c=d", "a=b,c=d,e=f,g=h,i=j"];
        for text in [
            "",
            "a=b",
            "a==b,c=d",
            "a in (b)",
            "a in (b,c)",
            "a",
            "!a",
            "a!=b",
            "a notin (b)",
            "a=",
            "a=b,a=c",
            "a,a=b",
        ] {
            let selector = Selector::parse(text).unwrap();
            let wanted = LabelMarks::wanted(&selector);
            for labels in all.map(labels) {
                let find = |key: &str| labels.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
                let selected = selector.matches_pairs(find);
                assert!(!selected || LabelMarks::of(&labels).may_be(wanted), "{text} selects {labels:?}");
            }
        }
    }

    #[test]
    fn most_others_do_not() {
        let wanted = LabelMarks::wanted(&Selector::parse("app=x").unwrap());
        let others =
            (0..1000).map(|index| LabelMarks::of(&labels(&format!("app=y{index},tier=z{index},hash={index}"))));
        let alike = others.filter(|marks| marks.may_be(wanted)).count();
        assert!(alike < 50, "{alike} of a thousand have to be looked at");
    }
}
