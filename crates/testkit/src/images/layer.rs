//! A layer: a tar archive, byte for byte what the test asks for, however wrong.

use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// Names that are longer stand in an entry of their own.
const SHORT_NAME: usize = 100;

#[derive(Clone, Default)]
pub struct Layer {
    content: Vec<u8>,
}

impl Layer {
    pub fn new() -> Layer {
        Layer::default()
    }

    pub fn file(self, path: &str, mode: u32, content: &[u8]) -> Layer {
        self.entry(EntryType::Regular, path, "", mode, content)
    }

    pub fn directory(self, path: &str, mode: u32) -> Layer {
        self.entry(EntryType::Directory, path, "", mode, b"")
    }

    pub fn symlink(self, path: &str, target: &str) -> Layer {
        self.entry(EntryType::Symlink, path, target, 0o777, b"")
    }

    pub fn hard_link(self, path: &str, target: &str) -> Layer {
        self.entry(EntryType::Link, path, target, 0o644, b"")
    }

    pub fn fifo(self, path: &str, mode: u32) -> Layer {
        self.entry(EntryType::Fifo, path, "", mode, b"")
    }

    pub fn device(self, path: &str, major: u32, minor: u32) -> Layer {
        self.changed(EntryType::Char, path, "", 0o600, b"", &|header| {
            header.set_device_major(major).expect("the header has one");
            header.set_device_minor(minor).expect("the header has one");
        })
    }

    /// A name of the layers below that is gone.
    pub fn removed(self, path: &str) -> Layer {
        let (parent, name) = path.rsplit_once('/').map_or(("", path), |(parent, name)| (parent, name));
        let separator = if parent.is_empty() { "" } else { "/" };
        self.file(&format!("{parent}{separator}.wh.{name}"), 0o600, b"")
    }

    /// A directory of which all that is in layers below is gone.
    pub fn opaque(self, path: &str) -> Layer {
        self.file(&format!("{path}/.wh..wh..opq"), 0o600, b"")
    }

    /// Extended headers for the entry that follows.
    pub fn extended(self, records: &[(&str, &[u8])]) -> Layer {
        let mut content = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + rest.to_string().len();
            length = rest + length.to_string().len();
            content.extend_from_slice(format!("{length} {key}=").as_bytes());
            content.extend_from_slice(value);
            content.push(b'\n');
        }
        self.entry(EntryType::XHeader, "pax", "", 0o644, &content)
    }

    pub fn entry(self, kind: EntryType, path: &str, target: &str, mode: u32, content: &[u8]) -> Layer {
        self.changed(kind, path, target, mode, content, &|_| {})
    }

    /// An entry whose header the test changes before its checksum is made.
    pub fn changed(
        mut self,
        kind: EntryType,
        path: &str,
        target: &str,
        mode: u32,
        content: &[u8],
        change: &dyn Fn(&mut Header),
    ) -> Layer {
        for (long, name) in [(EntryType::GNULongName, path), (EntryType::GNULongLink, target)] {
            if name.len() > SHORT_NAME {
                self = self.entry(long, "././@LongLink", "", 0, format!("{name}\0").as_bytes());
            }
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        let old = header.as_old_mut();
        for (place, name) in [(&mut old.name, path), (&mut old.linkname, target)] {
            let length = name.len().min(place.len());
            place[..length].copy_from_slice(&name.as_bytes()[..length]);
        }
        change(&mut header);
        header.set_cksum();
        self.content.extend_from_slice(header.as_bytes());
        self.raw(content)
    }

    /// Bytes that are padded to whole blocks and otherwise left as they are.
    pub fn raw(mut self, content: &[u8]) -> Layer {
        self.content.extend_from_slice(content);
        self.content.resize(self.content.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// With its end.
    pub fn bytes(&self) -> Vec<u8> {
        let mut content = self.content.clone();
        content.resize(content.len() + 2 * BLOCK, 0);
        content
    }

    pub fn without_end(&self) -> Vec<u8> {
        self.content.clone()
    }
}
