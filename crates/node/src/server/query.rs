//! The query of a request: names and values, of which there may be several.

use percent_encoding::percent_decode_str;

#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Query(
            pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(a, b)| (decode(a), decode(b))).collect(),
        )
    }

    /// The first value under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let query = Query::parse("command=sh&command=-c&command=echo+a%26b&tty&output=1");
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b"]);
        assert_eq!((query.get("tty"), query.get("output"), query.get("error")), (Some(""), Some("1"), None));
    }
}
