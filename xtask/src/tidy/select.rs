//! What a simulated cluster runs polls in a fixed order: a `select!` that does not say `biased;` draws lots, and a seed would
//! not repeat.

use super::{Source, Sources};

/// Where code is that runs in a simulated cluster.
const SIMULATED: [&str; 11] = [
    "crates/access/",
    "crates/admission/",
    "crates/apiserver/",
    "crates/catalog/",
    "crates/cluster/",
    "crates/controllers/",
    "crates/extensions/",
    "crates/node/src/simulated/",
    "crates/operator/",
    "crates/scheduler/",
    "crates/store/src/memory/",
];

pub(super) fn check(sources: &Sources) -> Vec<String> {
    sources.0.iter().filter(|source| is_simulated(source)).flat_map(unbiased).collect()
}

fn is_simulated(source: &Source) -> bool {
    !source.is_test()
        && !source.path.contains("/tests/")
        && SIMULATED.iter().any(|place| source.path.starts_with(place))
}

fn unbiased(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let opens = |line: &str| !line.trim_start().starts_with("//") && line.contains("select! {");
    let begun = lines.iter().enumerate().filter(|(_, line)| opens(line));
    let found = begun.filter(|(place, _)| lines.get(place + 1).is_none_or(|next| next.trim() != "biased;"));
    found.map(|(place, _)| format!("{}:{}: `select!` without `biased;`", source.path, place + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_select_that_draws_lots_is_found() {
        let table = [
            ("crates/operator/src/a.rs", "tokio::select! {\n    biased;\n", 0),
            ("crates/operator/src/a.rs", "tokio::select! {\n    a => {}\n", 1),
            ("crates/operator/src/a_tests.rs", "tokio::select! {\n    a => {}\n", 0),
            ("crates/network/src/a.rs", "tokio::select! {\n    a => {}\n", 0),
            ("crates/operator/src/a.rs", "// select! {\n", 0),
        ];
        for (path, text, count) in table {
            let sources = Sources(vec![Source { path: path.to_owned(), text: text.to_owned() }]);
            assert_eq!(check(&sources).len(), count, "{path} {text}");
        }
    }
}
