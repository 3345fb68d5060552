//! Extended headers: what stands before an entry because its header has no room for it.

use ::tar::EntryType;

use super::malformed;
use crate::images::Result;

#[derive(Debug, Default)]
pub(super) struct Extended {
    pub path: Option<Vec<u8>>,
    pub target: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub user: Option<u64>,
    pub group: Option<u64>,
    pub modified: Option<(i64, u32)>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
const SPARSE: &[u8] = b"GNU.sparse.";

impl Extended {
    pub(super) fn take(&mut self, kind: EntryType, mut content: Vec<u8>) -> Result<()> {
        match kind {
            EntryType::GNULongName | EntryType::GNULongLink => {
                while content.last() == Some(&0) {
                    content.pop();
                }
                let place = if kind == EntryType::GNULongName { &mut self.path } else { &mut self.target };
                // What a record of the other kind said of it is more.
                place.get_or_insert(content);
                Ok(())
            }
            EntryType::XHeader => self.records(&content),
            // Of all entries that follow: nothing that layers have there is of interest.
            _ => Ok(()),
        }
    }

    /// Each record is its own length, a blank, a key, `=`, a value of any bytes, and a line feed.
    fn records(&mut self, mut content: &[u8]) -> Result<()> {
        while !content.is_empty() {
            let wrong = || malformed("an extended header is malformed");
            let blank = content.iter().take(20).position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length: usize =
                number(&content[..blank]).and_then(|length| length.try_into().ok()).ok_or_else(wrong)?;
            if length <= blank + 1 || length > content.len() || content[length - 1] != b'\n' {
                return Err(wrong());
            }
            let record = &content[blank + 1..length - 1];
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            self.record(&record[..equals], &record[equals + 1..])?;
            content = &content[length..];
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let numbered = || number(value).map(Some).ok_or_else(|| malformed("a number in an extended header is none"));
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.target = Some(value.to_vec()),
            b"size" => self.size = numbered()?,
            b"uid" => self.user = numbered()?,
            b"gid" => self.group = numbered()?,
            b"mtime" => self.modified = Some(time(value).ok_or_else(|| malformed("a time is none"))?),
            _ if key.starts_with(ATTRIBUTE) && key.len() > ATTRIBUTE.len() => {
                let name = key[ATTRIBUTE.len()..].to_vec();
                if name.contains(&0) {
                    return Err(malformed("the name of an attribute has a NUL"));
                }
                self.attributes.push((name, value.to_vec()));
            }
            _ if key.starts_with(SPARSE) => {
                return Err(crate::images::Error::refused("files with holes (GNU sparse) are not supported"));
            }
            _ => {}
        }
        Ok(())
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds with a fraction, before 1970 with a minus.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = digits.parse().ok()?;
    match (text.starts_with('-'), nanos) {
        (true, 1..) => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos)),
        _ => Some((seconds, nanos)),
    }
}
