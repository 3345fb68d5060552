//! What people see: a line per test as it ends, then why some did not pass, then the count. Plain in a pipe; on a
//! terminal in colour.

use std::io::{IsTerminal, Write};

use super::outcome::{Outcome, Verdict};

pub(super) struct Console {
    colour: bool,
    shown: usize,
    total: usize,
}

impl Console {
    pub fn new(total: usize) -> Console {
        Console { colour: std::io::stdout().is_terminal(), shown: 0, total }
    }

    pub fn show(&mut self, outcome: &Outcome) {
        self.shown += 1;
        let width = self.total.to_string().len();
        let line = line(outcome, self.colour);
        write(&format!("[{:>width$}/{}] {line}", self.shown.min(self.total), self.total));
    }

    pub fn summarise(&self, outcomes: &[Outcome]) {
        let rest = outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Passed);
        for outcome in rest {
            write(&format!("\n{}", line(outcome, self.colour)));
            outcome.reason.lines().for_each(|line| write(&format!("    {line}")));
        }
        write(&format!("\n{}", counts(outcomes)));
    }
}

fn counts(outcomes: &[Outcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    let (passed, failed, skipped) = (count(Verdict::Passed), count(Verdict::Failed), count(Verdict::Skipped));
    format!("{passed} passed, {failed} failed, {skipped} skipped of {}", outcomes.len())
}

fn line(outcome: &Outcome, colour: bool) -> String {
    let (word, code) = match outcome.verdict {
        Verdict::Passed => ("passed ", 32),
        Verdict::Failed => ("failed ", 31),
        Verdict::Skipped => ("skipped", 33),
    };
    let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
    let time = outcome.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"));
    format!("{word} {time:>8}  {}", outcome.name)
}

/// Whoever closed the pipe has seen enough.
fn write(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_plain_in_a_pipe() {
        let mut outcome = Outcome {
            name: "[sig-a] x".to_owned(),
            verdict: Verdict::Passed,
            seconds: Some(1.25),
            reason: String::new(),
        };
        assert_eq!(line(&outcome, false), "passed     1.2 s  [sig-a] x");
        assert_eq!(line(&outcome, true), "\x1b[32mpassed \x1b[0m    1.2 s  [sig-a] x");
        (outcome.verdict, outcome.seconds) = (Verdict::Skipped, None);
        assert_eq!(line(&outcome, false), "skipped        -  [sig-a] x");
        assert_eq!(counts(&[outcome]), "0 passed, 0 failed, 1 skipped of 1");
    }
}
