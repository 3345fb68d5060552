//! The table, in plain text.

use crate::figures::Work;

pub struct Row {
    work: &'static Work,
    ours: f64,
    limit: Option<f64>,
    note: String,
}

impl Row {
    pub fn new(work: &'static Work, ours: f64, limit: Option<f64>, note: String) -> Row {
        Row { work, ours, limit, note }
    }

    fn cells(&self) -> [String; 8] {
        let none = || "–".to_owned();
        let unit = self.work.unit;
        [
            self.work.name.to_owned(),
            unit.show(self.ours),
            self.limit.map_or_else(none, |limit| unit.show(limit)),
            self.limit.map_or_else(none, |limit| format!("{:.0}%", 100.0 * self.ours / limit)),
            self.work.peer.map_or_else(none, |peer| unit.show(peer)),
            self.work.peer.map_or_else(none, |peer| self.times(peer)),
            self.work.reach.to_owned(),
            self.note.clone(),
        ]
    }

    /// How many times better than the peer.
    fn times(&self, peer: f64) -> String {
        let times = if self.work.unit.more_is_better() { self.ours / peer } else { peer / self.ours };
        format!("{times:.1}")
    }
}

const HEADS: [&str; 8] = ["work", "rkube", "limit", "of limit", "kube-apiserver", "times", "to reach", "note"];

pub fn render(rows: &[Row]) -> String {
    let mut lines = vec![HEADS.map(str::to_owned), HEADS.map(|_| "---".to_owned())];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            out.push_str(&format!("| {cell:<width$} "));
        }
        out.push_str("|\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    #[test]
    fn ratios_are_beside_the_figures() {
        let rows = [
            Row::new(&figures::CREATE, 12_000.0, Some(30_000.0), String::new()),
            Row::new(&figures::START, 90.0, None, "x".to_owned()),
        ];
        let text = render(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[2].contains("| 12,000/s | 30,000/s | 40%") && lines[2].contains("| 10.0 "), "{text}");
        assert!(lines[3].contains("| 90 ms") && lines[3].contains("| 30.0 "), "{text}");
    }
}
