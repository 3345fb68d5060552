//! Rules as custom resources have them, over a value with a schema: what they say, and what is said of wrong ones.

use std::sync::Arc;

use rkube_cel::{Activation, Budget, Environment, List, ListKind, Object, ObjectTypes, Timestamp, Type, Value};

const SELF: &str = "self type";
const ITEM: &str = "self type.lo item";

fn environment() -> Environment<'static> {
    let fields = [
        ("s", Type::String),
        ("t", Type::String),
        ("i", Type::Int),
        ("j", Type::Int),
        ("n", Type::Double),
        ("b", Type::Bool),
        ("ls", Type::list(Type::String)),
        ("li", Type::list(Type::Int)),
        ("m", Type::map(Type::String, Type::String)),
        ("ts", Type::Timestamp),
        ("du", Type::Duration),
        ("io", Type::Dyn),
        ("by", Type::Bytes),
        ("nul", Type::String),
        ("lo", Type::list(Type::object(ITEM))),
        ("st", Type::list(Type::String)),
        ("x__dash__y", Type::String),
    ];
    let types = ObjectTypes::new().object(SELF, fields).object(ITEM, [("name", Type::String), ("v", Type::Int)]);
    Environment::new().types(Arc::new(types)).variable("self", Type::object(SELF))
}

fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Value<'static>)>) -> Value<'static> {
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Value::Object(Arc::new(Object { name: name.into(), fields }))
}

fn strings(texts: &[&str]) -> Value<'static> {
    Value::list(texts.iter().map(|text| Value::string(text)).collect())
}

