//! Logs on stderr: short lines for people, JSON for machines. `RUST_LOG` says how much.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::cli::LogFormat;
use crate::host::SystemClock;
use rkube_machinery::host::Clock;

const DEFAULT_FILTER: &str = "info";

/// Call once. A filter that makes no sense is reported, and the default used.
pub fn start(format: LogFormat) {
    let (filter, problem) = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
        },
        _ => (EnvFilter::new(DEFAULT_FILTER), None),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
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

    #[test]
    fn times_are_written_for_people_and_for_machines() {
        let micros = 1_700_000_000_123_456;
        assert_eq!(time_of_day(micros), "22:13:20.123");
        assert_eq!(timestamp(micros), "2023-11-14T22:13:20.123456Z");
    }
}
