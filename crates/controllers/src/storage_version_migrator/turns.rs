//! Of all migrations of a resource one runs at a time; the definition of a custom resource says so meanwhile.

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Error, Informer, Outcome};
use serde_json::Value;

use super::view::{GroupResource, Migration};
use super::{RUNNER, plan, status_path};
use crate::requests::{self, is_not_found};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub struct Turns {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub migrations: Arc<Informer<Migration>>,
}

impl Turns {
    pub async fn reconcile(&self, of: &GroupResource) -> Result<Outcome, Error> {
        let all: Vec<Arc<Migration>> =
            self.migrations.all().into_iter().filter(|migration| migration.of == *of).collect();
        let plan::Turn { finish, start } = plan::turn(&all);
        for migration in finish {
            if let Some(definition) = self.definition(of).await? {
                let now = self.clock.now_seconds();
                self.apply(plan::definition_migrated(&definition, migration.succeeded(), now)).await?;
            }
            let now = self.clock.now_seconds();
            self.write(&migration, |whole| plan::finish(whole, migration.generation, now)).await?;
        }
        if let Some(migration) = start {
            if let Some(definition) = self.definition(of).await? {
                let now = self.clock.now_seconds();
                self.apply(plan::definition_migrating(&definition, &migration.item.name, now)).await?;
            }
            let now = self.clock.now_seconds();
            self.write(&migration, |whole| plan::run(whole, now)).await?;
        }
        Ok(Outcome::Unchanged)
    }

    /// The definition of the resource, if it is a custom one.
    async fn definition(&self, of: &GroupResource) -> Result<Option<Value>, kube::Error> {
        let path = format!("{DEFINITIONS}/{}.{}", of.resource, of.group);
        match requests::get_value(&self.client, &path).await {
            Err(error) if is_not_found(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Applies to the status of a definition. If it changed meanwhile all is looked at again.
    async fn apply(&self, configuration: Value) -> Result<(), kube::Error> {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{DEFINITIONS}/{name}/status");
        requests::apply(&self.client, &path, RUNNER, &configuration).await.map(drop)
    }

    async fn write(&self, migration: &Migration, change: impl FnOnce(&mut Value)) -> Result<(), Error> {
        let mut whole = requests::whole(&migration.item)?;
        change(&mut whole);
        requests::replace(&self.client, &status_path(&migration.item.name), &whole).await?;
        Ok(())
    }
}
