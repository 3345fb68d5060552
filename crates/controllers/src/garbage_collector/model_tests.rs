//! The collector against a world of its own: random objects that own each other, deleted in random ways, with events that
//! come late, and a naive model that says what must be left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Event, Item};
use serde_json::{Value, json};

use super::collector::{Collector, PARKED_MIN};
use super::graph::Misplaced;
use super::live::{Error, Live, PatchType};
use super::object::{Coordinates, FOREGROUND, Metadata, ORPHAN, OwnerReference};
use super::plan::Policy;

/// A server without a network: objects by namespace and name, and the events that nobody was told of yet.
#[derive(Default)]
struct World {
    objects: BTreeMap<(String, String), Metadata>,
    pending: Vec<Told>,
    version: u64,
}

#[derive(Clone)]
enum Told {
    Applied(Metadata),
    Deleted(Metadata),
}

impl World {
    fn put(&mut self, mut object: Metadata) {
        self.version += 1;
        object.resource_version = self.version.to_string();
        let key = (object.namespace.clone().unwrap_or_default(), object.name.clone());
        let is_done = object.deletion_timestamp.is_some() && object.finalizers.iter().flatten().next().is_none();
        if is_done {
            self.objects.remove(&key);
            self.pending.push(Told::Deleted(object));
        } else {
            self.objects.insert(key, object.clone());
            self.pending.push(Told::Applied(object));
        }
    }

    /// What the API server does with a deletion.
    fn delete(&mut self, key: &(String, String), policy: Policy) {
        let Some(mut object) = self.objects.get(key).cloned() else { return };
        let mut finalizers = object.finalizers.take().unwrap_or_default();
        finalizers.retain(|one| one != ORPHAN && one != FOREGROUND);
        match policy {
            Policy::Background => {}
            Policy::Foreground => finalizers.push(FOREGROUND.to_owned()),
            Policy::Orphan => finalizers.push(ORPHAN.to_owned()),
        }
        object.finalizers = Some(finalizers);
        object.deletion_timestamp = Some("now".to_owned());
        self.put(object);
    }
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<World>>);

impl Fake {
    fn find(&self, object: &Coordinates) -> Result<Metadata, Error> {
        let key = (object.namespace.to_string(), object.name.to_string());
        self.0.lock().objects.get(&key).cloned().ok_or(Error::NotFound)
    }
}

fn version_of(api_version: &str) -> Result<(), Error> {
    match api_version {
        "v1" => Ok(()),
        _ => Err(Error::NoKind { api_version: api_version.into(), kind: "Thing".into() }),
    }
}

impl Live for Fake {
    fn is_namespaced(&self, api_version: &Text, _: &Text) -> Result<bool, Error> {
        version_of(api_version).map(|()| true)
    }

    async fn get(&self, object: &Coordinates) -> Result<Metadata, Error> {
        version_of(&object.api_version)?;
        if object.namespace.is_empty() {
            return Err(Error::NamespacedOwner);
        }
        self.find(object)
    }

    async fn find_elsewhere(&self, object: &Coordinates) -> Result<Option<Metadata>, Error> {
        Ok(self.0.lock().objects.values().find(|found| found.uid == object.uid.as_str()).cloned())
    }

    async fn delete(&self, object: &Coordinates, version: Option<&str>, policy: Policy) -> Result<(), Error> {
        let found = self.find(object)?;
        if found.uid != object.uid || version.is_some_and(|version| version != found.resource_version) {
            return Err(Error::Conflict);
        }
        let key = (object.namespace.to_string(), object.name.to_string());
        self.0.lock().delete(&key, policy);
        Ok(())
    }

    async fn patch(&self, object: &Coordinates, patch_type: PatchType, patch: &Value) -> Result<(), Error> {
        if patch_type == PatchType::Strategic {
            return Err(Error::UnsupportedPatch);
        }
        let mut found = self.find(object)?;
        let patch = &patch["metadata"];
        if patch["resourceVersion"] != found.resource_version.as_str() {
            return Err(Error::Conflict);
        }
        if let Some(owners) = patch.get("ownerReferences") {
            found.owner_references = serde_json::from_value(owners.clone()).unwrap();
        }
        if let Some(finalizers) = patch.get("finalizers") {
            found.finalizers = serde_json::from_value(finalizers.clone()).unwrap();
        }
        self.0.lock().put(found);
        Ok(())
    }
}

/// xorshift: enough for choices.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

