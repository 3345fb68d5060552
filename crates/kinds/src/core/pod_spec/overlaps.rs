//! Warnings of files of one volume that lie on or inside each other.

use std::collections::HashMap;
use std::fmt;

use rkube_machinery::Value;
use rkube_machinery::field::quote;
use rkube_machinery::warnings::Pairs;

/// A file and where it comes from, where that is worth saying.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct File<'a> {
    path: &'a str,
    source: Option<Source<'a>>,
}

/// What files come from; some have a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Source<'a> {
    kind: &'static str,
    name: Option<&'a str>,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(formatter, "{} {}", self.kind, quote(name)),
            None => formatter.write_str(self.kind),
        }
    }
}

impl<'a> Source<'a> {
    fn named(kind: &'static str, name: &'a str) -> Self {
        Source { kind, name: Some(name) }
    }

    fn plain(kind: &'static str) -> Self {
        Source { kind, name: None }
    }
}

impl<'a> File<'a> {
    fn new(path: &'a str, source: Option<Source<'a>>) -> Self {
        File { path: path.trim_end_matches('/'), source }
    }

    fn shown(&self) -> String {
        match self.source {
            None => quote(self.path),
            Some(source) => format!("{} ({source})", quote(self.path)),
        }
    }
}

pub(super) fn warn(volumes: &[Value], out: &mut Vec<String>) {
    let mut out = Pairs::new(out);
    for volume in volumes {
        let (config_map, secret) = (volume.get("configMap"), volume.get("secret"));
        let sources = [
            (config_map, Source::named("ConfigMap", config_map.str("name"))),
            (secret, Source::named("Secret", secret.str("secretName"))),
            (volume.get("downwardAPI"), Source::plain("DownwardAPI")),
        ];
        for (source, shown) in sources {
            let files: Vec<File<'_>> =
                source.list("items").iter().map(|item| File::new(item.str("path"), None)).collect();
            warn_of(volume, shown, &files, &mut out);
        }
        if volume.has("projected") {
            warn_of_projected(volume, &mut out);
        }
    }
}

fn warn_of(volume: &Value, shown: Source<'_>, files: &[File<'_>], out: &mut Pairs<'_>) {
    let Some(tree) = Tree::with_overlaps(files) else { return };
    each_overlap(files, &tree, |file, other| {
        let name = quote(volume.str("name"));
        out.push(format!("volume {name} ({shown}): overlapping paths: {} with {}", file.shown(), other.shown()));
        !out.is_full()
    });
}

/// Every path once, in an order in which each is followed by those inside it.
struct Tree<'a> {
    paths: Vec<&'a str>,
    /// The innermost of the others that a path is inside of.
    parents: Vec<Option<usize>>,
    /// Where those that are inside a path end.
    ends: Vec<usize>,
}

