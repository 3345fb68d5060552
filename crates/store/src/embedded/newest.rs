//! The file `newest`: the name of the log that was last begun to be written to.
//!
//! A log that is gone from the middle is missed by its neighbours, one that is gone from the end by nobody but this.
//! The name is durable before the first write goes to the log, and the log's own name before that: so after any crash
//! the log that it names is there, and a log that was written to has been named.

use std::io::{self, Read};

use super::disk::Disk;
use super::format::corrupt;
use super::recover::{ADVICE, TEMPORARY, number_of};
use super::{io_error, log_name};
use crate::contract::Result;

pub(crate) const NEWEST: &str = "newest";
/// Longer than any name that is ours.
const READ_BYTES_MAX: u64 = 64;

/// Names the log, durably.
pub(crate) fn name_newest(disk: &dyn Disk, number: u64) -> io::Result<()> {
    let temporary = format!("{NEWEST}{TEMPORARY}");
    let mut file = disk.create(&temporary)?;
    file.append(format!("{}\n", log_name(number)).as_bytes())?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, NEWEST)?;
    disk.sync_directory()
}

/// The number of the log that was named. 0: none has been.
pub(crate) fn read_newest(disk: &dyn Disk) -> Result<u64> {
    let mut text = String::new();
    match disk.read(NEWEST).and_then(|file| file.take(READ_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => number_of(text.trim_end(), "log-")
            .ok_or_else(|| corrupt(NEWEST, &format!("it does not name a log; {ADVICE}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(corrupt(NEWEST, &format!("it does not name a log; {ADVICE}")))
        }
        Err(error) => Err(io_error(NEWEST, error)),
    }
}

/// Compares what was named with what is there. `last`: the newest log (0: there is none); `written`: the newest one
/// that was certainly written to after it had been begun.
pub(crate) fn check_newest(named: u64, last: u64, written: u64) -> Result<()> {
    if named > last {
        return Err(corrupt(&log_name(named), &format!("it is missing, though it was written to; {ADVICE}")));
    }
    if named < written {
        let last = log_name(last);
        let what = if named == 0 { "it is missing" } else { "it names an older log" };
        let what = format!("{what}, so the newest log may be missing, too; {ADVICE}");
        return Err(corrupt(NEWEST, &format!("{what}, or, if {last} is the newest, write that name into it")));
    }
    Ok(())
}
