//! Watches: every change once, in order, in time.

use futures::future::join_all;

use super::Place;
use super::support::{Dice, Seen, eventually};
use crate::contract::{Error, EventKind, Expect};

pub(crate) async fn delivers_before_acknowledging(place: Place) {
    let (seen, _watch) = place.watch("", None).await;
    for round in 0..50 {
        let revision = place.put("a", Expect::Anything, &round.to_string()).await.unwrap();
        assert_eq!(seen.events().last().map(|event| event.current.mod_revision), Some(revision));
        assert_eq!(seen.revision(), revision);
    }
    seen.check_order();
}

/// Watches that begin at every moment of a busy time see the rest of it, each change once.
pub(crate) async fn resumes_without_gaps(place: Place) {
    let start = place.store.revision().await.unwrap();
    let (whole, _watch) = place.watch("", None).await;
    let writers = (0..6).map(|task| {
        let place = place.clone();
        tokio::spawn(async move {
            let mut dice = Dice(100 + task);
            for round in 0..60 {
                let name = format!("{}/k{}", dice.roll(2), dice.roll(8));
                match dice.roll(4) {
                    0 => drop(place.delete(&name, Expect::Anything).await),
                    _ => drop(place.put(&name, Expect::Anything, &format!("{task}.{round}")).await.unwrap()),
                }
            }
        })
    });
    let watchers = (0..6).map(|task| {
        let place = place.clone();
        tokio::spawn(async move {
            let mut dice = Dice(200 + task);
            let mut begun = Vec::new();
            for _ in 0..10 {
                tokio::time::sleep(std::time::Duration::from_micros(dice.roll(4000))).await;
                let now = place.store.revision().await.unwrap();
                let after = start + dice.roll(now - start + 1);
                begun.push((after, place.watch("", Some(after)).await));
            }
            begun
        })
    });
    let (watchers, writers) = futures::future::join(join_all(watchers), join_all(writers)).await;
    writers.into_iter().for_each(|writer| writer.unwrap());
    let end = place.store.revision().await.unwrap();
    eventually("the whole story was told", async || whole.revision() >= end).await;
    let story = |seen: &Seen, after| {
        let events = seen.events().into_iter().filter(|event| event.current.mod_revision > after);
        events.map(|event| (event.current.mod_revision, event.current.key)).collect::<Vec<_>>()
    };
    assert!(story(&whole, start).len() > 200);
    whole.check_order();
    for (after, (seen, _watch)) in watchers.into_iter().flat_map(Result::unwrap) {
        eventually("the rest was told", async || seen.revision() >= end).await;
        seen.check_order();
        assert_eq!(story(&seen, 0), story(&whole, after), "after {after}");
    }
}

pub(crate) async fn refuses_a_compacted_start(place: Place) {
    let first = place.put("a", Expect::Anything, "1").await.unwrap();
    place.put("a", Expect::Anything, "2").await.unwrap();
    place.put("a", Expect::Anything, "3").await.unwrap();
    let last = place.put("a", Expect::Anything, "4").await.unwrap();
    let (running, _watch) = place.watch("", None).await;
    place.store.compact(last).await.unwrap();
    match place.try_watch("", Some(first)).await {
        Err(Error::Compacted { requested, oldest }) => {
            assert!(requested == first && oldest > first)
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    let (resumed, _resumed_watch) = place.watch("", Some(last)).await;
    place.put("a", Expect::Anything, "5").await.unwrap();
    eventually("both go on", async || resumed.story(&place) == ["+a"] && running.story(&place) == ["+a"]).await;
    assert!(running.ended().is_none());
}

pub(crate) async fn keeps_to_its_prefix(place: Place) {
    let (inner, _a) = place.watch("a/", None).await;
    let (wider, _b) = place.watch("a", None).await;
    let (other, _c) = place.watch("ä", None).await;
    let (none, _d) = place.watch("a/x/very/long/prefix/that/no/key/has", None).await;
    for name in ["a", "a/x", "ab", "b", "ä/1", "a/y"] {
        place.put(name, Expect::Absent, "1").await.unwrap();
    }
    place.delete("a/x", Expect::Anything).await.unwrap();
    eventually("all is told", async || wider.events().len() == 5).await;
    assert_eq!(wider.story(&place), ["+a", "+a/x", "+ab", "+a/y", "-a/x"]);
    assert_eq!(inner.story(&place), ["+a/x", "+a/y", "-a/x"]);
    assert_eq!(other.story(&place), ["+ä/1"]);
    assert_eq!(none.story(&place), [""; 0]);
}

/// A watch whose prefix is quiet still hears how far the store has come.
pub(crate) async fn tells_progress(place: Place) {
    let (quiet, _watch) = place.watch("quiet/", None).await;
    let revision = place.put("busy", Expect::Anything, "1").await.unwrap();
    eventually("the quiet watch hears of it", async || quiet.revision() >= revision).await;
    assert!(quiet.events().is_empty());
    let (fresh, _fresh_watch) = place.watch("quiet/", Some(revision)).await;
    eventually("a watch begins with where it is", async || fresh.revision() >= revision).await;
}

pub(crate) async fn ends_when_dropped(place: Place) {
    let (kept, _watch) = place.watch("", None).await;
    let (dropped, watch) = place.watch("", None).await;
    place.put("a", Expect::Anything, "1").await.unwrap();
    eventually("both hear", async || dropped.events().len() == 1 && kept.events().len() == 1).await;
    drop(watch);
    place.put("a", Expect::Anything, "2").await.unwrap();
    eventually("one still hears", async || kept.events().len() == 2).await;
    assert_eq!(dropped.events().len(), 1);
    assert!(dropped.ended().is_none(), "who drops a watch is not told of its end");
}

pub(crate) async fn serves_thousands(place: Place) {
    let mut watches = Vec::new();
    for index in 0..2000 {
        watches.push(place.watch(&format!("{}/", index % 50), None).await);
    }
    for index in 0..50 {
        place.put(&format!("{index}/a"), Expect::Absent, "1").await.unwrap();
    }
    for (index, (seen, _watch)) in watches.iter().enumerate() {
        eventually("each hears its own", async || !seen.events().is_empty()).await;
        assert_eq!(seen.story(&place), [format!("+{}/a", index % 50)]);
    }
    watches.truncate(1);
    place.put("0/b", Expect::Absent, "1").await.unwrap();
    eventually("the last one goes on", async || watches[0].0.events().len() == 2).await;
}

pub(crate) async fn tells_what_was_before(place: Place) {
    let (seen, _watch) = place.watch("", None).await;
    let created = place.put("a", Expect::Absent, "1").await.unwrap();
    let updated = place.put("a", Expect::Anything, "2").await.unwrap();
    let deleted = place.delete("a", Expect::Anything).await.unwrap();
    eventually("all is told", async || seen.events().len() == 3).await;
    let (replayed, _replay) = place.watch("", Some(created - 1)).await;
    eventually("all is told again", async || replayed.events().len() == 3).await;
    for events in [seen.events(), replayed.events()] {
        assert!(events[0].previous.is_none() && matches!(events[0].kind, EventKind::Put));
        let before = events[1].previous.as_ref().unwrap();
        assert_eq!((before.mod_revision, &before.value[..]), (created, &b"1"[..]));
        assert_eq!((events[1].current.create_revision, events[1].current.mod_revision), (created, updated));
        let last = &events[2];
        assert!(matches!(last.kind, EventKind::Delete));
        assert_eq!((last.current.mod_revision, &last.current.value[..]), (deleted, &b"2"[..]));
        assert_eq!(last.previous.as_ref().unwrap().mod_revision, updated);
    }
}
