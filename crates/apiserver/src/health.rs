//! `/healthz`, `/livez`, `/readyz`: whether the server lives and may be asked.

use http::{HeaderValue, Response, StatusCode, header};

use crate::content::{Answer, Body};
use crate::server::ApiServer;

/// A named check and whether it holds.
type Check = (&'static str, Result<(), &'static str>);

pub async fn answer(server: &ApiServer, path: &str, query: &str) -> Option<Answer> {
    let mut parts = path.strip_prefix('/')?.splitn(2, '/');
    let name = parts.next().unwrap_or_default();
    let single = parts.next();
    if !matches!(name, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks = checks(server, name).await;
    if let Some(single) = single {
        let check = checks.into_iter().find(|check| check.0 == single)?;
        return Some(match check.1 {
            Ok(()) => text(StatusCode::OK, "ok".to_owned()),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        });
    }
    let excluded: Vec<&str> = query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).collect();
    let verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    Some(all(name, &checks, &excluded, verbose))
}

async fn checks(server: &ApiServer, name: &str) -> Vec<Check> {
    let store = match tokio::time::timeout(std::time::Duration::from_secs(2), server.store.revision()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err("the store does not answer"),
        Err(_) => Err("the store does not answer in time"),
    };
    let mut checks = vec![("ping", Ok(())), ("log", Ok(())), ("etcd", store)];
    if name == "readyz" {
        checks.push(("informer-sync", Ok(())));
        let draining = if server.is_draining() { Err("process is shutting down") } else { Ok(()) };
        checks.push(("shutdown", draining));
    }
    checks
}

fn all(name: &str, checks: &[Check], excluded: &[&str], verbose: bool) -> Answer {
    let mut report = String::new();
    let mut failed = false;
    for (check, outcome) in checks {
        if excluded.contains(check) {
            report.push_str(&format!("[+]{check} excluded: ok\n"));
            continue;
        }
        match outcome {
            Ok(()) => report.push_str(&format!("[+]{check} ok\n")),
            Err(_) => {
                failed = true;
                report.push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
    }
    if failed {
        report.push_str(&format!("{name} check failed\n"));
        return text(StatusCode::INTERNAL_SERVER_ERROR, report);
    }
    if verbose {
        report.push_str(&format!("{name} check passed\n"));
        return text(StatusCode::OK, report);
    }
    text(StatusCode::OK, "ok".to_owned())
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
