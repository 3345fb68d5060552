//! Golden files: what is compared with a committed text.

use std::path::PathBuf;

/// Compares with `tests/golden/NAME`; with `UPDATE_GOLDEN=1` writes it instead.
pub fn check(name: &str, found: &str) -> Result<(), String> {
    let path = path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    match expected == found {
        true => Ok(()),
        false => {
            Err(format!("tests/golden/{name} differs (UPDATE_GOLDEN=1 writes it anew):\n{}", diff(&expected, found)))
        }
    }
}

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The lines that differ, each with the line before it.
fn diff(expected: &str, found: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let lengths = common(&left, &right);
    let (mut row, mut column, mut out, mut shown) = (0, 0, String::new(), true);
    let mut before = "";
    while row < left.len() || column < right.len() {
        if row < left.len() && column < right.len() && left[row] == right[column] {
            (before, shown) = (left[row], false);
            (row, column) = (row + 1, column + 1);
            continue;
        }
        if !shown {
            out.push_str(&format!("  {before}\n"));
            shown = true;
        }
        if column == right.len() || row < left.len() && lengths[row + 1][column] >= lengths[row][column + 1] {
            out.push_str(&format!("- {}\n", left[row]));
            row += 1;
        } else {
            out.push_str(&format!("+ {}\n", right[column]));
            column += 1;
        }
    }
    out
}

/// How many lines the rests of both texts have in common.
fn common(left: &[&str], right: &[&str]) -> Vec<Vec<u32>> {
    let mut lengths = vec![vec![0; right.len() + 1]; left.len() + 1];
    for row in (0..left.len()).rev() {
        for column in (0..right.len()).rev() {
            lengths[row][column] = match left[row] == right[column] {
                true => lengths[row + 1][column + 1] + 1,
                false => lengths[row + 1][column].max(lengths[row][column + 1]),
            };
        }
    }
    lengths
}

#[test]
fn diffs_show_what_differs() {
    assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd\n"), "  a\n- b\n+ x\n  c\n+ d\n");
}
