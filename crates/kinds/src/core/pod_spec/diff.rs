//! Unified diffs of texts, as Go's difflib writes them.
//!
//! Lines that stand in more than one percent of a long text do not anchor matches: messages show diffs made this way,
//! and ours must show the same ones.

use std::collections::BTreeMap;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Texts of this many lines and above have their popular lines ignored as anchors.
const POPULAR_MIN_LINES: usize = 200;

/// Longer texts are not compared: it would take too long.
const LINES_MAX: usize = 40_000;

/// The difference without a header; empty where the texts are the same, or too long to tell.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    if old.len().max(new.len()) > LINES_MAX {
        return String::new();
    }
    let mut out = String::new();
    for group in grouped(steps(&matching_blocks(&old, &new))) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = range(first.old.0, last.old.1);
        let new_range = range(first.new.0, last.new.1);
        out.push_str(&format!("@@ -{old_range} +{new_range} @@\n"));
        for step in group {
            let mut put = |mark: char, lines: &[&str]| {
                for line in lines {
                    out.push(mark);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if step.equal {
                put(' ', &old[step.old.0..step.old.1]);
            } else {
                put('-', &old[step.old.0..step.old.1]);
                put('+', &new[step.new.0..step.new.1]);
            }
        }
    }
    out
}

/// Lines that stay, or lines that are replaced; either side may be empty.
#[derive(Clone, Copy)]
struct Step {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// A run of equal lines: where in the old text, where in the new one, how many.
type Block = (usize, usize, usize);

fn matching_blocks(old: &[&str], new: &[&str]) -> Vec<Block> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= POPULAR_MIN_LINES {
        let most = new.len() / 100 + 1;
        places.retain(|_, places| places.len() <= most);
    }
    let anchors = old.iter().map(|line| places.get(line).map_or(&[][..], Vec::as_slice)).collect();
    let matcher = Matcher { old, new, anchors };
    let mut blocks = matcher.find_blocks();
    blocks.sort_unstable();
    let mut merged: Vec<Block> = Vec::new();
    for block in blocks {
        match merged.last_mut() {
            Some(last) if last.0 + last.2 == block.0 && last.1 + last.2 == block.1 => last.2 += block.2,
            _ => merged.push(block),
        }
    }
    merged.push((old.len(), new.len(), 0));
    merged
}

struct Matcher<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// For each old line, where in the new text it stands; none where it is too popular.
    anchors: Vec<&'a [usize]>,
}

impl Matcher<'_> {
    /// The longest run of equal lines, and the same for what is before and after it.
    fn find_blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lengths = vec![0; self.new.len() + 1];
        let mut open = vec![((0, self.old.len()), (0, self.new.len()))];
        while let Some((in_old, in_new)) = open.pop() {
            let found = self.longest_match(in_old, in_new, &mut lengths);
            if found.2 == 0 {
                continue;
            }
            blocks.push(found);
            if in_old.0 < found.0 && in_new.0 < found.1 {
                open.push(((in_old.0, found.0), (in_new.0, found.1)));
            }
            let (old_end, new_end) = (found.0 + found.2, found.1 + found.2);
            if old_end < in_old.1 && new_end < in_new.1 {
                open.push(((old_end, in_old.1), (new_end, in_new.1)));
            }
        }
        blocks
    }

    /// `lengths` is all zero, and is so again afterwards: the lengths of the runs that end at the line before the
    /// current one, by their end in the new text plus one.
    fn longest_match(&self, in_old: (usize, usize), in_new: (usize, usize), lengths: &mut [usize]) -> Block {
        let (old, new) = (self.old, self.new);
        let (mut best_old, mut best_new, mut best) = (in_old.0, in_new.0, 0);
        let mut before: &[usize] = &[];
        for (index, here) in self.anchors.iter().enumerate().take(in_old.1).skip(in_old.0) {
            let from = here.partition_point(|place| *place < in_new.0);
            let to = here.partition_point(|place| *place < in_new.1);
            let here = &here[from..to];
            let runs: Vec<usize> = here.iter().map(|place| lengths[*place] + 1).collect();
            for place in before {
                lengths[place + 1] = 0;
            }
            for (place, length) in here.iter().zip(runs) {
                lengths[place + 1] = length;
                if length > best {
                    (best_old, best_new, best) = (index + 1 - length, place + 1 - length, length);
                }
            }
            before = here;
        }
        for place in before {
            lengths[place + 1] = 0;
        }
        while best_old > in_old.0 && best_new > in_new.0 && old[best_old - 1] == new[best_new - 1] {
            (best_old, best_new, best) = (best_old - 1, best_new - 1, best + 1);
        }
        while best_old + best < in_old.1 && best_new + best < in_new.1 && old[best_old + best] == new[best_new + best] {
            best += 1;
        }
        (best_old, best_new, best)
    }
}

fn steps(blocks: &[Block]) -> Vec<Step> {
    let (mut old, mut new) = (0, 0);
    let mut steps = Vec::new();
    for &(old_start, new_start, length) in blocks {
        if old < old_start || new < new_start {
            steps.push(Step { equal: false, old: (old, old_start), new: (new, new_start) });
        }
        (old, new) = (old_start + length, new_start + length);
        if length > 0 {
            steps.push(Step { equal: true, old: (old_start, old), new: (new_start, new) });
        }
    }
    steps
}

/// The steps in groups that are shown together, with their context.
fn grouped(mut steps: Vec<Step>) -> Vec<Vec<Step>> {
    if let Some(first) = steps.first_mut().filter(|step| step.equal) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = steps.last_mut().filter(|step| step.equal) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Step> = Vec::new();
    for mut step in steps {
        if step.equal && step.old.1 - step.old.0 > 2 * CONTEXT {
            let head =
                Step { equal: true, old: (step.old.0, step.old.0 + CONTEXT), new: (step.new.0, step.new.0 + CONTEXT) };
            group.push(head);
            groups.push(std::mem::take(&mut group));
            step.old.0 = step.old.1 - CONTEXT;
            step.new.0 = step.new.1 - CONTEXT;
        }
        group.push(step);
    }
    if group.iter().any(|step| !step.equal) {
        groups.push(group);
    }
    groups
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_their_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj";
        let table = [
            ("a\nb\nc\nd\nX\nf\ng\nh\ni\nj", "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"),
            ("b\nc\nd\ne\nf\ng\nh\ni\nj", "@@ -1,4 +1,3 @@\n-a\n b\n c\n d\n"),
            ("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk", "@@ -8,3 +8,4 @@\n h\n i\n j\n+k\n"),
            (
                "A\nb\nc\nd\ne\nf\ng\nh\ni\nJ",
                "@@ -1,4 +1,4 @@\n-a\n+A\n b\n c\n d\n@@ -7,4 +7,4 @@\n g\n h\n i\n-j\n+J\n",
            ),
            (old, ""),
        ];
        for (new, want) in table {
            assert_eq!(unified(old, new), want);
        }
    }
}
