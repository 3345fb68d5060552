//! What the CEL expressions of webhooks and policies may speak of, and what they must evaluate to.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use rkube_cel::{Environment, ObjectTypes, Type, Types};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, quote};

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Any,
    Bool,
    String,
    StringOrNull,
    /// A list of JSON patches.
    JsonPatches,
    /// The configuration that is applied.
    Object,
}

/// What an expression may speak of beyond `object`, `oldObject`, `namespaceObject` and `request`.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    pub params: bool,
    pub authorizer: bool,
    /// The types that patches are made of.
    pub patch_types: bool,
    /// Whether there are `variables` at all.
    pub composed: bool,
    pub variables: Variables,
}

/// The `variables` of a policy with their types. They are shared: every expression knows all that were declared before it,
/// and making a list of them for each would take the square of their number.
#[derive(Clone, Debug, Default)]
pub struct Variables(Arc<RwLock<HashMap<String, Type>>>);

impl Variables {
    pub fn declare(&self, name: &str, of: &Type) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), declared(of));
    }
}

impl Types for Variables {
    fn contains(&self, name: &str) -> bool {
        name == VARIABLES
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(field).filter(|_| name == VARIABLES).cloned()
    }
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is wrong.
    Invalid(String),
    /// It is right, but cannot be made ready to be evaluated.
    Internal(String),
}

static TYPES: LazyLock<Arc<ObjectTypes>> = LazyLock::new(|| Arc::new(request_types(namespace_types())));

impl Declarations {
    /// What expressions with these declarations are compiled in.
    pub fn environment(&self) -> Environment<'static> {
        let mut environment = Environment::new()
            .types(TYPES.clone())
            .variable("object", Type::Dyn)
            .variable("oldObject", Type::Dyn)
            .variable("namespaceObject", Type::object("kubernetes.Namespace"))
            .variable("request", Type::object("kubernetes.AdmissionRequest"));
        if self.params {
            environment = environment.variable("params", Type::Dyn);
        }
        if self.authorizer {
            environment = environment
                .variable("authorizer", Type::object("kubernetes.authorization.Authorizer"))
                .variable("authorizer.requestResource", Type::object("kubernetes.authorization.ResourceCheck"));
        }
        if self.composed {
            environment =
                environment.types(Arc::new(self.variables.clone())).variable("variables", Type::object(VARIABLES));
        }
        if self.patch_types { environment.with_patches() } else { environment }
    }
}

const VARIABLES: &str = "kubernetes.variables";

/// The type of the expression, or why it is refused.
pub fn check(expression: &str, output: Output, declarations: &Declarations) -> Result<Type, Refusal> {
    let checked = declarations
        .environment()
        .check(expression)
        .map_err(|issues| Refusal::Invalid(format!("compilation failed: {issues}")))?;
    let found = checked.result_type();
    let (wanted, shown) = output.wanted();
    if !wanted.is_empty() && !wanted.contains(found) {
        return Err(Refusal::Invalid(format!("must evaluate to {shown} but got {found}")));
    }
    match checked.program() {
        Ok(_) => Ok(found.clone()),
        Err(error) => Err(Refusal::Internal(format!("program instantiation failed: {error}"))),
    }
}

impl Output {
    /// The types that are right, none for all of them, and how a message names them.
    fn wanted(self) -> (Vec<Type>, &'static str) {
        match self {
            Output::Any => (Vec::new(), "any"),
            Output::Bool => (vec![Type::Bool], "bool"),
            Output::String => (vec![Type::String], "string"),
            Output::StringOrNull => (vec![Type::String, Type::Null], "one of [string null_type]"),
            Output::JsonPatches => (vec![Type::list(Type::object("JSONPatch"))], "list(JSONPatch)"),
            Output::Object => (vec![Type::object("Object")], "Object"),
        }
    }
}

/// The type under which other expressions know a variable: what is neither simple nor a list or map is dynamic.
fn declared(found: &Type) -> Type {
    match found {
        Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Null
        | Type::Timestamp
        | Type::Duration => found.clone(),
        Type::List(element) => Type::list(declared(element)),
        Type::Map(key, value) => Type::map(declared(key), declared(value)),
        _ => Type::Dyn,
    }
}

fn request_types(types: ObjectTypes) -> ObjectTypes {
    let strings = || Type::list(Type::String);
    let kind = || Type::object("kubernetes.GroupVersionKind");
    let resource = || Type::object("kubernetes.GroupVersionResource");
    types
        .object(
            "kubernetes.GroupVersionKind",
            [("group", Type::String), ("version", Type::String), ("kind", Type::String)],
        )
        .object(
            "kubernetes.GroupVersionResource",
            [("group", Type::String), ("version", Type::String), ("resource", Type::String)],
        )
        .object(
            "kubernetes.UserInfo",
            [
                ("username", Type::String),
                ("uid", Type::String),
                ("groups", strings()),
                ("extra", Type::map(Type::String, strings())),
            ],
        )
        .object(
            "kubernetes.AdmissionRequest",
            [
                ("kind", kind()),
                ("resource", resource()),
                ("subResource", Type::String),
                ("requestKind", kind()),
                ("requestResource", resource()),
                ("requestSubResource", Type::String),
                ("name", Type::String),
                ("namespace", Type::String),
                ("operation", Type::String),
                ("userInfo", Type::object("kubernetes.UserInfo")),
                ("dryRun", Type::Bool),
                ("options", Type::Dyn),
            ],
        )
}

