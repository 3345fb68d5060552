//! What is shown of a container that waits to be tried again.

use rkube_machinery::{Value, time};

use super::spec::{self, Container};
use super::state::{Record, Run, Waiting};

/// Has a container that ended too often wait until this time. What an event says of it; None where it has not ended.
pub fn crash_loop(pod: &Value, container: Container<'_>, record: &mut Record, until_micros: i64) -> Option<String> {
    let exit = record.exit().cloned()?;
    let (pod, name) = (spec::display_name(pod), container.name());
    let delay = time::format_duration(i64::try_from(record.backoff.delay().as_nanos()).unwrap_or(0));
    let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
    record.last = Some(Box::new(exit));
    record.run = Run::Waiting(Box::new(Waiting { reason: "CrashLoopBackOff".into(), message, until_micros }));
    Some(format!("Back-off restarting failed container {name} in pod {pod}"))
}

/// Has a container whose image could not be pulled wait until this time. What an event says of it.
pub fn image_pull(container: Container<'_>, record: &mut Record, until_micros: i64) -> Option<String> {
    let Run::Waiting(waiting) = &mut record.run else { return None };
    let short = format!("Back-off pulling image \"{}\"", container.image());
    waiting.message = format!("{short}: {}: {}", waiting.reason, waiting.message);
    waiting.reason = "ImagePullBackOff".into();
    waiting.until_micros = until_micros;
    Some(short)
}
