//! Logs on stderr: short lines for people, JSON for machines. `RUST_LOG` says how much.
//!
//! Who logs waits until the line is written. A pipe that nobody reads any more stops the process in time, one line after
//! the other; [`Watched`] notices, and the health checks say so.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::cli::LogFormat;
use crate::host::SystemClock;
use rkube_machinery::host::Clock;

pub const DEFAULT_FILTER: &str = "info";
/// A line that takes longer to write is stuck.
const STUCK_AFTER_MICROS: i64 = 10_000_000;

/// Call once. A filter that makes no sense is reported, and the default used. Returns how to see whether all is written.
pub fn start(format: LogFormat) -> Arc<Written> {
    start_with(format, DEFAULT_FILTER)
}

/// As [`start`], with what is logged unless `RUST_LOG` says otherwise.
pub fn start_with(format: LogFormat, default_filter: &str) -> Arc<Written> {
    let written = Arc::new(Written::default());
    let (filter, problem) = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(default_filter), Some(error)),
        },
        _ => (EnvFilter::new(default_filter), None),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Stderr(Arc::clone(&written)));
    // Otherwise a line that cannot be written is told to stderr, which is where it could not be written to: a panic.
    let builder = builder.log_internal_errors(false);
    match format {
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            builder.with_ansi(colour).with_target(false).with_timer(TimeOfDay).init();
        }
        LogFormat::Json => builder.json().flatten_event(true).with_timer(Timestamp).init(),
    }
    if let Some(error) = problem {
        tracing::warn!(%error, "RUST_LOG is not understood; logging at `info`");
    }
    written
}

/// Whether lines get out.
#[derive(Default)]
pub struct Written {
    /// Since when a line is being written; zero if none is.
    since_micros: AtomicI64,
    /// Whether the last one could not be.
    failed: AtomicBool,
}

impl Written {
    pub fn check(&self, clock: &dyn Clock) -> Result<(), String> {
        let since = self.since_micros.load(Ordering::Relaxed);
        if since != 0 && clock.now_micros() - since > STUCK_AFTER_MICROS {
            // Upstream's words.
            return Err("logging blocked".to_owned());
        }
        if self.failed.load(Ordering::Relaxed) {
            return Err("the last line could not be logged".to_owned());
        }
        Ok(())
    }
}

struct Stderr(Arc<Written>);

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Watched<'a, std::io::StderrLock<'static>>;

    fn make_writer(&'a self) -> Self::Writer {
        // One line at a time: who waits for the lock waits for the one that is being written.
        Watched { to: std::io::stderr().lock(), written: &self.0, clock: &SystemClock }
    }
}

/// Notes when it writes and how that went.
struct Watched<'a, W> {
    to: W,
    written: &'a Written,
    clock: &'a dyn Clock,
}

impl<W: Write> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.written.since_micros.store(self.clock.now_micros(), Ordering::Relaxed);
        let outcome = self.to.write(bytes);
        self.written.since_micros.store(0, Ordering::Relaxed);
        self.written.failed.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// `21:04:07.123`, in UTC.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&time_of_day(SystemClock.now_micros()))
    }
}

/// `2026-11-15T21:04:07.123456Z`
struct Timestamp;

impl FormatTime for Timestamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&timestamp(SystemClock.now_micros()))
    }
}

fn time_of_day(micros: i64) -> String {
    let millis = micros.div_euclid(1000);
    let seconds = millis.div_euclid(1000).rem_euclid(24 * 60 * 60);
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, millis.rem_euclid(1000))
}

fn timestamp(micros: i64) -> String {
    let date = time::OffsetDateTime::from_unix_timestamp(micros.div_euclid(1_000_000))
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        date.hour(),
        date.minute(),
        date.second(),
        micros.rem_euclid(1_000_000)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(i64);

    impl Clock for At {
        fn now_micros(&self) -> i64 {
            self.0
        }
    }

    /// Says how the log is while it is being written, and lets the line through or not.
    struct Pipe<'a> {
        written: &'a Written,
        later: i64,
        seen: Vec<Result<(), String>>,
        is_open: bool,
    }

    impl Write for Pipe<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.seen.push(self.written.check(&At(self.later)));
            if self.is_open { Ok(bytes.len()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_or_broken_log_is_noticed() {
        let written = Written::default();
        let write = |later, is_open| {
            let to = Pipe { written: &written, later, seen: Vec::new(), is_open };
            let mut log = Watched { to, written: &written, clock: &At(1) };
            let _ = log.write(b"x");
            (log.to.seen.remove(0), written.check(&At(later)))
        };
        let blocked = || Err("logging blocked".to_owned());
        assert_eq!(write(STUCK_AFTER_MICROS, true), (Ok(()), Ok(())));
        assert_eq!(write(STUCK_AFTER_MICROS + 2, true), (blocked(), Ok(())), "and well again when it got through");
        assert_eq!(write(2, false).1, Err("the last line could not be logged".to_owned()));
        assert_eq!(write(2, true).1, Ok(()));
    }

    #[test]
    fn times_are_written_for_people_and_for_machines() {
        let micros = 1_700_000_000_123_456;
        assert_eq!(time_of_day(micros), "22:13:20.123");
        assert_eq!(timestamp(micros), "2023-11-14T22:13:20.123456Z");
    }
}
