//! Reading a directory back, after any end of the process that wrote it.
//!
//! Reads only; what is to be cleaned up it says. The one damage it repairs is a torn end of the newest log: what was
//! being written when the process or the machine died, and what nobody was told had been written. Anything else
//! that does not fit is an error that names the file and the place.

use std::collections::HashMap;
use std::io::Read;

use super::disk::Disk;
use super::find::find_frame;
use super::format::{FileKind, Frame, FrameReader, HEADER_LENGTH, Header, Origin, Record, corrupt, decode_payload};
use super::lock::LOCK;
use super::log::LastFrame;
use super::newest::{NEWEST, check_newest, read_newest};
use super::reserve::RESERVE;
use super::{io_error, log_name, snapshot_name};
use crate::contract::{Error, LeaseId, Result, Revision};
use crate::memory::leases::Leases;
use crate::memory::state::Items;

/// Stands in a directory while a backup is being restored into it.
pub(crate) const RESTORING: &str = "restoring";
pub(crate) const TEMPORARY: &str = ".tmp";

pub(crate) const ADVICE: &str = "restore the directory from a backup";

/// What a directory holds.
pub(crate) struct Recovered {
    pub items: Items,
    pub revision: Revision,
    /// With their time to live.
    pub leases: HashMap<LeaseId, u64>,
    pub last_lease: LeaseId,
    /// The log to go on with. `None`: the directory is new.
    pub log: Option<LastLog>,
    /// How many logs there are.
    pub logs: usize,
    /// Bytes of the snapshot and of the logs before the last.
    pub settled_bytes: u64,
    /// What is not needed any more.
    pub obsolete: Vec<String>,
}

/// The newest log.
pub(crate) struct LastLog {
    pub number: u64,
    /// How much of it is good.
    pub length: u64,
    pub previous_length: u64,
    pub last_frame: Option<LastFrame>,
    /// The number of the log that was last named the newest.
    pub named: u64,
}

impl Recovered {
    pub(crate) fn new() -> Self {
        Recovered {
            items: Items::new(),
            revision: 1,
            leases: HashMap::new(),
            last_lease: 0,
            log: None,
            logs: 0,
            settled_bytes: 0,
            obsolete: Vec::new(),
        }
    }

    /// The leases as they begin anew: each with its whole time to live.
    pub(crate) fn begin_leases(&mut self, now: tokio::time::Instant) -> Leases {
        let mut leases = Leases::default();
        for (id, ttl_seconds) in &self.leases {
            leases.grant(*id, *ttl_seconds, now);
        }
        for (key, item) in &mut self.items {
            item.lease = item.lease.filter(|id| leases.contains(*id));
            if let Some(id) = item.lease {
                leases.attach(id, key);
            }
        }
        leases.skip_ids(self.last_lease);
        leases
    }

    /// Applied twice or over a later state it leads to the same end: a snapshot may already hold some of what the
    /// log after it says.
    fn replay(&mut self, record: Record) {
        match record {
            Record::Put { key, item } => {
                self.revision = self.revision.max(item.mod_revision);
                self.items.insert(key, item);
            }
            Record::Delete { key, revision } => {
                self.revision = self.revision.max(revision);
                self.items.remove(&key);
            }
            Record::Grant { id, ttl_seconds } => {
                self.last_lease = self.last_lease.max(id);
                self.leases.insert(id, ttl_seconds);
            }
            Record::Revoke { id } => {
                self.leases.remove(&id);
            }
            Record::End { .. } => {}
        }
    }
}

/// Reads everything that a directory holds.
pub(crate) fn recover(disk: &dyn Disk) -> Result<Recovered> {
    let mut recovered = Recovered::new();
    let files = Files::list(disk, &mut recovered.obsolete)?;
    let first_log = match files.snapshots.last() {
        Some((number, length)) => {
            recovered.settled_bytes += *length;
            read_complete(disk, &snapshot_name(*number), *length, FileKind::Snapshot, Some(*number), &mut recovered)?;
            *number
        }
        None => 1,
    };
    let older = files.snapshots.iter().filter(|(number, _)| *number < first_log);
    recovered.obsolete.extend(older.map(|(number, _)| snapshot_name(*number)));
    let older = files.logs.iter().filter(|(number, _)| *number < first_log);
    recovered.obsolete.extend(older.map(|(number, _)| log_name(*number)));
    let logs: Vec<_> = files.logs.into_iter().filter(|(number, _)| *number >= first_log).collect();
    let named = read_newest(disk)?;
    let last = logs.last().map_or(0, |(number, _)| *number);
    let written = read_logs(disk, first_log, logs, &mut recovered)?;
    check_newest(named, last, written)?;
    if let Some(log) = &mut recovered.log {
        log.named = named;
    }
    if recovered.log.is_none() && !files.snapshots.is_empty() {
        return Err(corrupt(&log_name(first_log), &format!("it is missing; {ADVICE}")));
    }
    Ok(recovered)
}