struct Play {
    fake: Fake,
    collector: Arc<Collector<Fake>>,
    chance: Chance,
    misplaced: Arc<Mutex<Vec<Misplaced>>>,
}

impl Play {
    fn new(seed: u64) -> Play {
        let (fake, misplaced) = (Fake::default(), Arc::new(Mutex::new(Vec::new())));
        let reported = misplaced.clone();
        let collector = Collector::new(fake.clone(), move |found| reported.lock().push(found));
        Play { fake, collector, chance: Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), misplaced }
    }

    /// Tells the collector of one event, or lets it do one thing, until neither is left.
    async fn settle(&mut self) {
        for _ in 0..100_000 {
            let is_told = !self.fake.0.lock().pending.is_empty() && self.chance.below(2) == 0;
            if is_told {
                let told = self.fake.0.lock().pending.remove(0);
                self.tell(told);
                continue;
            }
            let (attempts, orphans) = (self.collector.attempts.clone(), self.collector.orphans.clone());
            let collector = self.collector.clone();
            // Nothing waits long in virtual time; nothing at all is there when an hour has passed.
            let idle = std::time::Duration::from_secs(if self.fake.0.lock().pending.is_empty() { 3600 } else { 0 });
            let worked = tokio::time::timeout(idle, async move {
                tokio::select! {
                    biased;
                    Some(uid) = orphans.next() => match collector.orphan(&uid).await {
                        Ok(()) => orphans.done(&uid),
                        Err(_) => drop(orphans.failed(&uid, "refused")),
                    },
                    Some(uid) = attempts.next() => match collector.attempt(&uid).await {
                        Ok(()) => attempts.done(&uid),
                        Err(_) => drop(attempts.failed(&uid, "refused")),
                    },
                    else => {}
                }
            });
            if worked.await.is_err() && self.fake.0.lock().pending.is_empty() {
                return;
            }
        }
        panic!("it does not settle");
    }

    fn tell(&self, told: Told) {
        self.collector.change(|graph, work| match told {
            Told::Applied(object) => graph.observe(object.seen("v1", "Thing"), work),
            Told::Deleted(object) => graph.removed(&object.seen("v1", "Thing").coordinates, work),
        });
    }

    fn make(&mut self, name: &str, owners: &[OwnerReference]) {
        self.make_in("n", name, owners);
    }

    fn make_in(&mut self, namespace: &str, name: &str, owners: &[OwnerReference]) {
        self.fake.0.lock().put(Metadata {
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            uid: format!("uid-{namespace}-{name}"),
            owner_references: (!owners.is_empty()).then(|| owners.to_vec()),
            ..Metadata::default()
        });
    }

    fn delete(&mut self, name: &str, policy: Policy) {
        self.fake.0.lock().delete(&("n".to_owned(), name.to_owned()), policy);
    }

    fn left(&self) -> Vec<String> {
        self.fake.0.lock().objects.keys().map(|(_, name)| name.clone()).collect()
    }

    fn owners_of(&self, name: &str) -> Vec<String> {
        let world = self.fake.0.lock();
        world.objects[&("n".to_owned(), name.to_owned())].owners().iter().map(|owner| owner.name.clone()).collect()
    }
}

