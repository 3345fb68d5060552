//! The files of a volume whose content comes from the API.

use std::collections::BTreeMap;
use std::path::Path;

use rkube_machinery::Value;
use rkube_machinery::decode::base64;

/// What upstream's writer takes.
const PATH_MAX: usize = 4096;
const FILE_NAME_MAX: usize = 255;

/// By path, relative to the volume.
pub type Payload = BTreeMap<String, File>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
    /// None: ours.
    pub owner: Option<u32>,
}

impl File {
    pub fn new(bytes: impl Into<Vec<u8>>, mode: u32) -> File {
        File { bytes: bytes.into(), mode, owner: None }
    }
}

/// The mode of a source, where an item has none of its own.
pub fn mode_of(item: &Value, default_mode: u32) -> u32 {
    item.get("mode").as_int().map_or(default_mode, |mode| mode as u32)
}

/// `defaultMode`, which the API server sets; static pods have it by the same rules.
pub fn default_mode(source: &Value) -> u32 {
    source.get("defaultMode").as_int().map_or(0o644, |mode| mode as u32)
}

/// The files of a config map.
pub fn of_config_map(
    items: &[Value],
    config_map: &Value,
    default_mode: u32,
    optional: bool,
) -> Result<Payload, String> {
    let find = |key: &str| {
        let text = config_map.map("data").get(key).map(|text| text.as_str().as_bytes().to_vec());
        text.or_else(|| config_map.map("binaryData").get(key).map(decoded))
    };
    let keys = config_map.map("data").keys().chain(config_map.map("binaryData").keys());
    let keys: Vec<&str> = keys.map(|key| key.as_str()).collect();
    select(items, &keys, find, default_mode, optional)
        .map_err(|key| format!("configmap references non-existent config key: {key}"))
}

/// The files of a secret.
pub fn of_secret(items: &[Value], secret: &Value, default_mode: u32, optional: bool) -> Result<Payload, String> {
    let keys: Vec<&str> = secret.map("data").keys().map(|key| key.as_str()).collect();
    select(items, &keys, |key| secret.map("data").get(key).map(decoded), default_mode, optional)
        .map_err(|key| format!("references non-existent secret key: {key}"))
}

/// The items, or all keys where there are none. An error is the key that is not there.
fn select(
    items: &[Value],
    keys: &[&str],
    find: impl Fn(&str) -> Option<Vec<u8>>,
    default_mode: u32,
    optional: bool,
) -> Result<Payload, String> {
    let mut payload = Payload::new();
    if items.is_empty() {
        let files = keys.iter().filter_map(|key| Some(((*key).to_owned(), File::new(find(key)?, default_mode))));
        return Ok(files.collect());
    }
    for item in items {
        match find(item.str("key")) {
            Some(bytes) => {
                payload.insert(item.str("path").to_owned(), File::new(bytes, mode_of(item, default_mode)));
            }
            None if optional => {}
            None => return Err(item.str("key").to_owned()),
        }
    }
    Ok(payload)
}

fn decoded(value: &Value) -> Vec<u8> {
    base64::decode(value.as_str().as_bytes()).unwrap_or_default()
}

/// With clean paths; an error where one is none that may be written.
pub fn cleaned(payload: Payload) -> Result<Payload, String> {
    payload.into_iter().map(|(path, file)| Ok((clean(&path)?, file))).collect()
}

fn clean(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err("invalid path: must not be empty: \"\"".to_owned());
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > PATH_MAX {
        return Err(format!("invalid path: must be less than or equal to {PATH_MAX} characters"));
    }
    for (index, part) in path.split('/').enumerate() {
        if part == ".." {
            return Err(format!("invalid path: must not contain '..': {path}"));
        }
        if part.len() > FILE_NAME_MAX {
            return Err(format!("invalid path: filenames must be less than or equal to {FILE_NAME_MAX} characters"));
        }
        if index == 0 && part.starts_with("..") {
            return Err(format!("invalid path: must not start with '..': {path}"));
        }
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() || path.contains('\0') {
        return Err(format!("invalid path: names no file: {path:?}"));
    }
    Ok(parts.join("/"))
}

/// The first part of a clean path.
pub fn first_part(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// All directories above a clean path, inside the volume.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    Path::new(path).ancestors().skip(1).filter_map(Path::to_str).filter(|ancestor| !ancestor.is_empty())
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn paths_are_checked() {
        let long = "a".repeat(256);
        let table = [
            ("a", Ok("a")),
            ("a/./b//c", Ok("a/b/c")),
            ("a..b/..c", Ok("a..b/..c")),
            ("", Err("invalid path: must not be empty: \"\"")),
            ("/a", Err("invalid path: must be relative path: /a")),
            ("a/../b", Err("invalid path: must not contain '..': a/../b")),
            ("..a/b", Err("invalid path: must not start with '..': ..a/b")),
            (&long, Err("invalid path: filenames must be less than or equal to 255 characters")),
        ];
        for (path, expected) in table {
            assert_eq!(clean(path).as_deref().map_err(String::as_str), expected, "{path}");
        }
    }

    #[test]
    fn keys_become_files() {
        let map = json::parse(br#"{"data":{"a":"1","b":"2"},"binaryData":{"c":"AAH/"}}"#).unwrap();
        let all = of_config_map(&[], &map, 0o644, false).unwrap();
        assert_eq!(all["c"], File::new([0, 1, 255], 0o644));
        assert_eq!(all.len(), 3);
        let items = json::parse(br#"[{"key":"b","path":"x/y","mode":256},{"key":"none","path":"z"}]"#).unwrap();
        let some = of_config_map(items.items(), &map, 0o644, true).unwrap();
        assert_eq!(some.into_iter().collect::<Vec<_>>(), [("x/y".to_owned(), File::new(*b"2", 0o400))]);
        assert_eq!(
            of_config_map(items.items(), &map, 0o644, false),
            Err("configmap references non-existent config key: none".to_owned())
        );
        assert_eq!(
            of_secret(items.items(), &map, 0o644, false),
            Err("references non-existent secret key: none".to_owned())
        );
    }
}
