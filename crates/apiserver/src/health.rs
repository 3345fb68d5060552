//! `/healthz`, `/livez`, `/readyz`: whether the server lives and may be asked.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use rkube_catalog::Catalog;
use rkube_machinery::field::quote;
use rkube_store::Store;
use tokio::sync::watch;

use crate::content::{Answer, Body};

/// How a part of the process is: `Err` says what is wrong. Asked at every request for it, so it answers at once.
pub type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A store that takes longer is as good as none.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A named check and whether it holds.
type Check = (&'static str, Result<(), String>);

/// What is looked at.
pub struct Health {
    pub store: Arc<dyn Store>,
    pub catalog: Arc<Catalog>,
    /// Whether the log can be written.
    pub log: Probe,
    /// True once the server takes no more work.
    pub draining: watch::Receiver<bool>,
}

impl Health {
    /// `query` is what follows the path, in pairs.
    pub async fn answer(&self, path: &str, query: &[(String, String)]) -> Option<Answer> {
        let mut parts = path.strip_prefix('/')?.splitn(2, '/');
        let name = parts.next().unwrap_or_default();
        let single = parts.next();
        if !matches!(name, "healthz" | "livez" | "readyz") {
            return None;
        }
        let checks = self.checks(name).await;
        if let Some(single) = single {
            let check = checks.into_iter().find(|check| check.0 == single)?;
            return Some(match check.1 {
                Ok(()) => text(StatusCode::OK, "ok".to_owned()),
                Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
            });
        }
        let given =
            |key: &'static str| query.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str());
        let excluded: Vec<&str> = given("exclude").collect();
        Some(all(name, &checks, &excluded, given("verbose").next().is_some()))
    }

    /// Upstream's, in its order: all pages have the first three.
    async fn checks(&self, name: &str) -> Vec<Check> {
        let revision = match tokio::time::timeout(STORE_TIMEOUT, self.store.revision()).await {
            Ok(Ok(revision)) => Ok(revision),
            Ok(Err(error)) => Err(format!("the store does not answer: {error}")),
            Err(_) => Err("the store does not answer in time".to_owned()),
        };
        let store = revision.clone().map(drop);
        let mut checks = vec![("ping", Ok(())), ("log", (self.log)()), ("etcd", store.clone())];
        if name == "readyz" {
            checks.push(("etcd-readiness", store));
            checks.push(("informer-sync", self.cache_is_synced(revision.ok()).await));
        }
        // Nobody is served before they are there.
        checks.push(("poststarthook/rbac/bootstrap-roles", Ok(())));
        if name == "readyz" {
            let draining = if *self.draining.borrow() { Err("process is shutting down".to_owned()) } else { Ok(()) };
            checks.push(("shutdown", draining));
        }
        checks
    }

    /// Whether the watch cache, which all reads come from, follows the store and has seen what the store has.
    async fn cache_is_synced(&self, store: Option<u64>) -> Result<(), String> {
        let cache = self.catalog.cache();
        if !cache.is_watching() {
            return Err("the watch cache does not follow the store".to_owned());
        }
        match store {
            Some(revision) => cache.reach(revision).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

fn all(name: &str, checks: &[Check], excluded: &[&str], verbose: bool) -> Answer {
    let mut report = String::new();
    let mut failed = Vec::new();
    for (check, outcome) in checks {
        if excluded.contains(check) {
            report.push_str(&format!("[+]{check} excluded: ok\n"));
            continue;
        }
        match outcome {
            Ok(()) => report.push_str(&format!("[+]{check} ok\n")),
            // Everybody may ask: what is wrong is for the log, and for those who may ask for the single check.
            Err(why) => {
                failed.push(format!("{check}: {why}"));
                report.push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
    }
    report.push_str(&not_excluded(checks, excluded));
    if !failed.is_empty() {
        tracing::debug!(check = name, why = failed.join("; "), "not well");
        report.push_str(&format!("{name} check failed\n"));
        return text(StatusCode::INTERNAL_SERVER_ERROR, report);
    }
    if verbose {
        report.push_str(&format!("{name} check passed\n"));
        return text(StatusCode::OK, report);
    }
    text(StatusCode::OK, "ok".to_owned())
}

/// A line about names that no check has.
fn not_excluded(checks: &[Check], excluded: &[&str]) -> String {
    let mut unknown: Vec<&str> =
        excluded.iter().copied().filter(|name| checks.iter().all(|(check, _)| check != name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if unknown.is_empty() {
        return String::new();
    }
    let names: Vec<String> = unknown.into_iter().map(quote).collect();
    format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(","))
}

pub fn text(code: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Body::from(text.into_bytes()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ApiServer;
    use crate::test_server;
    use http_body_util::BodyExt as _;

    async fn get(server: &ApiServer, path: &str, query: &[(&str, &str)]) -> (u16, String) {
        let query: Vec<_> = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let answer = server.road.pages.health.answer(path, &query).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_well_server_says_so() {
        let server = test_server::server().await;
        for path in [
            "/healthz",
            "/livez",
            "/readyz",
            "/livez/ping",
            "/readyz/informer-sync",
            "/healthz/log",
            "/readyz/poststarthook/rbac/bootstrap-roles",
        ] {
            assert_eq!(get(&server, path, &[]).await, (200, "ok".to_owned()), "{path}");
        }
        let report = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n\
                      [+]poststarthook/rbac/bootstrap-roles ok\n[+]shutdown ok\nreadyz check passed\n";
        assert_eq!(get(&server, "/readyz", &[("verbose", "")]).await, (200, report.to_owned()));
        assert!(
            server.road.pages.health.answer("/livez/informer-sync", &[]).await.is_none(),
            "only readiness asks for it"
        );
        assert!(server.road.pages.health.answer("/health", &[]).await.is_none());
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_is_no_good_life() {
        let server = test_server::server_with_log(Arc::new(|| Err("logging blocked".to_owned()))).await;
        let report = "[+]ping ok\n[-]log failed: reason withheld\n[+]etcd ok\n\
                      [+]poststarthook/rbac/bootstrap-roles ok\nlivez check failed\n";
        assert_eq!(get(&server, "/livez", &[]).await, (500, report.to_owned()));
        let single = (500, "internal server error: logging blocked\n".to_owned());
        assert_eq!(get(&server, "/healthz/log", &[]).await, single);
        assert_eq!(get(&server, "/livez", &[("exclude", "log")]).await, (200, "ok".to_owned()));
        let query = [("exclude", "log"), ("exclude", "lag"), ("verbose", "1")];
        let report = "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n[+]poststarthook/rbac/bootstrap-roles ok\n\
                      warn: some health checks cannot be excluded: no matches for \"lag\"\nlivez check passed\n";
        assert_eq!(get(&server, "/livez", &query).await, (200, report.to_owned()));
    }

    #[tokio::test]
    async fn a_cache_that_lost_the_store_is_not_ready() {
        let server = test_server::server().await;
        assert!(server.road.catalog.cache().is_watching());
        server.road.pages.health.store.shutdown().await;
        let (code, why) = get(&server, "/readyz/informer-sync", &[]).await;
        assert_eq!((code, why.as_str()), (500, "internal server error: the watch cache does not follow the store\n"));
    }

    #[tokio::test]
    async fn a_server_that_ends_is_not_ready_but_alive() {
        let server = test_server::server().await;
        server.drain();
        assert_eq!(get(&server, "/livez", &[]).await.0, 200);
        assert!(get(&server, "/readyz", &[]).await.1.contains("[-]shutdown failed: reason withheld\n"));
        let single = (500, "internal server error: process is shutting down\n".to_owned());
        assert_eq!(get(&server, "/readyz/shutdown", &[]).await, single);
    }
}
