//! The toolkit over the network: its source, and the built-in controllers in a process of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::ApiResource;
use rkube_machinery::host::Clock;
use rkube_operator::{Caches, Event, NetworkSource, Selection, Source};
use rkube_testkit::{Rkube, TIMEOUT};

use crate::kube_rs::client;
use crate::start;

async fn next(events: &mut BoxStream<'static, Event>) -> Event {
    loop {
        match tokio::time::timeout(TIMEOUT, events.next()).await.unwrap().unwrap() {
            // It may come at any time.
            Event::Progress(_) => {}
            event => return event,
        }
    }
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

#[tokio::test]
async fn a_source_tells_of_what_is_there_and_of_what_changes() {
    let rkube = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&rkube).await);
    maps.create(&PostParams::default(), &map("first")).await.unwrap();
    let source = NetworkSource::new(client(&rkube).await);
    let selection = Selection { name: Some("first"), ..Selection::default() };
    let mut events = source.follow(&ApiResource::erase::<ConfigMap>(&()), &selection);
    let Event::Listed(items) = next(&mut events).await else { panic!("a list comes first") };
    assert_eq!(items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["first"]);
    maps.create(&PostParams::default(), &map("second")).await.unwrap();
    maps.delete("first", &DeleteParams::default()).await.unwrap();
    let Event::Deleted(item) = next(&mut events).await else { panic!("only the first is followed") };
    assert_eq!((item.name.as_str(), item.uid.as_str()), ("first", items[0].uid.as_str()));
    maps.create(&PostParams::default(), &map("first")).await.unwrap();
    let Event::Applied(item) = next(&mut events).await else { panic!("it is there again") };
    assert!(item.revision > items[0].revision && item.uid != items[0].uid);

    let found = source.resources().await.unwrap();
    let scalers: Vec<_> = found.iter().filter(|found| found.resource.plural == "horizontalpodautoscalers").collect();
    let preferred = scalers.iter().find(|found| found.preferred).unwrap();
    assert_eq!((scalers.len(), preferred.resource.api_version.as_str()), (2, "autoscaling/v2"));
    assert!(preferred.namespaced && preferred.supports(&["delete", "list", "watch"]));
}

struct StandingClock;

impl Clock for StandingClock {
    fn now_micros(&self) -> i64 {
        1_800_000_000_000_000
    }
}

#[tokio::test]
async fn controllers_work_in_a_process_of_their_own() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", "--controllers="]);
    let administrator = client(&rkube).await;
    let as_administrator = administrator.clone();
    let mut manager = rkube_controllers::start(&rkube_controllers::Config {
        client: Box::new(move |_| as_administrator.clone()),
        caches: Caches::new(Arc::new(NetworkSource::new(administrator.clone()))),
        root_ca: "authority".to_owned(),
        sign_token: None,
        sign_certificates: BTreeMap::new(),
        clock: Arc::new(StandingClock),
        selection: rkube_controllers::Selection::default(),
        settings: Arc::default(),
        local_path: None,
        node_ranges: None,
    });
    let namespaces: Api<Namespace> = Api::all(administrator.clone());
    let crowded = Namespace { metadata: map("crowded").metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &crowded).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(administrator, "crowded");
    until(async || maps.get_opt("kube-root-ca.crt").await.unwrap().is_some()).await;
    let owner = maps.create(&PostParams::default(), &map("owner")).await.unwrap();
    let mut dependent = map("dependent");
    dependent.metadata.owner_references = kube::Resource::owner_ref(&owner, &()).map(|owner| vec![owner]);
    maps.create(&PostParams::default(), &dependent).await.unwrap();
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    until(async || maps.get_opt("dependent").await.unwrap().is_none()).await;
    namespaces.delete("crowded", &DeleteParams::default()).await.unwrap();
    until(async || namespaces.get_opt("crowded").await.unwrap().is_none()).await;
    assert_eq!(manager.health().check(), Ok(()));
    manager.shutdown().await;
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it takes too long");
}
