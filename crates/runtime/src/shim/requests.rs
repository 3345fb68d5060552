//! What the daemon may ask of a shim.

use std::io;
use std::rc::Rc;

use super::container::{Attachment, Container, State};
use super::protocol::{Answer, Problem, Request, Streams};
use super::serve::Shim;
use super::set_nonblocking;
use crate::sys;

impl Shim {
    pub(super) fn handle_request(&mut self, number: u64, request: Request) {
        match request {
            Request::Watch => self.watch(number),
            Request::Start { id } => self.start_container(number, &id),
            Request::Signal { id, signal } => {
                let result = self.signal_container(&id, signal);
                self.answer_result(number, result);
            }
            Request::Kill { id } => {
                self.kill_container(&id);
                self.answer(number, &Answer::Done);
            }
            Request::Exec { id, arguments, terminal, streams } => {
                self.enter_container(number, &id, &arguments, terminal, streams);
            }
            Request::Attach { id, streams } => self.attach(number, &id, streams),
            Request::Resize { width, height } => self.resize(number, width, height),
            Request::Forget { id } => {
                let running = |container: &Container| matches!(container.state, State::Starting | State::Running);
                if !self.containers.get(id.as_str()).is_some_and(running) {
                    self.containers.remove(id.as_str());
                }
                self.answer(number, &Answer::Done);
            }
            Request::Shutdown => {
                self.shutdown = Some(number);
                self.kill_everything();
            }
        }
    }

    /// A container, read from its directory when it is named for the first time.
    pub(super) fn container(&mut self, id: &str) -> io::Result<&mut Container> {
        if !self.containers.contains_key(id) {
            if id.is_empty() || id.contains(['/', '.']) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let container = Container::load(&self.configuration, id)?;
            self.containers.insert(Rc::from(id), container);
        }
        self.containers.get_mut(id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn close_when_sent(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.closing = true;
            if !connection.has_outgoing() {
                self.close(number);
            }
        }
    }

    fn answer_result(&mut self, number: u64, result: Result<(), (Problem, String)>) {
        let answer = match result {
            Ok(()) => Answer::Done,
            Err((kind, text)) => Answer::Failed { kind, text },
        };
        self.answer(number, &answer);
    }

    fn watch(&mut self, number: u64) {
        let records = self.containers.iter().filter(|(_, container)| container.state != State::Created);
        let records = records.map(|(id, container)| (id.to_string(), container.record.clone())).collect();
        let pause = self.pause.pid.as_raw_nonzero().get().cast_unsigned();
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.watches = true;
        }
        self.answer(number, &Answer::State { pause, records });
    }

    fn signal_container(&self, id: &str, signal: i32) -> Result<(), (Problem, String)> {
        let process = self.containers.get(id).and_then(|container| container.process.as_ref());
        let process = process.ok_or_else(|| (Problem::WrongState, format!("container {id:?} is not running")))?;
        sys::send_signal(&process.descriptor, signal).map_err(|error| (Problem::Internal, error.to_string()))
    }

    fn attach(&mut self, number: u64, id: &str, streams: Streams) {
        let mut taken = [None, None, None];
        for (wanted, place) in [streams.stdin, streams.stdout, streams.stderr].into_iter().zip(&mut taken) {
            if wanted {
                *place = self.connections.get_mut(&number).and_then(|connection| connection.take_descriptor());
            }
        }
        for descriptor in taken.iter().flatten() {
            let _best_effort = set_nonblocking(descriptor, true);
        }
        let result = match self.container(id) {
            Ok(container) if container.state == State::Exited => {
                Err((Problem::WrongState, format!("container {id:?} is not running")))
            }
            Ok(container) => {
                let [stdin, stdout, stderr] = taken;
                container.attached.push(Attachment::new(number, stdin, stdout, stderr));
                Ok(())
            }
            Err(error) => Err((Problem::NotFound, format!("container {id:?}: {error}"))),
        };
        match result {
            Ok(()) => self.answer(number, &Answer::Running),
            failed => self.answer_result(number, failed),
        }
    }

    fn resize(&mut self, number: u64, width: u16, height: u16) {
        let attached =
            |container: &&Container| container.attached.iter().any(|attachment| attachment.connection == number);
        let Some(container) = self.containers.values().find(attached) else { return };
        if let Some(terminal) = container.ends.stdout.as_ref().filter(|_| container.bundle.terminal) {
            let size = rustix::termios::Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
            let _best_effort = rustix::termios::tcsetwinsize(terminal, size);
        }
    }
}