impl<'a> Tree<'a> {
    /// None where no file is on or inside another one.
    fn with_overlaps(files: &[File<'a>]) -> Option<Tree<'a>> {
        if files.len() < 2 {
            return None;
        }
        let mut paths: Vec<&str> = files.iter().map(|file| file.path).filter(|path| !path.is_empty()).collect();
        paths.sort_by(|one, other| sorted_letters(one).cmp(sorted_letters(other)));
        if !paths.windows(2).any(|pair| is_inside(pair[1], pair[0])) {
            return None;
        }
        paths.dedup();
        let (mut parents, mut ends) = (vec![None; paths.len()], vec![paths.len(); paths.len()]);
        let mut outer: Vec<usize> = Vec::new();
        for (node, path) in paths.iter().enumerate() {
            while let Some(last) = outer.pop_if(|last| !is_inside(path, paths[*last])) {
                ends[last] = node;
            }
            parents[node] = outer.last().copied();
            outer.push(node);
        }
        Some(Tree { paths, parents, ends })
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.paths.binary_search_by(|other| sorted_letters(other).cmp(sorted_letters(path))).ok()
    }

    /// The path itself, those that it is inside of, and those inside it.
    fn related(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parents[node], |outer| self.parents[*outer]).chain(node..self.ends[node])
    }
}

/// A slash comes before all others, so that a path is followed by what is inside it.
fn sorted_letters(path: &str) -> impl Iterator<Item = u16> {
    path.bytes().map(|letter| if letter == b'/' { 0 } else { u16::from(letter) + 1 })
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A file that has come up, and what has come up since on or inside of which it is, or that is inside it.
#[derive(Default)]
struct Known {
    again: bool,
    later: Vec<usize>,
}

/// Tells of each file with each of those before it that it overlaps, in order; of equal pairs the first only. Ends when
/// `tell` says so. Files that have come up and overlap nothing share no part of the tree, so that looking for overlaps
/// takes as much time as the tree is large, once and once more for each pair that is found.
fn each_overlap(files: &[File<'_>], tree: &Tree<'_>, mut tell: impl FnMut(&File<'_>, &File<'_>) -> bool) {
    let mut known: HashMap<File<'_>, usize> = HashMap::new();
    let mut states: Vec<(File<'_>, Known)> = Vec::new();
    let mut there: Vec<Vec<usize>> = vec![Vec::new(); tree.paths.len()];
    for file in files {
        let Some(node) = tree.find(file.path) else { continue };
        let others = match known.get(file) {
            Some(&number) => {
                let state = &mut states[number].1;
                let mut others = std::mem::take(&mut state.later);
                if !std::mem::replace(&mut state.again, true) {
                    others.insert(0, number);
                }
                others
            }
            None => {
                let number = states.len();
                let mut others: Vec<usize> = tree.related(node).flat_map(|node| &there[node]).copied().collect();
                others.sort_unstable();
                for other in &others {
                    states[*other].1.later.push(number);
                }
                known.insert(*file, number);
                there[node].push(number);
                states.push((*file, Known::default()));
                others
            }
        };
        for other in others {
            if !tell(file, &states[other].0) {
                return;
            }
        }
    }
}

fn warn_of_projected(volume: &Value, out: &mut Pairs<'_>) {
    let mut files: Vec<File<'_>> = Vec::new();
    for source in volume.get("projected").list("sources") {
        if source.as_map().iter().all(|(_, value)| value.is_null()) {
            out.out().push(format!("volume {} (Projected) has no sources provided", quote(volume.str("name"))));
            continue;
        }
        add_projected(source, &mut files);
    }
    warn_of(volume, Source::plain("Projected"), &files, out);
}

fn add_projected<'a>(source: &'a Value, files: &mut Vec<File<'a>>) {
    let lists = [("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")];
    for (field, kind) in lists {
        let given = source.get(field);
        if !given.has("items") {
            continue;
        }
        let shown = if field == "downwardAPI" { Source::plain(kind) } else { Source::named(kind, given.str("name")) };
        files.extend(given.list("items").iter().map(|item| File::new(item.str("path"), Some(shown))));
        return;
    }
    if source.has("serviceAccountToken") {
        let shown = Source::plain("ServiceAccountToken");
        files.push(File::new(source.get("serviceAccountToken").str("path"), Some(shown)));
        return;
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.get("clusterTrustBundle");
        let name = if bundle.has("name") { bundle.str("name") } else { bundle.str("signerName") };
        files.push(File::new(bundle.str("path"), Some(Source::named("ClusterTrustBundle", name))));
        return;
    }
    let certificate = source.get("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    for (field, shown) in parts.into_iter().filter(|(field, _)| !certificate.str(field).is_empty()) {
        files.push(File::new(certificate.str(field), Some(Source::plain(shown))));
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    /// All that is said of files, by comparing each with each.
    fn slowly(files: &[File<'_>]) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let meets = |other: &&File<'_>| is_inside(file.path, other.path) || is_inside(other.path, file.path);
            for other in files[..index].iter().filter(|other| !other.path.is_empty() && !file.path.is_empty()) {
                let pair = (file.shown(), other.shown());
                if meets(&other) && !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        pairs
    }

    #[test]
    fn overlaps_are_found_as_if_all_were_compared() {
        const PATHS: [&str; 10] = ["a", "a/b", "a-b", "a/b/c", "b", "", "a/", "b/c/d", "a.b/c", "a/c"];
        let mut seed = 1_u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as usize / 65_536 % below
        };
        for round in 0..3_000 {
            let sources = [None, Some(Source::plain("x")), Some(Source::named("x", "y"))];
            let count = round % 12;
            let files: Vec<File<'_>> =
                (0..count).map(|_| File::new(PATHS[next(PATHS.len())], sources[next(3)])).collect();
            let mut found = Vec::new();
            if let Some(tree) = Tree::with_overlaps(&files) {
                each_overlap(&files, &tree, |file, other| {
                    found.push((file.shown(), other.shown()));
                    true
                });
            }
            let paths: Vec<_> = files.iter().map(File::shown).collect();
            assert_eq!(found, slowly(&files), "{paths:?}");
        }
    }

    #[test]
    fn no_more_is_made_than_is_told() {
        let item = |path: String| object! { "key": "a", "path": path };
        let volume =
            |items: Vec<Value>| vec![object! { "name": "v", "configMap": object! { "name": "c", "items": items } }];
        let warnings = |volumes: Vec<Value>| {
            let mut out = Vec::new();
            warn(&volumes, &mut out);
            out
        };
        let same = warnings(volume((0..50_000).map(|_| item("a".to_owned())).collect()));
        assert_eq!(same, [r#"volume "v" (ConfigMap "c"): overlapping paths: "a" with "a""#]);
        let inside =
            warnings(volume((0..50_000).map(|number| item(format!("a{}", "/b".repeat(number % 50)))).collect()));
        assert!((50..100).contains(&inside.len()), "{}", inside.len());
        assert!(warnings(volume((0..50_000).map(|number| item(format!("a{number}"))).collect())).is_empty());
    }
}
