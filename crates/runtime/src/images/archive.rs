//! Archives with images: what `docker save` writes (`manifest.json`), and layouts of OCI (`index.json`), often both in one.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::bounds::{MAX_ARCHIVE_ENTRIES, MAX_DOCUMENT_BYTES, MAX_LAYERS, MAX_MANIFESTS};
use super::compression::{decompress, is_compressed};
use super::digest::Digest;
use super::error::Doing;
use super::layers::Layers;
use super::platform::{self, Descriptor, Document};
use super::scratch::{Scratch, Space};
use super::tar::{Kind, Reader, Source};
use super::{Error, Reference, Result};

const READ_BYTES: usize = 256 << 10;
/// Of links to links, and of indexes in indexes.
const MAX_HOPS: usize = 8;

const FULL_NAME: &str = "io.containerd.image.name";
const SHORT_NAME: &str = "org.opencontainers.image.ref.name";

/// An archive whose parts can be read in any order.
pub(super) struct Archive {
    file: Arc<File>,
    parts: HashMap<String, Part>,
}

enum Part {
    /// Where it begins, and how long it is.
    Content(u64, u64),
    Link(String),
}

/// An image in an archive.
pub(super) struct Packed {
    pub config: Vec<u8>,
    /// Beside the configuration, to be kept.
    pub documents: Vec<Vec<u8>>,
    /// Whole ones: by tag and by digest.
    pub names: Vec<String>,
    /// Names of parts, the lowest first.
    pub layers: Vec<String>,
}

impl Archive {
    /// One that is compressed, or that cannot be read twice, is copied to the scratch directory first.
    pub(super) fn open(path: &Path, scratch: &Scratch) -> Result<Archive> {
        let doing = || format!("open {}", path.display());
        let mut file = File::open(path).doing(doing)?;
        let mut start = [0; 4];
        let regular = file.metadata().doing(doing)?.is_file();
        if regular {
            let count = file.read_at(&mut start, 0).doing(doing)?;
            if !is_compressed(&start[..count]) {
                return Archive::scan(file);
            }
        }
        let spool = scratch.path().join("archive");
        let mut copy = File::options().create_new(true).read(true).write(true).open(&spool).doing(doing)?;
        copy_within_space(&mut file, &mut copy, scratch.path())?;
        Archive::scan(copy)
    }

    fn scan(mut file: File) -> Result<Archive> {
        let length = file.seek(SeekFrom::End(0)).doing(|| "seek".to_owned())?;
        file.rewind().doing(|| "seek".to_owned())?;
        let mut reader = Reader::new(Seekable(file));
        let mut parts = HashMap::new();
        let mut count = 0;
        while let Some(entry) = reader.next()? {
            count += 1;
            if count > MAX_ARCHIVE_ENTRIES {
                return Err(Error::refused(format_args!("an archive has more than {MAX_ARCHIVE_ENTRIES} entries")));
            }
            let name = clean(&String::from_utf8_lossy(&entry.path), "");
            let part = match entry.kind {
                Kind::File if reader.position().saturating_add(entry.size) > length => {
                    return Err(Error::corrupt(format_args!("the archive ends within {name:?}")));
                }
                Kind::File => Part::Content(reader.position(), entry.size),
                Kind::HardLink => Part::Link(clean(&String::from_utf8_lossy(&entry.target), "")),
                Kind::Symlink => Part::Link(clean(&String::from_utf8_lossy(&entry.target), &name)),
                _ => continue,
            };
            parts.insert(name, part);
        }
        Ok(Archive { file: Arc::new(reader.into_source().0), parts })
    }

    pub(super) fn images(&self) -> Result<Vec<Packed>> {
        let images = if self.parts.contains_key("index.json") && self.parts.contains_key("oci-layout") {
            self.layout()?
        } else if self.parts.contains_key("manifest.json") {
            self.saved()?
        } else {
            return Err(Error::corrupt("the archive has neither index.json nor manifest.json: it is no image"));
        };
        if images.is_empty() {
            return Err(Error::corrupt("the archive has no image"));
        }
        Ok(images)
    }

