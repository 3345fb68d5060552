//! `rkube envtest`: the programs that a test environment starts, in a directory or in an archive.
//!
//! The directory is named after the version and the contents of this very binary, so that another build never changes what
//! a running test uses. It is made aside and moved into place: who finds it finds all of it, however many make it at once.

use std::fs::{self, File, Permissions};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::cli::{Envtest, KUBERNETES_VERSION};
use crate::fronts::Front;

/// So many characters of the digest tell one build from another.
const DIGEST_LENGTH: usize = 12;
const COPY_BYTES: usize = 1 << 20;

pub fn run(options: &Envtest) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut stdout = std::io::stdout();
    if options.tar {
        ensure!(!stdout.is_terminal(), "an archive is no text: send it to a file or to setup-envtest");
        return archive(&program, stdout.lock()).context("cannot write the archive");
    }
    let directory = assets(&program, &options.directory()?)?;
    writeln!(stdout, "{}", directory.display())?;
    Ok(())
}

/// The directory with the programs below `base`, made if it is not there.
fn assets(program: &Path, base: &Path) -> anyhow::Result<PathBuf> {
    let digest = digest(program).with_context(|| format!("cannot read {}", program.display()))?;
    let name = format!("{KUBERNETES_VERSION}-rkube-{}-{digest}", env!("CARGO_PKG_VERSION"));
    let directory = base.join(name);
    if is_whole(&directory) {
        return Ok(directory);
    }
    make(program, base, &directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

fn is_whole(directory: &Path) -> bool {
    Front::ALL.iter().all(|front| directory.join(front.name()).is_file())
}

fn make(program: &Path, base: &Path, directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(base)?;
    let mode = Permissions::from_mode(0o755);
    let aside = tempfile::Builder::new().prefix(".new-").permissions(mode).tempdir_in(base)?;
    let [first, others @ ..] = Front::ALL.map(|front| aside.path().join(front.name()));
    let mut copy = File::options().write(true).create_new(true).mode(0o755).open(&first)?;
    std::io::copy(&mut File::open(program)?, &mut copy)?;
    drop(copy);
    for other in others {
        fs::hard_link(&first, other)?;
    }
    loop {
        match fs::rename(aside.path(), directory) {
            // What is left of it goes by another name, and is dropped.
            Ok(()) => return Ok(()),
            Err(_) if is_whole(directory) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                // Somebody has removed a part of it.
                let broken = tempfile::Builder::new().prefix(".old-").tempdir_in(base)?;
                fs::rename(directory, broken.path().join("assets"))?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn digest(program: &Path) -> std::io::Result<String> {
    let mut file = File::open(program)?;
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => context.update(&buffer[..length]),
        }
    }
    let hex: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex[..DIGEST_LENGTH].to_owned())
}

/// As `setup-envtest sideload` takes it: plain files only, links are skipped there.
fn archive(program: &Path, to: impl Write) -> std::io::Result<()> {
    let mut file = File::open(program)?;
    let size = file.metadata()?.len();
    let mut to = GzEncoder::new(to, Compression::fast());
    for front in Front::ALL {
        to.write_all(&header(front.name(), size)?)?;
        std::io::Seek::rewind(&mut file)?;
        let copied = std::io::copy(&mut file, &mut to)?;
        if copied != size {
            return Err(std::io::Error::other("this program changed meanwhile"));
        }
        let padding = size.next_multiple_of(BLOCK_BYTES as u64) - size;
        std::io::copy(&mut std::io::repeat(0).take(padding), &mut to)?;
    }
    // Two empty blocks are the end.
    to.write_all(&[0; 2 * BLOCK_BYTES])?;
    to.finish()?.flush()
}

/// Tar is made of such.
const BLOCK_BYTES: usize = 512;

/// The `ustar` header of an executable, of nobody and of no time, so that the same program makes the same archive. The
/// usual crate would bring the other nine tenths of the format along.
fn header(name: &str, size: u64) -> std::io::Result<[u8; BLOCK_BYTES]> {
    let mut block = [0; BLOCK_BYTES];
    let path = format!("rkube/envtest/{name}");
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &path);
    put(100, "0000755\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    // The sum counts its own field as blanks.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_made_once_and_mended() {
        let base = tempfile::tempdir().unwrap();
        let program = base.path().join("program");
        fs::write(&program, "one").unwrap();
        let first = assets(&program, base.path()).unwrap();
        assert_eq!(fs::read_to_string(first.join("etcd")).unwrap(), "one");
        assert_eq!(fs::metadata(first.join("kube-apiserver")).unwrap().permissions().mode() & 0o777, 0o755);
        fs::remove_file(first.join("kubectl")).unwrap();
        assert_eq!(assets(&program, base.path()).unwrap(), first);
        assert!(is_whole(&first));
        fs::write(&program, "two").unwrap();
        let second = assets(&program, base.path()).unwrap();
        assert_ne!(first, second);
        assert!(is_whole(&first), "the old one is kept");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 3, "nothing else stays");
    }

    #[test]
    fn many_make_it_at_once() {
        let base = tempfile::tempdir().unwrap();
        let program = base.path().join("program");
        fs::write(&program, "x".repeat(100_000)).unwrap();
        let directories: Vec<PathBuf> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| assets(&program, base.path()).unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(directories.iter().all(|directory| *directory == directories[0] && is_whole(directory)));
    }

    #[test]
    fn the_archive_is_what_tar_reads() {
        let base = tempfile::tempdir().unwrap();
        let program = base.path().join("program");
        fs::write(&program, "x".repeat(1000)).unwrap();
        let mut bytes = Vec::new();
        archive(&program, &mut bytes).unwrap();
        fs::write(base.path().join("a.tar.gz"), bytes).unwrap();
        let run = std::process::Command::new("tar").current_dir(base.path()).args(["-xzvf", "a.tar.gz"]).output();
        let Ok(output) = run else { return };
        assert!(output.status.success(), "{output:?}");
        for front in Front::ALL {
            let path = base.path().join("rkube/envtest").join(front.name());
            assert_eq!(fs::read_to_string(&path).unwrap().len(), 1000);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        }
    }
}
