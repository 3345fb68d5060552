//! The volumes of all pods of this node: had ready, kept up to date, taken away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use rkube_machinery::{Text, Value, json};
use rkube_runtime::images::disk_usage;
use tokio::sync::mpsc;

use super::mounts::Mounted;
use super::preparer::Shared;
use super::watches::{Watches, references};
use super::{fields, security, storage};
use crate::real::Problem;
use crate::real::volumes::directory::PodDirectory;
use crate::real::volumes::{self, ChangePolicy, Content, Failure, Gather, Gathered, SetUp, version_name};

const FAILED_MOUNT: &str = "FailedMount";
/// Changes that come together are written together.
const SETTLE: Duration = Duration::from_millis(100);

/// What is done with volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All are to be there.
    All,
    /// Those that follow objects of the API are to be as these are.
    Refresh,
}

pub struct PodVolumes {
    shared: Arc<Shared>,
    watches: Watches,
    pods: Mutex<HashMap<Text, Arc<tokio::sync::Mutex<Held>>>>,
}

/// What is held of a pod.
#[derive(Default)]
struct Held {
    /// By name.
    mounted: HashMap<Text, Mounted>,
    /// The pod, as JSON without its status, if it has volumes that follow objects.
    document: Option<Box<str>>,
    /// It is gone: whoever waited for it has come too late.
    is_gone: bool,
}

impl PodVolumes {
    /// Starts with a task that writes what has changed; it ends with this.
    pub fn start(shared: Arc<Shared>) -> Arc<PodVolumes> {
        let (changed, mut uids) = mpsc::unbounded_channel::<Text>();
        let watches = Watches::new(shared.watched.clone(), changed);
        let started = Arc::new(PodVolumes { shared, watches, pods: Mutex::default() });
        let weak = Arc::downgrade(&started);
        tokio::spawn(async move {
            while let Some(first) = uids.recv().await {
                tokio::time::sleep(SETTLE).await;
                let mut changed = vec![first];
                while let Ok(next) = uids.try_recv() {
                    changed.push(next);
                }
                changed.sort();
                changed.dedup();
                let Some(volumes) = weak.upgrade() else { return };
                for uid in changed {
                    volumes.refresh_changed(&uid).await;
                }
            }
        });
        started
    }

    /// Goes on to its end where nobody waits for it any more, so that nothing is mounted behind the back of who takes it
    /// away next.
    pub async fn prepare(self: &Arc<Self>, pod: &Value, pass: Pass) -> Result<(), Problem> {
        let (volumes, pod) = (self.clone(), Arc::new(pod.clone()));
        let held = self.pods.lock().entry(crate::pod::spec::uid(&pod)).or_default().clone();
        let done = tokio::spawn(async move { volumes.prepare_held(&mut *held.lock().await, &pod, pass).await });
        done.await.unwrap_or_else(|error| Err(Problem::new(FAILED_MOUNT, error.to_string())))
    }

