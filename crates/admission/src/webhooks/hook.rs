//! One webhook of a configuration, read once and kept as long as the configuration stays as it is.

// tidy: types MutatingWebhook ValidatingWebhook MutatingWebhookConfiguration

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rkube_extensions::webhook::{CallError, Client, ClientConfig, Resolver};
use rkube_kinds::admission_review::ReviewVersion;
use rkube_machinery::Value;
use rkube_machinery::selector::labels::Selector;

use super::conditions::Conditions;
use super::rules::{Asked, Rule};

/// How long a call may take where the configuration does not say it.
const TIMEOUT_SECONDS: i64 = 10;

pub struct Hook {
    /// Tells it from all others of its kind: configuration, name, and how many of that name come before it.
    pub id: String,
    pub name: String,
    pub rules: Vec<Rule>,
    /// Whether a rule may be met by another version of what the request names.
    pub equivalent: bool,
    /// A selector that cannot be read says why.
    pub namespaces: Result<Selector, String>,
    pub objects: Result<Selector, String>,
    pub conditions: Conditions,
    /// Whether the request goes on where the webhook cannot be asked.
    pub fails_open: bool,
    pub dry_run: DryRun,
    pub timeout: Duration,
    /// None: it understands none of the versions that we speak.
    pub version: Option<ReviewVersion>,
    /// Whether it is asked again where another one changed the object after it.
    pub reinvoked: bool,
    config: ClientConfig,
    resolver: Arc<dyn Resolver>,
    /// Made when it is first needed; its connections live as long as the webhook.
    client: OnceLock<Result<Client, CallError>>,
}

/// Whether a webhook may be asked about what is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    Supported,
    Unsupported,
    /// It does not say what its side effects are.
    Unknown,
}

impl Hook {
    /// All webhooks of a configuration, in their order.
    pub fn of(configuration: &Value, resolver: &Arc<dyn Resolver>) -> Vec<Arc<Hook>> {
        let owner = configuration.get("metadata").str("name");
        let mut names: HashMap<&str, usize> = HashMap::new();
        let hooks = configuration.list("webhooks").iter().map(|hook| {
            let name = hook.str("name");
            let count = names.entry(name).or_default();
            let id = format!("{owner}/{name}/{count}");
            *count += 1;
            Arc::new(Hook::read(id, hook, resolver.clone()))
        });
        hooks.collect()
    }

    fn read(id: String, hook: &Value, resolver: Arc<dyn Resolver>) -> Hook {
        let selector = |field: &str| Selector::from_label_selector(hook.get(field)).map_err(|error| error.to_string());
        let seconds = hook.get("timeoutSeconds").as_int().filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT_SECONDS);
        Hook {
            id,
            name: hook.str("name").to_owned(),
            rules: hook.list("rules").iter().map(Rule::read).collect(),
            equivalent: hook.str("matchPolicy") == "Equivalent",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            conditions: Conditions::compile(hook.list("matchConditions")),
            fails_open: hook.str("failurePolicy") == "Ignore",
            dry_run: match hook.str("sideEffects") {
                "None" | "NoneOnDryRun" => DryRun::Supported,
                "" => DryRun::Unknown,
                _ => DryRun::Unsupported,
            },
            timeout: Duration::from_secs(seconds.unsigned_abs()),
            version: ReviewVersion::choose(hook.list("admissionReviewVersions").iter().map(Value::as_str)),
            reinvoked: hook.str("reinvocationPolicy") == "IfNeeded",
            config: ClientConfig::read(hook.get("clientConfig")),
            resolver,
            client: OnceLock::new(),
        }
    }

    pub fn matches(&self, asked: &Asked<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(asked))
    }

    pub fn client(&self) -> Result<&Client, &CallError> {
        self.client.get_or_init(|| Client::new(&self.config, self.resolver.clone())).as_ref()
    }
}
