//! Fields that take one of a few values, as the table in `schema/enums.tsv` has them.

use std::collections::HashMap;

use rkube_machinery::Value;

const TABLE: &str = include_str!("../schema/enums.tsv");

/// By type and field.
pub(crate) struct Enums {
    by_place: HashMap<(&'static str, &'static str), Values>,
}

/// The table's lines of one enum: a value each, and what it means.
pub(crate) type Values = Vec<(&'static str, &'static str)>;

impl Enums {
    pub(crate) fn read() -> Enums {
        let mut by_place = HashMap::new();
        let mut places: Vec<(&str, &str)> = Vec::new();
        let mut values: Values = Vec::new();
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            if let Some(value) = line.strip_prefix(' ') {
                values.push(value.split_once('\t').unwrap_or((value, "")));
                continue;
            }
            if !values.is_empty() {
                let finished = std::mem::take(&mut values);
                by_place.extend(places.drain(..).map(|place| (place, finished.clone())));
            }
            places.extend(line.split_once('\t'));
        }
        by_place.extend(places.into_iter().map(|place| (place, values.clone())));
        Enums { by_place }
    }

    pub(crate) fn of_field(&self, type_name: &'static str, field: &'static str) -> Option<&Values> {
        self.by_place.get(&(type_name, field))
    }
}

pub(crate) fn schema(values: &Values) -> Value {
    Value::Array(values.iter().map(|(value, _)| Value::from(*value)).collect())
}

/// What stands below a field's description.
pub(crate) fn words(values: &Values) -> String {
    let mut text = "\n\nPossible enum values:".to_owned();
    for (value, meaning) in values {
        text.push_str(&format!("\n - `\"{value}\"`"));
        if !meaning.is_empty() {
            text.push(' ');
            text.push_str(meaning);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rkube_machinery::TypeRef;

    use super::*;

    #[test]
    fn every_place_is_a_field_of_the_schema_table() {
        let enums = Enums::read();
        assert!(enums.by_place.len() > 100);
        for ((type_name, field), values) in &enums.by_place {
            let ty = TypeRef::find(type_name).unwrap_or_else(|| panic!("no type {type_name}")).get();
            assert!(ty.json_fields().any(|known| known.name == *field), "{type_name} has no field {field}");
            assert!(!values.is_empty() && values.is_sorted(), "{type_name} {field}: {values:?}");
        }
    }

    #[test]
    fn values_are_told_with_their_meaning() {
        let enums = Enums::read();
        let policy = enums.of_field("io.k8s.api.core.v1.Container", "imagePullPolicy").unwrap();
        assert_eq!(schema(policy).items().len(), 3);
        assert!(
            words(policy).starts_with("\n\nPossible enum values:\n - `\"Always\"` means that"),
            "{}",
            words(policy)
        );
        assert!(enums.of_field("io.k8s.api.core.v1.Container", "image").is_none());
    }
}