    async fn prepare_held(&self, held: &mut Held, pod: &Arc<Value>, pass: Pass) -> Result<(), Problem> {
        let uid = pod.get("metadata").str("uid");
        let Some(directory) = PodDirectory::new(&self.shared.config.root, uid) else {
            return Err(Problem::new(FAILED_MOUNT, format!("{uid:?} is no uid")));
        };
        if held.is_gone {
            return Err(Problem::new(FAILED_MOUNT, "the pod is gone"));
        }
        let references = references(pod);
        held.document = (!references.is_empty()).then(|| document(pod));
        self.watches.follow(uid, references);
        let (gathered, mut failures) = self.gather(pod, pass).await;
        let done = self.set_up(pod, directory, gathered).await?;
        for (volume, name, result) in done {
            match result {
                Ok(mounted) => drop(held.mounted.insert(volume, mounted)),
                Err(why) => failures.push((volume, Failure::SetUp { name, why })),
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(problem(&failures)) }
    }

    /// Where the volumes of a pod are; has them there, if this life of the process did not yet.
    pub async fn mounted(self: &Arc<Self>, pod: &Value) -> Result<HashMap<Text, Mounted>, Problem> {
        let uid = pod.get("metadata").str("uid");
        let held = self.pods.lock().get(uid).cloned();
        if let Some(held) = held {
            let held = held.lock().await;
            if volumes::used(pod).iter().all(|volume| held.mounted.contains_key(volume.str("name"))) {
                return Ok(held.mounted.clone());
            }
        }
        self.prepare(pod, Pass::All).await?;
        let held = self.pods.lock().entry(uid.into()).or_default().clone();
        let held = held.lock().await;
        Ok(held.mounted.clone())
    }

    /// Does something with the pod's directory that blocks, while nobody else has it; to its end, as
    /// [`PodVolumes::prepare`].
    pub async fn hold<T: Send + 'static>(
        &self,
        uid: &str,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let held = self.pods.lock().entry(uid.into()).or_default().clone();
        let done = tokio::spawn(async move {
            let held = held.lock().await;
            if held.is_gone {
                return Err("the pod is gone".to_owned());
            }
            tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
        });
        done.await.map_err(|error| error.to_string())?
    }

    /// What the directories of the pod's own take of the disk. What cannot be measured is left out.
    pub async fn used_bytes(&self, pod: &Value) -> HashMap<Text, u64> {
        let Some(held) = self.pods.lock().get(pod.get("metadata").str("uid")).cloned() else { return HashMap::new() };
        let mounted = held.lock().await.mounted.clone();
        let volumes = storage::counted(pod).filter_map(|volume| {
            let name: Text = volume.str("name").into();
            Some((mounted.get(&name)?.path.clone(), name))
        });
        let volumes: Vec<_> = volumes.collect();
        let walk = move || {
            let used = volumes.into_iter().filter_map(|(path, name)| Some((name, disk_usage(&path).ok()?.bytes)));
            used.collect()
        };
        tokio::task::spawn_blocking(walk).await.unwrap_or_default()
    }

    /// As [`PodVolumes::prepare`], to its end.
    pub async fn tear_down(self: &Arc<Self>, uid: &str) -> Result<(), Problem> {
        let (volumes, owned) = (self.clone(), Text::from(uid));
        let done = tokio::spawn(async move { volumes.tear_down_held(&owned).await }).await;
        let done = done.unwrap_or_else(|error| Err(error.to_string()));
        done.map_err(|why| {
            Problem::new("FailedUnMount", format!("the volumes of pod {uid} cannot be taken away: {why}"))
        })
    }

    async fn tear_down_held(&self, uid: &str) -> Result<(), String> {
        let held = self.pods.lock().entry(uid.into()).or_default().clone();
        let mut held = held.lock().await;
        self.watches.forget(uid);
        self.shared.tokens.forget(uid);
        let (root, name) = (self.shared.config.root.clone(), uid.to_owned());
        let done = tokio::task::spawn_blocking(move || volumes::tear_down(&root, &name)).await;
        done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        held.is_gone = true;
        self.pods.lock().remove(uid);
        Ok(())
    }

    /// An object of the pod has changed.
    async fn refresh_changed(&self, uid: &str) {
        let Some(held) = self.pods.lock().get(uid).cloned() else { return };
        let mut held = held.lock().await;
        let pod = held.document.as_ref().and_then(|document| json::parse(document.as_bytes()).ok());
        let Some(pod) = pod.map(Arc::new) else { return };
        if let Err(problem) = self.prepare_held(&mut held, &pod, Pass::Refresh).await {
            // Who looks at the pod again says so.
            tracing::debug!(uid, why = problem.message, "a volume cannot be brought up to date yet");
        }
    }