    /// The layers of one, to be unpacked.
    pub(super) fn layers<'a>(&'a self, names: &[String], diff_ids: &[Digest]) -> Result<impl Layers + 'a> {
        if names.len() != diff_ids.len() {
            let (has, said) = (names.len(), diff_ids.len());
            return Err(Error::corrupt(format_args!("the image has {has} layers, and its configuration {said}")));
        }
        let sections: Result<Vec<_>> = names.iter().map(|name| self.section(name)).collect();
        Ok(Sections { sections: sections? })
    }

    /// By `docker save`.
    fn saved(&self) -> Result<Vec<Packed>> {
        let listed: Vec<Saved> = self.json("manifest.json")?;
        bounded(listed.len())?;
        let mut images = Vec::new();
        for saved in listed {
            let config = self.document(&saved.config)?;
            let names = saved.repo_tags.unwrap_or_default().iter().map(|name| whole(name)).collect::<Result<_>>()?;
            images.push(Packed { config, documents: Vec::new(), names, layers: saved.layers.unwrap_or_default() });
        }
        Ok(images)
    }

    /// By the rules of OCI.
    fn layout(&self) -> Result<Vec<Packed>> {
        let index: Manifests = self.json("index.json")?;
        bounded(index.manifests.len())?;
        let mut named: BTreeMap<Option<String>, Vec<Descriptor>> = BTreeMap::new();
        for descriptor in index.manifests {
            named.entry(name_of(&descriptor)).or_default().push(descriptor);
        }
        // What docker adds for older readers has names where annotations have none.
        let tags: Vec<Saved> =
            if self.parts.contains_key("manifest.json") { self.json("manifest.json")? } else { vec![] };
        let mut images: Vec<Packed> = Vec::new();
        for (name, descriptors) in named {
            let top = match descriptors.as_slice() {
                [only] => only,
                several => platform::choose(several)?,
            };
            let mut packed = self.image(top, MAX_HOPS)?;
            let names: Vec<String> = match name {
                Some(name) => vec![name],
                None => names_of(&tags, &Digest::of(&packed.config)),
            };
            for name in names {
                let reference: Reference = name.parse()?;
                packed.names.push(format!("{}@{}", reference.repository(), top.digest));
                packed.names.push(reference.to_string());
            }
            images.push(packed);
        }
        Ok(images)
    }

    fn image(&self, descriptor: &Descriptor, hops: usize) -> Result<Packed> {
        let content = self.blob(descriptor)?;
        let document: Document = parse(&blob_name(&descriptor.digest), &content)?;
        if let Some(manifests) = document.manifests {
            bounded(manifests.len())?;
            if hops == 0 {
                return Err(Error::refused("indexes of images lead to each other without an end"));
            }
            let mut packed = self.image(platform::choose(&manifests)?, hops - 1)?;
            packed.documents.push(content);
            return Ok(packed);
        }
        let Some(config) = document.config else {
            return Err(Error::corrupt(format_args!("{} is no manifest of an image", descriptor.digest)));
        };
        let layers = document.layers.unwrap_or_default();
        if layers.len() > MAX_LAYERS {
            return Err(Error::refused(format_args!("{} layers are more than {MAX_LAYERS}", layers.len())));
        }
        Ok(Packed {
            config: self.blob(&config)?,
            documents: vec![content],
            names: Vec::new(),
            layers: layers.iter().map(|layer| blob_name(&layer.digest)).collect(),
        })
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let content = self.document(&blob_name(&descriptor.digest))?;
        let digest = Digest::of(&content);
        if digest != descriptor.digest {
            return Err(Error::corrupt(format_args!("what is called {} has the digest {digest}", descriptor.digest)));
        }
        Ok(content)
    }

    fn json<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T> {
        parse(name, &self.document(name)?)
    }

    fn document(&self, name: &str) -> Result<Vec<u8>> {
        let mut section = self.section(name)?;
        if section.left > MAX_DOCUMENT_BYTES {
            return Err(Error::refused(format_args!("{name} has more than {MAX_DOCUMENT_BYTES} bytes")));
        }
        let mut content = Vec::new();
        section.read_to_end(&mut content).doing(|| format!("read {name}"))?;
        Ok(content)
    }

    fn section(&self, name: &str) -> Result<Section> {
        let mut name = clean(name, "");
        for _ in 0..MAX_HOPS {
            match self.parts.get(&name) {
                Some(Part::Content(offset, left)) => {
                    return Ok(Section { file: self.file.clone(), offset: *offset, left: *left });
                }
                Some(Part::Link(target)) => name = target.clone(),
                None => return Err(Error::corrupt(format_args!("the archive has no {name}"))),
            }
        }
        Err(Error::corrupt(format_args!("{name} is a link that leads nowhere")))
    }
}

