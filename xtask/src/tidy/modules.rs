//! No two modules of a crate use each other: the top-level modules of a crate have an order, and each uses those behind it
//! only. What is for tests does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, Sources};

/// Crates whose modules are still to be put in order.
const UNORDERED: &[&str] = &["cel", "kinds", "machinery"];

/// The modules of a crate, and which others each uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(sources: &Sources) -> Vec<String> {
    let mut crates: BTreeMap<String, Vec<(Vec<String>, String)>> = BTreeMap::new();
    for source in sources.0.iter().filter(|source| !source.is_test()) {
        if let Some((name, module)) = place(source) {
            crates.entry(name).or_default().push((module, shipped(&source.text)));
        }
    }
    let ordered = crates.iter().filter(|(name, _)| !UNORDERED.contains(&name.as_str()));
    let circles = ordered.filter_map(|(name, files)| circle(&uses(files)).map(|circle| (name, circle)));
    circles.map(|(name, circle)| format!("crates/{name}: modules use each other: {}", circle.join(" → "))).collect()
}

/// The crate, and the path of the module in it; none for what is no module of a crate.
fn place(source: &Source) -> Option<(String, Vec<String>)> {
    let (name, path) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    let is_root = matches!(module.first().map(String::as_str), Some("lib" | "main" | "bin"));
    (!is_root).then(|| (name.to_owned(), module))
}

/// The text without comments and without the tests at its end.
fn shipped(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn uses(files: &[(Vec<String>, String)]) -> Uses {
    let modules: BTreeSet<&String> = files.iter().filter_map(|(path, _)| path.first()).collect();
    let mut uses = Uses::new();
    for (path, text) in files {
        let Some(from) = path.first() else { continue };
        let used = uses.entry(from.clone()).or_default();
        let root = ["crate::".to_owned(), "super::".repeat(path.len())];
        for prefix in root {
            let starts = text.match_indices(&prefix).filter(|(place, _)| !text[..*place].ends_with("super::"));
            for (place, _) in starts {
                used.extend(names(&text[place + prefix.len()..]).filter(|name| modules.contains(name) && name != from));
            }
        }
    }
    uses
}

/// The first names of a path, or of each path in braces.
fn names(text: &str) -> impl Iterator<Item = String> {
    let list = match text.strip_prefix('{') {
        None => vec![text],
        Some(inside) => {
            let mut depth = 1_i32;
            let end = inside.find(|letter| {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                depth == 0
            });
            inside[..end.unwrap_or(0)].split(',').collect()
        }
    };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    list.into_iter().map(move |path| path.trim().chars().take_while(|letter| is_letter(*letter)).collect())
}

/// A circle of modules, each of which uses the next.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    uses.keys().find_map(|from| follow(uses, from, &mut Vec::new(), &mut done))
}

fn follow<'a>(
    uses: &'a Uses,
    module: &'a String,
    path: &mut Vec<&'a String>,
    done: &mut BTreeSet<&'a String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|one| *one == module) {
        return Some(path[start..].iter().copied().chain([module]).cloned().collect());
    }
    if done.contains(module) {
        return None;
    }
    path.push(module);
    let found = uses.get(module).into_iter().flatten().find_map(|next| follow(uses, next, path, done));
    path.pop();
    done.insert(module);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        check(&Sources(files.iter().map(source).collect()))
    }

    #[test]
    fn circles_are_found() {
        let circle = "crates/x: modules use each other: a → b → a";
        for (one, other) in [
            ("use crate::b::Thing;", "use super::a;"),
            ("use crate::{c, b::Thing};", "fn f() { crate::a::g() }"),
            ("use crate::c;\nuse crate::{\n    b::{C, D},\n};", "use crate::a;"),
        ] {
            assert_eq!(found(&[("crates/x/src/a.rs", one), ("crates/x/src/b.rs", other)]), [circle], "{one} {other}");
        }
        let deep =
            [("crates/x/src/a/y/z.rs", "use super::super::super::b;"), ("crates/x/src/b/mod.rs", "use super::a;")];
        assert_eq!(found(&deep), [circle]);
    }

    #[test]
    fn an_order_is_fine() {
        for (one, other) in [
            ("use crate::b::Thing;", "use crate::c;"),
            ("use crate::b;", "// crate::a"),
            ("use crate::b;", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
            ("use crate::b;", "use crate::b::a;"),
        ] {
            let files = [("crates/x/src/a.rs", one), ("crates/x/src/b.rs", other), ("crates/x/src/c.rs", "")];
            assert_eq!(found(&files), [""; 0], "{one} {other}");
        }
        let tests = [("crates/x/src/a.rs", "use crate::b;"), ("crates/x/src/b/tests.rs", "use crate::a;")];
        assert_eq!(found(&tests), [""; 0]);
        let inside = [("crates/x/src/a/b.rs", "use super::c;"), ("crates/x/src/a/c.rs", "use super::b;")];
        assert_eq!(found(&inside), [""; 0]);
    }
}
