//! Questions to the authorizer, put together step by step.

use std::fmt;
use std::sync::Arc;

use super::{Function, Outcome, unfit};
use crate::value::Value;

/// Who answers the questions of an expression.
pub trait Authorizer: Send + Sync {
    /// Whether this may be done; `service_account` is namespace and name where not the user is asked about.
    fn decide(&self, service_account: Option<(&str, &str)>, question: &Question, verb: &str) -> Decision;
}

/// What is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// A path that is no resource; all the others are then empty.
    pub path: Option<String>,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: Option<String>,
    pub label_selector: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

#[derive(Clone)]
pub enum Authorization {
    Authorizer(Asked),
    PathCheck(Asked, Question),
    GroupCheck(Asked, Question),
    ResourceCheck(Asked, Question),
    Decision(Decision),
}

/// Whom to ask, and for whom.
#[derive(Clone)]
pub struct Asked {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(Arc<str>, Arc<str>)>,
}

impl Authorization {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Value<'static> {
        let asked = Asked { authorizer, service_account: None };
        Value::Authorization(Arc::new(Authorization::Authorizer(asked)))
    }

    /// The variable `authorizer.requestResource`.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, question: Question) -> Value<'static> {
        let asked = Asked { authorizer, service_account: None };
        Value::Authorization(Arc::new(Authorization::ResourceCheck(asked, question)))
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Authorization::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Authorization::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Authorization::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Authorization::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Authorization::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.type_name())
    }
}

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "path" => |arguments| {
            started(arguments, |asked, text| {
                let question = Question { path: Some(text.to_owned()), ..Question::default() };
                Authorization::PathCheck(asked, question)
            })
        },
        "group" => |arguments| {
            started(arguments, |asked, text| {
                Authorization::GroupCheck(asked, Question { group: text.to_owned(), ..Question::default() })
            })
        },
        "serviceAccount" => service_account,
        "resource" => |arguments| match arguments {
            [Value::Authorization(of), Value::String(text)] => match of.as_ref() {
                Authorization::GroupCheck(asked, question) => {
                    let question = Question { resource: text.to_string(), ..question.clone() };
                    made(Authorization::ResourceCheck(asked.clone(), question))
                }
                _ => unfit(),
            },
            _ => unfit(),
        },
        "subresource" => |arguments| narrowed(arguments, |question, text| question.subresource = text),
        "namespace" => |arguments| narrowed(arguments, |question, text| question.namespace = text),
        "name" => |arguments| narrowed(arguments, |question, text| question.name = text),
        "fieldSelector" => |arguments| narrowed(arguments, |question, text| question.field_selector = Some(text)),
        "labelSelector" => |arguments| narrowed(arguments, |question, text| question.label_selector = Some(text)),
        "check" => check,
        "allowed" => |arguments| decided(arguments, |decision| Value::Bool(decision.allowed)),
        "reason" => |arguments| decided(arguments, |decision| Value::string(&decision.reason)),
        "errored" => |arguments| decided(arguments, |decision| Value::Bool(decision.error.is_some())),
        "error" => {
            |arguments| decided(arguments, |decision| Value::string(decision.error.as_deref().unwrap_or_default()))
        }
        _ => return None,
    })
}

fn made(value: Authorization) -> Outcome<'static> {
    Ok(Value::Authorization(Arc::new(value)))
}

fn started<'a>(arguments: &[Value<'a>], make: fn(Asked, &str) -> Authorization) -> Outcome<'a> {
    match arguments {
        [Value::Authorization(of), Value::String(text)] => match of.as_ref() {
            Authorization::Authorizer(asked) => made(make(asked.clone(), text)),
            _ => unfit(),
        },
        _ => unfit(),
    }
}

fn service_account<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Authorization(of), Value::String(namespace), Value::String(name)] = arguments else {
        return unfit();
    };
    let Authorization::Authorizer(asked) = of.as_ref() else { return unfit() };
    let service_account = Some((namespace.clone(), name.clone()));
    made(Authorization::Authorizer(Asked { service_account, ..asked.clone() }))
}

fn narrowed<'a>(arguments: &[Value<'a>], set: fn(&mut Question, String)) -> Outcome<'a> {
    let [Value::Authorization(of), Value::String(text)] = arguments else { return unfit() };
    let Authorization::ResourceCheck(asked, question) = of.as_ref() else { return unfit() };
    let mut question = question.clone();
    set(&mut question, text.to_string());
    made(Authorization::ResourceCheck(asked.clone(), question))
}

fn check<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Authorization(of), Value::String(verb)] = arguments else { return unfit() };
    match of.as_ref() {
        Authorization::PathCheck(asked, question) | Authorization::ResourceCheck(asked, question) => {
            let account = asked.service_account.as_ref().map(|(namespace, name)| (namespace.as_ref(), name.as_ref()));
            made(Authorization::Decision(asked.authorizer.decide(account, question, verb)))
        }
        _ => unfit(),
    }
}

fn decided<'a>(arguments: &[Value<'a>], of: fn(&Decision) -> Value<'static>) -> Outcome<'a> {
    match arguments {
        [Value::Authorization(value)] => match value.as_ref() {
            Authorization::Decision(decision) => Ok(of(decision)),
            _ => unfit(),
        },
        _ => unfit(),
    }
}
