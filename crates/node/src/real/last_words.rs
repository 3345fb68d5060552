//! What a container that ended left to be said: in its file, or where its policy wants that, at the end of its log.

use std::path::Path;

use rkube_runtime::api::ContainerStatus;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::labels;

/// Of the file; what is more is cut off at the front.
const FILE_MAX: u64 = 4096;
/// Of the log.
const LOG_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;
/// So much of the end of a log is looked at for them.
const LOG_READ_MAX: u64 = 256 * 1024;

/// `pod_logs`: where the logs of all pods are.
pub async fn read(status: &ContainerStatus, pod_logs: &Path) -> String {
    let note = |name: &str| status.annotations.get(name).map(String::as_str).unwrap_or_default();
    let falls_back = note(labels::MESSAGE_POLICY) == "FallbackToLogsOnError"
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let path = note(labels::MESSAGE_PATH);
    let mount = status.mounts.iter().find(|mount| !path.is_empty() && mount.container_path == path);
    let text = match mount {
        Some(mount) => match tail(&mount.host_path, FILE_MAX).await {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return format!("Error on reading termination log {}: {error}", mount.host_path.display());
            }
        },
        None => String::new(),
    };
    if !text.is_empty() || !falls_back {
        return text;
    }
    match tail(&labels::log_file(status, pod_logs), LOG_READ_MAX).await {
        Ok(bytes) => end_of_log(&bytes),
        Err(error) => format!("Error on reading termination message from logs: {error}"),
    }
}

async fn tail(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut file = tokio::fs::File::open(path).await?;
    let length = file.metadata().await?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(max))).await?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// The last lines, without what the log adds to them.
fn end_of_log(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut said = String::new();
    for line in text.lines() {
        // `TIME STREAM TAGS TEXT`; what was cut off at the front is not such a line.
        let mut parts = line.splitn(4, ' ');
        let (Some(_), Some("stdout" | "stderr"), Some(tags), Some(text)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        said.push_str(text);
        if !tags.starts_with('P') {
            said.push('\n');
        }
    }
    let lines: Vec<&str> = said.split_inclusive('\n').collect();
    let last: String = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].concat();
    let mut start = last.len().saturating_sub(LOG_MAX);
    while !last.is_char_boundary(start) {
        start += 1;
    }
    last[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_found() {
        let log = "cut off\n2026-01-01T00:00:00.0Z stdout P one \n2026-01-01T00:00:00.1Z stdout F two\n\
                   2026-01-01T00:00:00.2Z stderr F three\n";
        assert_eq!(end_of_log(log.as_bytes()), "one two\nthree\n");
        let long: String = (0..200).map(|number| format!("2026-01-01T00:00:00Z stdout F {number:0>99}\n")).collect();
        assert_eq!(end_of_log(long.as_bytes()).len(), LOG_MAX);
        let many: String = (0..200).map(|number| format!("2026-01-01T00:00:00Z stdout F {number}\n")).collect();
        assert_eq!(end_of_log(many.as_bytes()).lines().count(), LOG_LINES_MAX);
    }
}
