//! The text in which Prometheus reads metrics.

use std::fmt::Write as _;

/// Metrics as they are written, one family after the other.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a family: what follows belongs to it.
    pub fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { text: &mut self.text, name }
    }

    pub fn end(self) -> String {
        self.text
    }
}

pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    /// A value, and when it was so: 0 where nothing is said about that.
    pub fn value(&mut self, labels: &[(&str, &str)], value: f64, at_micros: i64) {
        self.text.push_str(self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = write!(self.text, " {value}");
        if at_micros != 0 {
            let _ = write!(self.text, " {}", at_micros.div_euclid(1_000));
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut exposition = Exposition::default();
        let mut family = exposition.family("a", "gauge", "[STABLE] what it is");
        family.value(&[], 1.5, 0);
        family.value(&[("x", "1\"\\\n"), ("y", "2")], 3_000_000_000.0, 1_600_000_000_123_456);
        let expected = "# HELP a [STABLE] what it is\n# TYPE a gauge\na 1.5\na{x=\"1\\\"\\\\\\n\",y=\"2\"} 3000000000 1600000000123\n";
        assert_eq!(exposition.end(), expected);
    }
}