fn subject() -> Value<'static> {
    let item = |name: &str, v| object(ITEM, [("name", Value::string(name)), ("v", Value::Int(v))]);
    let set = vec![Value::string("p"), Value::string("q")];
    object(
        SELF,
        [
            ("s", Value::string("Hello World")),
            ("t", Value::string("a,b,c")),
            ("i", Value::Int(5)),
            ("j", Value::Int(7)),
            ("n", Value::Double(2.5)),
            ("b", Value::Bool(true)),
            ("ls", strings(&["b", "a", "c"])),
            ("li", Value::list(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
            (
                "m",
                Value::map(
                    [("k", "v"), ("k2", "v2")].map(|(k, v)| (Value::string(k), Value::string(v))).into_iter().collect(),
                ),
            ),
            ("ts", Timestamp::parse("2026-01-02T03:04:05Z").map_or(Value::Null, Value::Timestamp)),
            ("du", Value::Duration(90_000_000_000)),
            ("io", Value::string("50%")),
            ("by", Value::Bytes(b"hello"[..].into())),
            ("lo", Value::list(vec![item("x", 1), item("y", 2)])),
            ("st", Value::List(List { items: Arc::new(set), kind: ListKind::Set })),
            ("x__dash__y", Value::string("dash")),
        ],
    )
}

/// What the rule evaluates to, or what is wrong with it.
fn said(rule: &str) -> Result<bool, String> {
    let program = environment().compile(rule).map_err(|error| error.to_string())?;
    if *program.result_type() != Type::Bool {
        return Err(format!("is {}", program.result_type()));
    }
    let activation = Activation::new().value("self", subject());
    match program.evaluate(&activation, &mut Budget::per_call()) {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn rules_that_hold() {
    for rule in [
        "self.i + self.j == 12",
        "self.i > self.n",
        "self.i % 2 == 1",
        "-self.i == -5",
        "double(self.i) == 5.0",
        "self.s.matches('^H.*d$')",
        "self.s.upperAscii() == 'HELLO WORLD' && self.s.charAt(0) == 'H'",
        "self.s.split(' ') == ['Hello', 'World']",
        "self.s.substring(0, 5) == 'Hello' && ' x '.trim() == 'x'",
        "self.s.findAll('[A-Z]', 1) == ['H']",
        "self.ls.map(x, x != 'a', x + '!') == ['b!', 'c!']",
        "self.li.sum() == 6 && lists.range(3) == [0, 1, 2]",
        "self.m.all(k, k.startsWith('k')) && self.m.transformList(k, v, k).size() == 2",
        "self.lo.all(e, e.v > 0) && self.lo[0].name == 'x'",
        "!self.?nul.hasValue() && self.m[?'k'].orValue('z') == 'v'",
        "type(self.io) == string && (type(self.io) == int ? self.io < 10 : self.io == '50%')",
        "self.x__dash__y == 'dash'",
        "url('https://example.com:80/a?b=c').getHost() == 'example.com:80'",
        "url('https://example.com:80/a?b=c').getQuery()['b'] == ['c'] && !isURL('::')",
        "!isURL('#%blah$#@') && !isURL('http://#%blah$#@') && !isURL('http://a b@c') && isURL('http://a:b@c/#d')",
        "url('http://a/b#c').getEscapedPath() == '/b' && isURL('//x y/z')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.1.2.3/8').masked().prefixLength() == 8 && !isCIDR('10.0.0.0/33')",
        "quantity('2').add(quantity('500m')).compareTo(quantity('2500m')) == 0",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true) == semver('1.2.0')",
        "sets.contains([1, 2, 3], [1]) && sets.equivalent([1, 2], [2, 1])",
        "!format.dns1123Label().validate('ok').hasValue() && format.named('uuid').hasValue()",
        "{'a': 1}.a == 1 && 0x10 == 16 && self.ls.map(x, {'n': x})[0].n == 'b'",
        "self.m.filter(k, k == 'k').size() == 1 && string(self.ts) == '2026-01-02T03:04:05Z'",
        "self.du == duration('1m30s') && self.by == b'hello' && self.ts.getMonth() == 0",
        "self.st == ['q', 'p'] && self.ls.sort() == ['a', 'b', 'c']",
        "self.ts.getHours('America/New_York') == 22 && self.ts.getHours('+01:00') == 4",
    ] {
        assert_eq!(said(rule), Ok(true), "{rule}");
    }
}

#[test]
fn rules_that_do_not_hold() {
    for rule in ["false", "!true", "self.s.matches(self.t)", "self.b == true && self.i in self.li", "isURL('::')"] {
        assert_eq!(said(rule), Ok(false), "{rule}");
    }
}

#[test]
fn wrong_rules() {
    let table = [
        (
            "self.n * 2 == 5.0",
            "ERROR: <input>:1:8: found no matching overload for '_*_' applied to '(double, int)'\n | self.n * 2 == 5.0\n | \
             .......^",
        ),
        (
            "[?self.?nul, self.?s].size() == 1",
            "ERROR: <input>:1:18: expected type 'string' but found 'optional_type(string)'\n | [?self.?nul, \
             self.?s].size() == 1\n | .................^",
        ),
        (
            "timestamp('nope') < self.ts",
            "ERROR: <input>:1:11: invalid timestamp argument\n | timestamp('nope') < self.ts\n | ..........^",
        ),
        (
            "math.greatest(1, 5, 3) == 5",
            "ERROR: <input>:1:1: undeclared reference to 'math' (in container '')\n | math.greatest(1, 5, 3) == 5\n | \
             ^\nERROR: <input>:1:14: undeclared reference to 'greatest' (in container '')\n | math.greatest(1, 5, 3) == \
             5\n | .............^",
        ),
        (
            "self.i ==",
            "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', \
             'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.i ==\n | .........^",
        ),
        ("self.nope", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^"),
        ("self.i", "is int"),
        ("self.nul == 'x'", "no such key: nul"),
        ("self.lo[2].v == 1", "index out of bounds: 2"),
        ("self.m['q'] == ''", "no such key: q"),
        ("self.i / (self.i - 5) == 1", "division by zero"),
        ("self.j + 9223372036854775807 > 0", "integer overflow"),
        ("self.io + 1 == 2", "no such overload"),
        (
            "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ];
    for (rule, wanted) in table {
        assert_eq!(said(rule), Err(wanted.to_owned()), "{rule}");
    }
}
