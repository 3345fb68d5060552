//! What outlives this process: one file for each sandbox that has a network.
//!
//! Written before anything is made, and removed after all of it is gone, so that a crash leaves too much at worst. Nothing is
//! synced: with the machine goes all that the records are of.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rkube_runtime::api::PortMapping;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const ID_BYTES_MAX: usize = 128;
/// Of a file that is written; ids do not begin so.
const UNFINISHED: &str = ".new-";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<PortMapping>,
}

/// The records, in memory and on disk.
#[derive(Default)]
pub struct Records {
    directory: PathBuf,
    all: BTreeMap<String, Record>,
}

impl Records {
    /// Reads what an earlier life has left. What cannot be read is removed: a file is only cut short by a crash of the machine.
    pub fn open(directory: &Path) -> Result<Records, Error> {
        let failed = |source| Error::Record { path: directory.display().to_string(), source };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let record = std::fs::read(entry.path()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            match record.filter(|_| check_id(&name).is_ok()) {
                Some(record) => drop(all.insert(name, record)),
                None => std::fs::remove_file(entry.path()).map_err(failed)?,
            }
        }
        Ok(Records { directory: directory.to_owned(), all })
    }

    pub fn get(&self, sandbox: &str) -> Option<&Record> {
        self.all.get(sandbox)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.all.iter().map(|(id, record)| (id.as_str(), record))
    }

    pub fn insert(&mut self, sandbox: &str, record: Record) -> Result<(), Error> {
        check_id(sandbox)?;
        let path = self.directory.join(sandbox);
        let unfinished = self.directory.join(format!("{UNFINISHED}{sandbox}"));
        let bytes = serde_json::to_vec(&record).map_err(std::io::Error::from);
        bytes
            .and_then(|bytes| std::fs::write(&unfinished, bytes))
            .and_then(|()| std::fs::rename(&unfinished, &path))
            .map_err(|source| Error::Record { path: path.display().to_string(), source })?;
        self.all.insert(sandbox.to_owned(), record);
        Ok(())
    }

    pub fn remove(&mut self, sandbox: &str) -> Result<Option<Record>, Error> {
        check_id(sandbox)?;
        let path = self.directory.join(sandbox);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(Error::Record { path: path.display().to_string(), source })
            }
            _ => Ok(self.all.remove(sandbox)),
        }
    }
}

/// Ids are names of files: nothing that leads elsewhere.
pub fn check_id(id: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.starts_with('.') || !id.bytes().all(plain) {
        return Err(Error::BadId { id: id.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_again() {
        let directory = tempfile::tempdir().unwrap();
        let record = |address: &str| Record { addresses: vec![address.parse().unwrap()], ports: Vec::new() };
        let mut records = Records::open(directory.path()).unwrap();
        records.insert("a", record("10.0.0.2")).unwrap();
        records.insert("b", record("fd00::2")).unwrap();
        assert_eq!(records.remove("a").unwrap(), Some(record("10.0.0.2")));
        assert_eq!(records.remove("a").unwrap(), None);
        std::fs::write(directory.path().join("broken"), "{").unwrap();
        std::fs::write(directory.path().join(".new-c"), "").unwrap();
        let records = Records::open(directory.path()).unwrap();
        assert_eq!(records.iter().collect::<Vec<_>>(), [("b", &record("fd00::2"))]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn ids_lead_nowhere_else() {
        for bad in ["", ".", "..", "../x", "a/b", "/etc", "a\0", ".new-a", "ä", &"a".repeat(129)] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
        check_id(&"0123456789abcdef".repeat(4)).unwrap();
    }
}
