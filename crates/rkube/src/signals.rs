//! SIGINT and SIGTERM: the first asks for an orderly end, the second for an immediate one.

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on the signals no longer end the process by themselves. Needs a runtime.
    pub fn install() -> std::io::Result<Self> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }
}

/// What a shell expects of a process that a signal ended.
pub fn exit_code(kind: SignalKind) -> i32 {
    128 + kind.as_raw_value()
}
