//! Images that nobody uses go when the disk is nearly full, those first that were not used for longest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rkube_runtime::api::{Image, ImageFilesystem};

use super::super::kubelet::Kubelet;
use crate::pod::backoff::micros;

/// How often it is looked at, as upstream does.
const PERIOD: Duration = Duration::from_secs(300);
/// Above this part of the disk, in hundredths, images go until no more than the other is used.
const HIGH_PERCENT: u64 = 85;
const LOW_PERCENT: u64 = 80;
/// Where images take less than this part of the disk, it is full of other things: without them it would be as full, and
/// people would miss what they have loaded.
const WORTH_PERCENT: u64 = 5;
/// Younger ones stay.
const AGE_MIN: Duration = Duration::from_secs(120);

/// When an image was first seen, and when somebody last used it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first_micros: i64,
    used_micros: i64,
}

/// Until this is dropped.
pub(in super::super) async fn collect(kubelet: Arc<Kubelet>) {
    let mut seen: HashMap<String, Seen> = HashMap::new();
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        if let Err(error) = collect_once(&kubelet, &mut seen).await {
            tracing::warn!(%error, "images cannot be collected");
        }
    }
}

async fn collect_once(
    kubelet: &Arc<Kubelet>,
    seen: &mut HashMap<String, Seen>,
) -> Result<(), rkube_runtime::api::Error> {
    let (runtime, now) = (kubelet.runtime(), kubelet.now_micros());
    let images = runtime.images().await?;
    let containers = runtime.containers().await?;
    let used: HashSet<&str> =
        containers.iter().flat_map(|status| [status.image.as_str(), status.image_ref.as_str()]).collect();
    observe(seen, &images, &used, now);
    let filesystem = runtime.image_filesystem().await?;
    let (chosen, wanted_bytes) = plan(&images, seen, &used, &filesystem, now);
    let mut freed = 0;
    for image in chosen {
        match runtime.remove_image(&image.id).await {
            Ok(()) => freed += image.size_bytes,
            Err(error) => tracing::warn!(image = image.id, %error, "an image cannot be removed"),
        }
    }
    if freed < wanted_bytes {
        let percent = used_percent(&filesystem);
        let message = format!(
            "Insufficient free disk space on the node's image filesystem ({percent}% of {} GiB used). Failed to free \
             sufficient space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be \
             used by active images, logs, volumes, or other data.",
            filesystem.capacity_bytes >> 30
        );
        kubelet.tell_of_node(true, "FreeDiskSpaceFailed", message);
    }
    Ok(())
}

fn is_used(image: &Image, used: &HashSet<&str>) -> bool {
    let mut names = image.tags.iter().chain(&image.digests).chain([&image.id]);
    names.any(|name| used.contains(name.as_str()))
}

fn observe(seen: &mut HashMap<String, Seen>, images: &[Image], used: &HashSet<&str>, now: i64) {
    let present: HashSet<&str> = images.iter().map(|image| image.id.as_str()).collect();
    seen.retain(|id, _| present.contains(id.as_str()));
    for image in images {
        let known = seen.entry(image.id.clone()).or_insert(Seen { first_micros: now, used_micros: 0 });
        if is_used(image, used) {
            known.used_micros = now;
        }
    }
}

fn used_percent(filesystem: &ImageFilesystem) -> u64 {
    let available = filesystem.available_bytes.min(filesystem.capacity_bytes);
    100 - available.saturating_mul(100).checked_div(filesystem.capacity_bytes).unwrap_or(100)
}

/// Which images go, and how many bytes are to be freed.
fn plan<'a>(
    images: &'a [Image],
    seen: &HashMap<String, Seen>,
    used: &HashSet<&str>,
    filesystem: &ImageFilesystem,
    now: i64,
) -> (Vec<&'a Image>, u64) {
    let worth = filesystem.capacity_bytes / 100 * WORTH_PERCENT;
    if filesystem.capacity_bytes == 0 || used_percent(filesystem) < HIGH_PERCENT || filesystem.used_bytes < worth {
        return (Vec::new(), 0);
    }
    let wanted = (filesystem.capacity_bytes / 100 * (100 - LOW_PERCENT)).saturating_sub(filesystem.available_bytes);
    let mut candidates: Vec<(&Image, Seen)> = images
        .iter()
        .filter(|image| !image.pinned && !is_used(image, used))
        .filter_map(|image| Some((image, *seen.get(&image.id)?)))
        .filter(|(_, seen)| now - seen.first_micros >= micros(AGE_MIN))
        .collect();
    candidates.sort_by_key(|(_, seen)| (seen.used_micros, seen.first_micros));
    let mut freed = 0;
    let chosen = candidates.into_iter().take_while(|(image, _)| {
        let goes = freed < wanted;
        freed += image.size_bytes;
        goes
    });
    (chosen.map(|(image, _)| image).collect(), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_images_go_first_and_no_more_than_is_needed() {
        let image = |id: &str, pinned: bool| Image {
            id: id.to_owned(),
            tags: vec![format!("{id}:1")],
            size_bytes: 4,
            pinned,
            ..Image::default()
        };
        let images = [image("a", false), image("b", false), image("c", false), image("d", true), image("e", false)];
        let used = HashSet::from(["c:1"]);
        let minute = 60_000_000;
        let mut seen = HashMap::new();
        observe(&mut seen, &images[1..2], &HashSet::from(["b:1"]), minute);
        observe(&mut seen, &images[..4], &used, 2 * minute);
        observe(&mut seen, &images, &used, 10 * minute);
        let disk = |available_bytes: u64| ImageFilesystem {
            capacity_bytes: 100,
            available_bytes,
            used_bytes: 20,
            ..ImageFilesystem::default()
        };
        let chosen = |available: u64, now: i64| {
            let (images, wanted) = plan(&images, &seen, &used, &disk(available), now);
            (images.iter().map(|image| image.id.as_str()).collect::<String>(), wanted)
        };
        assert_eq!(chosen(16, 11 * minute), (String::new(), 0));
        assert_eq!(chosen(15, 11 * minute), ("ab".to_owned(), 5), "e is too young, c is used, d is to stay");
        assert_eq!(chosen(0, 20 * minute), ("aeb".to_owned(), 20));
        let small = ImageFilesystem { used_bytes: 4, ..disk(0) };
        assert!(plan(&images, &seen, &used, &small, 20 * minute).0.is_empty(), "others fill the disk");
    }
}
