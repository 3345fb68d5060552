//! How far a load or a pull is, on one line of a terminal. In a pipe nothing is shown: results are what counts there.

use std::io::{IsTerminal, Write};

use parking_lot::Mutex;
use rkube_runtime::api::PullProgress;

use super::table::size;

/// What is shown anew only if it would be another text.
pub struct Meter {
    name: String,
    terminal: bool,
    shown: Mutex<String>,
}

impl Meter {
    pub fn new(name: &str) -> Meter {
        Meter { name: name.to_owned(), terminal: std::io::stderr().is_terminal(), shown: Mutex::default() }
    }

    pub fn show(&self, progress: &PullProgress) {
        if !self.terminal {
            return;
        }
        let text = line(&self.name, progress);
        let mut shown = self.shown.lock();
        if *shown != text {
            // Nobody is told that nobody can be told.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
            *shown = text;
        }
    }

    /// Leaves an empty line.
    pub fn end(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(name: &str, progress: &PullProgress) -> String {
    let PullProgress { layers_total, layers_done, bytes_total, bytes_done } = progress;
    let percent = (bytes_done * 100).checked_div(*bytes_total).unwrap_or(0).min(100);
    format!("{name}  {layers_done}/{layers_total} layers  {percent}% of {}", size(*bytes_total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_line() {
        let progress =
            PullProgress { layers_total: 10, layers_done: 3, bytes_total: 523_000_000, bytes_done: 100_000_000 };
        assert_eq!(line("web.tar", &progress), "web.tar  3/10 layers  19% of 523 MB");
        assert_eq!(line("web.tar", &PullProgress::default()), "web.tar  0/0 layers  0% of 0 B");
    }
}
