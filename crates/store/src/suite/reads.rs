//! Ranges, now and as of a revision.

use super::Place;
use super::support::Dice;
use crate::contract::{Error, Expect, RangeQuery};

pub(crate) async fn limits_and_counts(place: Place) {
    for index in 0..10 {
        place.put(&format!("k{index}"), Expect::Absent, &index.to_string()).await.unwrap();
    }
    let query = RangeQuery::prefix(&place.prefix);
    let all = place.store.range(query.clone()).await.unwrap();
    assert_eq!((all.items.len(), all.more, all.count), (10, false, 10));
    let some = place.store.range(RangeQuery { limit: 3, ..query.clone() }).await.unwrap();
    assert_eq!((some.more, some.count), (true, 10));
    assert_eq!(place.named(&some), [("k0", "0"), ("k1", "1"), ("k2", "2")].map(|(a, b)| (a.into(), b.into())));
    let exact = place.store.range(RangeQuery { limit: 10, ..query.clone() }).await.unwrap();
    assert_eq!((exact.items.len(), exact.more, exact.count), (10, false, 10));
    // Page after page as of the first page's revision, while others write.
    let mut names = Vec::new();
    let mut next = RangeQuery { limit: 4, ..query };
    loop {
        let page = place.store.range(next.clone()).await.unwrap();
        names.extend(place.named(&page).into_iter().map(|(name, _)| name));
        place.put(&format!("k{}x", names.len()), Expect::Anything, "later").await.unwrap();
        place.delete(&format!("k{}", 10 - names.len().min(9)), Expect::Anything).await.ok();
        let Some(last) = page.items.last().filter(|_| page.more) else {
            break;
        };
        next.start = format!("{}\0", last.key);
        next.revision = Some(page.revision);
    }
    assert_eq!(names, (0..10).map(|index| format!("k{index}")).collect::<Vec<_>>());
}

pub(crate) async fn reads_as_of_a_revision(place: Place) {
    let mut dice = Dice(11);
    let mut moments = vec![(place.store.revision().await.unwrap(), place.contents(None).await)];
    for round in 0..120 {
        let name = format!("k{}", dice.roll(12));
        let revision = match dice.roll(3) {
            0 => place.delete(&name, Expect::Anything).await,
            _ => place.put(&name, Expect::Anything, &round.to_string()).await,
        };
        if let Ok(revision) = revision {
            moments.push((revision, place.contents(None).await));
        }
    }
    for (revision, contents) in &moments {
        assert_eq!(&place.contents(Some(*revision)).await, contents, "as of {revision}");
        let query = RangeQuery { limit: 2, revision: Some(*revision), ..RangeQuery::prefix(&place.prefix) };
        let some = place.store.range(query).await.unwrap();
        assert_eq!((some.count, some.more), (contents.len(), contents.len() > 2));
        assert_eq!(place.named(&some), contents[..contents.len().min(2)]);
        assert_eq!(some.revision, *revision);
    }
}

pub(crate) async fn refuses_the_future(place: Place) {
    let now = place.put("a", Expect::Anything, "1").await.unwrap();
    let query = RangeQuery { revision: Some(now + 1000), ..RangeQuery::prefix(&place.prefix) };
    match place.store.range(query).await {
        Err(Error::Future { requested, newest }) => {
            assert!(requested == now + 1000 && newest >= now)
        }
        other => panic!("{:?}", other.map(|range| range.revision)),
    }
    match place.try_watch("", Some(now + 1000)).await {
        Err(Error::Future { requested, .. }) => assert_eq!(requested, now + 1000),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

pub(crate) async fn refuses_the_compacted_past(place: Place) {
    let first = place.put("a", Expect::Anything, "1").await.unwrap();
    let second = place.put("a", Expect::Anything, "2").await.unwrap();
    place.put("a", Expect::Anything, "3").await.unwrap();
    place.store.compact(second).await.unwrap();
    let value = |value: &str| vec![("a".to_owned(), value.to_owned())];
    assert_eq!(place.contents(Some(second)).await, value("2"));
    let query = RangeQuery { revision: Some(first), ..RangeQuery::prefix(&place.prefix) };
    match place.store.range(query).await {
        Err(Error::Compacted { requested, oldest }) => {
            assert!(requested == first && oldest > first)
        }
        other => panic!("{:?}", other.map(|range| range.revision)),
    }
    assert_eq!(place.contents(None).await, value("3"));
    assert!(matches!(place.store.compact(first).await, Err(Error::Compacted { .. })));
    let now = place.store.revision().await.unwrap();
    assert!(matches!(place.store.compact(now + 1000).await, Err(Error::Future { .. })));
}

pub(crate) async fn ranges_have_edges(place: Place) {
    for name in ["a", "b", "b/c", "c"] {
        place.put(name, Expect::Absent, name).await.unwrap();
    }
    let range = async |start: &str, end: &str| {
        let query =
            RangeQuery { start: place.key(start).to_string(), end: place.key(end).to_string(), ..Default::default() };
        let found = place.store.range(query).await.unwrap();
        place.named(&found).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(range("a", "c").await, ["a", "b", "b/c"], "the start is in, the end is out");
    assert_eq!(range("aa", "b/d").await, ["b", "b/c"]);
    assert_eq!(range("b", "b").await, [""; 0]);
    assert_eq!(range("c", "a").await, [""; 0], "an end before the start is empty");
    let endless = RangeQuery { start: place.key("b/c").to_string(), limit: 1, ..Default::default() };
    assert_eq!(place.store.range(endless).await.unwrap().items[0].key, place.key("b/c"));
}