    async fn gather(&self, pod: &Value, pass: Pass) -> (Vec<(Text, Gathered)>, Vec<(Text, Failure)>) {
        let gather = Gather {
            pod,
            objects: &self.shared.objects,
            tokens: &self.shared.tokens,
            allocatable: &self.shared.config.allocatable,
            group: security::volume_group(pod),
            user: security::volume_user(pod),
        };
        let wanted = volumes::used(pod).into_iter().filter(|volume| pass == Pass::All || follows_objects(volume));
        let asked = wanted.map(|volume| {
            let gather = &gather;
            async move {
                let found = match volumes::kind_of(volume) {
                    Some(kind) => (kind.gather)(gather, volume).await,
                    None => Err(Failure::Process { why: "no volume plugin matched".to_owned() }),
                };
                (Text::from(volume.str("name")), found)
            }
        });
        let (mut gathered, mut failures) = (Vec::new(), Vec::new());
        for (name, found) in join_all(asked).await {
            match found {
                Ok(volume) => gathered.push((name, volume)),
                Err(failure) => failures.push((name, failure)),
            }
        }
        (gathered, failures)
    }

    /// By volume, and by the name that messages call it.
    async fn set_up(
        &self,
        pod: &Arc<Value>,
        directory: PodDirectory,
        gathered: Vec<(Text, Gathered)>,
    ) -> Result<Vec<(Text, Text, Result<Mounted, String>)>, Problem> {
        if gathered.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.shared.config.clock.now_seconds();
        let version = version_name(now, self.shared.config.entropy.next_u64());
        let memory = fields::quantity(self.shared.config.allocatable.get("memory")).value();
        let pod = pod.clone();
        let work = move || {
            let policy = pod.get("spec").get("securityContext").str("fsGroupChangePolicy");
            let context = SetUp {
                pod: &pod,
                directory: &directory,
                group: security::volume_group(&pod),
                policy: if policy == "OnRootMismatch" { ChangePolicy::OnRootMismatch } else { ChangePolicy::Always },
                memory_bytes: u64::try_from(memory).unwrap_or(0),
                version: &version,
            };
            let done = gathered.into_iter().map(|(volume, gathered)| {
                let mounted = volumes::set_up(&context, &gathered).map(|path| Mounted {
                    path,
                    name: gathered.name.to_string(),
                    extra_group: gathered.extra_group,
                    // What is written atomically is not the pod's to write.
                    read_only: gathered.read_only || matches!(gathered.content, Content::Files { .. }),
                });
                (volume, gathered.name, mounted)
            });
            done.collect()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Problem::new(FAILED_MOUNT, error.to_string()))
    }
}

fn follows_objects(volume: &Value) -> bool {
    ["configMap", "secret", "projected", "downwardAPI"].iter().any(|field| volume.has(field))
}

/// What is needed of a pod to write its volumes anew.
fn document(pod: &Value) -> Box<str> {
    let metadata = pod.get("metadata");
    let mut kept = Value::object();
    for field in ["name", "namespace", "uid", "labels", "annotations"] {
        kept.object_mut("metadata").set(field, metadata.get(field).clone());
    }
    kept.set("spec", pod.get("spec").clone());
    json::to_string(&kept).into()
}

/// The first thing that is wrong, in upstream's words.
fn problem(failures: &[(Text, Failure)]) -> Problem {
    let processed = failures.iter().filter(|(_, failure)| matches!(failure, Failure::Process { .. }));
    let unprocessed: Vec<&str> = processed.map(|(volume, _)| volume.as_str()).collect();
    let names: Vec<&str> = failures.iter().map(|(volume, _)| volume.as_str()).collect();
    let set_up = failures.iter().find_map(|(_, failure)| match failure {
        Failure::SetUp { name, why } => Some(format!("MountVolume.SetUp failed for volume {name:?} : {why}")),
        Failure::Process { .. } => None,
    });
    let message = set_up.unwrap_or_else(|| {
        let whys: Vec<&str> = failures
            .iter()
            .filter_map(|(_, failure)| match failure {
                Failure::Process { why } => Some(why.as_str()),
                Failure::SetUp { .. } => None,
            })
            .collect();
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process \
             volumes=[{}]: {}",
            names.join(" "),
            unprocessed.join(" "),
            whys.join("; ")
        )
    });
    Problem::new(FAILED_MOUNT, message)
}
