//! What is sent in pieces is what is written at once, in every form and for every kind.

use super::*;
use rkube_catalog::Object;
use rkube_catalog::Snapshot;

const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];
const TRANSFORMS: [Transform; 5] = [
    Transform::None,
    Transform::Table("v1"),
    Transform::Table("v1beta1"),
    Transform::PartialObjectMetadata("v1"),
    Transform::PartialObjectMetadataList("v1beta1"),
];

fn resources() -> Snapshot {
    Snapshot::unfed(rkube_kinds::all())
}

/// Objects with texts that YAML writes in its different ways, some of them ending their line.
fn entries(served: &Served, count: usize) -> Vec<Entry> {
    let kind = &served.stored().kind;
    let texts =
        ["", "plain", "two\nlines", "ends its line\n", "\n\n", &"folded at some blank ".repeat(9), "<&>\0\u{e9}"];
    let entry = |index: usize| {
        let annotations = object! { "a": texts[index % texts.len()], "z": texts[(index + 3) % texts.len()] };
        let metadata = object! {
            "name": format!("object-{index:05}"),
            "uid": format!("uid-{index}"),
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "annotations": annotations,
        };
        let value = object! { "kind": kind.kind.clone(), "apiVersion": kind.api_version(), "metadata": metadata };
        let object = Object::new(&value, kind);
        Entry::new(Arc::new(object), index as u64 + 7)
    };
    (0..count).map(entry).collect()
}

fn metadata() -> Value {
    object! { "resourceVersion": "77", "continue": "token", "remainingItemCount": 3 }
}

fn forms(served: &Arc<Served>) -> impl Iterator<Item = Form> + use<> {
    let served = served.clone();
    let accepts = FORMATS.into_iter().flat_map(|format| {
        let some = TRANSFORMS
            .into_iter()
            .filter(move |transform| !(format == Format::Protobuf && matches!(transform, Transform::Table(_))));
        some.flat_map(move |transform| [true, false].map(|pretty| Accept { format, transform, pretty }))
    });
    accepts.flat_map(move |accept| {
        let served = served.clone();
        let form =
            move |include: &str| Form { served: served.clone(), accept, include: include.into(), now: 1_800_000_000 };
        if let Transform::Table(_) = accept.transform {
            ["", "None", "Object"].map(form).into_iter().collect::<Vec<_>>()
        } else {
            vec![form("")]
        }
    })
}

#[track_caller]
fn check(form: Form, entries: &[Entry]) {
    let what = format!("{} {:?} {:?} of {}", form.served.kind.kind, form.accept, form.include, entries.len());
    let objects = entries.iter().map(|entry| match form.accept.transform {
        Transform::None => form.served.value(entry),
        _ => entry.object.value(entry.revision),
    });
    let whole = form.whole(objects.collect(), metadata());
    let answer = ListBody::of(form, entries.to_vec(), metadata()).answer();
    assert_eq!(answer.headers(), whole.headers(), "{what}");
    let bytes = |answer: Answer| match answer.into_body() {
        Body::Whole(bytes) => bytes.to_vec(),
        Body::Chunks(chunks) => chunks.flatten().collect(),
        Body::Empty | Body::Stream(_) | Body::Relayed(_) | Body::Held(_) => Vec::new(),
    };
    let (streamed, whole) = (bytes(answer), bytes(whole));
    if streamed != whole {
        let place = streamed.iter().zip(&whole).take_while(|(left, right)| left == right).count();
        let around = |text: &[u8]| {
            String::from_utf8_lossy(&text[place.saturating_sub(80)..text.len().min(place + 80)]).into_owned()
        };
        panic!("{what} at {place}:\n{:?}\nshould be\n{:?}", around(&streamed), around(&whole));
    }
}

#[test]
fn every_kind_is_sent_as_it_is_written() {
    for served in resources().all().iter().filter(|served| served.cache.is_some()) {
        for count in [0, 1, 8] {
            let entries = entries(served, count);
            forms(served).for_each(|form| check(form, &entries));
        }
    }
}

#[test]
fn many_objects_take_many_pieces() {
    let resources = resources();
    let served = resources.find("", "v1", "configmaps").unwrap();
    let entries = entries(served, 800);
    for form in forms(served) {
        check(form, &entries);
    }
    let accept = Accept { format: Format::Yaml, ..Accept::PLAIN };
    let form = Form { served: served.clone(), accept, include: String::new(), now: 0 };
    let pieces: Vec<usize> = ListBody::of(form, entries, metadata()).map(|piece| piece.len()).collect();
    assert!(pieces.len() > 1 && pieces.iter().all(|size| *size < 2 * CHUNK_BYTES), "{pieces:?}");
}

#[test]
fn large_objects_of_which_little_is_shown_are_read_in_steps() {
    let resources = resources();
    let served = resources.find("", "v1", "configmaps").unwrap();
    let kind = &served.stored().kind;
    let large = object! { "metadata": object! { "name": "a" }, "data": object! { "a": "x".repeat(STEP_BYTES / 2) } };
    let object = Arc::new(Object::new(&large, kind));
    let entries = vec![Entry::new(object, 5); 9];
    for format in [Format::Json, Format::Protobuf] {
        let transform = Transform::PartialObjectMetadata("v1");
        let accept = Accept { format, transform, pretty: false };
        let form = || Form { served: served.clone(), accept, include: String::new(), now: 0 };
        let pauses = ListBody::of(form(), entries.clone(), metadata()).filter(|piece| piece.is_empty()).count();
        assert!(pauses >= 3, "{format:?} {pauses}");
        check(form(), &entries);
    }
}
