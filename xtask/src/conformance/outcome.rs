//! What became of a test.

/// The suffix of every conformance test, which lists may leave out.
const TAG: &str = " [Conformance]";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// The test found that it cannot run here.
    Skipped,
}

/// Of one name that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub name: String,
    pub verdict: Verdict,
    /// `None`: it did not run.
    pub seconds: Option<f64>,
    /// Why it did not pass.
    pub reason: String,
}

/// Whether a test of that text is the one that was asked for.
pub(super) fn is_named(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest == TAG)
}

/// A regular expression for ginkgo that only this test matches.
///
/// Ginkgo matches it with the suite's name, a blank and the test's text.
pub(super) fn focus(name: &str) -> String {
    let mut expression = String::from(" ");
    for character in name.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression + r"( \[Conformance\])?$"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_may_be_left_out() {
        let text = "[sig-a] it works [Slow] [Conformance]";
        assert!(is_named(text, text) && is_named(text, "[sig-a] it works [Slow]"));
        assert!(!is_named(text, "[sig-a] it works") && !is_named("[sig-a] it works better", "[sig-a] it works"));
    }

    #[test]
    fn names_are_taken_literally() {
        assert_eq!(focus("[a] b.c (d)|e"), r" \[a\] b\.c \(d\)\|e( \[Conformance\])?$");
    }
}
