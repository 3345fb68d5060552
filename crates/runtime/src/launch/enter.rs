//! A further process in a container that runs.

use std::convert::Infallible;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rustix::thread::ThreadNameSpaceType;

use super::init::{Process, prepare, shared_namespaces, with_home};
use super::{Bundle, Channel, Failure, ProcessUser, Stdio, identity, terminal};
use crate::seccomp::Filter;

pub struct EnterPlan<'a> {
    pub bundle: &'a Bundle,
    /// The container's first process.
    pub target: BorrowedFd<'a>,
    /// Who that is.
    pub user: &'a ProcessUser,
    pub arguments: &'a [String],
    pub entrances: Vec<PathBuf>,
    pub filter: Option<Filter>,
    pub stdio: Stdio,
    pub channel: Channel,
}

/// Runs in the child, in the container's pid namespace already. Never returns.
pub fn enter(plan: EnterPlan<'_>) -> ! {
    let EnterPlan { bundle, target, user, arguments, entrances, filter, stdio, channel } = plan;
    let run = || -> Result<Infallible, Failure> {
        prepare(&entrances, bundle.resources.oom_score_adjust)?;
        let nothing = terminal::nothing()?;
        let mut namespaces = shared_namespaces(&bundle.namespaces) | ThreadNameSpaceType::MOUNT;
        if !bundle.security.privileged {
            namespaces |= ThreadNameSpaceType::CONTROL_GROUP;
        }
        rustix::thread::move_into_thread_name_spaces(target, namespaces)
            .map_err(|error| Failure::doing("enter the container's namespaces")(error.into()))?;
        let terminal = stdio.terminal;
        terminal::set_streams(stdio, &nothing, user.user, &channel, false)?;
        let lists = identity::Lists::read();
        let mut environment = with_home(&bundle.environment, &lists, user.user);
        if terminal && !environment.iter().any(|variable| variable.starts_with("TERM=")) {
            environment.push("TERM=xterm".to_owned());
        }
        let process = Process { bundle, user, environment: &environment, arguments };
        process.become_it(filter.as_ref(), &channel)
    };
    match run() {
        Ok(never) => match never {},
        Err(failure) => channel.fail(&failure.0),
    }
    std::process::exit(126)
}
