//! Files are short, and modules say what they are for.

use super::{Source, Sources};

const LINES_MAX: usize = 600;

pub(super) fn check(sources: &Sources) -> Vec<String> {
    sources.0.iter().flat_map(|source| [too_long(source), headless(source)]).flatten().collect()
}

fn too_long(source: &Source) -> Option<String> {
    let made_elsewhere = source.path.split('/').any(|part| part == "generated" || part == "testdata");
    let lines = source.text.lines().count();
    (lines > LINES_MAX && !made_elsewhere)
        .then(|| format!("{}: {lines} lines, at most {LINES_MAX}: split it by topic", source.path))
}

fn headless(source: &Source) -> Option<String> {
    if source.is_test() {
        return None;
    }
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    (!first.starts_with("//!")).then(|| format!("{}: opens without `//!` to say what it is for", source.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_headless_files_are_found() {
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        let table = [
            ("crates/a/src/lib.rs", "//! Fine.\n", 0),
            ("crates/a/src/lib.rs", "// x\n", 1),
            ("crates/a/src/lib.rs", "", 1),
            ("crates/a/src/tests.rs", "// x\n", 0),
            ("crates/a/src/lib.rs", long.as_str(), 1),
            ("crates/a/src/generated/lib.rs", long.as_str(), 0),
        ];
        for (path, text, count) in table {
            let sources = Sources(vec![Source { path: path.to_owned(), text: text.to_owned() }]);
            assert_eq!(check(&sources).len(), count, "{path} {:.10}", text);
        }
    }
}