/// Reads a snapshot or a backup, whose end says that it is whole.
pub(crate) fn read_complete(
    disk: &dyn Disk,
    name: &str,
    length: u64,
    kind: FileKind,
    number: Option<u64>,
    recovered: &mut Recovered,
) -> Result<()> {
    let mut source = disk.read(name).map_err(|error| io_error(name, error))?;
    let header = read_header(&mut source, name, kind)?;
    if number.is_some_and(|number| number != header.number) {
        return Err(corrupt(name, "its name and its header differ"));
    }
    recovered.revision = recovered.revision.max(header.revision);
    recovered.last_lease = recovered.last_lease.max(header.last_lease);
    let mut frames = FrameReader::new(source, header.number, length);
    let (mut items, mut end) = (0, None);
    loop {
        let offset = frames.offset();
        let damaged = || corrupt(name, &format!("it is damaged at byte {offset}; {ADVICE}"));
        match frames.next().map_err(|error| io_error(name, error))? {
            Frame::None => break,
            Frame::Bad => return Err(damaged()),
            Frame::Good(..) if end.is_some() => return Err(damaged()),
            Frame::Good(_, payload) => decode_payload(payload, |record| {
                match &record {
                    Record::Put { .. } => items += 1,
                    Record::End { items } => end = Some(*items),
                    _ => {}
                }
                recovered.replay(record);
            })
            .ok_or_else(damaged)?,
        }
    }
    if end != Some(items) {
        return Err(corrupt(name, &format!("it is not whole; {ADVICE}")));
    }
    Ok(())
}

/// Replays the logs, and returns the number of the last one that was certainly written to; 0 if none was.
fn read_logs(disk: &dyn Disk, first: u64, logs: Vec<(u64, u64)>, recovered: &mut Recovered) -> Result<u64> {
    let mut headers: Vec<(Header, u64)> = Vec::with_capacity(logs.len());
    for (index, (number, length)) in logs.iter().enumerate() {
        let name = log_name(*number);
        if *number != first + index as u64 {
            return Err(corrupt(&log_name(first + index as u64), &format!("it is missing; {ADVICE}")));
        }
        let mut source = disk.read(&name).map_err(|error| io_error(&name, error))?;
        match read_header(&mut source, &name, FileKind::Log) {
            Ok(header) if header.number != *number => {
                return Err(corrupt(&name, "its name and its header differ"));
            }
            Ok(header) => headers.push((header, *length)),
            Err(error) => return Err(error),
        }
    }
    recovered.logs = headers.len();
    let mut written = 0;
    for (index, (header, length)) in headers.iter().enumerate() {
        let next = headers.get(index + 1).map(|(next, _)| next.previous_length);
        let ReadLog { good, last_frame, is_written } = read_log(disk, header, *length, next, recovered)?;
        written = if is_written { header.number } else { written };
        match next {
            Some(_) => recovered.settled_bytes += length,
            None => {
                let Header { number, previous_length, .. } = *header;
                recovered.log = Some(LastLog { number, length: good, previous_length, last_frame, named: 0 });
            }
        }
    }
    Ok(written)
}

/// What was found of a log.
struct ReadLog {
    /// How much of it is good.
    good: u64,
    last_frame: Option<LastFrame>,
    /// Whether something was appended to it.
    is_written: bool,
}

