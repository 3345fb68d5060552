//! Whom a request wants to act as: what its `Impersonate-` headers say, as they say it.

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rkube_machinery::Text;
use rkube_machinery::field::quote;

use crate::User;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The wanted user, with nothing added; `None` where nobody is wanted. The headers are taken out, so that nothing
/// behind this acts differently because of them. `Err` says what is wrong with them.
pub fn take(headers: &mut HeaderMap) -> Result<Option<User>, String> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let first = |name: &str| headers.get(name).map(|value| text(value.as_bytes())).unwrap_or_default();
    let groups = headers.get_all(GROUP).iter().map(|value| text(value.as_bytes())).collect();
    let mut wanted = User { name: first(USER), uid: first(UID), groups, extra: Vec::new() };
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(EXTRA)).cloned().collect();
    for name in &names {
        let key = extra_key(&name.as_str()[EXTRA.len()..]);
        let values = headers.get_all(name).iter().map(|value| text(value.as_bytes()));
        match wanted.extra.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.extend(values),
            None => wanted.extra.push((key, values.collect())),
        }
    }
    wanted.extra.sort();
    if wanted.name.is_empty() {
        let nothing = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let complaint = || format!("requested {} without impersonating a user name", go_text(&wanted));
        return if nothing { Ok(None) } else { Err(complaint()) };
    }
    for name in [USER, GROUP, UID] {
        headers.remove(name);
    }
    for name in names {
        headers.remove(name);
    }
    Ok(Some(wanted))
}

fn text(bytes: &[u8]) -> Text {
    String::from_utf8_lossy(bytes).into()
}

/// Escapes stand for what a header's name cannot have; one that is broken stands for itself.
fn extra_key(name: &str) -> Text {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = name.as_bytes();
    let whole = |place: usize| is_hex(bytes.get(place + 1)) && is_hex(bytes.get(place + 2));
    if !(0..bytes.len()).filter(|place| bytes[*place] == b'%').all(whole) {
        return name.into();
    }
    percent_decode_str(name).decode_utf8_lossy().into()
}

/// The user as Go writes such a value into messages.
fn go_text(user: &User) -> String {
    let list = |texts: &[Text]| {
        let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        if texts.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", texts.join(", ")) }
    };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let (name, uid, groups) = (quote(&user.name), quote(&user.uid), list(&user.groups));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn headers_say_whom_and_go() {
        let mut headers = headers(&[
            ("impersonate-user", "bob"),
            ("impersonate-user", "second"),
            ("impersonate-group", "b"),
            ("impersonate-group", "a"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.io%2fscopes", "view"),
            ("impersonate-extra-example.io%2Fscopes", "edit"),
            ("impersonate-extra-bad%zz", "x"),
            ("accept", "y"),
        ]);
        let wanted = take(&mut headers).unwrap().unwrap();
        assert_eq!((wanted.name.as_str(), wanted.uid.as_str()), ("bob", "7"));
        assert_eq!(wanted.groups, ["b", "a"]);
        let extra: Vec<_> = wanted.extra.iter().map(|(key, values)| (key.as_str(), values.join("+"))).collect();
        assert_eq!(extra, [("bad%zz", "x".to_owned()), ("example.io/scopes", "view+edit".to_owned())]);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn who_wants_something_of_nobody_is_told() {
        let table = [
            (&[("impersonate-user", "")][..], ""),
            (&[("impersonate-uid", "")], ""),
            (&[("accept", "x")], ""),
            (
                &[("impersonate-group", "a"), ("impersonate-group", "b\"")],
                r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", "b\""}, Extra:map[string][]string(nil)} without impersonating a user name"#,
            ),
            (
                &[("impersonate-uid", "1"), ("impersonate-extra-b", "x"), ("impersonate-extra-a", "y")],
                r#"requested &user.DefaultInfo{Name:"", UID:"1", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"y"}, "b":[]string{"x"}}} without impersonating a user name"#,
            ),
        ];
        for (pairs, want) in table {
            let found = take(&mut headers(pairs));
            assert_eq!(found.err().unwrap_or_default(), want);
        }
    }
}
