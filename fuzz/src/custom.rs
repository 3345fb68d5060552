//! The rules of custom resources: any schema, any object, any rule.

use rkube_kinds::custom::rules::{BUDGET, Context, Rules, Subject, TotalCost};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::json;
use rkube_machinery::schema::structural::Structural;

/// A document with a `schema`, an `object` and what it replaces, `old`.
pub fn rules(bytes: &[u8]) {
    let Ok(document) = json::parse(bytes) else { return };
    let Ok(schema) = Structural::read(document.get("schema")) else { return };
    let mut total = TotalCost::default();
    check(&schema, Context::root(&schema), &mut total);
    total.report(Path::ROOT, &mut Errors::new());
    let Some(rules) = Rules::compile(&schema, true) else { return };
    let object = document.get("object");
    for (old, ratcheting) in [(None, false), (Some(document.get("old")), true), (Some(object), false)] {
        let subject = Subject { path: Path::ROOT, object, old, ratcheting };
        let verdict = rules.validate(&schema, subject, BUDGET / 100);
        assert!(verdict.remaining <= BUDGET / 100);
    }
}

fn check(schema: &Structural, context: Context<'_>, total: &mut TotalCost) {
    for (name, property) in &schema.properties {
        if let Some(context) = context.property(name) {
            check(property, context, total);
        }
    }
    if let (Some(items), Some(context)) = (&schema.items, context.items()) {
        check(items, context, total);
    }
    if let (Some(values), Some(context)) = (schema.map_values(), context.values()) {
        check(values, context, total);
    }
    if !schema.rules.is_empty() {
        context.check(Path::ROOT, None, false, total, &mut Errors::new());
    }
}
