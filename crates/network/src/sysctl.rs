//! Settings of the kernel's network, as files. Which namespace they are of depends on the thread that opens them.

use std::io;

/// Sets it unless it is so already: where nothing may be written, somebody may have set it before.
pub fn ensure(path: &str, value: &str) -> io::Result<()> {
    if std::fs::read_to_string(path)?.trim() == value {
        return Ok(());
    }
    std::fs::write(path, value)
}
