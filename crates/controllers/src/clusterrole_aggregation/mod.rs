//! Owns the rules of aggregated ClusterRoles: the sum of the roles that their selectors take. Watches ClusterRoles; applies
//! `rules`.

mod plan;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use parking_lot::Mutex;
use rkube_machinery::json as machinery_json;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Item, Outcome, Queue, Selection};
use serde::Deserialize;
use serde_json::json;

use crate::Context;

const NAME: &str = "clusterrole-aggregation-controller";
const WORKERS: usize = 1;

/// A role as sums are made of it. Its rules are read when they are summed up: until then they are a text that others
/// have as well.
pub(crate) struct RoleView {
    item: Item,
    labels: Vec<(String, String)>,
    /// Of a role that is a sum.
    selectors: Option<Vec<Selector>>,
}

#[derive(Deserialize)]
struct Rules {
    rules: Option<Vec<PolicyRule>>,
}

impl RoleView {
    fn read(item: &Item) -> Option<RoleView> {
        let role = machinery_json::parse(&item.json).ok()?;
        let labels = role.get("metadata").map("labels").iter();
        let labels = labels.map(|(key, value)| (key.to_string(), value.as_str().to_owned())).collect();
        let aggregation = role.get("aggregationRule");
        let selectors = aggregation.list("clusterRoleSelectors").iter();
        // Stored selectors can be read; one that could not would take nothing.
        let selectors = selectors.filter_map(|selector| Selector::from_label_selector(selector).ok()).collect();
        let selectors = (!aggregation.is_null()).then_some(selectors);
        Some(RoleView { item: item.clone(), labels, selectors })
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether one of the selectors takes the role.
    fn takes(&self, role: &RoleView) -> bool {
        self.selectors.iter().flatten().any(|selector| selector.matches_pairs(|key| role.label(key)))
    }

    fn rules(&self) -> Vec<PolicyRule> {
        self.item.parse::<Rules>().ok().and_then(|role| role.rules).unwrap_or_default()
    }
}

pub async fn run(context: Context) {
    let Context { client, caches, .. } = context;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let sums: Mutex<BTreeMap<String, Arc<RoleView>>> = Mutex::default();
    let resource = ApiResource::erase::<ClusterRole>(&());
    let roles = caches.view(&resource, Selection::default(), RoleView::read).on_change(move |change| {
        let mut sums = sums.lock();
        match change.new.filter(|role| role.selectors.is_some()) {
            Some(sum) => sums.insert(change.key.name.clone(), sum.clone()),
            None => sums.remove(&change.key.name),
        };
        let roles = || change.old.into_iter().chain(change.new);
        let concerned =
            sums.iter().filter(|(name, sum)| **name == change.key.name || roles().any(|role| sum.takes(role)));
        concerned.for_each(|(name, _)| adding.add(name.clone()));
    });
    roles.synced().await;
    let (roles, written) = (Arc::new(roles), Arc::<Mutex<HashMap<String, u64>>>::default());
    rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (client, roles, written) = (client.clone(), roles.clone(), written.clone());
        async move {
            let Some(role) = roles.get("", &name) else {
                written.lock().remove(&name);
                return Ok(Outcome::Unchanged);
            };
            let Some(sum) = plan::missing_sum(&role, &roles.all()) else { return Ok(Outcome::Unchanged) };
            let rules = json!(sum);
            apply(client, (&name, &role.item.uid), &rules).await?;
            // Who has to write the same again is in a dispute, and waits; another sum is just news.
            let mut hasher = DefaultHasher::new();
            rules.to_string().hash(&mut hasher);
            let before = written.lock().insert(name, hasher.finish());
            Ok::<_, kube::Error>(if before == Some(hasher.finish()) { Outcome::Wrote } else { Outcome::Unchanged })
        }
    })
    .await;
}

/// With its uid, a role that is gone is not made anew: that is a conflict, as it is when somebody else was faster. Which of
/// them it was shows when it is tried again.
async fn apply(client: Client, (name, uid): (&str, &str), rules: &serde_json::Value) -> Result<(), kube::Error> {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name, "uid": uid },
    });
    if rules.as_array().is_some_and(|rules| !rules.is_empty()) {
        role["rules"] = rules.clone();
    }
    let parameters = PatchParams::apply(NAME).force();
    let roles: Api<ClusterRole> = Api::all(client);
    roles.patch(name, &parameters, &Patch::Apply(&role)).await.map(drop)
}
