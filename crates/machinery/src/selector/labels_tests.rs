use proptest::prelude::*;

use super::*;
use crate::object;

fn labels(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| (Text::new(key), *value)).collect()
}

#[test]
fn text_is_read_and_written() {
    for (text, written) in [
        ("", ""),
        (" ", ""),
        ("a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5,j<7", "a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5,j<7"),
        ("z,a == b", "a==b,z"),
        ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
        ("x in (,)", "x in ()"),
        ("a=,b", "a=,b"),
        ("in in (notin,in)", "in in (in,notin)"),
        ("! a", "!a"),
        ("example.com/a=1", "example.com/a=1"),
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), written, "{text}");
    }
}

#[test]
fn errors_read_as_upstream_words_them() {
    let key_rule = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value_rule = &syntax::label_value_errors("@")[0];
    for (text, error) in [
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a in", "unable to parse requirement: found '' expected: '('".to_owned()),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier".to_owned()),
        ("a=(", "unable to parse requirement: found '(', expected: identifier".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("a@=b", format!("unable to parse requirement: <nil>: Invalid value: \"a@\": {key_rule}")),
        ("a=@", format!("unable to parse requirement: values[0][a]: Invalid value: \"@\": {value_rule}")),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
             be an integer"
                .to_owned(),
        ),
    ] {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
    }
}

#[test]
fn requirements_select() {
    for (text, pairs, selected) in [
        ("a=1", &[("a", "1")][..], true),
        ("a=1", &[], false),
        ("a!=1", &[], true),
        ("a!=1", &[("a", "1")], false),
        ("a in (1,2)", &[("a", "2")], true),
        ("a notin (1,2)", &[("a", "2")], false),
        ("a notin (1,2)", &[], true),
        ("a", &[("a", "")], true),
        ("!a", &[("a", "")], false),
        ("a>5", &[("a", "6")], true),
        ("a>5", &[("a", "5")], false),
        ("a>5", &[("a", "x")], false),
        ("a<5", &[("a", "-1")], true),
        ("a=", &[("a", "")], true),
        ("a=1,b=2", &[("a", "1")], false),
    ] {
        assert_eq!(Selector::parse(text).unwrap().matches(&labels(pairs)), selected, "{text} {pairs:?}");
    }
}

#[test]
fn objects_are_read() {
    let nothing = Selector::from_label_selector(&Value::Null).unwrap();
    assert!(!nothing.matches(&Map::new()) && !nothing.is_everything());
    assert!(Selector::from_label_selector(&Value::object()).unwrap().is_everything());
    let expression = |operator: &str, values: Vec<Value>| {
        let expression = object! { "key": "tier", "operator": operator, "values": values };
        object! { "matchLabels": object! { "app": "web" }, "matchExpressions": vec![expression] }
    };
    let both = Selector::from_label_selector(&expression("In", vec!["b".into(), "a".into()])).unwrap();
    assert_eq!(both.to_string(), "app=web,tier in (a,b)");
    assert_eq!(both.exact("app"), Some("web"));
    assert_eq!(
        Selector::from_label_selector(&expression("in", vec![])).unwrap_err().to_string(),
        "\"in\" is not a valid label selector operator"
    );
    assert_eq!(
        Selector::from_label_selector(&expression("In", vec![])).unwrap_err().to_string(),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c!=<>(), /in0-9]{0,24}|.{0,16}") {
        if let Ok(selector) = Selector::parse(&text) {
            let written = selector.to_string();
            prop_assert_eq!(Selector::parse(&written).unwrap().to_string(), written);
        }
    }

    #[test]
    fn a_requirement_and_its_opposite_split_all(key in "[a-c]", value in "[a-c]", other in "[a-c]") {
        let set = labels(&[(&key, &other)]);
        for (yes, no) in [("=", "!="), (" in ", " notin ")] {
            let value = if yes == "=" { value.clone() } else { format!("({value})") };
            let yes = Selector::parse(&format!("a{yes}{value}")).unwrap().matches(&set);
            let no = Selector::parse(&format!("a{no}{value}")).unwrap().matches(&set);
            prop_assert_ne!(yes, no);
        }
    }
}
