//! `componentstatuses`: the parts of the control plane and whether they are well, found out when asked.

use std::sync::Arc;

use http::StatusCode;
use rkube_machinery::{GroupResource, Status, Value, object};

use super::Registry;
use super::list::{self, Filter};
use super::request::Request;
use crate::content::{Answer, Transform, table_for, unlisted_answer, value_answer};
use crate::health::Probe;
use crate::request::ListOptions;
use rkube_catalog::Object;
use rkube_store::Store;

/// A part of the control plane beside the server and its store.
#[derive(Clone)]
pub struct Component {
    /// As upstream names it: `scheduler`, `controller-manager`.
    pub name: &'static str,
    /// How it is now.
    pub probe: Probe,
}

/// The store, under the name by which clients know it.
const STORE: &str = "etcd-0";

pub async fn answer(registry: &Registry, request: &Request<'_>) -> Result<Answer, Status> {
    let all = statuses(&*registry.store, &registry.components).await;
    let now = registry.clock.now_seconds();
    if request.info.verb == "get" {
        let name = &request.info.name;
        let found = all.into_iter().find(|component| component.get("metadata").str("name") == name);
        let missing = || Status::not_found(&GroupResource::new("", "componentstatus"), name);
        return Ok(component_answer(request, &found.ok_or_else(missing)?, now));
    }
    ListOptions::of(request.query, request.query.watch, registry.watch_list)?;
    let filter = Filter::new(request)?;
    let kind = &request.served.kind;
    let chosen = all.into_iter().filter(|component| filter.matches(&Arc::new(Object::new(component, kind))));
    Ok(list::values_answer(request, chosen.collect(), Value::object(), now))
}

fn component_answer(request: &Request<'_>, component: &Value, now: i64) -> Answer {
    let Request { served, accept, query, .. } = *request;
    if let Transform::Table(version) = accept.transform {
        let one = std::slice::from_ref(component);
        let table = table_for(served, version, one, &query.include_object, now, &Value::object(), true);
        return value_answer(StatusCode::OK, accept, &table, None);
    }
    unlisted_answer(StatusCode::OK, accept, component, served.kind.schema.table())
}

async fn statuses(store: &dyn Store, components: &[Component]) -> Vec<Value> {
    let store = store.revision().await.err().map(|error| error.to_string());
    let parts = components.iter().map(|one| (one.name, (one.probe)().err()));
    parts.chain([(STORE, store)]).map(|(name, fault)| status(name, fault)).collect()
}

fn status(name: &str, fault: Option<String>) -> Value {
    let condition = match fault {
        None => object! { "type": "Healthy", "status": "True", "message": "ok" },
        Some(fault) => object! { "type": "Healthy", "status": "False", "message": fault },
    };
    object! {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": object! { "name": name },
        "conditions": vec![condition],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_are_asked_how_they_are() {
        let probe: Probe = Arc::new(|| Err("namespace-controller has ended".to_owned()));
        let well = Component { name: "scheduler", probe: Arc::new(|| Ok(())) };
        let store = rkube_store::Memory::new();
        let components = [well, Component { name: "controller-manager", probe }];
        let shown: Vec<String> = statuses(&store, &components)
            .await
            .iter()
            .map(|one| {
                let condition = &one.list("conditions")[0];
                format!("{} {} {}", one.get("metadata").str("name"), condition.str("status"), condition.str("message"))
            })
            .collect();
        let expected =
            ["scheduler True ok", "controller-manager False namespace-controller has ended", "etcd-0 True ok"];
        assert_eq!(shown, expected);
    }
}
