//! Stops a container: its hook, its turn, its signal, all within the grace period.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Text, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::hooks::Hook;
use super::kubelet::Kubelet;
use crate::pod::spec::{self, Container, Role};

/// However little is left of the grace period, a container gets so much to end by itself.
const GRACE_MIN: Duration = Duration::from_secs(2);

pub struct Kill {
    pub kubelet: Arc<Kubelet>,
    pub pod: Arc<Value>,
    /// In the order of [`spec::containers`].
    pub number: usize,
    pub id: String,
    pub grace_seconds: i64,
    /// Whose end to wait for, where all of the pod are stopped.
    pub turn: Option<Turn>,
    pub address: Option<IpAddr>,
}

impl Kill {
    pub async fn run(self) {
        let deadline = Instant::now() + Duration::from_secs(u64::try_from(self.grace_seconds).unwrap_or(0));
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let container = containers.get(self.number).copied();
        if let Some(container) = container.filter(|_| self.grace_seconds > 0) {
            self.run_hook(container, deadline).await;
        }
        if let Some(turn) = &self.turn {
            turn.wait(deadline).await;
        }
        let left = deadline.saturating_duration_since(Instant::now()).max(GRACE_MIN);
        if let Err(error) = self.kubelet.runtime().stop_container(&self.id, left).await {
            tracing::warn!(pod = %spec::display_name(&pod), id = self.id, %error, "a container cannot be stopped");
        }
        if let (Some(turn), Some(container)) = (&self.turn, container) {
            turn.end(container.name());
        }
    }

    async fn run_hook(&self, container: Container<'_>, deadline: Instant) {
        let handler = container.value.get("lifecycle").get("preStop");
        if handler.is_null() {
            return;
        }
        let hook = Hook {
            kubelet: self.kubelet.clone(),
            pod: self.pod.clone(),
            handler: handler.clone(),
            container: container.value.clone(),
            address: self.address,
            id: self.id.clone(),
        };
        match tokio::time::timeout_at(deadline, hook.run()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(pod = %spec::display_name(&self.pod), container = container.name(), %error, "a hook failed");
                let path = container.field_path();
                self.kubelet.tell(&self.pod, &path, true, "FailedPreStopHook", "PreStopHook failed");
            }
            Err(_) => {
                let pod = spec::display_name(&self.pod);
                tracing::debug!(pod, container = container.name(), "a hook took longer than the grace period");
            }
        }
    }
}

/// The order in which the containers of a pod are stopped: main ones first, then sidecars, the last one first.
#[derive(Clone)]
pub struct Turn {
    ended: watch::Sender<HashSet<Text>>,
    /// Whose end is waited for.
    before: Vec<Text>,
}

impl Turn {
    /// One for each container of the pod. `running`: those that do not are not waited for.
    pub fn all(containers: &[Container<'_>], running: impl Fn(&str) -> bool) -> Vec<Turn> {
        let ended = watch::channel(HashSet::new()).0;
        let of = |role: Role| containers.iter().enumerate().filter(move |(_, container)| container.role == role);
        let turn = |(number, container): (usize, &Container<'_>)| {
            let before: Vec<Text> = match container.role {
                Role::Sidecar => of(Role::Main)
                    .chain(of(Role::Sidecar).filter(|(other, _)| *other > number))
                    .map(|(_, other)| other.name().into())
                    .filter(|name: &Text| running(name))
                    .collect(),
                _ => Vec::new(),
            };
            Turn { ended: ended.clone(), before }
        };
        containers.iter().enumerate().map(turn).collect()
    }

    async fn wait(&self, deadline: Instant) {
        let mut ended = self.ended.subscribe();
        let all = ended.wait_for(|ended| self.before.iter().all(|name| ended.contains(name)));
        // Whether it was in time or not: now it is stopped.
        let _ = tokio::time::timeout_at(deadline, all).await;
    }

    fn end(&self, name: &str) {
        self.ended.send_modify(|ended| {
            ended.insert(name.into());
        });
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn sidecars_wait_for_the_others() {
        let text = br#"{"spec":{"initContainers":[{"name":"s1","restartPolicy":"Always"},{"name":"i"},
            {"name":"s2","restartPolicy":"Always"}],"containers":[{"name":"a"},{"name":"b"}]}}"#;
        let pod = json::parse(text).unwrap();
        let containers = spec::containers(&pod);
        let turns = Turn::all(&containers, |name| name != "b");
        let before: Vec<Vec<&str>> = turns.iter().map(|turn| turn.before.iter().map(Text::as_str).collect()).collect();
        assert_eq!(before, [vec!["a", "s2"], vec![], vec!["a"], vec![], vec![]]);
    }
}
