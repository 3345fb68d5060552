//! Filters of system calls: the default that runtimes agree on, and profiles that a node's owner wrote.
//!
//! Programs of another word size than the node's own are ended by any filter here: their calls have other numbers.

mod default;
mod profile;
mod table;

use std::io::{self, Read};

use profile::Profile;

use crate::api::Confinement;

/// A longer profile is refused.
const PROFILE_MAX_BYTES: u64 = 4 << 20;

/// Programs for the kernel, to be put on in this order.
#[derive(Clone, Debug)]
pub struct Filter {
    programs: Vec<seccompiler::BpfProgram>,
}

impl Filter {
    /// For a container with these capabilities, by their short names. None: nothing is to be filtered.
    pub fn of(confinement: &Confinement, has: &dyn Fn(&str) -> bool) -> Result<Option<Filter>, String> {
        let profile = match confinement {
            Confinement::Unconfined => return Ok(None),
            Confinement::RuntimeDefault => default::profile(has),
            Confinement::Localhost(path) => {
                let path = path.strip_prefix("localhost/").unwrap_or(path);
                let text = read(path).map_err(|error| format!("cannot load seccomp profile {path:?}: {error}"))?;
                Profile::parse(&text, has)?
            }
        };
        Ok(Some(Filter { programs: profile.compile()? }))
    }

    pub fn install(&self) -> io::Result<()> {
        self.programs.iter().try_for_each(|program| crate::sys::install_filter(program))
    }
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(PROFILE_MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > PROFILE_MAX_BYTES {
        return Err(io::Error::other("the file is too long"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_fits_into_the_kernel() {
        for has in [true, false] {
            let filter = Filter::of(&Confinement::RuntimeDefault, &|_| has).unwrap().unwrap();
            assert!(filter.programs.iter().all(|program| program.len() < 4096));
            assert_eq!(filter.programs.len(), if has { 2 } else { 3 });
        }
        assert!(Filter::of(&Confinement::Unconfined, &|_| true).unwrap().is_none());
        assert!(Filter::of(&Confinement::Localhost("/nope".to_owned()), &|_| true).is_err());
    }
}
