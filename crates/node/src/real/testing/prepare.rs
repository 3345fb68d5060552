//! A preparer that has nothing to do, and says so.

use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rkube_machinery::{Text, Value};
use rkube_runtime::api::{ContainerConfig, SandboxConfig};

use super::super::prepare_api::{ContainerContext, Prepare, Problem};

#[derive(Default)]
pub struct FakePrepare {
    /// Why volumes cannot be mounted.
    pub mount_problem: Mutex<Option<Problem>>,
    /// Why containers cannot be made.
    pub container_problem: Mutex<Option<Problem>>,
    /// Why a pod is evicted.
    pub storage_problem: Mutex<Option<Problem>>,
    pub refreshed: Mutex<Vec<String>>,
    pub mounted: Mutex<Vec<String>>,
    pub unmounted: Mutex<Vec<String>>,
}

fn answer<'a, T: Send + 'a>(result: Result<T, Problem>) -> BoxFuture<'a, Result<T, Problem>> {
    std::future::ready(result).boxed()
}

impl Prepare for FakePrepare {
    fn admit(&self, _: &Value) -> Result<(), Problem> {
        Ok(())
    }

    fn mount<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<(), Problem>> {
        if let Some(problem) = self.mount_problem.lock().clone() {
            return answer(Err(problem));
        }
        self.mounted.lock().push(pod.get("metadata").str("name").to_owned());
        answer(Ok(()))
    }

    fn refresh<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<(), Problem>> {
        self.refreshed.lock().push(pod.get("metadata").map("labels").str("color").to_owned());
        answer(Ok(()))
    }

    fn check_storage<'a>(&'a self, _: &'a Value, _: &'a [(Text, u64)]) -> BoxFuture<'a, Result<(), Problem>> {
        answer(self.storage_problem.lock().clone().map_or(Ok(()), Err))
    }

    fn unmount<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<(), Problem>> {
        self.unmounted.lock().push(uid.to_owned());
        answer(Ok(()))
    }

    fn known_pods(&self) -> Vec<Text> {
        Vec::new()
    }

    fn sandbox<'a>(&'a self, pod: &'a Value, attempt: u32) -> BoxFuture<'a, Result<SandboxConfig, Problem>> {
        let metadata = pod.get("metadata");
        answer(Ok(SandboxConfig {
            pod_name: metadata.str("name").to_owned(),
            pod_namespace: metadata.str("namespace").to_owned(),
            pod_uid: metadata.str("uid").to_owned(),
            attempt,
            ..SandboxConfig::default()
        }))
    }

    fn container<'a>(
        &'a self,
        _: &'a Value,
        container: &'a Value,
        context: ContainerContext<'a>,
    ) -> BoxFuture<'a, Result<ContainerConfig, Problem>> {
        if let Some(problem) = self.container_problem.lock().clone() {
            return answer(Err(problem));
        }
        answer(Ok(ContainerConfig {
            name: container.str("name").to_owned(),
            attempt: context.attempt,
            image: container.str("image").to_owned(),
            image_id: context.image.id.clone(),
            log_path: format!("{}/{}.log", container.str("name"), context.attempt).into(),
            ..ContainerConfig::default()
        }))
    }

    fn termination_log(&self, _: &str, _: &str, _: u32) -> PathBuf {
        PathBuf::new()
    }
}
