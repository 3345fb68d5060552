//! Who a container's process is, by its pod, its image, and the image's own lists of users and groups.
//!
//! Those lists are somebody else's: only ordinary files are read, up to a bound, and lines that make no sense are skipped.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use super::{Bundle, Failure, ProcessUser};
use crate::api::Supplement;

/// Larger lists are read up to here.
const LIST_MAX_BYTES: u64 = 1 << 20;
/// As many groups as the kernel lets a process have.
const GROUPS_MAX: usize = 65_536;

/// The lists, as text.
#[derive(Debug, Default)]
pub(super) struct Lists {
    passwd: String,
    group: String,
}

impl Lists {
    /// Those of the root that this process has entered.
    pub(super) fn read() -> Self {
        Self { passwd: read("/etc/passwd"), group: read("/etc/group") }
    }

    fn user(&self, matches: impl Fn(&Entry<'_>) -> bool) -> Option<Entry<'_>> {
        self.passwd.lines().filter_map(Entry::parse).find(|entry| matches(entry))
    }

    /// Where a user is at home.
    pub(super) fn home(&self, user: u32) -> String {
        let home = self.user(|entry| entry.user == user).map(|entry| entry.home).unwrap_or_default();
        if home.is_empty() { "/".to_owned() } else { home.to_owned() }
    }

    fn group_number(&self, name: &str) -> Option<u32> {
        self.group.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then(|| fields.nth(1)?.trim().parse().ok())?
        })
    }

    fn groups_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        self.group.lines().filter_map(move |line| {
            let mut fields = line.split(':');
            let number = fields.nth(2)?.trim().parse().ok()?;
            fields.next()?.split(',').any(|member| member.trim() == name).then_some(number)
        })
    }
}

struct Entry<'a> {
    name: &'a str,
    user: u32,
    group: u32,
    home: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user = fields.nth(1)?.trim().parse().ok()?;
        let group = fields.next()?.trim().parse().ok()?;
        Some(Self { name, user, group, home: fields.nth(1).unwrap_or_default() })
    }
}

fn read(path: &str) -> String {
    // Without waiting, as it may be a pipe, and then only if it is an ordinary file.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let Ok(file) = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path) else { return String::new() };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return String::new();
    }
    let mut bytes = Vec::new();
    let _incomplete = file.take(LIST_MAX_BYTES).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The user of a container's first process.
pub(super) fn identify(bundle: &Bundle, lists: &Lists) -> Result<ProcessUser, Failure> {
    let security = &bundle.security;
    let (user_text, group_text) = if security.user.is_none() && security.user_name.is_empty() {
        match bundle.image_user.split_once(':') {
            Some((user, group)) => (user, group),
            None => (bundle.image_user.as_str(), ""),
        }
    } else {
        (security.user_name.as_str(), "")
    };
    let number = security.user.or_else(|| if user_text.is_empty() { Some(0) } else { user_text.parse().ok() });
    let entry =
        match number {
            Some(number) => lists.user(|entry| entry.user == number),
            None => Some(lists.user(|entry| entry.name == user_text).ok_or_else(|| {
                Failure(format!("unable to find user {user_text}: no matching entries in passwd file"))
            })?),
        };
    let user = number.or_else(|| entry.as_ref().map(|entry| entry.user)).unwrap_or_default();
    let group = match (security.group, group_text) {
        (Some(group), _) => group,
        (None, "") => entry.as_ref().map(|entry| entry.group).unwrap_or_default(),
        (None, text) => text
            .parse()
            .ok()
            .or_else(|| lists.group_number(text))
            .ok_or_else(|| Failure(format!("unable to find group {text}: no matching entries in group file")))?,
    };
    let mut groups = vec![group];
    if security.supplement == Supplement::Merge
        && let Some(entry) = &entry
    {
        groups.extend(lists.groups_of(entry.name));
    }
    groups.extend(&security.supplemental_groups);
    let mut seen = std::collections::BTreeSet::new();
    groups.retain(|group| seen.insert(*group));
    groups.truncate(GROUPS_MAX);
    Ok(ProcessUser { user, group, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> Lists {
        Lists {
            passwd: "root:x:0:0:root:/root:/bin/sh\nbroken\nx:y\napp:x:1000:1001:App:/srv/app:/bin/sh\n".to_owned(),
            group: "root:x:0:\nwheel:x:10:root,app\nextra:x:50000:app\nbad:x:no:app\n".to_owned(),
        }
    }

    fn bundle(change: impl FnOnce(&mut Bundle)) -> Bundle {
        let mut bundle = Bundle::default();
        change(&mut bundle);
        bundle
    }

    #[test]
    fn the_pod_wins_over_the_image() {
        let lists = lists();
        let of = |bundle: &Bundle| identify(bundle, &lists).map(|user| (user.user, user.group, user.groups));
        assert_eq!(of(&bundle(|_| {})).unwrap(), (0, 0, vec![0, 10]));
        let image = bundle(|bundle| bundle.image_user = "app".to_owned());
        assert_eq!(of(&image).unwrap(), (1000, 1001, vec![1001, 10, 50000]));
        let image = bundle(|bundle| bundle.image_user = "app:wheel".to_owned());
        assert_eq!(of(&image).unwrap(), (1000, 10, vec![10, 50000]));
        let pod = bundle(|bundle| {
            bundle.image_user = "nobody".to_owned();
            bundle.security.user = Some(1000);
            bundle.security.supplemental_groups = vec![60000, 10];
        });
        assert_eq!(of(&pod).unwrap(), (1000, 1001, vec![1001, 10, 50000, 60000]));
        let strict = bundle(|bundle| {
            bundle.security.user = Some(1000);
            bundle.security.supplement = Supplement::Strict;
            bundle.security.supplemental_groups = vec![60000];
        });
        assert_eq!(of(&strict).unwrap(), (1000, 1001, vec![1001, 60000]));
        let unknown = bundle(|bundle| bundle.image_user = "nobody".to_owned());
        assert_eq!(of(&unknown).unwrap_err().0, "unable to find user nobody: no matching entries in passwd file");
        let number = bundle(|bundle| bundle.security.user = Some(4711));
        assert_eq!(of(&number).unwrap(), (4711, 0, vec![0]));
        assert_eq!(lists.home(1000), "/srv/app");
        assert_eq!(lists.home(4711), "/");
    }
}
