//! As much of `tar` as `kubectl cp` needs.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::fail;

/// `tar cf - PATH…`, `tar xmf - -C DIRECTORY`; `-` is stdin and stdout, as is no file at all.
pub fn run(arguments: &[String]) -> i32 {
    let (mut letters, mut file, mut directory, mut paths) = (String::new(), "-".to_owned(), PathBuf::from("."), vec![]);
    let mut words = arguments.iter().enumerate();
    while let Some((index, word)) = words.next() {
        let mut next = || words.next().map(|(_, word)| word.clone()).unwrap_or_default();
        if word == "-C" {
            directory = next().into();
        } else if word.starts_with("--") {
        } else if index == 0 || word.len() > 1 && word.starts_with('-') {
            letters.push_str(word.trim_start_matches('-'));
            if word.contains('f') {
                file = next();
            }
        } else {
            paths.push(word.clone());
        }
    }
    let result = if letters.contains('c') { create(&file, &directory, &paths) } else { extract(&file, &directory) };
    result.map_or_else(|error| fail("tar", error), |()| 0)
}

fn create(file: &str, directory: &Path, paths: &[String]) -> std::io::Result<()> {
    let output: Box<dyn Write> =
        if file == "-" { Box::new(std::io::stdout()) } else { Box::new(std::fs::File::create(file)?) };
    let mut builder = tar::Builder::new(output);
    builder.follow_symlinks(false);
    for path in paths {
        let (from, name) = (directory.join(path), path.trim_start_matches('/'));
        if from.is_dir() {
            builder.append_dir_all(name, &from)?;
        } else {
            builder.append_path_with_name(&from, name)?;
        }
    }
    builder.into_inner()?.flush()
}

fn extract(file: &str, directory: &Path) -> std::io::Result<()> {
    let input: Box<dyn Read> =
        if file == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(file)?) };
    tar::Archive::new(input).unpack(directory)
}
