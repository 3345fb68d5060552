//! Conversion of custom resources by a webhook.

mod metrics;
#[cfg(test)]
mod tests;

pub use metrics::Metrics;

use std::sync::Arc;

use rkube_catalog::{Catalog, Converted, Converter};
use rkube_kinds::Kind;
use rkube_kinds::custom::review::{Failure, FailureType, Review, ReviewVersion};
use rkube_machinery::host::Entropy;
use rkube_machinery::{Status, Value};
use tokio::time::Instant;

use crate::webhook::{CallError, Client, ClientConfig, Limits, Resolver, ServiceResolver, TIMEOUT};

/// An answer may have so many bytes. What is converted at once has about one megabyte, or is one object.
pub const RESPONSE_BYTES_MAX: usize = 16 << 20;

const LIMITS: Limits = Limits { timeout: TIMEOUT, response_bytes: RESPONSE_BYTES_MAX };

/// Makes the converters of definitions.
pub struct Converters {
    resolver: Arc<dyn Resolver>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
}

impl Converters {
    /// Services are those of the catalog.
    pub fn new(catalog: &Arc<Catalog>, entropy: Arc<dyn Entropy>, metrics: Arc<Metrics>) -> Converters {
        Converters { resolver: Arc::new(ServiceResolver::new(catalog)), entropy, metrics }
    }

    /// None where the definition's versions differ in nothing but their name.
    pub fn of(&self, definition: &Value) -> Option<Arc<dyn Converter>> {
        let Converters { resolver, entropy, metrics } = self;
        let converter = WebhookConverter::of(definition, resolver.clone(), entropy.clone(), metrics.clone())?;
        Some(Arc::new(converter))
    }
}

/// Asks a definition's webhook.
pub struct WebhookConverter {
    /// The name of the definition.
    name: String,
    /// None: the webhook understands none of the versions that we speak.
    version: Option<ReviewVersion>,
    /// Where the client cannot even be made, every conversion says why.
    client: Result<Client, CallError>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
}

impl WebhookConverter {
    /// Of a definition; none where its versions differ in nothing but their name.
    pub fn of(
        definition: &Value,
        resolver: Arc<dyn Resolver>,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<Metrics>,
    ) -> Option<WebhookConverter> {
        let conversion = definition.get("spec").get("conversion");
        if conversion.str("strategy") != "Webhook" {
            return None;
        }
        let webhook = conversion.get("webhook");
        let versions = webhook.list("conversionReviewVersions").iter().map(Value::as_str);
        Some(WebhookConverter {
            name: definition.get("metadata").str("name").to_owned(),
            version: ReviewVersion::choose(versions),
            client: Client::new(&ClientConfig::read(webhook.get("clientConfig")), resolver),
            entropy,
            metrics,
        })
    }

    async fn ask(&self, objects: &[Value], desired: &str) -> Result<Vec<Value>, Failure> {
        let Some(version) = self.version else {
            return Err(Failure::new(FailureType::None, "no supported conversion review versions"));
        };
        let uid = uuid(&*self.entropy);
        let review = Review { version, uid: &uid, desired_api_version: desired, objects };
        let answer = match &self.client {
            Ok(client) => client.post(review.request().into(), LIMITS).await,
            Err(error) => Err(error.clone()),
        };
        let answer = answer.map_err(|error| review.failed(FailureType::Call, &error.to_string()))?;
        review.read(&answer)
    }
}

impl Converter for WebhookConverter {
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a Kind) -> Converted<'a> {
        Box::pin(async move {
            let start = Instant::now();
            let outcome = self.ask(&objects, &to.api_version()).await;
            let from = objects.first().map_or("", |object| object.str("apiVersion"));
            let from = from.rsplit_once('/').map_or(from, |(_, version)| version);
            let failure = outcome.as_ref().err().map(|failure| failure.kind);
            self.metrics.observe(&self.name, (from, &to.version), failure, start.elapsed());
            outcome.map_err(|failure| Status { code: 500, message: failure.message, ..Status::default() })
        })
    }
}

/// A random UUID (version 4).
fn uuid(entropy: &dyn Entropy) -> String {
    let bits = u128::from(entropy.next_u64()) << 64 | u128::from(entropy.next_u64());
    let bits = bits & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
