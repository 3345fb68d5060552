//! When two values are one and the same.

use super::Value;

impl Value {
    /// Whether both are written the same: as [`PartialEq`] has it, with maps in the same order and floats of the same sign.
    pub fn is_exactly(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::String(left), Value::String(right)) => left == right,
            (Value::Object(left), Value::Object(right)) => {
                left.len() == right.len()
                    && left
                        .entries
                        .iter()
                        .zip(&right.entries)
                        .all(|(left, right)| left.0 == right.0 && left.1.is_exactly(&right.1))
            }
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.is_exactly(right))
            }
            (Value::Float(left), Value::Float(right)) => left.to_bits() == right.to_bits(),
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn exactly_the_same_is_written_the_same() {
        let object = |first: f64| object! { "a": Value::Float(first), "b": vec![Value::from("x"), Value::Null] };
        assert!(object(0.0).is_exactly(&object(0.0)));
        assert!(object(f64::NAN).is_exactly(&object(f64::NAN)));
        assert_eq!(object(0.0), object(-0.0));
        assert!(!object(0.0).is_exactly(&object(-0.0)));
        let (one, other) = (object! { "a": 1, "b": 2 }, object! { "b": 2, "a": 1 });
        assert_eq!(one, other);
        assert!(!one.is_exactly(&other) && one.is_exactly(&one.clone()));
        assert!(!one.is_exactly(&object! { "a": 1 }) && !one.is_exactly(&Value::Null));
        let long = Value::from("a text that does not fit into its own place");
        assert!(long.is_exactly(&long.clone()) && long == Value::from(long.as_str()));
    }
}