/// A reference to the object of this name in namespace `n`.
fn owner(name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-n-{name}"),
        controller: None,
        block_owner_deletion: Some(true),
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_go_by_the_policy_of_their_owners_deletion() {
    use Policy::{Background, Foreground, Orphan};
    for (policy, left) in
        [(Background, vec!["other"]), (Foreground, vec!["other"]), (Orphan, vec!["grand", "kid", "other"])]
    {
        for seed in 0..20 {
            let mut play = Play::new(seed);
            play.make("top", &[]);
            play.make("kid", &[owner("top")]);
            play.make("grand", &[owner("kid")]);
            play.make("other", &[]);
            play.settle().await;
            play.delete("top", policy);
            play.settle().await;
            assert_eq!(play.left(), left, "{policy:?} {seed}");
            if policy == Orphan {
                assert_eq!((play.owners_of("kid"), play.owners_of("grand")), (vec![], vec!["kid".to_owned()]));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_when_its_owner_waits_already_is_seen() {
    for seed in 0..20 {
        let mut play = Play::new(seed);
        play.make("top", &[]);
        play.make("kid", &[owner("top")]);
        play.settle().await;
        // Somebody holds the first dependent, so that the owner waits.
        let held = |play: &Play, finalizers: Option<Vec<String>>| {
            let mut world = play.fake.0.lock();
            let mut kid = world.objects[&("n".to_owned(), "kid".to_owned())].clone();
            kid.finalizers = finalizers;
            world.put(kid);
        };
        held(&play, Some(vec!["example.com/hold".to_owned()]));
        play.delete("top", Policy::Foreground);
        play.settle().await;
        play.make("late", &[owner("top")]);
        play.settle().await;
        assert_eq!(play.left(), ["kid", "top"], "{seed}");
        held(&play, None);
        play.settle().await;
        assert!(play.left().is_empty(), "{seed}: {:?}", play.left());
    }
}

#[tokio::test(start_paused = true)]
async fn a_circle_is_no_obstacle() {
    for (seed, policy) in (0..20).flat_map(|seed| [(seed, Policy::Background), (seed, Policy::Foreground)]) {
        let mut play = Play::new(seed);
        for (name, of) in [("a", "c"), ("b", "a"), ("c", "b")] {
            play.make(name, &[owner(of)]);
        }
        play.settle().await;
        assert_eq!(play.left(), ["a", "b", "c"]);
        play.delete("a", policy);
        play.settle().await;
        assert!(play.left().is_empty(), "{policy:?} {seed}: {:?}", play.left());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_takes_its_dependents_along() {
    let mut play = Play::new(1);
    play.make("kid", &[owner("nobody")]);
    play.make("held", &[owner("nobody"), owner("top")]);
    play.make("top", &[]);
    play.settle().await;
    assert_eq!(
        (play.left(), play.owners_of("held")),
        (vec!["held".to_owned(), "top".to_owned()], vec!["top".to_owned()])
    );
    // Of the name, but not of the uid.
    play.make("imposter", &[OwnerReference { uid: "another".to_owned(), ..owner("top") }]);
    play.settle().await;
    assert_eq!(play.left(), ["held", "top"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let mut play = Play::new(1);
    play.make("kid", &[OwnerReference { api_version: "example.com/v1".to_owned(), ..owner("top") }]);
    play.settle().await;
    assert_eq!(play.left(), ["kid"]);
    // Nothing polls for the kind; when kinds change it is asked for again.
    play.collector.kinds_changed();
    play.settle().await;
    assert_eq!(play.left(), ["kid"]);
    // Those that are gone are not kept in mind for ever.
    for number in 0..PARKED_MIN * 2 {
        let uid = format!("of-{number}");
        play.make("other", &[OwnerReference { api_version: "example.com/v1".to_owned(), uid, ..owner("top") }]);
        play.settle().await;
        play.delete("other", Policy::Background);
        play.settle().await;
    }
    assert!(play.collector.parked() <= PARKED_MIN + 1, "{}", play.collector.parked());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none() {
    // Whether the owner has dependents of its own, and so is known already, makes no difference.
    for (seed, has_kid) in (0..10).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut play = Play::new(seed);
        play.make("top", &[]);
        if has_kid {
            play.make("kid", &[owner("top")]);
        }
        play.settle().await;
        play.make_in("m", "stray", &[owner("top")]);
        play.settle().await;
        assert_eq!(play.left(), if has_kid { vec!["kid", "top"] } else { vec!["top"] });
        let misplaced = play.misplaced.lock().clone();
        assert_eq!(misplaced.len(), 1, "{misplaced:?}");
        assert_eq!(misplaced[0].owner.to_string(), "[v1/Thing, namespace: m, name: top, uid: uid-n-top]");
        assert_eq!(misplaced[0].object.name, "stray");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_lists_no_more_is_asked_for() {
    let mut play = Play::new(1);
    play.make("top", &[]);
    play.make("kid", &[owner("top")]);
    play.settle().await;
    // A list that is older than the object proves nothing.
    play.collector.change(|graph, work| graph.listed("v1", "Thing", &BTreeSet::new(), work));
    play.settle().await;
    assert_eq!(play.left(), ["kid", "top"]);
    // The watch was away when the owner went.
    play.delete("top", Policy::Background);
    play.fake.0.lock().pending.clear();
    play.collector.change(|graph, work| {
        graph.listed("v1", "Thing", &BTreeSet::from(["uid-n-kid".into()]), work);
    });
    play.settle().await;
    assert!(play.left().is_empty());
    assert_eq!(play.collector.read(super::graph::Graph::len), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_listed_again_is_looked_at_if_it_changed_or_was_missed() {
    let play = Play::new(1);
    let things = ApiResource { plural: "things".into(), ..ApiResource::erase::<ConfigMap>(&()) };
    let list = |items: Vec<Item>| super::take(&play.collector, &things, Event::Listed(items));
    let kid = |revision: u64, owner: &str| {
        let owners = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner }]);
        let object =
            json!({ "metadata": { "name": "kid", "namespace": "n", "uid": "kid", "ownerReferences": owners } });
        let json = object.to_string().into();
        Item { namespace: "n".into(), name: "kid".into(), uid: "kid".into(), revision, json }
    };
    let depends_on = |owner: &str| play.collector.read(|graph| graph.is_dependent(owner, &"kid".into()));
    let observed = |revision| play.collector.read(|graph| graph.is_observed("kid", revision));
    list(vec![kid(5, "a")]);
    assert!(depends_on("a") && observed(5) && !observed(6));
    list(vec![kid(5, "a")]);
    assert!(depends_on("a") && observed(5));
    list(vec![kid(6, "b")]);
    assert!(depends_on("b") && !depends_on("a") && observed(6) && !observed(5));
    list(Vec::new());
    assert!(!observed(6), "nobody knows whether it is there");
    list(vec![kid(6, "b")]);
    assert!(depends_on("b") && observed(6));
}

#[tokio::test(start_paused = true)]
async fn objects_without_owners_leave_no_trace() {
    let mut play = Play::new(1);
    (0..100).for_each(|number| play.make(&format!("plain-{number}"), &[]));
    play.make("kid", &[owner("plain-1")]);
    play.settle().await;
    assert_eq!(play.collector.read(super::graph::Graph::len), 2);
    play.delete("kid", Policy::Background);
    play.settle().await;
    assert_eq!(play.collector.read(super::graph::Graph::len), 0);
}

/// What must be left of objects (each with its owners' places): who has owners, and none of them is left, goes.
fn model(owners: &BTreeMap<usize, Vec<usize>>) -> BTreeSet<usize> {
    let mut left: BTreeSet<usize> = owners.keys().copied().collect();
    loop {
        let is_held =
            |place: &usize| owners[place].is_empty() || owners[place].iter().any(|owner| left.contains(owner));
        let next: BTreeSet<usize> = left.iter().copied().filter(is_held).collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}

#[tokio::test(start_paused = true)]
async fn random_graphs_end_as_the_model_says() {
    for seed in 0..300 {
        let mut play = Play::new(seed);
        let count = 2 + play.chance.below(12);
        let name = |place: usize| format!("o{place:02}");
        let mut owners: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for place in 0..count {
            // Mostly those before it; now and then anybody, so that there are circles, and owners that never were.
            let mut mine = BTreeSet::new();
            for _ in 0..play.chance.below(4) {
                let bound = if play.chance.below(5) == 0 { count + 1 } else { place };
                mine.extend((bound > 0).then(|| play.chance.below(bound)));
            }
            owners.insert(place, mine.into_iter().collect());
        }
        for (place, mine) in &owners {
            let mut references: Vec<OwnerReference> = mine.iter().map(|of| owner(&name(*of))).collect();
            references.iter_mut().for_each(|one| one.block_owner_deletion = Some(play.chance.below(2) == 0));
            play.make(&name(*place), &references);
        }
        // What was made before its owner may go before that comes: an owner that is not there does not exist.
        play.settle().await;
        let kept: BTreeSet<String> = play.left().into_iter().collect();
        owners.retain(|place, _| kept.contains(&name(*place)));
        for (_, mine) in owners.iter_mut() {
            mine.retain(|of| kept.contains(&name(*of)));
        }
        assert_eq!(model(&owners).len(), owners.len(), "seed {seed}: something was to go");
        for _ in 0..3 {
            let places: Vec<usize> = owners.keys().copied().collect();
            if places.is_empty() {
                break;
            }
            let gone = places[play.chance.below(places.len())];
            let policy = [Policy::Background, Policy::Foreground, Policy::Orphan][play.chance.below(3)];
            play.delete(&name(gone), policy);
            play.settle().await;
            owners.remove(&gone);
            if policy == Policy::Orphan {
                owners.values_mut().for_each(|mine| mine.retain(|of| *of != gone));
            }
            let left = model(&owners);
            let expected: Vec<String> = left.iter().map(|place| name(*place)).collect();
            assert_eq!(play.left(), expected, "seed {seed}, {policy:?} of {}", name(gone));
            owners.retain(|place, _| left.contains(place));
            owners.values_mut().for_each(|mine| mine.retain(|of| left.contains(of)));
        }
    }
}