/// Replays one log. `counts`: what of it the log after it says is good.
fn read_log(
    disk: &dyn Disk,
    header: &Header,
    length: u64,
    counts: Option<u64>,
    recovered: &mut Recovered,
) -> Result<ReadLog> {
    let name = log_name(header.number);
    let end = counts.unwrap_or(length);
    if end > length || end < HEADER_LENGTH {
        return Err(corrupt(&name, &format!("it ends at byte {length} but should at {end}; {ADVICE}")));
    }
    let mut source = disk.read(&name).map_err(|error| io_error(&name, error))?;
    read_header(&mut source, &name, FileKind::Log)?;
    recovered.revision = recovered.revision.max(header.revision);
    recovered.last_lease = recovered.last_lease.max(header.last_lease);
    let mut frames = FrameReader::new(source, header.number, end);
    let (mut last_frame, mut is_written): (Option<LastFrame>, bool) = (None, false);
    loop {
        let offset = frames.offset();
        let damaged = |why: &str| corrupt(&name, &format!("it is damaged at byte {offset}{why}; {ADVICE}"));
        match frames.next().map_err(|error| io_error(&name, error))? {
            Frame::None => return Ok(ReadLog { good: offset, last_frame, is_written }),
            Frame::Good(origin, payload) => {
                is_written |= origin == Origin::Appended;
                decode_payload(payload, |record| recovered.replay(record)).ok_or_else(|| damaged(""))?;
                let mut copy = last_frame.take().map_or(Vec::new(), |last| last.payload);
                copy.clear();
                copy.extend_from_slice(payload);
                last_frame = Some(LastFrame { offset, payload: copy });
            }
            Frame::Bad if counts.is_some() => return Err(damaged(", and another log follows")),
            Frame::Bad => {
                if let Some(good) = find_later_frame(disk, &name, header.number, offset)? {
                    return Err(damaged(&format!(", and good data follows at byte {good}")));
                }
                tracing::warn!(file = name, from = offset, to = length, "cutting off a write that was not finished");
                return Ok(ReadLog { good: offset, last_frame, is_written });
            }
        }
    }
}

/// Where after a bad frame at `offset` a good one begins, if one does.
fn find_later_frame(disk: &dyn Disk, name: &str, number: u64, offset: u64) -> Result<Option<u64>> {
    let mut source = disk.read(name).map_err(|error| io_error(name, error))?;
    let mut rest = Vec::new();
    let skipped = std::io::copy(&mut source.by_ref().take(offset + 1), &mut std::io::sink())
        .and_then(|_| source.read_to_end(&mut rest));
    skipped.map_err(|error| io_error(name, error))?;
    Ok(find_frame(&rest, number, offset + 1))
}

fn read_header(source: &mut dyn Read, name: &str, kind: FileKind) -> Result<Header> {
    let mut bytes = Vec::new();
    source.take(HEADER_LENGTH).read_to_end(&mut bytes).map_err(|error| io_error(name, error))?;
    Header::decode(&bytes, kind).map_err(|what| corrupt(name, &what))
}

/// The numbered files of a directory in order, with their lengths.
struct Files {
    snapshots: Vec<(u64, u64)>,
    logs: Vec<(u64, u64)>,
}

impl Files {
    fn list(disk: &dyn Disk, obsolete: &mut Vec<String>) -> Result<Files> {
        let mut files = Files { snapshots: Vec::new(), logs: Vec::new() };
        for (name, length) in disk.list().map_err(|error| io_error("the directory", error))? {
            if name == RESTORING {
                return Err(Error::Corrupt(
                    "a restore into this directory was not finished: empty it and restore again".to_owned(),
                ));
            } else if name.ends_with(TEMPORARY) {
                obsolete.push(name);
            } else if let Some(number) = number_of(&name, "snapshot-") {
                files.snapshots.push((number, length));
            } else if let Some(number) = number_of(&name, "log-") {
                files.logs.push((number, length));
            }
        }
        files.snapshots.sort_unstable();
        files.logs.sort_unstable();
        Ok(files)
    }
}

/// Whether a file of a store's directory is the store's.
pub(crate) fn is_ours(name: &str) -> bool {
    let is_numbered = number_of(name, "snapshot-").or_else(|| number_of(name, "log-")).is_some();
    is_numbered || name.ends_with(TEMPORARY) || [LOCK, NEWEST, RESERVE, RESTORING].contains(&name)
}

pub(crate) fn number_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, 16).ok())
}
