//! What becomes of claims and volumes, case by case; and that no volume goes to two claims, whatever the order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::Item;
use serde_json::{Value, json};

use super::plan::{self, ClaimPlan, Reclaim, VolumePlan, World};
use super::pool::Pool;
use crate::volumes::{Claim, StorageClass, Volume, VolumePhase};

fn item(namespace: &str, name: &str, uid: &str, object: &Value) -> Item {
    let json = object.to_string().into();
    Item { namespace: namespace.into(), name: name.into(), uid: uid.into(), revision: 7, json }
}

/// `name size [field=value]…`; the uid is `u-` and the name.
fn claim(text: &str) -> Arc<Claim> {
    let mut words = text.split_whitespace();
    let (name, size) = (words.next().unwrap(), words.next().unwrap());
    let mut object = json!({ "metadata": { "annotations": {} }, "status": { "phase": "Pending" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } },
    } });
    for word in words {
        let (field, value) = word.split_once('=').unwrap_or((word, ""));
        match field {
            "class" => object["spec"]["storageClassName"] = value.into(),
            "volume" => object["spec"]["volumeName"] = value.into(),
            "mode" => object["spec"]["volumeMode"] = value.into(),
            "vac" => object["spec"]["volumeAttributesClassName"] = value.into(),
            "access" => object["spec"]["accessModes"] = value.split(',').collect(),
            "label" => object["spec"]["selector"] = json!({ "matchLabels": { "tier": value } }),
            "phase" => object["status"]["phase"] = value.into(),
            "bound" => object["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into(),
            "ours" => object["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = "yes".into(),
            "node" => object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = value.into(),
            other => panic!("{other}"),
        }
    }
    Arc::new(Claim::read(&item("ns", name, &format!("u-{name}"), &object)).unwrap())
}

/// `name size [field=value]…`; `for=claim` names it by its uid, too, `kept=claim` without.
fn volume(text: &str) -> Arc<Volume> {
    let mut words = text.split_whitespace();
    let (name, size) = (words.next().unwrap(), words.next().unwrap());
    let mut object = json!({ "metadata": { "annotations": {}, "labels": {} }, "status": { "phase": "Available" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size }, "persistentVolumeReclaimPolicy": "Retain",
    } });
    for word in words {
        let (field, value) = word.split_once('=').unwrap_or((word, ""));
        match field {
            "class" => object["spec"]["storageClassName"] = value.into(),
            "mode" => object["spec"]["volumeMode"] = value.into(),
            "vac" => object["spec"]["volumeAttributesClassName"] = value.into(),
            "access" => object["spec"]["accessModes"] = value.split(',').collect(),
            "label" => object["metadata"]["labels"]["tier"] = value.into(),
            "phase" => object["status"]["phase"] = value.into(),
            "policy" => object["spec"]["persistentVolumeReclaimPolicy"] = value.into(),
            "path" => object["spec"]["hostPath"] = json!({ "path": value }),
            "source" => object["spec"][value] = json!({ "driver": "d", "volumeHandle": "h" }),
            "by" => object["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = value.into(),
            "ours" => object["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = "yes".into(),
            "kept" => object["spec"]["claimRef"] = json!({ "namespace": "ns", "name": value }),
            "for" => {
                object["spec"]["claimRef"] = json!({ "namespace": "ns", "name": value, "uid": format!("u-{value}") });
            }
            "going" => object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            other => panic!("{other}"),
        }
    }
    Arc::new(Volume::read(&item("", name, &format!("u-{name}"), &object)).unwrap())
}

#[derive(Default)]
struct Fake {
    volumes: BTreeMap<String, Arc<Volume>>,
    pool: Pool,
    pods: Vec<Text>,
    default_class: Option<Text>,
}

impl Fake {
    fn new(volumes: &[&str]) -> Fake {
        let mut fake = Fake::default();
        for text in volumes {
            let volume = volume(text);
            fake.pool.volume(None, Some(&volume));
            fake.volumes.insert(volume.item.name.to_string(), volume);
        }
        fake
    }
}

impl World for Fake {
    type Found = String;

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name).cloned()
    }

    /// `later` waits for pods, `none` is no class, and the others are of a provisioner of their name.
    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        let provisioner: Text = match name {
            "none" => return None,
            "local" => "kubernetes.io/no-provisioner".into(),
            other => format!("example.com/{other}").into(),
        };
        let waits_for_consumer = name == "later";
        Some(Arc::new(StorageClass { name: name.into(), provisioner, waits_for_consumer, ..StorageClass::default() }))
    }

    fn default_class(&self) -> Option<Text> {
        self.default_class.clone()
    }

    fn is_one_coming(&self, claim: &Claim) -> bool {
        self.pool.is_one_coming(claim)
    }

    fn find(&self, claim: &Claim, only_kept: bool) -> Option<String> {
        let kept: Vec<Arc<Volume>> =
            self.volumes.values().filter(|volume| volume.claimant.is_some()).cloned().collect();
        Some(self.pool.find(claim, &kept, only_kept)?.volume.item.name.to_string())
    }

    fn named(&self, volume: Arc<Volume>) -> String {
        volume.item.name.to_string()
    }

    fn unscheduled_pods(&self, _: &Claim) -> Vec<Text> {
        self.pods.clone()
    }
}

