//! How much an image may ask for. What is beyond is refused, and what was made for it removed.

/// Of a manifest, an index or a configuration.
pub const MAX_DOCUMENT_BYTES: u64 = 4 << 20;
/// What the kernel stacks is 500; what builders make, 127.
pub const MAX_LAYERS: usize = 256;
/// Of an archive with images.
pub const MAX_ARCHIVE_ENTRIES: u64 = 100_000;
/// Of images in one archive or index.
pub const MAX_MANIFESTS: usize = 1_000;
/// Files, directories and links in one layer.
pub const MAX_LAYER_ENTRIES: u64 = 5_000_000;
/// Of one layer when it is unpacked, however small it was.
pub const MAX_LAYER_BYTES: u64 = 256 << 30;
/// Of a name in an archive, as the kernel has it.
pub const MAX_PATH_BYTES: usize = 4095;
/// Of the extended headers of one entry of an archive: names, times, attributes.
pub const MAX_EXTENDED_HEADER_BYTES: u64 = 1 << 20;
/// What unpacking leaves free of a disk, as a share of it and at most so much: the cluster's own data lies on it, too.
pub const RESERVED_SHARE: u64 = 20;
pub const RESERVED_BYTES: u64 = 1 << 30;
/// The free space is looked at after so much was written.
pub const CHECK_SPACE_EVERY_BYTES: u64 = 64 << 20;
/// Layers of one image that are fetched or unpacked at the same time.
pub const PARALLEL_LAYERS: usize = 2;
/// Directories within directories in a layer: whoever walks one may hold a file open for each.
pub const MAX_DEPTH: usize = 256;
/// Layers of one image that are downloaded at the same time.
pub const PARALLEL_DOWNLOADS: usize = 3;
/// Of one answer that sends us elsewhere after the other.
pub const MAX_REDIRECTS: usize = 5;
/// Of a download that breaks off: so often it is taken up again without a byte having come in between, and so often at all.
pub const MAX_IDLE_RESUMPTIONS: usize = 3;
pub const MAX_RESUMPTIONS: usize = 100;
/// Of the manifest of a registry's host: what we send along at most.
pub const MAX_HOSTS: usize = 16;
