//! The image of a container: whether it is here, and how it comes here.

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Value, time};
use rkube_runtime::api::{Error, Image};
use tokio::time::Instant;

use super::credentials;
use super::kubelet::Kubelet;
use crate::pod::spec::Container;

/// Why a container has no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProblem {
    pub reason: &'static str,
    pub message: String,
    /// It was asked for, and did not come: it is asked for less often then.
    pub counts: bool,
}

/// Has the image ready as the container's pull policy wants it, and tells about it.
pub async fn ensure(kubelet: &Arc<Kubelet>, pod: &Value, container: Container<'_>) -> Result<Image, PullProblem> {
    let (image, path) = (container.image(), container.field_path());
    let tell = |warning: bool, reason: &str, message: String| kubelet.tell(pod, &path, warning, reason, message);
    let policy = container.value.str("imagePullPolicy");
    if policy != "Always" {
        match kubelet.runtime().image(image).await {
            Ok(Some(found)) => {
                let text = "already present on machine and can be accessed by the pod";
                tell(false, "Pulled", format!("Container image \"{image}\" {text}"));
                return Ok(found);
            }
            Ok(None) if policy == "Never" => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                tell(true, "ErrImageNeverPull", message.clone());
                return Err(problem("ErrImageNeverPull", message, false));
            }
            Ok(None) => {}
            Err(Error::InvalidImageName(why)) => return Err(invalid(image, &why, tell)),
            Err(error) => {
                let message = format!("Failed to inspect image \"{image}\": {error}");
                tell(true, "InspectFailed", message.clone());
                return Err(problem("ImageInspectError", message, false));
            }
        }
    }
    pull(kubelet, pod, image, tell).await
}

async fn pull(
    kubelet: &Arc<Kubelet>,
    pod: &Value,
    image: &str,
    tell: impl Fn(bool, &str, String),
) -> Result<Image, PullProblem> {
    tell(false, "Pulling", format!("Pulling image \"{image}\""));
    let begin = Instant::now();
    let mut last = None;
    // Those of the pod one after the other, and where there are none without.
    for credentials in credentials::of_pod(kubelet, pod, image).await {
        match kubelet.runtime().pull_image(image, credentials).await {
            Ok(pulled) => {
                let took = shown(begin.elapsed());
                let size = pulled.size_bytes;
                let text = format!("in {took} ({took} including waiting). Image size: {size} bytes.");
                tell(false, "Pulled", format!("Successfully pulled image \"{image}\" {text}"));
                return Ok(pulled);
            }
            Err(Error::InvalidImageName(why)) => return Err(invalid(image, &why, tell)),
            Err(error) => last = Some(error.to_string()),
        }
    }
    let why = last.unwrap_or_default();
    tell(true, "Failed", format!("Failed to pull image \"{image}\": {why}"));
    Err(problem("ErrImagePull", why, true))
}

fn invalid(image: &str, why: &str, tell: impl Fn(bool, &str, String)) -> PullProblem {
    let message = format!("Failed to apply default image tag \"{image}\": {why}");
    tell(true, "InspectFailed", message.clone());
    problem("InvalidImageName", message, false)
}

fn problem(reason: &'static str, message: String, counts: bool) -> PullProblem {
    PullProblem { reason, message, counts }
}

/// To the millisecond, as events show it.
fn shown(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 1_000_000);
    time::format_duration(millis.saturating_mul(1_000_000))
}