/// An image as `docker save` lists it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Manifests {
    manifests: Vec<Descriptor>,
}

fn parse<T: for<'de> Deserialize<'de>>(name: &str, content: &[u8]) -> Result<T> {
    serde_json::from_slice(content).map_err(|error| Error::corrupt(format_args!("{name} cannot be read: {error}")))
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn whole(name: &str) -> Result<String> {
    Ok(name.parse::<Reference>()?.to_string())
}

/// A tag alone names no image.
fn name_of(descriptor: &Descriptor) -> Option<String> {
    let annotation = |key| descriptor.annotations.get(key).cloned();
    annotation(FULL_NAME).or_else(|| annotation(SHORT_NAME).filter(|name| name.contains(['/', ':'])))
}

fn names_of(tags: &[Saved], config: &Digest) -> Vec<String> {
    let saved = tags.iter().find(|saved| saved.config.contains(config.hex()));
    saved.and_then(|saved| saved.repo_tags.clone()).unwrap_or_default()
}

fn bounded(count: usize) -> Result<()> {
    if count > MAX_MANIFESTS {
        return Err(Error::refused(format_args!("{count} images are more than {MAX_MANIFESTS}")));
    }
    Ok(())
}

/// A name within the archive, from where a link to it stands.
fn clean(name: &str, link: &str) -> String {
    let mut names: Vec<&str> = link.split('/').collect();
    names.pop();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(names.pop()),
            part => names.push(part),
        }
    }
    names.join("/")
}

fn copy_within_space(from: &mut File, to: &mut File, place: &Path) -> Result<()> {
    let mut reader = decompress(BufReader::with_capacity(READ_BYTES, from)).map_err(Error::reading)?;
    let mut space = Space::of(place)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = reader.read(&mut buffer).map_err(Error::reading)?;
        if count == 0 {
            return Ok(());
        }
        space.take(count as u64)?;
        io::Write::write_all(to, &buffer[..count]).doing(|| "copy the archive".to_owned())?;
    }
}

struct Seekable(File);

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Source for Seekable {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        self.0.seek(SeekFrom::Current(bytes)).map(drop)
    }
}

/// A part of the archive: read without moving the file, so that several can be read at once.
#[derive(Clone)]
struct Section {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

struct Sections {
    sections: Vec<Section>,
}

impl Layers for Sections {
    fn bytes(&self, index: usize) -> u64 {
        self.sections[index].left
    }

    fn open<'a>(&'a self, index: usize, count: &'a (dyn Fn(u64) + Send + Sync)) -> Result<Box<dyn Read + Send + 'a>> {
        let counted = Counted { reader: self.sections[index].clone(), count };
        decompress(BufReader::with_capacity(READ_BYTES, counted)).map_err(Error::reading)
    }
}

struct Counted<'a, R> {
    reader: R,
    count: &'a (dyn Fn(u64) + Send + Sync),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        (self.count)(count as u64);
        Ok(count)
    }
}
