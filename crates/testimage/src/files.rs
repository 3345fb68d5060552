//! What one does to files.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::fail;

/// Runs over the arguments that are no flags; the worst that happened is the exit code.
fn each(tool: &str, arguments: &[String], act: impl Fn(&str) -> std::io::Result<()>) -> i32 {
    let names = arguments.iter().filter(|argument| !argument.starts_with('-') || *argument == "-");
    names
        .map(|name| act(name).map_or_else(|error| fail(tool, format_args!("{name}: {error}")), |()| 0))
        .max()
        .unwrap_or(0)
}

fn has_flag(arguments: &[String], flag: char) -> bool {
    arguments.iter().any(|argument| argument.starts_with('-') && argument.contains(flag))
}

pub fn cat(arguments: &[String]) -> i32 {
    let standard_input = ["-".to_owned()];
    let arguments = if arguments.is_empty() { &standard_input } else { arguments };
    each("cat", arguments, |name| {
        let mut from: Box<dyn Read> =
            if name == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(name)?) };
        let mut buffer = [0; 32 << 10];
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            std::io::stdout().write_all(&buffer[..count])?;
            std::io::stdout().flush()?;
        }
    })
}

pub fn count(arguments: &[String]) -> i32 {
    let mut content = Vec::new();
    if let Err(error) = std::io::stdin().read_to_end(&mut content) {
        return fail("wc", error);
    }
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    println!("{}", if has_flag(arguments, 'l') { lines } else { content.len() });
    0
}

pub fn list(arguments: &[String]) -> i32 {
    let here = [".".to_owned()];
    let named = arguments.iter().any(|argument| !argument.starts_with('-'));
    let long = has_flag(arguments, 'l');
    each("ls", if named { arguments } else { &here }, |name| {
        let path = Path::new(name);
        if !path.is_dir() {
            show(path, name, long)?;
            return Ok(());
        }
        let mut entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        entries.iter().try_for_each(|entry| show(&entry.path(), &entry.file_name().to_string_lossy(), long))
    })
}

fn show(path: &Path, name: &str, long: bool) -> std::io::Result<()> {
    if long {
        let metadata = path.symlink_metadata()?;
        let target = path.read_link().map(|target| format!(" -> {}", target.display())).unwrap_or_default();
        let (mode, user, group, size) = (metadata.mode(), metadata.uid(), metadata.gid(), metadata.len());
        println!("{mode:o} {user} {group} {size} {name}{target}");
    } else {
        println!("{name}");
    }
    Ok(())
}

/// Mode, owner, group and size.
pub fn stat(arguments: &[String]) -> i32 {
    each("stat", arguments, |name| {
        let metadata = std::fs::metadata(name)?;
        println!("{:o} {} {} {}", metadata.mode() & 0o7777, metadata.uid(), metadata.gid(), metadata.len());
        Ok(())
    })
}

pub fn touch(arguments: &[String]) -> i32 {
    each("touch", arguments, |name| std::fs::File::options().create(true).append(true).open(name).map(drop))
}

pub fn make_directory(arguments: &[String]) -> i32 {
    let parents = has_flag(arguments, 'p');
    each("mkdir", arguments, |name| if parents { std::fs::create_dir_all(name) } else { std::fs::create_dir(name) })
}

pub fn remove(arguments: &[String]) -> i32 {
    let (recursive, force) = (has_flag(arguments, 'r'), has_flag(arguments, 'f'));
    each("rm", arguments, |name| {
        let directory = Path::new(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let removed = if directory && recursive { std::fs::remove_dir_all(name) } else { std::fs::remove_file(name) };
        match removed {
            Err(error) if force && error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    })
}

/// `ln -s TARGET NAME`.
pub fn link(arguments: &[String]) -> i32 {
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let [target, name] = names.as_slice() else {
        return fail("ln", "two names");
    };
    let linked = if has_flag(arguments, 's') {
        std::os::unix::fs::symlink(target, name)
    } else {
        std::fs::hard_link(target, name)
    };
    linked.map_or_else(|error| fail("ln", error), |()| 0)
}

/// `-e`, `-f`, `-d`, `-n`, `-z`, `=`, `!=` and the comparisons of numbers.
pub fn test(arguments: &[String]) -> i32 {
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "]").collect();
    let number = |text: &str| text.parse::<i64>().unwrap_or_default();
    let holds = match words.as_slice() {
        ["!", rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            test(&rest) != 0
        }
        ["-e", name] => Path::new(name).exists(),
        ["-f" | "-s", name] => Path::new(name).is_file(),
        ["-d", name] => Path::new(name).is_dir(),
        ["-n", text] | [text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        [left, "=" | "==", right] => left == right,
        [left, "!=", right] => left != right,
        [left, "-eq", right] => number(left) == number(right),
        [left, "-ne", right] => number(left) != number(right),
        [left, "-lt", right] => number(left) < number(right),
        [left, "-gt", right] => number(left) > number(right),
        _ => false,
    };
    i32::from(!holds)
}
