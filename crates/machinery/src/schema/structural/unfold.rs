//! Writing out what `x-kubernetes-int-or-string` means, for readers of the published schema that do not know it.

use super::{AdditionalProperties, Forbidden, JsonType, NestedValidation, Structural, ValueValidation};

impl Structural {
    /// Says of every integer or string that it is one or the other in plain OpenAPI, too, where that is not said yet.
    pub fn unfold(&mut self) {
        if self.extensions.int_or_string && !self.says_int_or_string() {
            let validation = self.validation.get_or_insert_with(Box::default);
            if validation.any_of.is_empty() {
                validation.any_of = int_or_string();
            } else {
                let any_of = ValueValidation { any_of: int_or_string(), ..ValueValidation::default() };
                let first = NestedValidation { validation: any_of, ..NestedValidation::default() };
                let rest = std::mem::take(&mut validation.all_of);
                validation.all_of = std::iter::once(first).chain(rest).collect();
            }
        }
        if let Some(items) = &mut self.items {
            items.unfold();
        }
        self.properties.iter_mut().for_each(|(_, property)| property.unfold());
        if let AdditionalProperties::Schema(values) = &mut self.additional_properties {
            values.unfold();
        }
    }

    fn says_int_or_string(&self) -> bool {
        self.validation.as_ref().is_some_and(|validation| {
            let first = validation.all_of.first().map(|first| &first.validation.any_of);
            validation.any_of == int_or_string() || first == Some(&int_or_string())
        })
    }
}

fn int_or_string() -> Box<[NestedValidation]> {
    let clause = |json_type| NestedValidation {
        forbidden: Some(Box::new(Forbidden { json_type, ..Forbidden::default() })),
        ..NestedValidation::default()
    };
    Box::new([clause(JsonType::Integer), clause(JsonType::String)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn integers_or_strings_are_written_out_once() {
        let read = |text: &str| Structural::read(&json::parse(text.as_bytes()).unwrap()).unwrap();
        let cases = [
            (
                r#"{"x-kubernetes-int-or-string":true}"#,
                r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#,
            ),
            (
                r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}],"allOf":[{"maximum":3}]}"#,
                r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}],
                    "allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"maximum":3}]}"#,
            ),
        ];
        for (before, after) in cases {
            for wrap in ["{}", r#"{"items":{}}"#, r#"{"properties":{"a":{}}}"#, r#"{"additionalProperties":{}}"#] {
                let mut schema = read(&wrap.replacen("{}", before, 1));
                let expected = read(&wrap.replacen("{}", after, 1));
                schema.unfold();
                assert_eq!(schema, expected);
                schema.unfold();
                assert_eq!(schema, expected);
            }
        }
    }
}
