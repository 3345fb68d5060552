//! Filters of system calls.

use std::io;

use crate::api::Security;

/// Programs for the kernel, to be put on in this order.
#[derive(Clone, Debug)]
pub struct Filter {
    programs: Vec<seccompiler::BpfProgram>,
}

impl Filter {
    /// None: nothing is to be filtered.
    pub fn of(_security: &Security) -> Result<Option<Filter>, String> {
        Ok(None)
    }

    pub fn install(&self) -> io::Result<()> {
        self.programs.iter().try_for_each(|program| crate::sys::install_filter(program))
    }
}
