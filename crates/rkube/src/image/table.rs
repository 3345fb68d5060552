//! Images as people read them.

use rkube_runtime::api::Image;

const NONE: &str = "<none>";
const GAP: usize = 3;
/// Of an id, without its algorithm: enough to tell images apart.
const SHORT_ID: usize = 12;

/// A line for each name.
pub fn of(images: &[Image]) -> String {
    let mut rows = Vec::new();
    for image in images {
        let (id, size) = (short(&image.id), size(image.size_bytes));
        for tag in &image.tags {
            let (repository, tag) = tag.rsplit_once(':').unwrap_or((tag, NONE));
            rows.push([repository.to_owned(), tag.to_owned(), id.clone(), size.clone()]);
        }
        if image.tags.is_empty() {
            let repository = image.digests.first().and_then(|digest| digest.split('@').next()).unwrap_or(NONE);
            rows.push([repository.to_owned(), NONE.to_owned(), id, size]);
        }
    }
    rows.sort();
    rows.insert(0, ["IMAGE", "TAG", "IMAGE ID", "SIZE"].map(str::to_owned));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0) + GAP;
    let widths = [width(0), width(1), width(2)];
    rows.iter()
        .map(|[image, tag, id, size]| format!("{image:<0$}{tag:<1$}{id:<2$}{size}\n", widths[0], widths[1], widths[2]))
        .collect()
}

pub fn short(id: &str) -> String {
    id.strip_prefix("sha256:").unwrap_or(id).chars().take(SHORT_ID).collect()
}

/// With three digits.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let decimals = if unit == "B" || value >= 99.95 {
                0
            } else if value >= 9.995 {
                1
            } else {
                2
            };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1_000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_line() {
        let image = |id: &str, tags: &[&str], digests: &[&str]| Image {
            id: format!("sha256:{id}0123456789abcdef"),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            digests: digests.iter().map(|digest| (*digest).to_owned()).collect(),
            size_bytes: 4_260_000,
            ..Image::default()
        };
        let images = [
            image("aa", &["localhost:5000/b:v1", "docker.io/library/a:latest"], &[]),
            image("bb", &[], &["example.com/c@sha256:1"]),
            image("cc", &[], &[]),
        ];
        assert_eq!(
            of(&images),
            "IMAGE                 TAG      IMAGE ID       SIZE\n\
             <none>                <none>   cc0123456789   4.26 MB\n\
             docker.io/library/a   latest   aa0123456789   4.26 MB\n\
             example.com/c         <none>   bb0123456789   4.26 MB\n\
             localhost:5000/b      v1       aa0123456789   4.26 MB\n"
        );
    }

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_999, "1.00 MB"),
            (523_000_000, "523 MB"),
            (1_500_000_000_000, "1.5 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
