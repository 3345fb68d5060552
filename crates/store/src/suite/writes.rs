//! Compare-and-swap, order, durability to readers.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{join_all, join3};

use super::Place;
use super::support::{Dice, eventually};
use crate::contract::{Error, Expect, RangeQuery, Revision};

pub(crate) async fn compares_and_swaps(place: Place) {
    let before = place.store.revision().await.unwrap();
    assert!(before >= 1);
    let created = place.put("a", Expect::Absent, "1").await.unwrap();
    assert!(created > before);
    let updated = place.put("a", Expect::Revision(created), "2").await.unwrap();
    assert!(updated > created);
    let (found, revision) = place.store.get(&place.key("a")).await.unwrap();
    let found = found.unwrap();
    assert_eq!((found.create_revision, found.mod_revision, &found.value[..]), (created, updated, &b"2"[..]));
    assert!(revision >= updated);
    let same = place.put("a", Expect::Anything, "2").await.unwrap();
    assert!(same > updated, "a write of the same bytes is a write");
    let deleted = place.delete("a", Expect::Revision(same)).await.unwrap();
    assert!(deleted > same);
    assert_eq!(place.value("a").await, None);
    let again = place.put("a", Expect::Anything, "3").await.unwrap();
    let found = place.store.get(&place.key("a")).await.unwrap().0.unwrap();
    assert_eq!((found.create_revision, found.mod_revision), (again, again), "a new life");
    place.delete("a", Expect::Anything).await.unwrap();
    assert!(place.store.revision().await.unwrap() > again);
}

pub(crate) async fn tells_conflicts(place: Place) {
    let conflict = |result: Result<Revision, Error>| match result {
        Err(Error::Conflict { current }) => current,
        other => panic!("no conflict: {other:?}"),
    };
    assert_eq!(conflict(place.put("a", Expect::Revision(1), "x").await), None);
    assert_eq!(conflict(place.delete("a", Expect::Anything).await), None);
    assert_eq!(conflict(place.delete("a", Expect::Absent).await), None);
    assert_eq!(conflict(place.delete("a", Expect::Revision(7)).await), None);
    let first = place.put("a", Expect::Absent, "1").await.unwrap();
    assert_eq!(conflict(place.put("a", Expect::Absent, "x").await), Some(first));
    assert_eq!(conflict(place.delete("a", Expect::Absent).await), Some(first));
    let second = place.put("a", Expect::Revision(first), "2").await.unwrap();
    assert_eq!(conflict(place.put("a", Expect::Revision(first), "x").await), Some(second));
    assert_eq!(conflict(place.delete("a", Expect::Revision(first)).await), Some(second));
    assert_eq!(conflict(place.put("a", Expect::Revision(second + 1000), "x").await), Some(second));
    assert_eq!(place.value("a").await.as_deref(), Some("2"), "what conflicts changes nothing");
}

pub(crate) async fn orders_concurrent_writes(place: Place) {
    let tasks = (0..8).map(|task| {
        let place = place.clone();
        tokio::spawn(async move {
            let mut dice = Dice(task);
            let mut own = Vec::new();
            for round in 0..50 {
                let name = format!("k{}", dice.roll(10));
                let written = place.put(&name, Expect::Anything, &format!("{task}.{round}")).await;
                own.push((written.unwrap(), name, format!("{task}.{round}")));
            }
            assert!(own.is_sorted(), "a writer's own writes are in its order");
            own
        })
    });
    let mut all: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    all.sort();
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "every write has a revision of its own");
    let last: BTreeMap<_, _> = all.into_iter().map(|(_, name, value)| (name, value)).collect();
    assert_eq!(place.contents(None).await, last.into_iter().collect::<Vec<_>>());
}

