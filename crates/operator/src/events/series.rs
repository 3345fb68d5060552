//! The recorder of events.k8s.io/v1 Events: what is said again about an object in the same state is a series. Its
//! beginning is written at once, its count from time to time and when it is over.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use kube::Client;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::send::{Sent, create, patch};
use super::{EventType, Metadata, Reference, WAITING_MAX, event_name};
use crate::process::held;

/// A series is over when nothing was said for so long; this often it is looked for such ones. Upstream's.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// This often the counts of series that go on are written. Upstream's.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// So many are written at a time.
const WRITES_AT_ONCE: usize = 32;
/// So many events are remembered; beyond, the oldest begins no series any more.
const REMEMBERED_MAX: usize = 16_384;

/// What there is to say of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    pub regarding: Reference,
    /// Another object that has to do with it.
    pub related: Option<Reference>,
    pub event_type: EventType,
    pub reason: Text,
    /// What was done, such as `Binding`.
    pub action: Text,
}

/// Writes Events for as long as there is a clone of it.
#[derive(Clone)]
pub struct SeriesRecorder {
    sender: mpsc::Sender<Said>,
    clock: Arc<dyn Clock>,
}

struct Said {
    series: Series,
    note: String,
    at_nanos: i64,
}

impl SeriesRecorder {
    /// `controller` is who says it, such as `default-scheduler`, and `instance` which one of these.
    pub fn start(client: Client, clock: Arc<dyn Clock>, controller: &str, instance: &str) -> SeriesRecorder {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let reporter = Arc::new(Reporter { client, controller: controller.into(), instance: instance.into() });
        tokio::spawn(held(write_all(reporter, clock.clone(), receiver)));
        SeriesRecorder { sender, clock }
    }

    /// Does not wait.
    pub fn event(&self, series: Series, note: impl Into<String>) {
        let at_nanos = self.clock.distinct_nanos();
        if self.sender.try_send(Said { series, note: note.into(), at_nanos }).is_err() {
            tracing::debug!("too many events wait to be written: one is lost");
        }
    }
}

struct Reporter {
    client: Client,
    controller: Text,
    instance: Text,
}

/// An event as it was said first, and how often since.
#[derive(Clone)]
struct Known {
    name: String,
    note: String,
    first_micros: i64,
    /// With the first; 1 is no series.
    count: u32,
    last_micros: i64,
}

async fn write_all(reporter: Arc<Reporter>, clock: Arc<dyn Clock>, mut receiver: mpsc::Receiver<Said>) {
    let mut book = Book::default();
    let mut writing: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let mut refresh_at = Instant::now() + REFRESH;
    // Nothing wakes up while there is nothing to finish.
    let mut finish_at: Option<Instant> = None;
    loop {
        let finish = async { tokio::time::sleep_until(finish_at.unwrap_or_else(Instant::now)).await };
        tokio::select! {
            biased;
            Some(()) = writing.next() => {}
            said = receiver.recv(), if writing.len() < WRITES_AT_ONCE => {
                let Some(said) = said else { break };
                if let Some((series, known)) = book.take(said) {
                    writing.push(write(reporter.clone(), series, known).boxed());
                }
                finish_at.get_or_insert_with(|| Instant::now() + FINISH);
            }
            () = finish, if finish_at.is_some() => {
                let mut due = book.finish(clock.now_micros());
                if Instant::now() >= refresh_at {
                    due.extend(book.running());
                    refresh_at = Instant::now() + REFRESH;
                }
                for (series, known) in due {
                    write(reporter.clone(), series, known).await;
                }
                finish_at = (!book.known.is_empty()).then(|| Instant::now() + FINISH);
            }
        }
    }
    while writing.next().await.is_some() {}
}

/// What was said of late.
#[derive(Default)]
struct Book {
    known: HashMap<Series, Known>,
    /// The order in which they came.
    order: VecDeque<Series>,
}

