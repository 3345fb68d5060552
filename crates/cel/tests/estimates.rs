//! What expressions can cost, told before they are evaluated.

use rkube_cel::{Environment, Range, Sizes, Type};

/// `text` has up to ten letters, `texts` up to five of up to ten.
struct Known;

impl Sizes for Known {
    fn size(&self, path: &[String]) -> Option<Range> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let max = match path[..] {
            ["text"] | ["texts", "@items"] => 10,
            ["texts"] => 5,
            _ => return None,
        };
        Some(Range { min: 0, max })
    }
}

#[test]
fn estimates() {
    let environment = Environment::new()
        .variable("text", Type::String)
        .variable("texts", Type::list(Type::String))
        .variable("endless", Type::list(Type::Int));
    let table = [
        ("1 + 2", 1, 1),
        ("text == 'a'", 2, 2),
        ("text.matches('^a+$')", 2, 3),
        ("texts.all(t, t != 'a')", 2, 27),
        ("texts.exists(t, t.contains(text))", 2, 37),
        ("texts.map(t, t + text).size() == 2", 14, 94),
        ("[1, 2, 3].sum() == 6", 14, 14),
        ("lists.range(100).all(i, i > 0)", 412, 612),
        ("endless.all(e, e > 0)", 2, u64::MAX),
        ("text == 'a' || true ? 1 : 2", 2, 2),
    ];
    for (text, min, max) in table {
        let checked = environment.check(text).expect(text);
        assert_eq!(checked.estimate(&Known), Range { min, max }, "{text}");
    }
}
