//! `componentstatuses`: the parts of the control plane and whether they are well, found out when asked.

use std::sync::Arc;

use http::StatusCode;
use rkube_machinery::{GroupResource, Status, Value, object};

use super::Call;
use super::list::Filter;
use crate::content::{Answer, Transform, table_for, unlisted_answer, value_answer};
use crate::health::Probe;
use crate::server::ApiServer;
use rkube_catalog::Object;

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

impl Call<'_> {
    pub(super) async fn components(&mut self) -> Result<Answer, Status> {
        let all = statuses(self.server).await;
        if self.info.verb == "get" {
            let name = &self.info.name;
            let found = all.into_iter().find(|component| component.get("metadata").str("name") == name);
            let missing = || Status::not_found(&GroupResource::new("", "componentstatus"), name);
            return Ok(self.component_answer(&found.ok_or_else(missing)?));
        }
        self.options.check_list(self.server.features.watch_list)?;
        let filter = Filter::new(self)?;
        let kind = &self.served.kind;
        let chosen = all.into_iter().filter(|component| filter.matches(&Arc::new(Object::new(component, kind))));
        Ok(self.values_answer(chosen.collect(), Value::object()))
    }

    fn component_answer(&self, component: &Value) -> Answer {
        if let Transform::Table(version) = self.accept.transform {
            let (one, include) = (std::slice::from_ref(component), &self.options.include_object);
            let table = table_for(self.served, version, one, include, self.now(), &Value::object(), true);
            return value_answer(StatusCode::OK, self.accept, &table, None);
        }
        unlisted_answer(StatusCode::OK, self.accept, component, self.served.kind.schema.table())
    }
}

async fn statuses(server: &ApiServer) -> Vec<Value> {
    let store = server.store.revision().await.err().map(|error| error.to_string());
    let parts = server.components.iter().map(|one| (one.name, (one.probe)().err()));
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
    use crate::test_server;

    #[tokio::test]
    async fn parts_are_asked_how_they_are() {
        let probe: Probe = Arc::new(|| Err("namespace-controller has ended".to_owned()));
        let well = Component { name: "scheduler", probe: Arc::new(|| Ok(())) };
        let server =
            test_server::server_with_components(vec![well, Component { name: "controller-manager", probe }]).await;
        let shown: Vec<String> = statuses(&server)
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