impl Book {
    /// What to write of it, if anything.
    fn take(&mut self, said: Said) -> Option<(Series, Known)> {
        let Said { series, note, at_nanos } = said;
        let now = at_nanos.div_euclid(1000);
        if let Some(known) = self.known.get_mut(&series) {
            known.count += 1;
            known.last_micros = now;
            return (known.count == 2).then(|| (series, known.clone()));
        }
        let name = event_name(&series.regarding.name, at_nanos);
        let known = Known { name, note, first_micros: now, count: 1, last_micros: now };
        self.known.insert(series.clone(), known.clone());
        self.order.push_back(series.clone());
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        Some((series, known))
    }

    /// Forgets what is over; the series among it are to be written for the last time.
    fn finish(&mut self, now_micros: i64) -> Vec<(Series, Known)> {
        let finish_micros = i64::try_from(FINISH.as_micros()).unwrap_or(i64::MAX);
        let over = |known: &Known| known.last_micros.saturating_add(finish_micros) < now_micros;
        let mut due: Vec<(Series, Known)> = self.known.extract_if(|_, known| over(known)).collect();
        self.order.retain(|series| self.known.contains_key(series));
        due.retain(|(_, known)| known.count > 1);
        due.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        due
    }

    fn running(&self) -> Vec<(Series, Known)> {
        let known = self.order.iter().filter_map(|series| Some((series.clone(), self.known.get(series)?.clone())));
        known.filter(|(_, known)| known.count > 1).collect()
    }
}

async fn write(reporter: Arc<Reporter>, series: Series, known: Known) {
    let namespace = series.regarding.event_namespace();
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let event = Event::of(&reporter, &series, &known);
    let client = &reporter.client;
    if known.count == 1 {
        create(client, &events, &event).await;
        return;
    }
    let counted = json!({ "series": event.series });
    if patch(client, &events, &known.name, &counted).await == Sent::NotFound
        && create(client, &events, &event).await == Sent::AlreadyExists
    {
        // It was on its way when the series began.
        patch(client, &events, &known.name, &counted).await;
    }
}

/// As it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    event_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Counted>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: &'a Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<&'a Reference>,
    note: &'a str,
    r#type: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    count: u32,
    last_observed_time: String,
}

impl<'a> Event<'a> {
    fn of(reporter: &'a Reporter, series: &'a Series, known: &'a Known) -> Event<'a> {
        let counted = || Counted { count: known.count, last_observed_time: time::format_micros(known.last_micros) };
        Event {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: Metadata { name: &known.name, namespace: series.regarding.event_namespace() },
            event_time: time::format_micros(known.first_micros),
            series: (known.count > 1).then(counted),
            reporting_controller: &reporter.controller,
            reporting_instance: &reporter.instance,
            action: &series.action,
            reason: &series.reason,
            regarding: &series.regarding,
            related: series.related.as_ref(),
            note: &known.note,
            r#type: series.event_type.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(resource_version: &str, at_nanos: i64) -> Said {
        let regarding =
            Reference { name: "p".into(), resource_version: resource_version.into(), ..Reference::default() };
        let (reason, action) = ("FailedScheduling".into(), "Scheduling".into());
        let series = Series { regarding, related: None, event_type: EventType::Warning, reason, action };
        Said { series, note: "no nodes".to_owned(), at_nanos }
    }

    #[test]
    fn a_series_is_written_when_it_begins_and_when_it_is_over() {
        let mut book = Book::default();
        assert_eq!(book.take(said("1", 0)).unwrap().1.count, 1);
        assert_eq!(book.take(said("1", 1000)).unwrap().1.count, 2);
        assert!(book.take(said("1", 2000)).is_none());
        assert_eq!(book.take(said("2", 3000)).unwrap().1.count, 1, "the object is in another state");
        assert_eq!(book.running().len(), 1);
        assert!(book.finish(FINISH.as_micros() as i64).is_empty());
        let over = book.finish(FINISH.as_micros() as i64 + 4);
        assert_eq!(over.iter().map(|(_, known)| (known.count, known.last_micros)).collect::<Vec<_>>(), [(3, 2)]);
        assert!(book.known.is_empty() && book.order.is_empty());
    }
}
