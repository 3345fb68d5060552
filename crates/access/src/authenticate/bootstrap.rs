//! Bootstrap tokens, by which nodes join: `id.secret`, kept in the Secret `bootstrap-token-<id>` of `kube-system`. Who brings
//! one is `system:bootstrap:<id>` in the group `system:bootstrappers`, and in those that the Secret names.

// tidy: types Secret

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rkube_catalog::{Catalog, Object};
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};

use super::bearer::PlainTokens;
use super::service_account::find;
use crate::{User, UserRef};

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

pub struct BootstrapTokens {
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
}

impl PlainTokens for BootstrapTokens {
    /// One that is of no use is one that nobody knows.
    fn user_of(&self, token: &str) -> Option<UserRef> {
        let (id, secret) = parse(token)?;
        let found = find(&self.catalog.snapshot(), "secrets", NAMESPACE, &format!("bootstrap-token-{id}"))?;
        match user(&found, id, secret, self.clock.now_seconds()) {
            Ok(user) => Some(user.authenticated()),
            Err(why) => {
                tracing::debug!(secret = %found.name, why, "a bootstrap token is not good");
                None
            }
        }
    }
}

fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let fits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (fits(id, ID_LENGTH) && fits(secret, SECRET_LENGTH)).then_some((id, secret))
}

/// Who brings the token that this object should hold, or why it is not good.
fn user(object: &Object, id: &str, secret: &str, now: i64) -> Result<User, &'static str> {
    if object.deleting {
        return Err("it is deleted");
    }
    let tree = object.tree();
    if tree.str("type") != TYPE {
        return Err("its Secret is of another type");
    }
    let data = |key: &str| -> String {
        let bytes = STANDARD.decode(tree.get("data").str(key)).unwrap_or_default(); // tidy: key
        String::from_utf8(bytes).unwrap_or_default()
    };
    if !is_same(data("token-secret").as_bytes(), secret.as_bytes()) {
        return Err("token-secret is another");
    }
    if data("token-id") != id {
        return Err("token-id is another");
    }
    if is_expired(&data("expiration"), now) {
        return Err("it is expired");
    }
    if data("usage-bootstrap-authentication") != "true" {
        return Err("it is not for authentication");
    }
    let groups = groups(&data("auth-extra-groups")).ok_or("auth-extra-groups are no groups of bootstrappers")?;
    Ok(User { name: format!("system:bootstrap:{id}").into(), groups, ..User::default() })
}

/// Takes as long whatever differs.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other)) == 0
}

/// What cannot be read is over.
fn is_expired(expiration: &str, now: i64) -> bool {
    !expiration.is_empty() && time::parse(expiration).map_or(true, |(seconds, _)| seconds <= now)
}

/// The group of all, and those that the text lists.
fn groups(extra: &str) -> Option<Vec<Text>> {
    let mut groups = BTreeSet::from([GROUP]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let name = group.strip_prefix("system:bootstrappers:")?;
        let (last, before) = name.as_bytes().split_last()?;
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = before.len() <= 255 && before.iter().all(|byte| is_plain(byte) || b":-".contains(byte));
        if !fits || !is_plain(last) {
            return None;
        }
        groups.insert(group);
    }
    Some(groups.into_iter().map(Text::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_an_id_and_a_secret() {
        let table = [
            ("abcdef.0123456789abcdef", true),
            ("abcde.0123456789abcdef", false),
            ("abcdef.0123456789abcde", false),
            ("Abcdef.0123456789abcdef", false),
            ("abcdef0123456789abcdef", false),
            ("abcdef.0123456789abcdef.x", false),
            ("", false),
        ];
        for (token, expected) in table {
            assert_eq!(parse(token).is_some(), expected, "{token}");
        }
    }

    #[test]
    fn groups_are_of_bootstrappers() {
        let some =
            |extra: &str| groups(extra).map(|found| found.iter().map(Text::as_str).collect::<Vec<_>>().join(" "));
        assert_eq!(some("").as_deref(), Some("system:bootstrappers"));
        let two = some("system:bootstrappers:b,system:bootstrappers:a:1-2,system:bootstrappers:b");
        assert_eq!(two.as_deref(), Some("system:bootstrappers system:bootstrappers:a:1-2 system:bootstrappers:b"));
        for bad in ["system:masters", "system:bootstrappers:", "system:bootstrappers:a-", "system:bootstrappers:A", ","]
        {
            assert_eq!(some(bad), None, "{bad}");
        }
        assert_eq!(some(&format!("system:bootstrappers:{}", "a".repeat(300))), None);
    }

    #[test]
    fn what_cannot_be_read_is_over() {
        let now = time::parse("2026-01-01T00:00:00Z").unwrap().0;
        let table = [("", false), ("2026-01-01T00:00:01Z", false), ("2026-01-01T00:00:00Z", true), ("never", true)];
        for (text, expected) in table {
            assert_eq!(is_expired(text, now), expected, "{text}");
        }
    }
}
