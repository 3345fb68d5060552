//! Deletes tokens when they expire.

use std::sync::Arc;
use std::time::Duration;

use rkube_operator::{Outcome, Queue};
use serde_json::json;

use super::{Lasts, NAMESPACE, tokens};
use crate::Context;
use crate::requests;

const NAME: &str = "token-cleaner-controller";
const WORKERS: usize = 1;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let watched = tokens(&caches).on_change(move |change| {
        if change.new.is_some() {
            adding.add(change.key.name.clone());
        }
    });
    watched.synced().await;
    let (watched, later) = (Arc::new(watched), queue.clone());
    rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (client, clock, watched, later) = (client.clone(), clock.clone(), watched.clone(), later.clone());
        async move {
            let Some(token) = watched.get(NAMESPACE, &name) else { return Ok(Outcome::Unchanged) };
            match token.lasts(clock.now_micros()) {
                Lasts::Forever => return Ok(Outcome::Unchanged),
                Lasts::For(micros) => {
                    later.add_after(name, Duration::from_micros(micros));
                    return Ok(Outcome::Unchanged);
                }
                Lasts::Over => {}
            }
            let options = json!({ "preconditions": { "uid": token.uid.as_str() } });
            let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
            match requests::delete_with(&client, &path, options).await {
                // Gone, or another of the same name.
                Err(rkube_operator::kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    Ok(Outcome::Unchanged)
                }
                other => other.map(|_| Outcome::Unchanged).map_err(rkube_operator::Error::from),
            }
        }
    })
    .await;
}
