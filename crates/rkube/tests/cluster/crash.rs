//! Writers at full speed, `kill -9` at some moment, restart: what was acknowledged is there, and the revision went on.
//!
//! A few rounds by default; `RKUBE_TEST_CRASH_ROUNDS=1000` for the long run.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use rkube_testkit::Rkube;
use tokio::task::JoinSet;

use crate::start_durable;

const WRITERS: usize = 16;
const ROUNDS: u64 = 5;
/// The kill comes within so many milliseconds.
const MOMENT_MILLISECONDS: u64 = 150;

#[tokio::test]
async fn acknowledged_writes_survive_a_kill_at_any_moment() {
    let rounds = std::env::var("RKUBE_TEST_CRASH_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut rkube = start_durable();
    let mut acknowledged: HashMap<String, u64> = HashMap::new();
    let random = RandomState::new();
    for round in 0..rounds {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(config_maps(&rkube).await, format!("round-{round}-writer-{writer}")));
        }
        let moment = Duration::from_millis(random.hash_one(round) % MOMENT_MILLISECONDS);
        tokio::time::sleep(moment).await;
        rkube.kill9();
        while let Some(written) = writers.join_next().await {
            acknowledged.extend(written.unwrap());
        }
        rkube.restart();
        check(&config_maps(&rkube).await, &acknowledged, &format!("round {round}, killed after {moment:?}")).await;
    }
}

/// Creates objects and changes each, until the server is gone; returns the last acknowledged revision of each.
async fn write(maps: Api<ConfigMap>, prefix: String) -> HashMap<String, u64> {
    let mut acknowledged = HashMap::new();
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        let Ok(created) = maps.create(&PostParams::default(), &map).await else { break };
        acknowledged.insert(name.clone(), revision(&created));
        let change = serde_json::json!({"data": {"number": number.to_string()}});
        let Ok(changed) = maps.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await else { break };
        acknowledged.insert(name, revision(&changed));
    }
    acknowledged
}

async fn check(maps: &Api<ConfigMap>, acknowledged: &HashMap<String, u64>, context: &str) {
    let list = maps.list(&ListParams::default()).await.unwrap();
    let newest: u64 = list.metadata.resource_version.as_deref().unwrap_or_default().parse().unwrap();
    let found: HashMap<String, u64> = list.items.iter().map(|map| (map.name_any(), revision(map))).collect();
    for (name, written) in acknowledged {
        let kept = found.get(name).unwrap_or_else(|| panic!("{name} is lost in {context}"));
        // A change that was not acknowledged may have been made all the same.
        assert!(kept >= written, "{name} is back at {kept} from {written} in {context}");
        assert!(newest >= *written, "the revision is back at {newest} from {written} in {context}");
    }
}

async fn config_maps(rkube: &Rkube) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(rkube.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap_or_default().parse().unwrap()
}
