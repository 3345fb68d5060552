//! The CEL expressions of webhooks and policies, checked before they are stored.
//!
//! What is found, in cel-go's words: faults of syntax (the first), names and functions that nobody declared, operators
//! on literals that do not fit, and results of the wrong type. What is not: types inside declared functions and
//! messages, and the cost of an expression. Where a type is not sure, the expression passes.

mod functions;
mod lexer;
mod parser;
mod types;

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, quote};

use types::Checker;
pub use types::Type;

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
pub struct Declarations<'a> {
    pub params: bool,
    pub authorizer: bool,
    /// The types that patches are made of.
    pub patch_types: bool,
    /// Whether there are `variables` at all.
    pub composed: bool,
    pub variables: Vec<(&'a str, Type)>,
}

/// Something wrong at a place in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    offset: usize,
    message: String,
}

/// The type of the expression, or what is wrong with it, as a message says that.
pub fn check(expression: &str, output: Output, declarations: &Declarations<'_>) -> Result<Type, String> {
    let failed = |faults: &[Fault]| {
        let texts: Vec<String> = faults.iter().map(|fault| shown(expression, fault)).collect();
        Err(format!("compilation failed: {}", texts.join("\n")))
    };
    let mut faults = Vec::new();
    let tokens = lexer::tokens(expression, &mut faults);
    let tree = match parser::parse(&tokens) {
        Ok(tree) if faults.is_empty() => tree,
        Ok(_) => return failed(&faults),
        Err(fault) => {
            faults.push(fault);
            return failed(&faults);
        }
    };
    let mut checker = Checker::new(declarations);
    let found = checker.check(&tree);
    if !checker.faults.is_empty() {
        return failed(&checker.faults);
    }
    let fits = matches!(
        (&found, output),
        (Type::Unknown, _)
            | (_, Output::Any)
            | (Type::Bool, Output::Bool)
            | (Type::String, Output::String | Output::StringOrNull)
            | (Type::Null, Output::StringOrNull)
            | (Type::List(_), Output::JsonPatches)
    );
    if fits {
        return Ok(found);
    }
    let wanted = match output {
        Output::Any => "any",
        Output::Bool => "bool",
        Output::String => "string",
        Output::StringOrNull => "one of [string null_type]",
        Output::JsonPatches => "list(JSONPatch)",
        Output::Object => "Object",
    };
    Err(format!("must evaluate to {wanted} but got {found}"))
}

/// The fault with the line in which it lies.
fn shown(expression: &str, fault: &Fault) -> String {
    let before = &expression[..fault.offset];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = expression[start..fault.offset].chars().count();
    let text = expression[start..].lines().next().unwrap_or("").replace('\t', " ");
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{line}:{}: {}\n | {text}\n | {dots}^", column + 1, fault.message)
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
        check(expression, output, &declarations).err().unwrap_or_default()
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
