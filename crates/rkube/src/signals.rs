//! SIGINT and SIGTERM: the first asks for an orderly end, the second for an immediate one.
//!
//! A thread of its own listens, which waits for nothing else in the process: whatever the others are stuck in, the
//! process ends [`END_TIMEOUT`] after the first signal, or at the second.

use std::sync::mpsc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long an orderly end may take: requests under way have ten seconds of it, the store the rest.
const END_TIMEOUT: Duration = Duration::from_secs(25);
/// The exit code of a process that could not end in good order.
const STUCK: i32 = 1;

/// The receiving end.
pub struct Signals {
    first: watch::Receiver<Option<SignalKind>>,
}

impl Signals {
    /// From here on the signals no longer end the process by themselves.
    pub fn install() -> std::io::Result<Self> {
        Signals::install_within(END_TIMEOUT)
    }

    /// As [`Signals::install`], for a process whose end may take as long as `timeout`.
    pub fn install_within(timeout: Duration) -> std::io::Result<Self> {
        Signals::install_with(timeout, |code| std::process::exit(code))
    }

    fn install_with(timeout: Duration, exit: impl FnOnce(i32) + Send + 'static) -> std::io::Result<Self> {
        let (sender, first) = watch::channel(None);
        let (installed, outcome) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(installed.send(Err(error))),
            };
            if let Some(code) = runtime.block_on(listen(timeout, &sender, &installed)) {
                exit(code);
            }
        })?;
        match outcome.recv() {
            Ok(outcome) => outcome.map(|()| Signals { first }),
            Err(_) => Err(std::io::Error::other("the thread for signals ended")),
        }
    }

    /// Waits for the first one.
    pub async fn first(&mut self) -> SignalKind {
        match self.first.wait_for(Option::is_some).await.map(|first| *first) {
            Ok(Some(kind)) => kind,
            // Without the thread no signal comes any more.
            _ => std::future::pending().await,
        }
    }
}

/// Returns the code to exit with; `None`: signals cannot be listened for, which `installed` is told.
async fn listen(
    timeout: Duration,
    sender: &watch::Sender<Option<SignalKind>>,
    installed: &mpsc::SyncSender<std::io::Result<()>>,
) -> Option<i32> {
    let both = signal(SignalKind::interrupt()).and_then(|it| Ok((it, signal(SignalKind::terminate())?)));
    let (mut interrupt, mut terminate) = match both {
        Ok(both) => both,
        Err(error) => {
            let _ = installed.send(Err(error));
            return None;
        }
    };
    let _ = installed.send(Ok(()));
    sender.send_replace(Some(next(&mut interrupt, &mut terminate).await));
    match tokio::time::timeout(timeout, next(&mut interrupt, &mut terminate)).await {
        Ok(second) => Some(exit_code(second)),
        Err(_) => {
            eprintln!("rkube: could not end in good order within {timeout:?}: ending at once");
            Some(STUCK)
        }
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> SignalKind {
    tokio::select! {
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = terminate.recv() => SignalKind::terminate(),
    }
}

/// What a shell expects of a process that a signal ended.
pub fn exit_code(kind: SignalKind) -> i32 {
    128 + kind.as_raw_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Nothing of ours runs but the thread: as if all others were stuck. (One test: signals are the process'.)
    #[test]
    fn the_process_ends_after_a_while_or_at_the_second_signal() {
        let install = |timeout| {
            let (sender, codes) = mpsc::channel();
            let signals = Signals::install_with(timeout, move |code| sender.send(code).unwrap()).unwrap();
            (signals, codes)
        };
        let (late, late_codes) = install(Duration::from_millis(10));
        let (signals, codes) = install(PATIENCE * 10);
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(late_codes.recv_timeout(PATIENCE), Ok(STUCK));
        assert!(codes.try_recv().is_err());
        while signals.first.borrow().is_none() {
            std::thread::yield_now();
        }
        kill_process(getpid(), Signal::INT).unwrap();
        assert_eq!(codes.recv_timeout(PATIENCE), Ok(130));
        drop(late);
    }
}
