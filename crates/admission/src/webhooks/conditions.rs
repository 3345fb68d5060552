//! `matchConditions`: expressions that all have to hold for a webhook to be asked. They are compiled once per
//! configuration, and what they may cost is bounded.

// tidy: types MatchCondition

use std::sync::Arc;

use rkube_access::authorize::{self, Authorizers, ResourceAttributes};
use rkube_access::{AUTHENTICATED, User};
use rkube_cel::{Activation, Authorization, Authorizer, Budget, Decision, Program, Question, Value as Cel};
use rkube_kinds::admission_expressions::Declarations;
use rkube_machinery::Value;

use crate::Attributes;

/// What all conditions of a webhook may cost together.
const BUDGET: u64 = 2_500_000;

/// The conditions of one webhook.
#[derive(Default)]
pub struct Conditions(Vec<Condition>);

struct Condition {
    expression: String,
    program: Result<Program, String>,
    /// Whether it may ask what the user may do.
    asks_authorizer: bool,
}

/// What the conditions say of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Matched {
    Yes,
    No,
    /// No condition is false, and some cannot be evaluated: why not. The failure policy decides.
    Unknown(String),
}

/// What conditions may look at.
pub struct Inputs<'a> {
    pub object: &'a Value,
    pub old: &'a Value,
    pub request: &'a Value,
}

impl Conditions {
    pub fn compile(conditions: &[Value]) -> Conditions {
        let declarations = Declarations { authorizer: true, ..Declarations::default() };
        let compile = |condition: &Value| {
            let expression = condition.str("expression").to_owned();
            let program = declarations.environment().compile(&expression);
            let program = program.map_err(|error| format!("compilation error: compilation failed: {error}"));
            let asks_authorizer = expression.contains("authorizer");
            Condition { expression, program, asks_authorizer }
        };
        Conditions(conditions.iter().map(compile).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn evaluate(&self, inputs: &Inputs<'_>, attributes: &Attributes<'_>, by: &Arc<Authorizers>) -> Matched {
        let none = Value::Null;
        let mut variables = Activation::new()
            .data("object", inputs.object)
            .data("oldObject", inputs.old)
            .data("request", inputs.request)
            .data("namespaceObject", &none);
        if self.0.iter().any(|condition| condition.asks_authorizer) {
            let asker: Arc<dyn Authorizer> = Arc::new(Asker { authorizers: by.clone(), user: attributes.user.clone() });
            variables = variables
                .value("authorizer", Authorization::authorizer(asker.clone()))
                .value("authorizer.requestResource", Authorization::resource_check(asker, question(attributes)));
        }
        let mut remaining = BUDGET;
        let mut outcomes = Vec::with_capacity(self.0.len());
        for condition in &self.0 {
            let program = match &condition.program {
                Ok(program) => program,
                Err(why) => {
                    outcomes.push(Err(why.clone()));
                    continue;
                }
            };
            let mut budget = Budget::per_call();
            let outcome = program.evaluate(&variables, &mut budget);
            let Some(left) = remaining.checked_sub(budget.spent()) else {
                let why =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                return Matched::Unknown(why.to_owned());
            };
            remaining = left;
            outcomes.push(match outcome {
                Ok(value) => Ok(!matches!(value, Cel::Bool(false))),
                Err(error) => Err(format!("expression '{}' resulted in error: {error}", condition.expression)),
            });
        }
        summary(&outcomes)
    }
}

fn summary(outcomes: &[Result<bool, String>]) -> Matched {
    if outcomes.contains(&Ok(false)) {
        return Matched::No;
    }
    let mut errors: Vec<&str> = Vec::new();
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        // The same text is said once.
        if !errors.contains(&error.as_str()) {
            errors.push(error);
        }
    }
    match errors.as_slice() {
        [] => Matched::Yes,
        [one] => Matched::Unknown((*one).to_owned()),
        many => Matched::Unknown(format!("[{}]", many.join(", "))),
    }
}

/// The resource of the request, as `authorizer.requestResource` asks about it.
fn question(attributes: &Attributes<'_>) -> Question {
    let kind = &attributes.served.kind;
    Question {
        group: kind.group.to_string(),
        resource: kind.resource.to_string(),
        subresource: attributes.subresource.to_owned(),
        namespace: attributes.namespace.to_owned(),
        name: attributes.name.to_owned(),
        ..Question::default()
    }
}

/// Asks the list of authorizers that requests go by.
struct Asker {
    authorizers: Arc<Authorizers>,
    user: User,
}

impl Authorizer for Asker {
    fn decide(&self, service_account: Option<(&str, &str)>, question: &Question, verb: &str) -> Decision {
        let account = service_account.map(|(namespace, name)| account(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let asked = match &question.path {
            Some(path) => authorize::Attributes::Path { verb, path },
            None => authorize::Attributes::Resource(ResourceAttributes {
                verb,
                group: &question.group,
                version: "*",
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
                ..ResourceAttributes::default()
            }),
        };
        let verdict = self.authorizers.verdict(user, &asked);
        Decision { allowed: verdict.decision == authorize::Decision::Allow, reason: verdict.reason, error: None }
    }
}

fn account(namespace: &str, name: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}").into(),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}").into(),
            AUTHENTICATED.into(),
        ],
        ..User::default()
    }
}