/// A plan in a few words.
fn said(plan: ClaimPlan<String>) -> String {
    match plan {
        ClaimPlan::Bind(volume) => format!("bind {volume}"),
        ClaimPlan::AssignClass(class) => format!("class {class}"),
        ClaimPlan::Wait(None) => "wait".to_owned(),
        ClaimPlan::Wait(Some(told)) => format!("wait {}: {}", told.reason, told.message),
        ClaimPlan::Refuse(told) => format!("refuse {}: {}", told.reason, told.message),
        ClaimPlan::Provision { provisioner, .. } => format!("provision {provisioner}"),
        ClaimPlan::Lose(told) => format!("lose {}", told.reason),
    }
}

#[test]
fn claims_get_the_smallest_volume_that_fits() {
    let all = [
        "small 1Gi",
        "large 10Gi",
        "larger 20Gi",
        "fast 5Gi class=fast",
        "raw 5Gi mode=Block",
        "gold 5Gi vac=gold",
        "green 15Gi label=green",
        "shared 2Gi access=ReadWriteOnce,ReadWriteMany",
        "taken 6Gi for=other phase=Bound",
        "released 6Gi phase=Released",
        "going 6Gi going",
        "kept 3Gi kept=mine class=odd",
    ];
    for (text, expected) in [
        ("c 500Mi", "bind small"),
        ("c 2Gi", "bind large"),
        ("c 10Gi", "bind large"),
        ("c 11Gi", "bind green"),
        ("c 1Gi class=fast", "bind fast"),
        ("c 6Gi class=fast", "provision example.com/fast"),
        ("c 1Gi class=", "bind small"),
        ("c 1Gi mode=Block", "bind raw"),
        ("c 1Gi mode=Filesystem", "bind small"),
        ("c 1Gi vac=gold", "bind gold"),
        ("c 1Gi label=green", "bind green"),
        ("c 1Gi access=ReadWriteMany", "bind shared"),
        (
            "c 3Gi access=ReadWriteMany",
            "wait FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        (
            "c 1Gi access=ReadWriteOncePod",
            "wait FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        ("mine 1Gi", "bind kept"),
        ("mine 4Gi", "bind large"),
    ] {
        assert_eq!(said(plan::claim(&claim(text), &Fake::new(&all), true)), expected, "{text}");
    }
}

#[test]
fn claims_without_a_volume_say_what_they_wait_for() {
    let free = ["v 5Gi class=later", "mine 5Gi class=later kept=mine"];
    let found = |text: &str, pods: &[&str], default: Option<&str>, provisioning: bool| {
        let mut fake = Fake::new(&free);
        fake.pods = pods.iter().map(|pod| Text::from(*pod)).collect();
        fake.default_class = default.map(Text::from);
        said(plan::claim(&claim(text), &fake, provisioning))
    };
    let first = "wait WaitForFirstConsumer: waiting for first consumer to be created before binding";
    let nothing = "wait FailedBinding: no persistent volumes available for this claim and no storage class is set";
    assert_eq!(found("c 1Gi class=later", &[], None, true), first);
    let one = "wait WaitForPodScheduled: waiting for pod p to be scheduled";
    assert_eq!(found("c 1Gi class=later", &["p"], None, true), one);
    let both = "wait WaitForPodScheduled: waiting for pods p,q to be scheduled";
    assert_eq!(found("c 1Gi class=later", &["p", "q"], None, true), both);
    assert_eq!(found("c 1Gi class=later node=n", &[], None, true), "provision example.com/later");
    assert_eq!(found("c 1Gi class=later node=n", &[], None, false), "wait");
    assert_eq!(found("mine 1Gi class=later", &[], None, true), "bind mine");
    let missing = "refuse ProvisioningFailed: storageclass.storage.k8s.io \"none\" not found";
    assert_eq!(found("c 1Gi class=none", &[], None, true), missing);
    let nobody = "refuse ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    assert_eq!(found("c 1Gi class=local", &[], None, true), nobody);
    assert_eq!(found("c 1Gi", &[], None, true), nothing);
    assert_eq!(found("c 1Gi", &[], Some("std"), true), "class std");
    assert_eq!(found("c 1Gi class=", &[], Some("std"), true), nothing, "who wants no class gets none");
}

#[test]
fn claims_wait_in_silence_for_volumes_that_are_about_to_be_free() {
    let new = ["v 5Gi phase=Pending", "n 5Gi class=none phase=", "l 5Gi class=later phase=", "k 5Gi phase= kept=other"];
    let nothing = "wait FailedBinding: no persistent volumes available for this claim and no storage class is set";
    let missing = "refuse ProvisioningFailed: storageclass.storage.k8s.io \"none\" not found";
    for (text, expected) in [
        ("c 1Gi", "wait"),
        ("c 6Gi", nothing),
        ("c 1Gi label=green", nothing),
        ("c 1Gi access=ReadWriteMany", nothing),
        ("c 1Gi class=none", "wait"),
        ("c 6Gi class=none", missing),
        ("c 1Gi class=later node=n", "provision example.com/later"),
    ] {
        let fake = Fake::new(&new);
        assert_eq!(said(plan::claim(&claim(text), &fake, true)), expected, "{text}");
        // Then they are free, and then they are gone.
        for (before, after) in [(0, 1), (1, 2)] {
            let states = [volume("v 5Gi phase=Pending"), volume("v 5Gi")];
            fake.pool.volume(states.get(before), states.get(after));
        }
        assert!(!fake.pool.is_one_coming(&claim("c 1Gi")), "{text}");
    }
}

#[test]
fn claims_that_name_a_volume_get_it_or_wait() {
    let all = ["v 5Gi", "fast 5Gi class=fast", "taken 5Gi for=other", "own 1Gi kept=c class=odd", "going 5Gi going"];
    let mismatch =
        |volume: &str, why: &str| format!("wait VolumeMismatch: Cannot bind to requested volume {volume:?}: {why}");
    let taken = "volume \"taken\" already bound to a different claim.";
    for (text, expected) in [
        ("c 1Gi volume=v", "bind v".to_owned()),
        ("c 1Gi volume=gone", "wait".to_owned()),
        ("c 1Gi volume=own", "bind own".to_owned()),
        ("c 9Gi volume=v", mismatch("v", "requested PV is too small")),
        ("c 1Gi volume=fast", mismatch("fast", "storageClassName does not match")),
        ("c 1Gi volume=v mode=Block", mismatch("v", "incompatible volumeMode")),
        ("c 1Gi volume=v vac=gold", mismatch("v", "volumeAttributesClassName does not match")),
        ("c 1Gi volume=v access=ReadOnlyMany", mismatch("v", "incompatible accessMode")),
        ("c 1Gi volume=going", mismatch("going", "the volume is marked for deletion \"going\"")),
        ("c 1Gi volume=taken", format!("wait FailedBinding: {taken}")),
        ("c 1Gi volume=taken ours", format!("refuse FailedBinding: {taken}")),
        // From here on it was bound before.
        ("c 1Gi bound volume=v", "bind v".to_owned()),
        ("c 1Gi bound volume=gone", "lose ClaimLost".to_owned()),
        ("c 1Gi bound", "lose ClaimLost".to_owned()),
        ("c 1Gi bound volume=taken", "lose ClaimMisbound".to_owned()),
        ("other 1Gi bound volume=taken", "bind taken".to_owned()),
    ] {
        assert_eq!(said(plan::claim(&claim(text), &Fake::new(&all), true)), expected, "{text}");
    }
}

#[test]
fn volumes_follow_their_claims() {
    let reclaim = |release, how| VolumePlan::Reclaim { release, how };
    let plan_for = |text: &str, of: Option<&str>, is_certain| {
        plan::volume(&volume(text), of.map(claim).as_deref(), is_certain, &[])
    };
    for (text, of, is_certain, expected) in [
        ("v 1Gi phase=Pending", None, false, VolumePlan::Phase(VolumePhase::Available)),
        ("v 1Gi kept=c", None, false, VolumePlan::Phase(VolumePhase::Available)),
        ("v 1Gi for=c", Some("c 1Gi volume=v"), false, VolumePlan::Phase(VolumePhase::Bound)),
        ("v 1Gi for=c", Some("c 1Gi"), false, VolumePlan::WakeClaim),
        ("v 1Gi for=c", None, false, VolumePlan::AskForClaim),
        ("v 1Gi for=c phase=Bound", None, true, reclaim(true, Reclaim::Leave)),
        ("v 1Gi for=c phase=Released", None, false, reclaim(false, Reclaim::Leave)),
        ("v 1Gi for=c", Some("c 1Gi volume=w"), false, VolumePlan::Unbind),
        ("v 1Gi for=c by=x policy=Delete", Some("c 1Gi volume=w"), false, reclaim(true, Reclaim::Leave)),
        ("v 1Gi for=c by=x", Some("c 1Gi volume=w"), false, VolumePlan::Unbind),
    ] {
        assert_eq!(plan_for(text, of, is_certain), expected, "{text} {of:?}");
    }
    let other = volume("v 1Gi for=c");
    let mut of_same_name = Claim::clone(&claim("c 1Gi volume=v"));
    of_same_name.item.uid = "another".into();
    assert_eq!(plan::volume(&other, Some(&of_same_name), false, &[]), VolumePlan::AskForClaim);
    assert_eq!(plan::volume(&other, Some(&of_same_name), true, &[]), reclaim(true, Reclaim::Leave));
    let mismatch = plan_for("v 1Gi for=c mode=Block", Some("c 1Gi"), false);
    assert!(matches!(mismatch, VolumePlan::Mismatch { .. }), "{mismatch:?}");
}

#[test]
fn volumes_are_reclaimed_as_their_policy_says() {
    let users = [Text::from("ns/p")];
    let how = |text: &str, users: &[Text]| {
        let volume = volume(&format!("v 1Gi for=c phase=Released {text}"));
        let VolumePlan::Reclaim { how, .. } = plan::volume(&volume, None, true, users) else { panic!("{text}") };
        match how {
            Reclaim::Leave => "leave".to_owned(),
            Reclaim::Delete => "delete".to_owned(),
            Reclaim::Tell(told) => format!("tell {}: {}", told.reason, told.message),
            Reclaim::Fail(told) => format!("fail {}: {}", told.reason, told.message),
        }
    };
    let no_plugin = "fail VolumeFailedDelete: error getting deleter volume plugin for volume \"v\"";
    for (text, expected) in [
        ("policy=Retain path=/tmp/a", "leave".to_owned()),
        ("policy=Delete path=/tmp/a", "delete".to_owned()),
        (
            "policy=Delete path=/data",
            "fail VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /data".to_owned(),
        ),
        ("policy=Delete source=csi", "leave".to_owned()),
        ("policy=Delete source=nfs", format!("{no_plugin}: no deletable volume plugin matched")),
        ("policy=Delete source=local", format!("{no_plugin}: no volume plugin matched")),
        ("policy=Delete path=/data by=example.com/x", "leave".to_owned()),
        (
            "policy=Delete path=/data by=kubernetes.io/x",
            "fail VolumeFailedDelete: no volume plugin matched name: kubernetes.io/x".to_owned(),
        ),
        (
            "policy=Recycle source=local",
            "fail VolumeFailedRecycle: No recycler plugin found for the volume!".to_owned(),
        ),
        (
            "policy=Odd",
            "fail VolumeUnknownReclaimPolicy: Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        ),
    ] {
        assert_eq!(how(text, &[]), expected, "{text}");
    }
    assert_eq!(how("policy=Recycle", &users), "tell VolumeFailedRecycle: Volume is used by pods: ns/p");
}

#[test]
fn finalizers_and_drivers_are_as_the_provisioner_wants_them() {
    assert_eq!(plan::finalizers(&volume("v 1Gi")), None);
    assert_eq!(plan::finalizers(&volume("v 1Gi by=example.com/x policy=Delete")), None);
    assert_eq!(plan::finalizers(&volume("v 1Gi by=kubernetes.io/x policy=Delete")), Some((true, false)));
    assert_eq!(plan::finalizers(&volume("v 1Gi by=kubernetes.io/x policy=Retain")), None);
    assert_eq!(plan::migration(Some("kubernetes.io/gce-pd"), None), Some(Some("pd.csi.storage.gke.io")));
    assert_eq!(plan::migration(Some("kubernetes.io/gce-pd"), Some("pd.csi.storage.gke.io")), None);
    assert_eq!(plan::migration(Some("example.com/x"), Some("d")), Some(None));
    assert_eq!(plan::migration(Some("example.com/x"), None), None);
}

#[test]
fn a_free_volume_wakes_each_claim_once() {
    let pool = Pool::default();
    for text in ["a 1Gi", "b 2Gi", "c 9Gi"] {
        pool.claim(None, Some(&claim(text)));
    }
    let woken = |text: &str| pool.wake(&volume(text)).map(|key| key.name);
    assert_eq!(woken("v 5Gi").as_deref(), Some("b"), "the one that wants most");
    assert_eq!(woken("w 5Gi").as_deref(), Some("a"));
    assert_eq!(woken("x 5Gi"), None);
    assert_eq!(pool.waiting().len(), 3, "all of them still wait");
    pool.looked(&claim("a 1Gi").key());
    assert_eq!(woken("x 5Gi").as_deref(), Some("a"));
    let bound = claim("b 2Gi volume=v bound");
    pool.claim(Some(&claim("b 2Gi")), Some(&bound));
    pool.looked(&bound.key());
    assert_eq!(pool.waiting().len(), 2);
}

/// Claims and volumes come in any order, the caches are late, and several look at the same time: a volume that one of them
/// holds is nobody else's.
#[test]
fn no_volume_goes_to_two_claims() {
    for seed in 0..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let pool = Pool::default();
        let mut owners: HashMap<String, String> = HashMap::new();
        let (mut held, mut late) = (Vec::new(), Vec::new());
        let (mut next_claim, mut next_volume) = (0, 0);
        for _ in 0..200 {
            match random(4) {
                0 => {
                    next_volume += 1;
                    pool.volume(None, Some(&volume(&format!("v{next_volume} {}Gi", 1 + random(4)))));
                }
                1 => {
                    next_claim += 1;
                    let claim = claim(&format!("c{next_claim} {}Gi", 1 + random(4)));
                    if let Some(found) = pool.find(&claim, &[], false) {
                        let before = owners.insert(found.volume.item.name.to_string(), claim.item.name.to_string());
                        assert_eq!(before, None, "seed {seed}: {} has two", found.volume.item.name);
                        assert!(found.volume.capacity >= claim.request);
                        held.push(found);
                    }
                }
                // The cache hears that a volume is bound, before or after who bound it is done.
                2 if !held.is_empty() => {
                    let found = held.swap_remove(random(held.len()));
                    pool.volume(Some(&found.volume), None);
                    late.push(found);
                }
                _ => late.truncate(random(late.len() + 1)),
            }
        }
    }
}
