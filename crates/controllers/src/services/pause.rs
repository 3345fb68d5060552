//! How often a service is worked on, by how many pods it has: the work for a large one is bounded, however fast its pods
//! change, and a small one waits for next to nothing.

use std::collections::HashMap;
use std::time::Duration;

use rkube_operator::Key;
use tokio::time::Instant;

/// A service that was worked on is left alone for so long for each of its pods.
const PAUSE_EACH: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Until when services are left alone. Those that are gone are to be forgotten.
#[derive(Default)]
pub struct Pauses(HashMap<Key, Instant>);

impl Pauses {
    /// How long the service is left alone yet.
    pub fn left(&self, key: &Key) -> Option<Duration> {
        let left = self.0.get(key)?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// The service has been worked on.
    pub fn begin(&mut self, key: &Key, pods: usize) {
        let pause = PAUSE_EACH.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX)).min(PAUSE_MAX);
        self.0.insert(key.clone(), Instant::now() + pause);
    }

    pub fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_more_pods_the_longer_the_pause() {
        let mut pauses = Pauses::default();
        let key = Key { namespace: "n".to_owned(), name: "s".to_owned() };
        for (pods, expected) in [(0, None), (10, Some(500)), (1_000_000, Some(1_000_000))] {
            pauses.begin(&key, pods);
            assert_eq!(pauses.left(&key), expected.map(Duration::from_micros), "{pods}");
        }
        tokio::time::sleep(PAUSE_MAX).await;
        assert_eq!(pauses.left(&key), None);
        pauses.forget(&key);
        assert!(pauses.0.is_empty());
    }
}
