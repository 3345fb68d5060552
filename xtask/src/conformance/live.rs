//! What ginkgo says while it runs, for people who wait. The report says the same again, and more, at the end.

use super::outcome::Verdict;

/// Reads ginkgo's verbose output line by line.
pub(super) struct Live<'names> {
    names: &'names [String],
    running: Option<&'names str>,
}

/// A test that ended.
#[derive(Debug, PartialEq)]
pub(super) struct Ended<'names> {
    pub name: &'names str,
    pub verdict: Verdict,
    pub seconds: f64,
}

impl<'names> Live<'names> {
    pub fn new(names: &'names [String]) -> Live<'names> {
        Live { names, running: None }
    }

    /// A test begins with its text, followed by its labels, and ends with a line of its verdict and time:
    /// `• [1.234 seconds]`, `• [FAILED] [1.234 seconds]`, `S [SKIPPED] [0.001 seconds]`.
    pub fn read(&mut self, line: &str) -> Option<Ended<'names>> {
        let ended = line.strip_prefix("• ").or_else(|| line.strip_prefix("S "));
        let Some(rest) = ended.and_then(|rest| rest.strip_suffix(" seconds]")) else {
            let names = self.names.iter().filter(|name| line.starts_with(name.as_str()));
            // One name may be the beginning of another.
            self.running = names.max_by_key(|name| name.len()).map(String::as_str).or(self.running);
            return None;
        };
        let (state, seconds) = rest.rsplit_once('[')?;
        let verdict = match state.trim() {
            "" => Verdict::Passed,
            "[SKIPPED]" => Verdict::Skipped,
            _ => Verdict::Failed,
        };
        Some(Ended { name: self.running.take()?, verdict, seconds: seconds.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_followed() {
        let names: Vec<String> = ["[sig-a] one", "[sig-a] one more", "[sig-b] two"].map(str::to_owned).into();
        let mut live = Live::new(&names);
        let text = "\
SSSSSS
------------------------------
[sig-a] one more [Conformance] [sig-a, Conformance]
/x/y.go:12
  STEP: Creating
• [1.500 seconds]
------------------------------
[sig-b] two [Conformance] [sig-b, Conformance]
• [FAILED] [30.250 seconds]
[sig-b] two [It] does
------------------------------
[sig-a] one [Conformance] [sig-a, Conformance]
S [SKIPPED] [0.001 seconds]
[SynchronizedBeforeSuite] PASSED [0.010 seconds]
• [1.000 seconds]";
        let found: Vec<_> = text.lines().filter_map(|line| live.read(line)).collect();
        let ended = |name, verdict, seconds| Ended { name, verdict, seconds };
        assert_eq!(
            found,
            [
                ended("[sig-a] one more", Verdict::Passed, 1.5),
                ended("[sig-b] two", Verdict::Failed, 30.25),
                ended("[sig-a] one", Verdict::Skipped, 0.001),
            ]
        );
    }
}