pub(crate) async fn reads_its_writes(place: Place) {
    let tasks = (0..8).map(|task| {
        let place = place.clone();
        tokio::spawn(async move {
            let name = format!("k{task}");
            for round in 0..40 {
                let written = place.put(&name, Expect::Anything, &round.to_string()).await.unwrap();
                let (found, revision) = place.store.get(&place.key(&name)).await.unwrap();
                let found = found.unwrap();
                assert_eq!((found.mod_revision, &found.value[..]), (written, round.to_string().as_bytes()));
                assert!(revision >= written && place.store.revision().await.unwrap() >= written);
                let range = place.store.range(RangeQuery::prefix(&place.key(&name))).await.unwrap();
                assert!(range.revision >= written && range.items[0].mod_revision == written);
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
}

pub(crate) async fn one_of_many_creators_wins(place: Place) {
    for round in 0..10 {
        let name = format!("k{round}");
        let results = join_all((0..20).map(|task| {
            let (place, name) = (place.clone(), name.clone());
            async move { place.put(&name, Expect::Absent, &task.to_string()).await }
        }))
        .await;
        let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        let found = place.store.get(&place.key(&name)).await.unwrap().0.unwrap();
        assert_eq!(won, [&found.mod_revision]);
        for lost in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(lost, Error::Conflict { current: Some(current) } if *current == found.mod_revision));
        }
    }
}

pub(crate) async fn cancelled_writes_are_whole(place: Place) {
    let mut dice = Dice(4);
    for round in 0..60 {
        let value = format!("value {round}");
        let write = place.put("a", Expect::Anything, &value);
        // Polled never, once, or as long as a moment allows.
        match dice.roll(3) {
            0 => drop(write),
            1 => drop(write.now_or_never()),
            _ => drop(tokio::time::timeout(std::time::Duration::from_micros(dice.roll(400)), write).await),
        }
    }
    let last = place.put("b", Expect::Anything, "last").await.unwrap();
    eventually("no write is left over", async || {
        let (found, _) = place.store.get(&place.key("a")).await.unwrap();
        found.is_none_or(|found| found.mod_revision < last || found.value.starts_with(b"value "))
    })
    .await;
    assert_eq!(place.value("b").await.as_deref(), Some("last"));
}

pub(crate) async fn carries_any_value(place: Place) {
    let sizes = [0, 1, 4095, 4096, 4097, 65_536, 2 << 20];
    for (index, size) in sizes.into_iter().enumerate() {
        let value: Bytes = (0..size).map(|position| (position * 31 + index) as u8).collect::<Vec<_>>().into();
        let name = format!("k{index}");
        place.put_bytes(&name, Expect::Absent, value.clone()).await.unwrap();
        let found = place.store.get(&place.key(&name)).await.unwrap().0.unwrap();
        assert!(found.value == value, "{size} bytes came back otherwise");
    }
    let range = place.store.range(RangeQuery::prefix(&place.prefix)).await.unwrap();
    assert_eq!(range.items.iter().map(|item| item.value.len()).collect::<Vec<_>>(), sizes);
}

pub(crate) async fn carries_any_key(place: Place) {
    let names = ["", " ", "/", "//", "Z", "a b", "ä", "é/ü", "~", "日本", "\u{7f}", "\u{10ffff}", "%2f", "a\0b"];
    let (seen, _watch) = place.watch("", None).await;
    for name in names {
        place.put(name, Expect::Absent, name).await.unwrap();
        assert_eq!(place.value(name).await.as_deref(), Some(name));
    }
    let mut sorted = names.map(|name| (name.to_owned(), name.to_owned()));
    sorted.sort();
    assert_eq!(place.contents(None).await, sorted);
    eventually("all were seen", async || seen.events().len() == names.len()).await;
    let below = place.store.range(RangeQuery::prefix(&place.key("\u{10ffff}"))).await.unwrap();
    assert_eq!(below.count, 1);
}

pub(crate) async fn keeps_to_guards(place: Place) {
    let refused = |result: Result<Revision, Error>| match result {
        Err(Error::Guarded { current }) => current,
        other => panic!("not guarded: {other:?}"),
    };
    assert_eq!(refused(place.put_guarded("a", "guard", 1).await), None, "there is no guard");
    let first = place.put("guard", Expect::Absent, "1").await.unwrap();
    place.put_guarded("a", "guard", first).await.unwrap();
    assert_eq!(place.value("a").await.as_deref(), Some("guarded"));
    let second = place.put("guard", Expect::Anything, "1").await.unwrap();
    assert_eq!(refused(place.put_guarded("b", "guard", first).await), Some(second));
    let conflict = place.put_guarded("a", "guard", first).await;
    assert!(matches!(conflict, Err(Error::Conflict { .. })), "the key itself comes first: {conflict:?}");
    place.put_guarded("b", "guard", second).await.unwrap();
    place.delete("guard", Expect::Anything).await.unwrap();
    assert_eq!(refused(place.put_guarded("c", "guard", second).await), None);
    assert_eq!(place.value("c").await, None, "what is refused changes nothing");
}

/// Whoever sees the guard go, sees all that it let through before.
pub(crate) async fn one_of_a_guard_and_the_guarded_wins(place: Place) {
    let (mut let_through, mut refused) = (0, 0);
    for round in 0..20 {
        let guard = format!("guard{round}");
        let revision = place.put(&guard, Expect::Absent, "1").await.unwrap();
        let names: Vec<String> = (0..20).map(|task| format!("k{round}.{task}")).collect();
        // All of them on their way before the first is answered, the deletion among them.
        let (before, after) = names.split_at(round);
        let put = |name| place.put_guarded(name, &guard, revision);
        let before = join_all(before.iter().map(|name| put(name)));
        let after = join_all(after.iter().map(|name| put(name)));
        let (before, gone, after) = join3(before, place.delete(&guard, Expect::Anything), after).await;
        let gone = gone.unwrap();
        for (name, result) in names.iter().zip(before.into_iter().chain(after)) {
            match result {
                Ok(written) => {
                    assert!(written < gone, "{name} was let through by what is gone");
                    let_through += 1;
                }
                Err(Error::Guarded { current: None }) => {
                    assert_eq!(place.value(name).await, None);
                    refused += 1;
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
    assert!(let_through > 0 && refused > 0, "{let_through} let through, {refused} refused");
}
