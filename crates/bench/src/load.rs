//! Requests at a fixed number in flight, for a fixed time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Call, Connection, Protocol, Server, check};

/// No load lasts longer, whatever the server does.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How many requests share a connection where the protocol allows it.
const STREAMS_PER_CONNECTION: usize = 16;

#[derive(Clone, Copy)]
pub struct Load {
    pub in_flight: usize,
    pub duration: Duration,
    /// It ends after so many, whatever the time.
    pub count: usize,
    pub protocol: Protocol,
}

impl Load {
    pub fn of(in_flight: usize, duration: Duration) -> Load {
        Load { in_flight, duration, count: usize::MAX, protocol: Protocol::Http1 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub requests: usize,
    pub bytes: usize,
    pub seconds: f64,
    pub median_micros: u32,
    /// The 99th percentile.
    pub tail_micros: u32,
}

impl Measured {
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }
}

/// A load whose connections are open: what it takes to open them is not measured.
pub struct Ready {
    load: Load,
    connections: Vec<Connection>,
}

/// `make` gives the request of a worker's turn. Any answer but a good one ends the run.
pub async fn drive<F>(server: &Server, load: Load, make: F) -> Result<Measured>
where
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    Ready::connect(server, load).await?.drive(make).await
}

impl Ready {
    pub async fn connect(server: &Server, load: Load) -> Result<Ready> {
        Ok(Ready { load, connections: connections(server, load).await? })
    }

    /// As [`drive`], from now.
    pub async fn drive<F>(self, make: F) -> Result<Measured>
    where
        F: Fn(usize, usize) -> Call + Send + Sync + 'static,
    {
        let make = Arc::new(make);
        let begun = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let mut workers = JoinSet::new();
        for (index, connection) in self.connections.into_iter().enumerate() {
            let worker = Worker { index, connection, make: make.clone(), begun: begun.clone(), load: self.load };
            workers.spawn(worker.run(started));
        }
        let finished = async {
            let mut all = Vec::new();
            while let Some(worker) = workers.join_next().await {
                all.push(worker??);
            }
            anyhow::Ok(all)
        };
        let all = tokio::time::timeout(TIMEOUT, finished).await.context("the server does not answer")??;
        Ok(summary(all, started.elapsed()))
    }
}

async fn connections(server: &Server, load: Load) -> Result<Vec<Connection>> {
    let mut found: Vec<Connection> = Vec::new();
    for index in 0..load.in_flight {
        let shared = match index % STREAMS_PER_CONNECTION {
            0 => None,
            turn => found[index - turn].share(),
        };
        found.push(match shared {
            Some(shared) => shared,
            None => server.connect(load.protocol).await?,
        });
    }
    Ok(found)
}

struct Worker<F> {
    index: usize,
    connection: Connection,
    make: Arc<F>,
    /// Of all workers.
    begun: Arc<AtomicUsize>,
    load: Load,
}

#[derive(Default)]
struct Work {
    bytes: usize,
    micros: Vec<u32>,
}

impl<F: Fn(usize, usize) -> Call> Worker<F> {
    async fn run(mut self, started: Instant) -> Result<Work> {
        let deadline = started + self.load.duration;
        let mut work = Work::default();
        let mut begun = Instant::now();
        while begun < deadline && self.begun.fetch_add(1, Ordering::Relaxed) < self.load.count {
            let call = (self.make)(self.index, work.micros.len());
            work.bytes += self.exchange(&call).await.with_context(|| format!("{} {}", call.method, call.path))?;
            let ended = Instant::now();
            work.micros.push(u32::try_from((ended - begun).as_micros()).unwrap_or(u32::MAX));
            begun = ended;
        }
        Ok(work)
    }

    /// The length of the answer. Its bytes are let go as they come.
    async fn exchange(&mut self, call: &Call) -> Result<usize> {
        let mut answer = self.connection.send(call).await?;
        if !answer.status().is_success() {
            check(answer).await?;
            return Ok(0);
        }
        let mut length = 0;
        while let Some(frame) = answer.body_mut().frame().await {
            length += frame?.data_ref().map_or(0, |data| data.len());
        }
        Ok(length)
    }
}

fn summary(all: Vec<Work>, elapsed: Duration) -> Measured {
    let bytes = all.iter().map(|work| work.bytes).sum();
    let mut micros: Vec<u32> = all.into_iter().flat_map(|work| work.micros).collect();
    micros.sort_unstable();
    let at = |part: f64| micros.get((micros.len() as f64 * part) as usize).copied().unwrap_or_default();
    Measured {
        requests: micros.len(),
        bytes,
        seconds: elapsed.as_secs_f64(),
        median_micros: at(0.5),
        tail_micros: at(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_summed_up() {
        let work = |micros: &[u32]| Work { bytes: 10, micros: micros.to_vec() };
        let measured = summary(vec![work(&[5, 1]), work(&[3])], Duration::from_secs(2));
        assert_eq!((measured.requests, measured.bytes, measured.median_micros), (3, 20, 3));
        assert_eq!(measured.rate(), 1.5);
        assert_eq!(summary(Vec::new(), Duration::from_secs(1)).median_micros, 0);
    }
}
