//! Links in a page of HTML, changed where they stand. Everything else stays byte for byte as it is.

/// Which attributes of which elements are addresses; upstream's list.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose inside is text, whatever it looks like.
const TEXT_ONLY: &[&str] =
    &["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "title", "textarea", "xmp"];

/// The page with every link that `change` has another for.
pub fn change_links(page: &[u8], change: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len() + page.len() / 16);
    let mut place = 0;
    while let Some(start) = find(page, place, b"<") {
        out.extend_from_slice(&page[place..start]);
        let rest = &page[start..];
        let end = match rest.get(1) {
            Some(letter) if letter.is_ascii_alphabetic() => {
                place = change_tag(page, start, &change, &mut out);
                continue;
            }
            _ if rest.starts_with(b"<!--") => find(page, start + 4, b"-->").map(|end| end + 3),
            Some(b'!' | b'?' | b'/') => find(page, start, b">").map(|end| end + 1),
            _ => Some(start + 1),
        };
        let end = end.unwrap_or(page.len());
        out.extend_from_slice(&page[start..end]);
        place = end;
    }
    out.extend_from_slice(&page[place..]);
    out
}

/// Writes the tag that begins at `start`, with what it encloses where that is only text. Returns where it ends.
fn change_tag(page: &[u8], start: usize, change: &impl Fn(&str) -> Option<String>, out: &mut Vec<u8>) -> usize {
    let mut place = start + 1;
    let is_end = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
    let name_end = position(page, place, is_end);
    let name = String::from_utf8_lossy(&page[place..name_end]).to_ascii_lowercase();
    let links = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, links)| links);
    place = name_end;
    let mut written = start;
    loop {
        place = position(page, place, |byte| !byte.is_ascii_whitespace() && byte != b'/');
        match page.get(place) {
            None => break,
            Some(b'>') => {
                place += 1;
                break;
            }
            Some(_) => {}
        }
        let (key, value, end) = attribute(page, place);
        place = end;
        let key = String::from_utf8_lossy(&page[key.0..key.1]).to_ascii_lowercase();
        let Some((from, to)) = value.filter(|_| links.contains(&key.as_str())) else { continue };
        let text = String::from_utf8_lossy(&page[from..to]);
        if let Some(changed) = change(&unescape(text.trim_matches(['"', '\'']))) {
            out.extend_from_slice(&page[written..from]);
            out.extend_from_slice(format!("\"{}\"", escape(&changed)).as_bytes());
            written = to;
        }
    }
    out.extend_from_slice(&page[written..place]);
    if !TEXT_ONLY.contains(&name.as_str()) {
        return place;
    }
    let end = (place..page.len()).find(|&at| is_end_of(&page[at..], &name)).unwrap_or(page.len());
    out.extend_from_slice(&page[place..end]);
    end
}

/// The place of its key, that of its value with quotes, and where it ends.
type Attribute = ((usize, usize), Option<(usize, usize)>, usize);

fn attribute(page: &[u8], start: usize) -> Attribute {
    // A stray `=` at the beginning is part of the name, so that there is always an end to come to.
    let is_end = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'/' | b'>');
    let key_end = position(page, start + 1, is_end);
    let equals = position(page, key_end, |byte| !byte.is_ascii_whitespace());
    if page.get(equals) != Some(&b'=') {
        return ((start, key_end), None, key_end);
    }
    let from = position(page, equals + 1, |byte| !byte.is_ascii_whitespace());
    let to = match page.get(from) {
        Some(quote @ (b'"' | b'\'')) => (position(page, from + 1, |byte| byte == *quote) + 1).min(page.len()),
        _ => position(page, from, |byte| byte.is_ascii_whitespace() || byte == b'>'),
    };
    ((start, key_end), Some((from, to)), to)
}

fn is_end_of(rest: &[u8], name: &str) -> bool {
    rest.starts_with(b"</")
        && rest.get(2..2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
}

/// Where the first byte of this kind is, or the end.
fn position(page: &[u8], start: usize, is_it: impl Fn(u8) -> bool) -> usize {
    let start = start.min(page.len());
    page[start..].iter().position(|byte| is_it(*byte)).map_or(page.len(), |found| start + found)
}

fn find(page: &[u8], start: usize, text: &[u8]) -> Option<usize> {
    let rest = page.get(start..)?;
    rest.windows(text.len()).position(|window| window == text).map(|found| start + found)
}

fn unescape(text: &str) -> String {
    [("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn escape(text: &str) -> String {
    [("&", "&amp;"), ("'", "&#39;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&#34;")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(page: &str) -> String {
        let change = |link: &str| link.starts_with('/').then(|| format!("/p{link}"));
        String::from_utf8(change_links(page.as_bytes(), change)).unwrap()
    }

    #[test]
    fn links_are_changed_where_they_stand() {
        for (page, want) in [
            (r#"<a href="/x?a=1&amp;b=2">x</a>"#, r#"<a href="/p/x?a=1&amp;b=2">x</a>"#),
            ("<A  HREF=/x>", r#"<A  HREF="/p/x">"#),
            ("<a href = '/x' class=b>", r#"<a href = "/p/x" class=b>"#),
            ("<img alt='>' src='/i' longdesc=/l />", r#"<img alt='>' src="/p/i" longdesc="/p/l" />"#),
            ("<a href=x>", "<a href=x>"),
            ("<p href=/x>", "<p href=/x>"),
            ("<!-- <a href=/x> --><a href=/y>", r#"<!-- <a href=/x> --><a href="/p/y">"#),
            ("<script src=/s>if (a<b) '<a href=/x>'</SCRIPT>", r#"<script src="/p/s">if (a<b) '<a href=/x>'</SCRIPT>"#),
            ("1 < 2 <", "1 < 2 <"),
            ("<a href=\"/x", r#"<a href="/p/x""#),
            ("<a =/x href=/y>", r#"<a =/x href="/p/y">"#),
            ("<!doctype html><a\nhref=/x>", "<!doctype html><a\nhref=\"/p/x\">"),
            ("<", "<"),
            ("<a", "<a"),
            ("<script>", "<script>"),
        ] {
            assert_eq!(changed(page), want, "{page}");
        }
    }
}