fn namespace_types() -> ObjectTypes {
    let strings = || Type::list(Type::String);
    ObjectTypes::new()
        .object("kubernetes.NamespaceSpec", [("finalizers", strings())])
        .object(
            "kubernetes.NamespaceCondition",
            [
                ("status", Type::String),
                ("type", Type::String),
                ("lastTransitionTime", Type::Timestamp),
                ("message", Type::String),
                ("reason", Type::String),
            ],
        )
        .object(
            "kubernetes.NamespaceStatus",
            [("conditions", Type::list(Type::object("kubernetes.NamespaceCondition"))), ("phase", Type::String)],
        )
        .object(
            "kubernetes.NamespaceMetadata",
            [
                ("name", Type::String),
                ("generateName", Type::String),
                ("namespace", Type::String),
                ("labels", Type::map(Type::String, Type::String)),
                ("annotations", Type::map(Type::String, Type::String)),
                ("UID", Type::String),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", Type::String),
                ("finalizers", strings()),
            ],
        )
        .object(
            "kubernetes.Namespace",
            [
                ("metadata", Type::object("kubernetes.NamespaceMetadata")),
                ("spec", Type::object("kubernetes.NamespaceSpec")),
                ("status", Type::object("kubernetes.NamespaceStatus")),
            ],
        )
}

/// Audit annotations with Go's names of their fields, as messages show them.
pub fn go_audit_annotations(annotations: &[Value]) -> BadValue {
    let shown = annotations.iter().map(|annotation| {
        let (key, expression) = (quote(annotation.str("key")), quote(annotation.str("valueExpression")));
        format!("{{\"Key\":{key},\"ValueExpression\":{expression}}}")
    });
    BadValue::Text(format!("[{}]", shown.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(expression: &str, output: Output) -> String {
        let declarations = Declarations { authorizer: true, ..Declarations::default() };
        match check(expression, output, &declarations) {
            Ok(_) => String::new(),
            Err(Refusal::Invalid(detail) | Refusal::Internal(detail)) => detail,
        }
    }

    #[test]
    fn right_expressions_pass() {
        for expression in [
            "true",
            "object.metadata.name == 'x'",
            "object.spec.replicas <= 5 && !has(object.spec.paused)",
            "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
            "request.operation in ['CREATE', \"UPDATE\"]",
            "request.userInfo.groups.exists(g, g == 'admins')",
            "authorizer.group('').resource('pods').namespace('default').check('create').allowed()",
            "authorizer.requestResource.check('custom').allowed()",
            "size(object.metadata.labels) > 0 ? object.metadata.labels['a'] == 'b' : false",
            "object.?spec.?paused.orValue(false) == false",
            "quantity(object.spec.memory).isLessThan(quantity('1Gi'))",
            "lists.range(3).all(i, i < object.n) && request.userInfo.extra['a'][0] == 'b'",
            "object.a + 'b' == 'ab' && [1, 2].exists(i, v, v > i)",
            "object.spec.items.map(i, i.name).exists_one(n, n == \"\"\"a\"\"\")",
            "namespaceObject.metadata.labels['env'] == 'prod' // comment",
            "!(-1 in [1, 2]) && {'a': 1}.a == 1",
            "object.metadata.name.matches(r'^\\d+$')",
            "[object, oldObject].filter(o, o != null).size() == 1 + 1 || 1.5 > 1e3",
        ] {
            assert_eq!(checked(expression, Output::Bool), "", "{expression}");
        }
    }

    #[test]
    fn faults_read_as_in_cel_go() {
        let table = [
            (
                "Bad_Value!",
                "compilation failed: ERROR: <input>:1:10: Syntax error: extraneous input '!' expecting <EOF>\n | \
                 Bad_Value!\n | .........^",
            ),
            (
                "xyz",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'xyz' (in container '')\n | xyz\n | ^",
            ),
            (
                "math.greatest(1, 5, 3) == 5",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'math' (in container '')\n | \
                 math.greatest(1, 5, 3) == 5\n | ^\nERROR: <input>:1:14: undeclared reference to 'greatest' (in container \
                 '')\n | math.greatest(1, 5, 3) == 5\n | .............^",
            ),
            (
                "object.x ==",
                "compilation failed: ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>' expecting {'[', '{', \
                 '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n \
                 | object.x ==\n | ...........^",
            ),
            (
                "1 + 'a' == 2",
                "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n \
                 | 1 + 'a' == 2\n | ..^",
            ),
            (
                "request.nope == 'a'",
                "compilation failed: ERROR: <input>:1:8: undefined field 'nope'\n | request.nope == 'a'\n | .......^",
            ),
            (
                "[1, 'a'].size() == 2",
                "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'].size() == \
                 2\n | ....^",
            ),
            ("request.userInfo.groups", "must evaluate to bool but got list(string)"),
            ("object.a + 'b'", "must evaluate to bool but got string"),
            ("-1", "must evaluate to bool but got int"),
            ("object.spec.paused", "must evaluate to bool but got dyn"),
            ("'a'", "must evaluate to bool but got string"),
            ("[1, 2]", "must evaluate to bool but got list(int)"),
        ];
        for (expression, wanted) in table {
            assert_eq!(checked(expression, Output::Bool), wanted, "{expression}");
        }
        assert_eq!(checked("1", Output::StringOrNull), "must evaluate to one of [string null_type] but got int");
    }
}
