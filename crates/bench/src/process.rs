//! The processes that are measured. None outlives its handle.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::Instant;

/// Whoever has not said its first line by then will not.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Process(Child);

/// A process that has said its first line.
pub struct Started {
    pub process: Process,
    pub line: String,
    /// From before the fork.
    pub after: Duration,
}

impl Process {
    /// What it logs goes to a file, and into the error if it does not start.
    pub fn spawn(command: &mut Command, log: &Path) -> Result<Process> {
        command.stdin(Stdio::null()).stderr(File::create(log)?);
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        Ok(Process(child))
    }

    /// Returns with the first line that it writes to stdout.
    pub async fn start(command: &mut Command, log: &Path) -> Result<Started> {
        let begun = Instant::now();
        let mut process = Process::spawn(command.stdout(Stdio::piped()), log)?;
        let stdout = process.0.stdout.take().context("it was asked for")?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(TIMEOUT, reading).await.map(|read| read.unwrap_or_else(|_| Ok(String::new())));
        let after = begun.elapsed();
        match line {
            Ok(Ok(line)) if !line.trim().is_empty() => Ok(Started { process, line: line.trim().to_owned(), after }),
            _ => {
                drop(process);
                let log = std::fs::read_to_string(log).unwrap_or_default();
                anyhow::bail!("{:?} did not start:\n{log}", command.get_program())
            }
        }
    }

    /// Resident memory: all of it, and what is not the program's own file.
    pub fn resident_bytes(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        Ok((kilobytes(&status, "VmRSS:")? * 1024, kilobytes(&status, "RssAnon:")? * 1024))
    }
}

/// In such the kernel counts what a process has computed, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    /// For how long it has computed so far, on all cores together.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(&Path::new("/proc").join(self.0.id().to_string()))
    }

    /// Ends it at once.
    pub fn stop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same of the process with this directory in `/proc`.
pub fn cpu_seconds_of(process: &Path) -> Result<f64> {
    Ok(ticks(&std::fs::read_to_string(process.join("stat"))?)? as f64 / TICKS_PER_SECOND)
}

/// In user space and in the kernel: the 14th and the 15th field. The second, a name in parentheses, may have blanks in it.
fn ticks(stat: &str) -> Result<u64> {
    let (_, fields) = stat.rsplit_once(')').context("the kernel says something else than what it computed")?;
    let times = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(times.collect::<Result<Vec<_>, _>>()?.iter().sum())
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn kilobytes(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).with_context(|| format!("the kernel does not say {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_understood() {
        let status = "Name:\tx\nVmRSS:\t   1234 kB\nRssAnon:\t     12 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:").unwrap(), 1234);
        assert_eq!(kilobytes(status, "RssAnon:").unwrap(), 12);
        assert!(kilobytes(status, "VmHWM:").is_err());
        assert_eq!(ticks("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 110 20 0 0").unwrap(), 130);
    }
}
